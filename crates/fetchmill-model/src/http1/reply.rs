//! Owns the state of one reply being read: head, then body, then done.

use memchr::memchr_iter;

use super::body_sink::BodySink;
use super::chunked::ChunkedDecoder;
use super::head::{self, Framing, Head, Message};
use super::malformed::{MalformedReply, body_too_large};
use super::odd_head::field_lines;
use crate::http1::byte_range::ByteRange;
use crate::limits::{HEAD_BYTES_MAX, HEAD_LINE_BYTES_MAX, INTERIM_REPLIES_MAX};
use crate::outcome::FailureKind;

/// How far a reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyProgress {
    /// It goes on. Bytes behind `consumed` are to be given again, with more behind them.
    NeedMore {
        /// Bytes of the input that are done with.
        consumed: usize,
    },
    /// It is complete. Bytes behind `consumed` do not belong to it: unless another request was sent on the
    /// connection they were not asked for, and the connection must not be used again.
    Done {
        /// Bytes of the input that belong to it.
        consumed: usize,
    },
}

/// What the end of a stream means when it is not a failure of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The reply is complete; with [`Framing::Eof`] it is the stream's end that says so.
    Complete,
    /// Not a byte had come: on a connection that had been used before, the server closed it as the request went out.
    Unanswered,
}

/// Reads replies, one at a time. One for each connection; small, and used again for each reply.
#[derive(Debug)]
pub struct ReplyReader {
    max_body: u64,
    /// Whether the bytes come out of HTTP/2's frames.
    of_frames: bool,
    state: ReplyState,
    head: Option<Head>,
    /// Bytes of the interim heads of this reply.
    interim_bytes: usize,
    interim_count: u32,
    /// Bytes of the unfinished head that hold no end of it,
    scanned: usize,
    /// and where the last line in them starts.
    line_start: usize,
    /// It answers `HEAD`: there is no body, whatever its fields say.
    is_bodiless: bool,
    /// A part of the object was asked for.
    may_be_partial: bool,
    /// Bytes that the body must have: its status is 206, and `Content-Range` says that these are all of the object.
    whole: Option<u64>,
}

#[derive(Debug)]
enum ReplyState {
    Head,
    /// Bytes that are still to come.
    Length(u64),
    Chunked(ChunkedDecoder),
    /// Bytes that came.
    Eof(u64),
    Done,
    Refused(MalformedReply),
}

impl ReplyReader {
    /// A reader that refuses bodies above `max_body` bytes, ready for a reply.
    pub fn new(max_body: u64) -> Self {
        ReplyReader {
            max_body,
            of_frames: false,
            state: ReplyState::Head,
            head: None,
            interim_bytes: 0,
            interim_count: 0,
            scanned: 0,
            line_start: 0,
            is_bodiless: false,
            may_be_partial: false,
            whole: None,
        }
    }

    /// A reader of a reply that came in HTTP/2's frames: its head is given as HTTP/1.1 would write it, its body without
    /// any framing. The end of the stream must be told by a frame.
    pub fn of_frames(max_body: u64) -> Self {
        ReplyReader { of_frames: true, ..ReplyReader::new(max_body) }
    }

    /// Forgets the last reply: the next input starts another.
    pub fn start(&mut self) {
        *self = ReplyReader { of_frames: self.of_frames, ..ReplyReader::new(self.max_body) };
    }

    /// The same for a reply to a request with `Range`: it may be a part of the object (206).
    pub fn start_partial(&mut self) {
        self.start();
        self.may_be_partial = true;
    }

    /// The same for a reply to `HEAD`, whose fields tell of a body that does not come.
    pub fn start_bodiless(&mut self) {
        self.start();
        self.is_bodiless = true;
    }

    /// The head of this reply once it is there, also when the body is refused.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Reads on. `input` is all that came and was not consumed: while the head is unfinished the caller keeps its
    /// bytes and gives them again with new ones behind; of a body everything is consumed at once.
    ///
    /// After an error every further call gives the same one, until [`ReplyReader::start`].
    #[inline]
    pub fn read(&mut self, input: &[u8], body: &mut impl BodySink) -> Result<ReplyProgress, MalformedReply> {
        let result = self.advance(input, body);
        if let Err(malformed) = result {
            self.state = ReplyState::Refused(malformed);
        }
        result
    }

    fn advance(&mut self, input: &[u8], body: &mut impl BodySink) -> Result<ReplyProgress, MalformedReply> {
        let mut consumed = 0;
        while let ReplyState::Head = self.state {
            match self.read_head(&input[consumed..], body)? {
                Some(length) => consumed += length,
                None => return Ok(ReplyProgress::NeedMore { consumed }),
            }
        }
        consumed += self.read_body(&input[consumed..], body)?;
        match self.state {
            ReplyState::Done => Ok(ReplyProgress::Done { consumed }),
            _ => Ok(ReplyProgress::NeedMore { consumed }),
        }
    }

    /// The stream has ended: nothing more will come.
    pub fn end_of_stream(&mut self) -> Result<StreamEnd, MalformedReply> {
        match self.state {
            ReplyState::Head if self.scanned == 0 && self.interim_bytes == 0 => Ok(StreamEnd::Unanswered),
            ReplyState::Head => {
                Err(MalformedReply::new(FailureKind::Reset, "the connection ended in the head"))
            }
            ReplyState::Length(_) | ReplyState::Chunked(_) => {
                Err(MalformedReply::new(FailureKind::Truncated, "the connection ended in the body"))
            }
            ReplyState::Eof(taken) => {
                self.check_whole(taken)?;
                self.state = ReplyState::Done;
                Ok(StreamEnd::Complete)
            }
            ReplyState::Done => Ok(StreamEnd::Complete),
            ReplyState::Refused(malformed) => Err(malformed),
        }
    }

    /// Reads one head, interim or final. `None`: its end has not come.
    ///
    /// A verdict is given when the end of the head has come, or a bound was passed: so it is the same however the
    /// bytes are cut. Only a start that is not HTTP is refused at once.
    fn read_head(&mut self, input: &[u8], body: &mut impl BodySink) -> Result<Option<usize>, MalformedReply> {
        if input.is_empty() {
            return Ok(None);
        }
        let left = HEAD_BYTES_MAX - self.interim_bytes;
        if self.scanned < head::START_BYTES {
            head::check_start(&input[..input.len().min(left)])?;
        }
        // Almost always the whole head is there: then its lines need not be looked for. A head that is longer than
        // a line may be is looked at line by line first, and what is wrong is told only once its end is there.
        if self.scanned == 0
            && let Ok(Some((message, length))) = head::parse(input, self.is_bodiless)
            && length <= left.min(HEAD_LINE_BYTES_MAX)
        {
            self.take_head(message, &input[..length], body)?;
            return Ok(Some(length));
        }
        let Some(end) = self.find_end(input, left)? else {
            return Ok(None);
        };
        match head::parse_whole(&input[..end], self.is_bodiless)? {
            Some((message, length)) => {
                self.take_head(message, &input[..length], body)?;
                Ok(Some(length))
            }
            None => Err(MalformedReply::framing("the head ends within a line")),
        }
    }

    /// Where the head ends: behind its first empty line. Each byte is looked at once.
    fn find_end(&mut self, input: &[u8], left: usize) -> Result<Option<usize>, MalformedReply> {
        let window = &input[..input.len().min(left)];
        let scanned = self.scanned.min(window.len());
        for newline in memchr_iter(b'\n', &window[scanned..]) {
            let end = scanned + newline + 1;
            let line = &window[self.line_start..end];
            if line.len() > HEAD_LINE_BYTES_MAX {
                return Err(line_too_large());
            }
            if matches!(line, b"\n" | b"\r\n") {
                return Ok(Some(end));
            }
            self.line_start = end;
        }
        if window.len().saturating_sub(self.line_start) >= HEAD_LINE_BYTES_MAX {
            return Err(line_too_large());
        }
        if input.len() >= left {
            return Err(MalformedReply::new(FailureKind::HeadTooLarge, "the head is larger than 64 KiB"));
        }
        self.scanned = window.len();
        Ok(None)
    }

    fn take_head(
        &mut self,
        message: Message,
        bytes: &[u8],
        body: &mut impl BodySink,
    ) -> Result<(), MalformedReply> {
        match message {
            Message::Interim => {
                self.interim_bytes += bytes.len();
                self.interim_count += 1;
                self.scanned = 0;
                self.line_start = 0;
                if self.interim_count > INTERIM_REPLIES_MAX {
                    return Err(MalformedReply::new(FailureKind::HeadTooLarge, "too many interim replies"));
                }
            }
            Message::Final(head) if head.is_suspect && self.of_frames => {
                return Err(MalformedReply::framing("Transfer-Encoding in HTTP/2"));
            }
            Message::Final(head) => {
                if head.status == 206 && !self.may_be_partial {
                    self.whole = Some(self.whole_of(&head, bytes)?);
                }
                let head = if self.of_frames { head.of_frames() } else { head };
                let framing = head.framing;
                body.head(&head, bytes);
                self.head = Some(head);
                self.state = match framing {
                    Framing::None | Framing::Length(0) => ReplyState::Done,
                    // Who wants no more of it gives up the connection himself, and knows better why.
                    Framing::Length(length) if length > self.max_body && body.wants_more() => {
                        return Err(body_too_large());
                    }
                    Framing::Length(length) => ReplyState::Length(length),
                    Framing::Chunked => ReplyState::Chunked(ChunkedDecoder::default()),
                    Framing::Eof | Framing::EndOfStream => ReplyState::Eof(0),
                };
            }
        }
        Ok(())
    }

    /// The length of an object of which a 206 says that it is all of it.
    fn whole_of(&self, head: &Head, bytes: &[u8]) -> Result<u64, MalformedReply> {
        let refused = MalformedReply::framing("206 was not asked for");
        let has_parts = field_lines(bytes).any(|line| {
            let start = line.value.get(..10);
            line.is("content-type") && start.is_some_and(|kind| kind.eq_ignore_ascii_case(b"multipart/"))
        });
        let mut ranges = field_lines(bytes).filter(|line| line.is("content-range"));
        let (Some(range), None) = (ranges.next(), ranges.next()) else { return Err(refused) };
        let length = ByteRange::whole_of_content_range(range.value).ok_or(refused)?;
        let is_other = matches!(head.framing, Framing::Length(came) if came != length);
        if self.is_bodiless || has_parts || is_other {
            return Err(refused);
        }
        Ok(length)
    }

    /// Refuses a body of `length` bytes, which is complete, if a 206 has said that it has more or fewer.
    fn check_whole(&self, length: u64) -> Result<(), MalformedReply> {
        match self.whole {
            Some(whole) if whole != length => Err(MalformedReply::framing("206 was not asked for")),
            _ => Ok(()),
        }
    }

    /// Gives the body's bytes in `input` to `body`; how many bytes of input they took.
    fn read_body(&mut self, input: &[u8], body: &mut impl BodySink) -> Result<usize, MalformedReply> {
        match &mut self.state {
            ReplyState::Refused(malformed) => Err(*malformed),
            ReplyState::Head | ReplyState::Done => Ok(0),
            _ if input.is_empty() => Ok(0),
            ReplyState::Length(left) => {
                let count = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                body.piece(&input[..count]);
                *left -= count as u64;
                if *left == 0 {
                    self.state = ReplyState::Done;
                }
                Ok(count)
            }
            ReplyState::Chunked(chunked) => {
                let consumed = chunked.read(input, self.max_body, body)?;
                let (is_done, is_padded, total) = (chunked.is_done(), chunked.is_padded(), chunked.total());
                if is_padded && let Some(head) = &mut self.head {
                    head.is_suspect = true;
                    head.keep_alive = false;
                }
                if is_done {
                    self.check_whole(total)?;
                    self.state = ReplyState::Done;
                }
                Ok(consumed)
            }
            ReplyState::Eof(taken) => {
                *taken += input.len() as u64;
                if *taken > self.max_body {
                    return Err(body_too_large());
                }
                body.piece(input);
                Ok(input.len())
            }
        }
    }
}

fn line_too_large() -> MalformedReply {
    MalformedReply::new(FailureKind::HeadTooLarge, "a line of the head is larger than 16 KiB")
}
