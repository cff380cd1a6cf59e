//! A task's connection. Either the task owns it, or it is a share of a connection that carries several requests at a
//! time.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::connection_kind::{ConnectionKind, OwnHttp1, RequestTarget, add_cookies};
use super::http2::{self, Http2Connection};
use super::late_reply::LateReply;
use super::origin_connections::OriginConnections;
use super::phases::ExchangeTimes;
use super::{
    AddressPolicy, BrokenBatch, BrokenExchange, Deadlines, Http1Connection, IdleState, Phases,
    PipelinedReplies, ReceivedReply,
};
use fetchmill_model::http1::{BodySink, Version};
use fetchmill_model::reply::certainty::{ConnectionReplies, MonotonicMicros, SILENCE_MIN};
use fetchmill_model::target::TargetList;

const CONNECTION_CLOSE: &[u8] = b"Connection: close\r\n";
/// A connection that was unused for this long has certainly been silent. Two ticks of the clock guarantee at least one
/// full tick of silence.
const WAITED_MIN: MonotonicMicros = 2 * SILENCE_MIN;

/// A task's connection to an origin. It may be closed.
#[derive(Debug, Default)]
pub struct Connection {
    pub(super) origin: Option<Rc<OriginConnections>>,
    pub(super) link: Option<ConnectionKind>,
    /// Address of the last connection.
    address: Option<SocketAddr>,
    /// HTTP version of the last reply.
    version: Option<Version>,
    phases: Phases,
    is_timed: bool,
    /// Whether the connection was opened for the next request, so that its phases belong to the same attempt.
    is_fresh: bool,
}

/// Buffers shared by a thread's tasks.
#[derive(Debug)]
pub struct IoBuffers {
    /// The HTTP/1.1 request being written.
    pub request: RefCell<Vec<u8>>,
    /// Buffer for reading.
    pub scratch: RefCell<Vec<u8>>,
}

impl Default for IoBuffers {
    fn default() -> Self {
        IoBuffers {
            request: RefCell::default(),
            scratch: RefCell::new(vec![0; fetchmill_model::limits::READ_BYTES]),
        }
    }
}

impl Connection {
    /// Moves to an origin without opening a connection.
    pub(super) fn come_to(&mut self, origin: &Rc<OriginConnections>, is_timed: bool) {
        *self = Connection { origin: Some(Rc::clone(origin)), is_timed, ..Connection::default() };
    }

    /// Takes over a connection that was unused and silent for `waited` microseconds.
    pub(super) fn take(&mut self, mut link: ConnectionKind, waited: MonotonicMicros) {
        self.address = link.address();
        if let ConnectionKind::Http1(own) = &mut link
            && own.replies.replies() <= 1
            && waited >= WAITED_MIN
        {
            own.replies.rested();
        }
        self.link = Some(link);
    }

    /// Takes over the connection that was opened for this task. `None` if the attempt failed.
    pub(super) fn opened(&mut self, link: Option<ConnectionKind>, phases: Phases) {
        self.phases = phases;
        self.is_fresh = link.is_some();
        self.version = None;
        self.address = link.as_ref().and_then(ConnectionKind::address);
        self.link = link;
    }

    /// Returns the remote address of the last connection, even if that connection is closed by now. `None` if it went
    /// through a proxy.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the HTTP version of the last reply. `None` if no reply head arrived.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Returns the phases of the last attempt, if [`PoolSettings::times_phases`](super::PoolSettings) is set. They
    /// cover the exchange, and also the connection setup if the connection was opened for this attempt.
    pub fn phases(&self) -> Phases {
        self.phases
    }

    /// Returns whether the open connection leads only to addresses that `reach` allows. If it does not, the caller must
    /// close it. A new connection is opened only to allowed addresses.
    pub fn leads_within(&self, reach: AddressPolicy) -> bool {
        match (&self.origin, &self.link) {
            (Some(origin), Some(link)) => origin.is_within(reach, link.address()),
            _ => true,
        }
    }

    /// Returns the origin, and the replies received since the connection was last known to be good. `None` for a shared
    /// connection, whose replies are matched by stream number.
    pub fn origin_and_replies(&mut self) -> Option<(&OriginConnections, &mut ConnectionReplies)> {
        match (&self.origin, &mut self.link) {
            (Some(origin), Some(ConnectionKind::Http1(own))) => Some((origin, &mut own.replies)),
            _ => None,
        }
    }

    /// Returns whether the server was asked to close the connection after the last reply. If the reply does not confirm
    /// this, it may belong to an earlier request, so no further request may be sent.
    pub fn is_ending(&self) -> bool {
        matches!(&self.link, Some(ConnectionKind::Http1(own)) if own.replies.is_ending())
    }

    /// Returns the current origin.
    pub fn origin(&self) -> Option<&Rc<OriginConnections>> {
        self.origin.as_ref()
    }

    /// Returns the targets of the replies that most recently became certain. If more bytes arrive, those replies become
    /// doubtful.
    pub fn last_certain(&self) -> Option<&RefCell<TargetList>> {
        match &self.link {
            Some(ConnectionKind::Http1(own)) => Some(&own.last_certain),
            Some(ConnectionKind::Http2(_)) | None => None,
        }
    }

    /// Returns whether the connection is open.
    pub fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// Returns whether other requests may use the connection at the same time. On such a connection, each reply has its
    /// own stream.
    pub fn is_shared(&self) -> bool {
        matches!(self.link, Some(ConnectionKind::Http2(_)))
    }

    /// Returns whether the task is at `origin`, with or without an open connection.
    pub fn is_at(&self, origin: &Rc<OriginConnections>) -> bool {
        self.origin.as_ref().is_some_and(|own| Rc::ptr_eq(own, origin))
    }

    /// Returns the number of complete replies on the connection.
    pub fn replies(&self) -> u64 {
        match &self.link {
            None => 0,
            Some(ConnectionKind::Http1(own)) => own.connection.replies(),
            Some(ConnectionKind::Http2(shared)) => shared.http2.replies(),
        }
    }

    /// Closes the connection. If the connection is shared, gives up only this task's share.
    pub fn close(&mut self) {
        self.link = None;
    }

    /// Closes the connection after a failed request. A shared connection may be dead, so no other task may join it
    /// after this.
    pub fn abandon(&mut self) {
        if let (Some(origin), Some(ConnectionKind::Http2(shared))) = (&self.origin, &self.link) {
            origin.forget_http2(shared);
        }
        self.close();
    }

    /// Checks the connection for input. Returns [`IdleState::Quiet`] if it is not open.
    pub fn look(&self) -> IdleState {
        self.link.as_ref().map_or(IdleState::Quiet, ConnectionKind::look)
    }

    /// Waits until bytes arrive or a deadline of the watch passes.
    pub async fn listen(&self, watch: &Deadlines) {
        if let Some(ConnectionKind::Http1(own)) = &self.link {
            own.connection.listen(watch).await;
        }
    }

    /// Returns `Ready` once bytes have arrived on the unused connection.
    pub fn poll_input(&self, context: &mut Context<'_>) -> Poll<()> {
        self.link.as_ref().map_or(Poll::Pending, |link| link.poll_input(context))
    }

    /// Abandons a request after `waited`, together with its connection. If the reply still arrives, the thread records
    /// how late it was.
    pub fn abandon_request(&mut self, waited: MonotonicMicros) {
        if let (Some(origin), Some(link)) = (&self.origin, self.link.take()) {
            LateReply::listen(link, Rc::clone(origin), waited);
        }
    }

    /// Sends a request on the open connection and waits for the complete reply.
    pub async fn exchange(
        &mut self,
        asked: RequestTarget<'_>,
        buffers: &IoBuffers,
        body: &mut impl BodySink,
        watch: &Deadlines,
        max_body: u64,
    ) -> std::result::Result<ReceivedReply, BrokenExchange> {
        self.begin();
        let (Some(origin), Some(link)) = (&self.origin, &mut self.link) else {
            return Err(BrokenExchange::unconnected());
        };
        watch.start();
        let (replied, first_byte) = match link {
            ConnectionKind::Http1(own) => {
                let replied = exchange_http1(origin, own, asked, buffers, body, watch).await;
                self.version = own.connection.head().map(|head| head.version);
                (replied, own.connection.moments.first_byte())
            }
            ConnectionKind::Http2(shared) => {
                let mut moments = ExchangeTimes::new(self.is_timed);
                let replied =
                    exchange_http2(origin, &shared.http2, asked, body, watch, max_body, &mut moments).await;
                self.version = moments.has_come().then_some(Version::Http2);
                (replied, moments.first_byte())
            }
        };
        watch.rest();
        if matches!(replied, Err(BrokenExchange { needs_http1: true, .. })) {
            origin.fall_back_to_http1();
        }
        self.phases.first_byte = first_byte;
        if !self.is_shared() && replied.is_ok_and(|replied| replied.is_cut) {
            // The server is still sending the rest of the body.
            self.close();
        }
        replied
    }

    /// Sends the batch of consecutive requests in `buffers.request` and waits for the replies. Returns the bytes that
    /// followed the last reply.
    pub async fn exchange_batch(
        &mut self,
        count: usize,
        buffers: &IoBuffers,
        replies: &mut PipelinedReplies,
        watch: &Deadlines,
    ) -> std::result::Result<IdleState, BrokenBatch> {
        let Some(connection) = self.connection() else {
            return Err(BrokenExchange::unconnected().into());
        };
        watch.start();
        connection.send(&buffers.request.borrow())?;
        let received = connection.receive_batch(count, replies, &buffers.scratch, watch).await;
        watch.rest();
        received
    }

    /// Starts an exchange. If the connection was opened for it, the exchange belongs to the same attempt. Otherwise a
    /// new attempt starts.
    fn begin(&mut self) {
        self.version = None;
        if !self.is_timed {
            return;
        }
        if !std::mem::take(&mut self.is_fresh) {
            self.phases = Phases::default();
        }
        self.phases.started.get_or_insert_with(Instant::now);
    }

    /// Returns the open HTTP/1.1 connection, for callers that transfer the bytes themselves. For such callers,
    /// [`Connection::phases`] covers only the connection setup, and [`Connection::version`] is `None`.
    pub fn connection(&mut self) -> Option<&mut Http1Connection> {
        match &mut self.link {
            Some(ConnectionKind::Http1(own)) => Some(&mut own.connection),
            Some(ConnectionKind::Http2(_)) | None => None,
        }
    }
}

async fn exchange_http1(
    origin: &OriginConnections,
    own: &mut OwnHttp1,
    asked: RequestTarget<'_>,
    buffers: &IoBuffers,
    body: &mut impl BodySink,
    watch: &Deadlines,
) -> std::result::Result<ReceivedReply, BrokenExchange> {
    {
        let mut request = buffers.request.borrow_mut();
        request.clear();
        origin.write(asked, &mut request);
        if own.replies.is_ending() {
            end_connection(&mut request);
        }
        let connection = &mut own.connection;
        let is_head = matches!(asked, RequestTarget::Call(call) if call.method == "HEAD");
        match (asked.has_range(), is_head) {
            (true, _) => connection.send_range(&request),
            (_, true) => connection.send_head(&request),
            _ => connection.send(&request),
        }?;
    }
    own.connection.receive(body, &buffers.scratch, watch).await
}

/// Adds a header field after the request line that asks the server to close the connection after its reply.
pub fn end_connection(request: &mut Vec<u8>) {
    if let Some(line_end) = memchr::memchr(b'\n', request) {
        let behind = line_end + 1;
        request.splice(behind..behind, CONNECTION_CLOSE.iter().copied());
    }
}

async fn exchange_http2(
    origin: &OriginConnections,
    http2: &Http2Connection,
    asked: RequestTarget<'_>,
    body: &mut impl BodySink,
    watch: &Deadlines,
    max_body: u64,
    moments: &mut ExchangeTimes,
) -> std::result::Result<ReceivedReply, BrokenExchange> {
    let parts = origin.http2_parts().map_err(|_| BrokenExchange::unconnected())?;
    let mut target = Vec::new();
    let mut own = None;
    let (method, path, content) = match asked {
        RequestTarget::Name(name) => {
            origin.template.write_target(name, &mut target);
            ("GET", String::from_utf8_lossy(&target), None)
        }
        RequestTarget::Path(path) => ("GET", path.into(), None),
        RequestTarget::Call(call) => {
            own = (!call.fields.is_empty()).then(|| parts.fields_with(call.fields)).transpose()?;
            (call.method, call.path.into(), call.body)
        }
    };
    if let Some(cookies) = origin.cookies_with(asked) {
        add_cookies(own.get_or_insert_with(|| parts.fields.clone()), &cookies)?;
    }
    let call = http2::Http2Request {
        method,
        is_tls: origin.key.is_tls(),
        authority: &parts.authority,
        path: &path,
        fields: own.as_ref().unwrap_or(&parts.fields),
        body: content.unwrap_or_default(),
        has_range: asked.has_range(),
    };
    http2.exchange(&call, body, watch, max_body, moments).await
}
