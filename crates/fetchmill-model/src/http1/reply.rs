//! A reply while it is being read: head, then body, then done.

use memchr::memchr_iter;

use super::body_sink::BodySink;
use super::chunked::ChunkedDecoder;
use super::head::{self, Framing, Head, Message};
use super::malformed::{MalformedReply, body_too_large};
use super::odd_head::field_lines;
use crate::http1::byte_range::ByteRange;
use crate::limits::{HEAD_BYTES_MAX, HEAD_LINE_BYTES_MAX, INTERIM_REPLIES_MAX};
use crate::outcome::FailureKind;

/// Progress of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyProgress {
    /// The reply is not complete. The bytes after `consumed` must be passed again, followed by new bytes.
    NeedMore {
        /// Number of consumed input bytes.
        consumed: usize,
    },
    /// The reply is complete. Bytes after `consumed` do not belong to it. Unless another request was sent on the
    /// connection, they are unsolicited, and the connection must not be used again.
    Done {
        /// Number of input bytes that belong to the reply.
        consumed: usize,
    },
}

/// Meaning of the end of the stream for a reply that has not failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The reply is complete. With [`Framing::Eof`], the end of the stream is the only mark of the reply's end.
    Complete,
    /// No byte was received. The server may have closed a reused connection while the request was being sent.
    Unanswered,
}

/// Reads replies one at a time. Each connection has one small reader, which is reused for each reply.
#[derive(Debug)]
pub struct ReplyReader {
    max_body: u64,
    /// Whether the bytes come from HTTP/2 frames.
    of_frames: bool,
    state: ReplyState,
    head: Option<Head>,
    /// Total size of the interim heads of this reply.
    interim_bytes: usize,
    interim_count: u32,
    /// Number of bytes of the unfinished head that were already searched for its end.
    scanned: usize,
    /// Start of the last line in the searched bytes.
    line_start: usize,
    /// Whether the reply answers `HEAD` and therefore has no body, even if fields describe one.
    is_bodiless: bool,
    /// Whether a part of the object was requested.
    may_be_partial: bool,
    /// Required size of the body. It is set if the status is 206 and `Content-Range` states that the reply contains the
    /// whole object.
    whole: Option<u64>,
}

#[derive(Debug)]
enum ReplyState {
    Head,
    /// Number of remaining bytes.
    Length(u64),
    Chunked(ChunkedDecoder),
    /// Number of bytes so far.
    Eof(u64),
    Done,
    Refused(MalformedReply),
}

impl ReplyReader {
    /// Creates a reader that refuses bodies above `max_body` bytes.
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

    /// Creates a reader for replies from HTTP/2 frames. The reader receives the head in HTTP/1.1 form and the body
    /// without framing. A frame must mark the end of the stream.
    pub fn of_frames(max_body: u64) -> Self {
        ReplyReader { of_frames: true, ..ReplyReader::new(max_body) }
    }

    /// Resets the reader for another reply.
    pub fn start(&mut self) {
        *self = ReplyReader { of_frames: self.of_frames, ..ReplyReader::new(self.max_body) };
    }

    /// Resets the reader for the reply to a request with `Range`. The reply may be a part of the object (206).
    pub fn start_partial(&mut self) {
        self.start();
        self.may_be_partial = true;
    }

    /// Resets the reader for the reply to `HEAD`, whose fields describe a body that does not follow.
    pub fn start_bodiless(&mut self) {
        self.start();
        self.is_bodiless = true;
    }

    /// Returns the head of this reply once it is complete, even if the body is refused.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Reads more of the reply. `input` contains everything received but not yet consumed. Until the head is complete,
    /// the caller keeps its bytes and passes them again with new bytes appended. Body bytes are consumed immediately.
    ///
    /// After an error, every further call returns the same error until [`ReplyReader::start`].
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

    /// Handles the end of the stream.
    pub fn end_of_stream(&mut self) -> Result<StreamEnd, MalformedReply> {
        match self.state {
            ReplyState::Head if self.scanned == 0 && self.interim_bytes == 0 => Ok(StreamEnd::Unanswered),
            ReplyState::Head => Err(MalformedReply::new(
                FailureKind::Reset,
                "the connection was closed before the head was complete",
            )),
            ReplyState::Length(_) | ReplyState::Chunked(_) => Err(MalformedReply::new(
                FailureKind::Truncated,
                "the connection was closed before the body was complete",
            )),
            ReplyState::Eof(taken) => {
                self.check_whole(taken)?;
                self.state = ReplyState::Done;
                Ok(StreamEnd::Complete)
            }
            ReplyState::Done => Ok(StreamEnd::Complete),
            ReplyState::Refused(malformed) => Err(malformed),
        }
    }

    /// Reads one head, interim or final. Returns `None` if the end of the head has not arrived.
    ///
    /// A head is accepted or refused only when it is complete or exceeds a limit. The result therefore does not depend
    /// on how the bytes are split. Only a start that is not HTTP is refused immediately.
    fn read_head(&mut self, input: &[u8], body: &mut impl BodySink) -> Result<Option<usize>, MalformedReply> {
        if input.is_empty() {
            return Ok(None);
        }
        let left = HEAD_BYTES_MAX - self.interim_bytes;
        if self.scanned < head::START_BYTES {
            head::check_start(&input[..input.len().min(left)])?;
        }
        // Usually the whole head is available, so its lines need not be searched. A head that is longer than the
        // maximum line is first checked line by line. Errors in such a head are reported only once its end has arrived.
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
            None => Err(MalformedReply::framing("the head ends in the middle of a line")),
        }
    }

    /// Returns where the head ends: after its first empty line. Each byte is checked once.
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
                    // A sink that wants no more data closes the connection itself and reports a better reason.
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

    /// Returns the object's length if a 206 reply contains the whole object.
    fn whole_of(&self, head: &Head, bytes: &[u8]) -> Result<u64, MalformedReply> {
        let refused = MalformedReply::framing("status 206 without a range request");
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

    /// Refuses a complete body of `length` bytes if a 206 reply has stated a different length.
    fn check_whole(&self, length: u64) -> Result<(), MalformedReply> {
        match self.whole {
            Some(whole) if whole != length => {
                Err(MalformedReply::framing("status 206 without a range request"))
            }
            _ => Ok(()),
        }
    }

    /// Passes the body's bytes in `input` to `body`. Returns the number of consumed bytes.
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
