//! One request over one connection: the only place that knows its protocol.

use super::fetcher::FetchThread;
use super::queue::TaskRequest;
use super::reply_buffer::ReplyBuffer;
use super::uncertain::ExchangeReply;
use fetchmill_model::http1;
use fetchmill_model::limits;
use fetchmill_net::{
    BrokenExchange, Connection, Deadlines, OriginConnections, ReceivedReply, RequestTarget, end_connection,
};

impl FetchThread {
    /// Sends the request and receives its reply.
    pub(super) async fn exchange(
        &self,
        connection: &mut Connection,
        origin: &OriginConnections,
        ticket: &TaskRequest,
        incoming: &mut ReplyBuffer,
        watch: &Deadlines,
    ) -> Result<ExchangeReply, BrokenExchange> {
        let _exchange = self.concurrency.load.exchange();
        let address = connection.address();
        let is_ending = connection.is_ending();
        let Some(connection) = connection.connection() else {
            // Many at a time share the windows of one connection: that is the bound of what comes at once.
            let replied = self.exchange_shared(connection, origin, ticket, incoming, watch).await?;
            return Ok(ExchangeReply { replied, first_byte: None, address });
        };
        {
            let mut request = self.buffers.request.borrow_mut();
            request.clear();
            with_call(origin, ticket, |asked| origin.write(asked, &mut request));
            if is_ending {
                end_connection(&mut request);
            }
            watch.start();
            if ticket.method() == "HEAD" {
                connection.send_head(&request)?;
            } else {
                connection.send(&request)?;
            }
            request.shrink_to(limits::READ_BYTES);
        }
        let mut first_byte = None;
        loop {
            let received = connection.receive_some(incoming, &self.buffers.scratch, watch).await?;
            if let Some(replied) = received {
                watch.rest();
                return Ok(ExchangeReply { replied, first_byte, address });
            }
            first_byte = first_byte.or_else(|| Some(self.exact.micros()));
            self.make_room(ticket, incoming, watch).await;
        }
    }

    async fn exchange_shared(
        &self,
        connection: &mut Connection,
        origin: &OriginConnections,
        ticket: &TaskRequest,
        incoming: &mut ReplyBuffer,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        let fields = ticket.effects.fields(ticket.call.as_deref());
        let asked = match &ticket.call {
            None => RequestTarget::Path(path_of(origin, ticket)),
            Some(_) => RequestTarget::Call(&call_of(origin, ticket, &fields)),
        };
        connection.exchange(asked, &self.buffers, incoming, watch, self.options.http.max_size).await
    }

    /// A large body goes on when there is room for all of it, when it is the only one, or when all others wait for it.
    async fn make_room(&self, ticket: &TaskRequest, incoming: &mut ReplyBuffer, watch: &Deadlines) {
        let expected = incoming.expected();
        if expected < limits::STREAM_BODY_COPIED_BYTES || expected <= incoming.reserved {
            return;
        }
        if incoming.reserved == 0 {
            self.wait_for_room(ticket, expected, watch).await;
        }
        self.receiving.set(self.receiving.get() + expected - incoming.reserved);
        incoming.reserved = expected;
    }

    async fn wait_for_room(&self, ticket: &TaskRequest, expected: usize, watch: &Deadlines) {
        let mut has_waited = false;
        loop {
            let room = self.room.notified();
            let held = self.held();
            let fits = held == 0 || held + expected <= limits::STREAM_BYTES_MAX;
            if fits || ticket.is_wanted() || watch.has_expired() {
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

    /// The body is handed over, or forgotten.
    pub(super) fn release(&self, incoming: &mut ReplyBuffer) {
        if incoming.reserved > 0 {
            self.receiving.set(self.receiving.get() - incoming.reserved);
            incoming.reserved = 0;
            self.room.notify_waiters();
            self.hub.wake.notify_one();
        }
    }
}

fn path_of<'t>(origin: &OriginConnections, ticket: &'t TaskRequest) -> &'t str {
    origin.key.path_of(&ticket.url).unwrap_or("/")
}

fn call_of<'t>(
    origin: &OriginConnections,
    ticket: &'t TaskRequest,
    fields: &'t [(String, String)],
) -> http1::RequestParts<'t> {
    let body = ticket.effects.body(ticket.call.as_deref());
    http1::RequestParts { method: ticket.method(), path: path_of(origin, ticket), fields, body }
}

fn with_call(origin: &OriginConnections, ticket: &TaskRequest, write: impl FnOnce(RequestTarget<'_>)) {
    match &ticket.call {
        None => write(RequestTarget::Path(path_of(origin, ticket))),
        Some(call) => {
            let fields = ticket.effects.fields(Some(call));
            write(RequestTarget::Call(&call_of(origin, ticket, &fields)));
        }
    }
}
