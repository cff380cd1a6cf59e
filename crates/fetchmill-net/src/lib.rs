//! The transport: connections that send requests and receive replies. Callers decide how to handle failures.
//!
//! Each object costs one write, one read and one peek. Reads go into the worker's buffer, so idle connections need no
//! buffer of their own.

mod address_policy;
mod batch;
pub mod certain;
mod connect;
mod connection;
mod connection_kind;
mod deadlines;
pub mod dns;
mod errno;
mod http2;
mod idle_state;
mod late_reply;
mod local_port;
mod name_resolver;
mod no_proxy;
mod origin_connections;
mod paces;
mod phases;
mod pool;
mod proxy;
mod resolve;
mod socks;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

pub use address_policy::{AddressPolicy, is_public};
pub use batch::{BrokenBatch, PipelinedReplies, PipelinedReply};
pub use connect::connect;
pub use connection::{Connection, IoBuffers, end_connection};
pub use connection_kind::{IF_RANGE, RANGE, RequestTarget};
pub use deadlines::{Deadlines, Millis, Timeouts};
pub use errno::ConnectFailure;
pub use idle_state::IdleState;
pub use name_resolver::{NameResolver, NameResolverSetup};
pub use no_proxy::NoProxy;
pub use origin_connections::OriginConnections;
pub use paces::Paces;
pub use phases::Phases;
pub use pool::{Pool, PoolSettings};
pub use proxy::{Proxy, ProxySetup};
pub use resolve::Resolver;
pub use stream::ByteStream;
pub use tls::{
    Alpn, ClientFiles, ClientIdentity, Tls, TlsOptions, TlsRoots, TlsSetup, check_insecure_host, rejection_of,
};

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use fetchmill_model::http1::{BodySink, Framing, Head, ReplyProgress, ReplyReader, StreamEnd};
use fetchmill_model::limits::{HEAD_BYTES_MAX, HEAD_KEPT_BYTES};
use fetchmill_model::outcome::FailureKind;
use phases::ExchangeTimes;

/// A complete reply, or as much of a reply as the sink wanted.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedReply {
    /// Head of the reply. If the reply was cut short, the head does not allow the connection to be reused.
    pub head: Head,
    /// Whether the sink wanted no more data before the end of the reply ([`BodySink::wants_more`]). If so, nothing more
    /// is read from the connection or stream.
    pub is_cut: bool,
    /// Bytes that arrived with the reply but do not belong to it. Data that follows these bytes cannot be trusted.
    pub surplus: IdleState,
}

/// An exchange that ended without a complete reply. Its connection must not be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenExchange {
    /// Failure of the target.
    pub kind: FailureKind,
    /// Reason, as text.
    pub reason: &'static str,
    /// Whether no byte of a reply arrived. On a connection that was used before, this means that the server had closed
    /// it.
    pub is_unanswered: bool,
    /// Whether the server requires HTTP/1.1 for this request (`HTTP_1_1_REQUIRED`). If so, the next connection to its
    /// origin uses HTTP/1.1.
    pub needs_http1: bool,
}

impl BrokenExchange {
    fn new(kind: FailureKind, reason: &'static str) -> Self {
        BrokenExchange { kind, reason, is_unanswered: false, needs_http1: false }
    }

    /// Returns the failure of an exchange that has no connection.
    pub fn unconnected() -> Self {
        BrokenExchange::new(FailureKind::Reset, "there is no connection")
    }
}

/// An HTTP/1.1 connection.
#[derive(Debug)]
pub struct Http1Connection {
    stream: ByteStream,
    reader: ReplyReader,
    /// Bytes of an incomplete head.
    pending: Vec<u8>,
    /// Bytes of a request that the socket has not accepted yet.
    unsent: Vec<u8>,
    replies: u64,
    has_input: bool,
    moments: ExchangeTimes,
}

impl Http1Connection {
    /// Creates a connection on an open stream.
    pub fn new(stream: ByteStream, max_body: u64) -> Self {
        let reader = ReplyReader::new(max_body);
        Http1Connection {
            stream,
            reader,
            pending: Vec::new(),
            unsent: Vec::new(),
            replies: 0,
            has_input: false,
            moments: ExchangeTimes::default(),
        }
    }

    /// Also records when a request was sent and when its reply started, if `is_timed` is set.
    pub(crate) fn timed(self, is_timed: bool) -> Self {
        Http1Connection { moments: ExchangeTimes::new(is_timed), ..self }
    }

    /// Returns the number of complete replies so far.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// Sends a request. Bytes that the socket does not accept yet are sent while waiting for the reply.
    pub fn send(&mut self, request: &[u8]) -> Result<(), BrokenExchange> {
        self.reader.start();
        self.write(request)
    }

    /// Sends a request with a `Range` field, whose reply may be part of the object.
    pub fn send_range(&mut self, request: &[u8]) -> Result<(), BrokenExchange> {
        self.reader.start_partial();
        self.write(request)
    }

    /// Sends a `HEAD` request, whose reply has no body.
    pub fn send_head(&mut self, request: &[u8]) -> Result<(), BrokenExchange> {
        self.reader.start_bodiless();
        self.write(request)
    }

    fn write(&mut self, request: &[u8]) -> Result<(), BrokenExchange> {
        self.has_input = false;
        self.moments.clear();
        self.unsent.clear();
        match self.stream.try_write(request) {
            Ok(sent) => self.unsent.extend_from_slice(&request[sent..]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.unsent.extend_from_slice(request);
            }
            Err(error) => return Err(self.lost(&error)),
        }
        if self.unsent.is_empty() {
            self.moments.sent();
        }
        Ok(())
    }

    /// Waits for the complete reply.
    pub async fn receive(
        &mut self,
        body: &mut impl BodySink,
        scratch: &RefCell<Vec<u8>>,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        loop {
            if let Some(replied) = self.receive_some(body, scratch, watch).await? {
                return Ok(replied);
            }
            if let Some(wait) = body.pause() {
                watch.pause(wait).await;
            }
        }
    }

    /// Waits for more bytes of the reply. Returns `None` if the reply is still incomplete.
    pub async fn receive_some(
        &mut self,
        body: &mut impl BodySink,
        scratch: &RefCell<Vec<u8>>,
        watch: &Deadlines,
    ) -> Result<Option<ReceivedReply>, BrokenExchange> {
        poll_fn(|context| self.poll_receive(context, body, scratch, watch)).await
    }

    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        body: &mut impl BodySink,
        scratch: &RefCell<Vec<u8>>,
        watch: &Deadlines,
    ) -> Poll<Result<Option<ReceivedReply>, BrokenExchange>> {
        if self.is_sending() {
            self.poll_unsent(context)?;
        }
        let mut scratch = scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        let Poll::Ready(read) = self.stream.poll_read(context, &mut buffer) else {
            // Check the deadline last. Data that has arrived must count even if this thread was suspended until after
            // the deadline.
            return match watch.poll_expired(context) {
                Some(kind) => Poll::Ready(Err(BrokenExchange::new(kind, kind.meaning()))),
                None => Poll::Pending,
            };
        };
        let bytes = buffer.filled();
        Poll::Ready(match read {
            Err(error) => Err(self.lost(&error)),
            Ok(()) if bytes.is_empty() => self.ended().map(Some),
            Ok(()) => self.take(bytes, body, watch),
        })
    }

    /// Returns whether part of a request is still unsent.
    fn is_sending(&self) -> bool {
        !self.unsent.is_empty() || self.stream.wants_flush()
    }

    fn poll_unsent(&mut self, context: &mut Context<'_>) -> Result<(), BrokenExchange> {
        while !self.unsent.is_empty() {
            match self.stream.poll_write(context, &self.unsent) {
                Poll::Ready(Ok(sent)) => drop(self.unsent.drain(..sent)),
                Poll::Ready(Err(error)) => return Err(self.lost(&error)),
                Poll::Pending => return Ok(()),
            }
            if self.unsent.is_empty() {
                self.moments.sent();
            }
        }
        if let Poll::Ready(Err(error)) = self.stream.poll_flush(context) {
            return Err(self.lost(&error));
        }
        Ok(())
    }

    fn take(
        &mut self,
        bytes: &[u8],
        body: &mut impl BodySink,
        watch: &Deadlines,
    ) -> Result<Option<ReceivedReply>, BrokenExchange> {
        self.has_input = true;
        self.moments.came();
        let had_head = self.reader.head().is_some();
        let surplus_of = |progress: &Result<ReplyProgress, _>, input: &[u8]| match progress {
            Ok(ReplyProgress::Done { consumed }) => IdleState::of(&input[*consumed..]),
            _ => IdleState::Quiet,
        };
        let (progress, surplus) = if self.pending.is_empty() {
            let progress = self.reader.read(bytes, body);
            if let Ok(ReplyProgress::NeedMore { consumed }) = progress {
                self.keep_pending(&bytes[consumed..]);
            }
            (progress, surplus_of(&progress, bytes))
        } else {
            self.keep_pending(bytes);
            let progress = self.reader.read(&self.pending, body);
            let surplus = surplus_of(&progress, &self.pending);
            if let Ok(ReplyProgress::NeedMore { consumed }) = progress {
                self.pending.drain(..consumed);
                self.release_pending();
            }
            (progress, surplus)
        };
        match progress {
            Err(malformed) => Err(BrokenExchange::new(malformed.kind, malformed.reason)),
            Ok(ReplyProgress::Done { .. }) => self.replied(surplus).map(Some),
            Ok(ReplyProgress::NeedMore { .. }) => {
                match self.reader.head() {
                    None => {}
                    Some(head) if !body.wants_more() => {
                        let head = Head { keep_alive: false, ..*head };
                        return Ok(Some(ReceivedReply { head, is_cut: true, surplus: IdleState::Quiet }));
                    }
                    Some(_) if had_head => watch.body_goes_on(),
                    Some(head) => watch.body_begins(head),
                }
                Ok(None)
            }
        }
    }

    fn replied(&mut self, surplus: IdleState) -> Result<ReceivedReply, BrokenExchange> {
        let Some(head) = self.reader.head().copied() else {
            return Err(BrokenExchange::new(FailureKind::Framing, "the server sent a reply without a head"));
        };
        self.replies += 1;
        self.pending.clear();
        self.release_pending();
        Ok(ReceivedReply { head, is_cut: false, surplus })
    }

    /// Keeps the bytes of an incomplete head. For a long head, immediately allocates the maximum size, because growing
    /// the buffer by doubling would take twice as much memory.
    fn keep_pending(&mut self, bytes: &[u8]) {
        let length = self.pending.len() + bytes.len();
        if length > HEAD_KEPT_BYTES && length > self.pending.capacity() {
            self.pending.reserve_exact(bytes.len().max(HEAD_BYTES_MAX - self.pending.len()));
        }
        self.pending.extend_from_slice(bytes);
    }

    fn release_pending(&mut self) {
        if self.pending.is_empty() && self.pending.capacity() > HEAD_KEPT_BYTES {
            self.pending = Vec::new();
        }
    }

    fn ended(&mut self) -> Result<ReceivedReply, BrokenExchange> {
        match self.reader.end_of_stream() {
            Ok(StreamEnd::Complete) => self.replied(IdleState::Quiet),
            Ok(StreamEnd::Unanswered) => Err(self.lost(&std::io::ErrorKind::UnexpectedEof.into())),
            Err(malformed) => Err(BrokenExchange::new(malformed.kind, malformed.reason)),
        }
    }

    /// Converts a socket error.
    fn lost(&self, error: &std::io::Error) -> BrokenExchange {
        let has_head = self.reader.head().is_some();
        let kind = if has_head { FailureKind::Truncated } else { errno::of_open(error) };
        let alert = tls::alert::of_open(error).filter(|_| !has_head);
        let (kind, reason) = alert.unwrap_or((kind, kind.meaning()));
        BrokenExchange { is_unanswered: !self.has_input, ..BrokenExchange::new(kind, reason) }
    }

    /// Returns the head of the reply being received. `None` while the head is incomplete.
    pub fn head(&self) -> Option<&Head> {
        self.reader.head()
    }

    /// Checks whether bytes arrived while the connection was unused.
    pub fn look(&self) -> IdleState {
        self.stream.look()
    }

    /// Waits until bytes arrive or a deadline of the watch passes.
    pub async fn listen(&self, watch: &Deadlines) {
        poll_fn(|context| match watch.poll_expired(context) {
            Some(_) => Poll::Ready(()),
            None => self.poll_input(context),
        })
        .await;
    }

    /// Returns `Ready` once bytes have arrived on the unused connection.
    pub fn poll_input(&self, context: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_input(context)
    }
}

/// Returns whether the framing of a reply marks its end.
pub fn is_verified(head: &Head) -> bool {
    head.framing != Framing::Eof
}
