//! One request over one connection: the only place that knows how a lane speaks.

use std::borrow::Cow;
use std::net::SocketAddr;

use super::super::redirect::is_redirect;
use super::fetcher::Fetching;
use super::incoming::Incoming;
use super::queue::Ticket;
use crate::http1;
use crate::limits;
use crate::origin::is_open;
use crate::transport::{Asked, Broken, Lane, Origin, Replied, Watch};

/// A complete reply, and when its first bytes came.
pub(super) struct Exchanged {
    pub(super) replied: Replied,
    /// Microseconds of the thread's clock; none when all of it came at once.
    pub(super) first_byte: Option<u64>,
    /// Where it came from; none through a proxy.
    pub(super) address: Option<SocketAddr>,
}

impl Fetching {
    /// Sends the request and receives its reply.
    pub(super) async fn exchange(
        &self,
        lane: &mut Lane,
        origin: &Origin,
        ticket: &Ticket,
        incoming: &mut Incoming,
        watch: &Watch,
    ) -> Result<Exchanged, Broken> {
        let address = lane.address();
        let Some(connection) = lane.connection() else {
            // Many at a time share the windows of one connection: that is the bound of what comes at once.
            let replied = self.exchange_shared(lane, origin, ticket, incoming, watch).await?;
            return Ok(Exchanged { replied, first_byte: None, address });
        };
        {
            let mut request = self.buffers.request.borrow_mut();
            request.clear();
            with_call(origin, ticket, |asked| origin.write(asked, &mut request));
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
                return Ok(Exchanged { replied, first_byte, address });
            }
            first_byte = first_byte.or_else(|| Some(self.exact.micros()));
            self.make_room(ticket, incoming, watch).await;
        }
    }

    async fn exchange_shared(
        &self,
        lane: &mut Lane,
        origin: &Origin,
        ticket: &Ticket,
        incoming: &mut Incoming,
        watch: &Watch,
    ) -> Result<Replied, Broken> {
        let fields = own_fields(ticket);
        let asked = match &ticket.call {
            None => Asked::Path(path_of(origin, ticket)),
            Some(_) => Asked::Call(&call_of(origin, ticket, &fields)),
        };
        lane.exchange(asked, &self.buffers, incoming, watch, self.options.max_size).await
    }

    /// A large body goes on when there is room for all of it, when it is the only one, or when all others wait for it.
    async fn make_room(&self, ticket: &Ticket, incoming: &mut Incoming, watch: &Watch) {
        let expected = incoming.expected();
        if expected < limits::STREAM_BODY_COPIED_BYTES || expected <= incoming.reserved {
            return;
        }
        if incoming.reserved == 0 {
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
                tokio::select! {
                    () = room => {}
                    _ = watch.expired() => {}
                }
            }
            if has_waited && !watch.has_expired() {
                watch.start();
                watch.body_goes_on();
            }
        }
        self.receiving.set(self.receiving.get() + expected - incoming.reserved);
        incoming.reserved = expected;
    }

    /// The body is handed over, or forgotten.
    pub(super) fn release(&self, incoming: &mut Incoming) {
        if incoming.reserved > 0 {
            self.receiving.set(self.receiving.get() - incoming.reserved);
            incoming.reserved = 0;
            self.room.notify_waiters();
            self.hub.wake.notify_one();
        }
    }
}

fn path_of<'t>(origin: &Origin, ticket: &'t Ticket) -> &'t str {
    origin.key.path_of(&ticket.url).unwrap_or("/")
}

/// The fields of a request. Away from where it was meant to go it has only those that are for everybody.
fn own_fields(ticket: &Ticket) -> Cow<'_, [(String, String)]> {
    let fields = ticket.call.as_ref().map_or(&[][..], |call| call.fields.as_slice());
    if ticket.is_away {
        return fields.iter().filter(|(name, _)| is_open(name)).cloned().collect();
    }
    Cow::Borrowed(fields)
}

fn call_of<'t>(origin: &Origin, ticket: &'t Ticket, fields: &'t [(String, String)]) -> http1::Call<'t> {
    let body = ticket.call.as_ref().filter(|_| !ticket.is_changed).and_then(|call| call.body.as_deref());
    http1::Call { method: ticket.method(), path: path_of(origin, ticket), fields, body }
}

fn with_call(origin: &Origin, ticket: &Ticket, write: impl FnOnce(Asked<'_>)) {
    match &ticket.call {
        None => write(Asked::Path(path_of(origin, ticket))),
        Some(_) => write(Asked::Call(&call_of(origin, ticket, &own_fields(ticket)))),
    }
}

/// How a request goes on where a redirect leads: `POST` becomes `GET` as browsers do it, and with 303 everything does
/// but `HEAD`.
pub(super) fn change_method(ticket: &mut Ticket, status: u16) {
    debug_assert!(is_redirect(status));
    let method = ticket.method();
    let becomes_get = match status {
        303 => method != "HEAD" && method != "GET",
        301 | 302 => method == "POST",
        _ => false,
    };
    ticket.is_changed |= becomes_get;
}
