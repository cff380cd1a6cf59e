//! Pipelined batches: requests that are sent together on a connection, whose replies arrive in the same order (RFC
//! 9112, section 9.3.2). A batch succeeds only if every reply arrives.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::{BrokenExchange, Deadlines, Http1Connection, IdleState};
use fetchmill_model::http1::{BodySink, Framing, Head, ReplyProgress};
use fetchmill_model::limits::{BATCH_BYTES_MAX, BATCH_KEPT_BYTES, BATCH_REPLY_BYTES_MAX};
use fetchmill_model::outcome::FailureKind;

/// The replies to a batch, in request order. They use up to `BATCH_BYTES_MAX` of memory, of which up to
/// `BATCH_KEPT_BYTES` stay allocated between batches.
#[derive(Debug, Default)]
pub struct PipelinedReplies {
    /// Heads and bodies of all replies, without chunked framing.
    bytes: Vec<u8>,
    /// Complete replies.
    replies: Vec<(Head, ReplySpan)>,
    /// The reply being received.
    current: ReplySpan,
    is_too_large: bool,
}

/// Position of a reply in the buffer.
#[derive(Debug, Default, Clone, Copy)]
struct ReplySpan {
    start: usize,
    body: usize,
    end: usize,
}

/// A reply in a batch.
#[derive(Debug, Clone, Copy)]
pub struct PipelinedReply<'b> {
    /// Parsed head.
    pub head: Head,
    /// Bytes of the head.
    pub head_bytes: &'b [u8],
    /// Body, without chunked framing.
    pub body: &'b [u8],
}

/// Reason why a batch is incomplete. The connection must not be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenBatch {
    /// A reply before the last one announced that the server will close the connection.
    Ends,
    /// A reply, or all replies together, exceeded the size limit of a batch.
    TooLarge,
    /// Any other failure.
    Broken(BrokenExchange),
}

impl From<BrokenExchange> for BrokenBatch {
    fn from(broken: BrokenExchange) -> Self {
        BrokenBatch::Broken(broken)
    }
}

impl PipelinedReplies {
    /// Returns the number of complete replies.
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Returns whether no reply is complete.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Iterates over the complete replies in request order.
    pub fn iter(&self) -> impl Iterator<Item = PipelinedReply<'_>> {
        self.replies.iter().map(|(head, span)| PipelinedReply {
            head: *head,
            head_bytes: &self.bytes[span.start..span.body],
            body: &self.bytes[span.body..span.end],
        })
    }

    /// Returns the size in bytes of the largest reply, including its head.
    pub fn largest(&self) -> usize {
        self.replies.iter().map(|(_, span)| span.end - span.start).max().unwrap_or(0)
    }

    /// Removes all replies.
    pub fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > BATCH_KEPT_BYTES {
            self.bytes = Vec::new();
        }
        self.replies.clear();
        self.current = ReplySpan::default();
        self.is_too_large = false;
    }

    fn complete(&mut self, head: Head) {
        self.replies.push((head, ReplySpan { end: self.bytes.len(), ..self.current }));
    }

    fn add(&mut self, bytes: &[u8]) {
        let end = self.bytes.len() + bytes.len();
        self.is_too_large |= end - self.current.start > BATCH_REPLY_BYTES_MAX || end > BATCH_BYTES_MAX;
        if !self.is_too_large {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

impl BodySink for PipelinedReplies {
    fn head(&mut self, head: &Head, bytes: &[u8]) {
        self.current.start = self.bytes.len();
        self.add(bytes);
        self.current.body = self.bytes.len();
        // Stop early: the announced body exceeds the limit, so receiving it would be pointless.
        self.is_too_large |=
            matches!(head.framing, Framing::Length(length) if length > BATCH_REPLY_BYTES_MAX as u64);
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.add(bytes);
    }
}

impl Http1Connection {
    /// Waits for the replies to `count` requests that were sent together. Returns the bytes that followed the last
    /// reply.
    pub(super) async fn receive_batch(
        &mut self,
        count: usize,
        replies: &mut PipelinedReplies,
        scratch: &RefCell<Vec<u8>>,
        watch: &Deadlines,
    ) -> Result<IdleState, BrokenBatch> {
        replies.clear();
        poll_fn(|context| self.poll_batch(context, count, replies, scratch, watch)).await
    }

    fn poll_batch(
        &mut self,
        context: &mut Context<'_>,
        count: usize,
        replies: &mut PipelinedReplies,
        scratch: &RefCell<Vec<u8>>,
        watch: &Deadlines,
    ) -> Poll<Result<IdleState, BrokenBatch>> {
        loop {
            if self.is_sending() {
                self.poll_unsent(context)?;
            }
            let mut scratch = scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            let Poll::Ready(read) = self.stream.poll_read(context, &mut buffer) else {
                return match watch.poll_expired(context) {
                    Some(kind) => Poll::Ready(Err(BrokenExchange::new(kind, kind.meaning()).into())),
                    None => Poll::Pending,
                };
            };
            match read {
                Err(error) => return Poll::Ready(Err(self.lost(&error).into())),
                Ok(()) if buffer.filled().is_empty() => {
                    return Poll::Ready(Err(self.lost(&std::io::ErrorKind::UnexpectedEof.into()).into()));
                }
                Ok(()) => {}
            }
            if let Some(unused) = self.take_of_batch(buffer.filled(), count, replies, watch)? {
                return Poll::Ready(Ok(unused));
            }
        }
    }

    /// Reads more bytes. Once the last reply is complete, returns the bytes that followed it.
    fn take_of_batch(
        &mut self,
        bytes: &[u8],
        count: usize,
        replies: &mut PipelinedReplies,
        watch: &Deadlines,
    ) -> Result<Option<IdleState>, BrokenBatch> {
        self.has_input = true;
        let mut pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            let consumed = self.read_replies(bytes, count, replies, watch)?;
            if replies.len() == count {
                return Ok(Some(IdleState::of(&bytes[consumed..])));
            }
            pending.extend_from_slice(&bytes[consumed..]);
        } else {
            pending.extend_from_slice(bytes);
            let consumed = self.read_replies(&pending, count, replies, watch)?;
            if replies.len() == count {
                return Ok(Some(IdleState::of(&pending[consumed..])));
            }
            pending.drain(..consumed);
        }
        self.pending = pending;
        Ok(None)
    }

    /// Parses replies until no bytes are left. Returns how many bytes were consumed.
    fn read_replies(
        &mut self,
        input: &[u8],
        count: usize,
        replies: &mut PipelinedReplies,
        watch: &Deadlines,
    ) -> Result<usize, BrokenBatch> {
        let (mut consumed, complete) = (0, replies.len());
        loop {
            let progress = self
                .reader
                .read(&input[consumed..], replies)
                .map_err(|malformed| BrokenExchange::new(malformed.kind, malformed.reason))?;
            if replies.is_too_large {
                return Err(BrokenBatch::TooLarge);
            }
            match progress {
                ReplyProgress::NeedMore { consumed: more } => {
                    self.go_on(replies.len() > complete, watch);
                    return Ok(consumed + more);
                }
                ReplyProgress::Done { consumed: more } => consumed += more,
            }
            let head = self.reader.head().copied();
            let head = head
                .ok_or(BrokenExchange::new(FailureKind::Framing, "the server sent a reply without a head"))?;
            if head.is_suspect {
                // This kind of reply is accepted only as the first one on a connection.
                return Err(BrokenExchange::new(FailureKind::Framing, "the end of a reply is suspect").into());
            }
            self.replies += 1;
            replies.complete(head);
            if replies.len() == count {
                return Ok(consumed);
            }
            if !head.keep_alive {
                return Err(BrokenBatch::Ends);
            }
            self.reader.start();
        }
    }

    /// Sets the deadlines for the next bytes. The time limit of each reply starts when the previous reply is complete.
    fn go_on(&self, is_another: bool, watch: &Deadlines) {
        if is_another {
            watch.start();
        }
        if let Some(head) = self.reader.head() {
            if is_another {
                watch.body_begins(head);
            } else {
                watch.body_goes_on();
            }
        }
    }
}
