//! Sends a request on a connection and receives its reply. No other module depends on the connection's protocol.

use std::borrow::Cow;

use super::fetcher::FetchThread;
use super::queue::TaskRequest;
use super::reply_buffer::{ReplyBuffer, StreamBody};
use fetchmill_model::http1;
use fetchmill_model::limits;
use fetchmill_net::{
    BrokenExchange, Connection, Deadlines, OriginConnections, ReceivedReply, RequestTarget, end_connection,
};

impl FetchThread {
    /// Sends the request and receives its reply.
    pub(super) async fn exchange_request(
        &self,
        connection: &mut Connection,
        origin: &OriginConnections,
        request: &mut TaskRequest,
        incoming: &mut StreamBody,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        let _exchange = self.concurrency.load.count_exchange();
        let rest = incoming.rest_fields();
        let is_ending = connection.is_ending();
        let Some(connection) = connection.connection() else {
            // Requests on a shared connection also share its flow-control windows, which limit the received bytes.
            return self.exchange_shared(connection, origin, request, rest, incoming, watch).await;
        };
        {
            let mut bytes = self.buffers.request.borrow_mut();
            bytes.clear();
            with_call(origin, request, rest.as_ref(), |asked| origin.write(asked, &mut bytes));
            if is_ending {
                end_connection(&mut bytes);
            }
            watch.start();
            if rest.is_some() {
                connection.send_range(&bytes)?;
            } else if request.method() == "HEAD" {
                connection.send_head(&bytes)?;
            } else {
                connection.send(&bytes)?;
            }
            bytes.shrink_to(limits::READ_BYTES);
        }
        loop {
            let received = connection.receive_some(incoming, &self.buffers.scratch, watch).await?;
            if let Some(replied) = received {
                watch.rest();
                return Ok(replied);
            }
            request.attempt.first_byte.get_or_insert_with(|| self.exact.micros());
            self.make_room(request, &mut incoming.inner, watch).await;
        }
    }

    async fn exchange_shared(
        &self,
        connection: &mut Connection,
        origin: &OriginConnections,
        request: &TaskRequest,
        rest: Option<[(String, String); 2]>,
        incoming: &mut StreamBody,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        let fields = fields_of(request, rest.as_ref());
        let cookies = request.at.cookies_at(origin);
        let asked = if request.call.is_none() && rest.is_none() && cookies.is_none() {
            RequestTarget::Path(path_of(origin, request))
        } else {
            RequestTarget::Call(&call_of(origin, request, &fields, cookies.as_deref()))
        };
        connection.exchange(asked, &self.buffers, incoming, watch, self.options.http.max_size).await
    }

    /// Waits for memory before the rest of a large body is received. The wait ends when the body fits into memory, when
    /// memory contains no other bodies, or when all other replies wait for this one.
    async fn make_room(&self, request: &TaskRequest, incoming: &mut ReplyBuffer, watch: &Deadlines) {
        let expected = incoming.expected();
        if expected < limits::STREAM_BODY_COPIED_BYTES || expected <= incoming.reserved {
            return;
        }
        if incoming.reserved == 0 {
            self.wait_for_room(request, expected, watch).await;
        }
        self.receiving.set(self.receiving.get() + expected - incoming.reserved);
        incoming.reserved = expected;
    }

    async fn wait_for_room(&self, request: &TaskRequest, expected: usize, watch: &Deadlines) {
        let mut has_waited = false;
        loop {
            let room = self.room.notified();
            let held = self.held();
            let fits = held == 0 || held + expected <= limits::STREAM_BYTES_MAX;
            if fits || request.is_wanted() || watch.has_expired() {
                break;
            }
            self.hub.is_holding.store(true, std::sync::atomic::Ordering::SeqCst);
            has_waited = true;
            watch.rest();
            self.waiting_for_room.set(self.waiting_for_room.get() + 1);
            tokio::select! {
                () = room => {}
                _ = watch.expired() => {}
            }
            self.waiting_for_room.set(self.waiting_for_room.get() - 1);
        }
        if has_waited && !watch.has_expired() {
            watch.start();
            watch.body_goes_on();
        }
    }

    /// Releases the memory of a body that was handed over or dropped.
    pub(super) fn release(&self, incoming: &mut ReplyBuffer) {
        if incoming.reserved > 0 {
            self.receiving.set(self.receiving.get() - incoming.reserved);
            incoming.reserved = 0;
            self.room.notify_waiters();
            self.hub.wake.notify_one();
        }
    }
}

fn path_of<'t>(origin: &OriginConnections, request: &'t TaskRequest) -> &'t str {
    origin.key.path_of(&request.at.url).unwrap_or("/")
}

fn call_of<'t>(
    origin: &OriginConnections,
    request: &'t TaskRequest,
    fields: &'t [(String, String)],
    cookies: Option<&'t str>,
) -> http1::RequestParts<'t> {
    let body = request.effects.body(request.call.as_deref());
    http1::RequestParts { method: request.method(), path: path_of(origin, request), fields, body, cookies }
}

/// Returns the header fields of a request, including those that request only the rest of a body.
fn fields_of<'t>(
    request: &'t TaskRequest,
    rest: Option<&[(String, String); 2]>,
) -> Cow<'t, [(String, String)]> {
    let mut fields = request.effects.fields(request.call.as_deref());
    if let Some(rest) = rest {
        fields.to_mut().extend_from_slice(rest);
    }
    fields
}

fn with_call(
    origin: &OriginConnections,
    request: &TaskRequest,
    rest: Option<&[(String, String); 2]>,
    write: impl FnOnce(RequestTarget<'_>),
) {
    let cookies = request.at.cookies_at(origin);
    if request.call.is_none() && rest.is_none() && cookies.is_none() {
        return write(RequestTarget::Path(path_of(origin, request)));
    }
    let fields = fields_of(request, rest);
    write(RequestTarget::Call(&call_of(origin, request, &fields, cookies.as_deref())));
}
