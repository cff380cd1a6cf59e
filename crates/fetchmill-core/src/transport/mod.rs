//! The transport: one TCP connection, requests out, replies in. No policy: what a failure means is decided above.
//!
//! Cost of an object: one write, one read and one peek; the buffer that is read into is the worker's, so an idle
//! connection holds none of its own.

mod connect;
mod watch;

pub use connect::{ConnectFailure, connect, resolve};
pub use watch::{Millis, Timeouts, Watch};

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use crate::http1::{BodySink, Ended, Framing, Head, Progress, ReplyReader};
use crate::outcome::FailureKind;

/// Memory that a connection may keep between replies.
const PENDING_KEPT_BYTES: usize = 4096;
/// How every reply starts.
const REPLY_START: &[u8; 5] = b"HTTP/";

/// A complete reply.
#[derive(Debug, Clone, Copy)]
pub struct Replied {
    /// Its head.
    pub head: Head,
    /// What came with it and does not belong to it: what is behind that cannot be trusted.
    pub surplus: Unused,
}

/// An exchange that gave no complete reply. The connection must not be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// What it means for the target.
    pub kind: FailureKind,
    /// For people.
    pub reason: &'static str,
    /// Not a byte of a reply came: on a connection that was used before, the server had closed it already.
    pub is_unanswered: bool,
}

impl Broken {
    fn new(kind: FailureKind, reason: &'static str) -> Self {
        Broken { kind, reason, is_unanswered: false }
    }
}

/// What a look at an unused connection tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unused {
    /// Nothing has come: it may be used.
    Quiet,
    /// Bytes that nobody asked for,
    Unsolicited,
    /// and that look like the start of a reply: read as one, they would be another target's.
    SecondReply,
    /// The server has closed it.
    Closed,
}

impl Unused {
    /// Of the first bytes that came.
    fn of(bytes: &[u8]) -> Self {
        match &bytes[..bytes.len().min(REPLY_START.len())] {
            [] => Unused::Quiet,
            start if REPLY_START.starts_with(start) => Unused::SecondReply,
            _ => Unused::Unsolicited,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    reader: ReplyReader,
    /// Bytes of a head whose end has not come.
    pending: Vec<u8>,
    /// Bytes of a request that the socket did not take at once.
    unsent: Vec<u8>,
    replies: u64,
    has_input: bool,
}

impl Connection {
    /// A connection that has been made.
    pub fn new(stream: TcpStream, max_body: u64) -> Self {
        let reader = ReplyReader::new(max_body);
        Connection { stream, reader, pending: Vec::new(), unsent: Vec::new(), replies: 0, has_input: false }
    }

    /// Complete replies so far.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// Sends a request; what the socket does not take now goes out while the reply is awaited.
    pub fn send(&mut self, request: &[u8]) -> Result<(), Broken> {
        self.reader.start();
        self.has_input = false;
        self.unsent.clear();
        match self.stream.try_write(request) {
            Ok(sent) => self.unsent.extend_from_slice(&request[sent..]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.unsent.extend_from_slice(request);
            }
            Err(_) => return Err(self.lost()),
        }
        Ok(())
    }

    /// Awaits the reply to its end.
    pub async fn receive(
        &mut self,
        body: &mut impl BodySink,
        scratch: &RefCell<Vec<u8>>,
        watch: &Watch,
    ) -> Result<Replied, Broken> {
        loop {
            if let Some(replied) = self.receive_some(body, scratch, watch).await? {
                return Ok(replied);
            }
        }
    }

    /// Awaits the next bytes of the reply; `None` when it goes on behind them.
    pub async fn receive_some(
        &mut self,
        body: &mut impl BodySink,
        scratch: &RefCell<Vec<u8>>,
        watch: &Watch,
    ) -> Result<Option<Replied>, Broken> {
        poll_fn(|context| self.poll_receive(context, body, scratch, watch)).await
    }

    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        body: &mut impl BodySink,
        scratch: &RefCell<Vec<u8>>,
        watch: &Watch,
    ) -> Poll<Result<Option<Replied>, Broken>> {
        if !self.unsent.is_empty() {
            self.poll_unsent(context)?;
        }
        let mut scratch = scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, &mut buffer) else {
            // Only now: what has come counts, also when this thread was stopped for longer than the deadline.
            return match watch.poll_expired(context) {
                Some(kind) => Poll::Ready(Err(Broken::new(kind, "too slow"))),
                None => Poll::Pending,
            };
        };
        let bytes = buffer.filled();
        Poll::Ready(match read {
            Err(_) => Err(self.lost()),
            Ok(()) if bytes.is_empty() => self.ended().map(Some),
            Ok(()) => self.take(bytes, body, watch),
        })
    }

    fn poll_unsent(&mut self, context: &mut Context<'_>) -> Result<(), Broken> {
        while !self.unsent.is_empty() && self.stream.poll_write_ready(context).is_ready() {
            match self.stream.try_write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(self.lost()),
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        bytes: &[u8],
        body: &mut impl BodySink,
        watch: &Watch,
    ) -> Result<Option<Replied>, Broken> {
        self.has_input = true;
        let had_head = self.reader.head().is_some();
        let surplus_of = |progress: &Result<Progress, _>, input: &[u8]| match progress {
            Ok(Progress::Done { consumed }) => Unused::of(&input[*consumed..]),
            _ => Unused::Quiet,
        };
        let (progress, surplus) = if self.pending.is_empty() {
            let progress = self.reader.read(bytes, body);
            if let Ok(Progress::NeedMore { consumed }) = progress {
                self.pending.extend_from_slice(&bytes[consumed..]);
            }
            (progress, surplus_of(&progress, bytes))
        } else {
            self.pending.extend_from_slice(bytes);
            let progress = self.reader.read(&self.pending, body);
            let surplus = surplus_of(&progress, &self.pending);
            if let Ok(Progress::NeedMore { consumed }) = progress {
                self.pending.drain(..consumed);
            }
            (progress, surplus)
        };
        match progress {
            Err(malformed) => Err(Broken::new(malformed.kind, malformed.reason)),
            Ok(Progress::Done { .. }) => self.replied(surplus).map(Some),
            Ok(Progress::NeedMore { .. }) => {
                match self.reader.head() {
                    None => {}
                    Some(_) if had_head => watch.body_goes_on(),
                    Some(head) => watch.body_begins(head),
                }
                Ok(None)
            }
        }
    }

    fn replied(&mut self, surplus: Unused) -> Result<Replied, Broken> {
        let Some(head) = self.reader.head().copied() else {
            return Err(Broken::new(FailureKind::Framing, "a reply without a head"));
        };
        self.replies += 1;
        self.pending.clear();
        if self.pending.capacity() > PENDING_KEPT_BYTES {
            self.pending = Vec::new();
        }
        Ok(Replied { head, surplus })
    }

    fn ended(&mut self) -> Result<Replied, Broken> {
        match self.reader.end_of_stream() {
            Ok(Ended::Complete) => self.replied(Unused::Quiet),
            Ok(Ended::Unanswered) => Err(self.lost()),
            Err(malformed) => Err(Broken::new(malformed.kind, malformed.reason)),
        }
    }

    /// The socket failed.
    fn lost(&self) -> Broken {
        let kind = if self.reader.head().is_some() { FailureKind::Truncated } else { FailureKind::Reset };
        Broken { kind, reason: "the connection broke", is_unanswered: !self.has_input }
    }

    /// The head of the reply that is being received, once it is there.
    pub fn head(&self) -> Option<&Head> {
        self.reader.head()
    }

    /// Looks whether anything came while the connection was unused, without taking it.
    pub fn look(&self) -> Unused {
        let mut start = [0_u8; REPLY_START.len()];
        match rustix::net::recv(&self.stream, &mut start, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Unused::Closed,
            Ok((_, count)) => Unused::of(&start[..count.min(start.len())]),
            Err(rustix::io::Errno::WOULDBLOCK) => Unused::Quiet,
            Err(_) => Unused::Closed,
        }
    }

    /// Waits for something to come, or for the watch.
    pub async fn listen(&self, watch: &Watch) {
        poll_fn(|context| match watch.poll_expired(context) {
            Some(_) => Poll::Ready(()),
            None => self.poll_input(context),
        })
        .await;
    }

    /// Ready when something comes while the connection is unused.
    pub fn poll_input(&self, context: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_read_ready(context).map(drop)
    }
}

/// Whether a reply's end was told by its own framing.
pub fn is_verified(head: &Head) -> bool {
    head.framing != Framing::Eof
}
