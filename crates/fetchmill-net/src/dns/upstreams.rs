//! The name servers, and the sockets to them, which are opened on demand.

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::candidates::WireName;
use super::message::{DnsQuery, Family, QueryForm};
use super::random::QueryRandom;
use super::setup::DnsSetup;
use super::socket::{DnsSocket, Inbox, OwnedTask, QueryOwner, SendResult, SocketId};
use super::tcp;
use fetchmill_model::limits;

/// A name server.
#[derive(Debug)]
struct Upstream {
    form: QueryForm,
    sockets: [Option<DnsSocket>; limits::DNS_SOCKETS],
}

/// The name servers with their sockets.
#[derive(Debug)]
pub(super) struct Upstreams {
    setup: Arc<DnsSetup>,
    inbox: Weak<dyn Inbox>,
    all: Vec<Upstream>,
    random: QueryRandom,
    buffer: Vec<u8>,
    /// Limits how many tasks query over TCP at the same time.
    tcp_places: Rc<Semaphore>,
    /// Sockets that reported a refusal when a query was sent.
    refused: Vec<SocketId>,
    pub(super) queries: u64,
    pub(super) over_tcp: u64,
}

impl Upstreams {
    pub(super) fn new(setup: Arc<DnsSetup>, inbox: Weak<dyn Inbox>) -> Self {
        let servers = setup.upstreams.iter().take(limits::DNS_UPSTREAMS_MAX);
        let all = servers.map(|_| Upstream { form: QueryForm::FULL, sockets: Default::default() }).collect();
        Upstreams {
            setup,
            inbox,
            all,
            random: QueryRandom::default(),
            buffer: Vec::new(),
            tcp_places: Rc::new(Semaphore::new(limits::DNS_TCP_MAX)),
            refused: Vec::new(),
            queries: 0,
            over_tcp: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of tries per question, at least one per server.
    pub(super) fn tries(&self) -> usize {
        (self.setup.tries as usize).max(self.len())
    }

    /// Returns the timeout of a try. Tries are numbered from 0.
    pub(super) fn timeout(&self, tries: usize) -> Duration {
        (0..tries).fold(self.setup.timeout, |timeout, _| timeout * 3 / 2)
    }

    /// Returns the form in which queries are sent to a server.
    pub(super) fn form(&self, upstream: u8) -> QueryForm {
        self.all[usize::from(upstream)].form
    }

    /// Records that a server answered a query of this form. Features that this form leaves out are not tried again.
    pub(super) fn remember(&mut self, upstream: u8, form: QueryForm) {
        let known = &mut self.all[usize::from(upstream)].form;
        known.has_mixed_case &= form.has_mixed_case;
        known.has_edns &= form.has_edns;
    }

    /// Sends a query. The returned query is `None` if it was not sent.
    pub(super) fn send(
        &mut self,
        place: SocketId,
        asker: QueryOwner,
        family: Family,
        form: QueryForm,
        name: &WireName,
    ) -> (SendResult, Option<DnsQuery>) {
        let address = self.setup.upstreams[usize::from(place.upstream)];
        let socket = &mut self.all[usize::from(place.upstream)].sockets[usize::from(place.socket)];
        let socket = match socket {
            Some(socket) => socket,
            None => match DnsSocket::open(place, address, &self.inbox) {
                Ok(opened) => socket.insert(opened),
                Err(_) => return (SendResult::Refused, None),
            },
        };
        let Some(id) = socket.free_id(&mut self.random) else { return (SendResult::Busy, None) };
        let query = DnsQuery::new(id, family, form, name, &mut self.random);
        if query.write(name, &mut self.buffer).is_none() {
            return (SendResult::Refused, None);
        }
        let mut sending = socket.send(id, asker, &self.buffer);
        if sending == SendResult::Refused {
            // The error may stem from an earlier query. Notify the owners of the earlier queries, and send this query
            // again.
            self.refused.push(place);
            sending = socket.send(id, asker, &self.buffer);
        }
        let is_sent = sending == SendResult::Sent;
        self.queries += u64::from(is_sent);
        (sending, is_sent.then_some(query))
    }

    /// Repeats the query to the same server over TCP.
    pub(super) fn ask_over_tcp(
        &mut self,
        upstream: u8,
        asker: QueryOwner,
        sent: usize,
        query: DnsQuery,
        name: &WireName,
    ) -> Option<OwnedTask> {
        query.write(name, &mut self.buffer)?;
        self.over_tcp += 1;
        let (place, inbox) = (Rc::clone(&self.tcp_places), Weak::clone(&self.inbox));
        let asking = tcp::ask(self.setup.upstreams[usize::from(upstream)], self.buffer.clone());
        let task = tokio::task::spawn_local(async move {
            // The number of tasks that wait here is limited by the number of lookup slots.
            let place = place.acquire().await;
            let answer = asking.await.ok();
            drop(place);
            if let Some(inbox) = inbox.upgrade() {
                inbox.received_over_tcp(asker, sent, answer.as_deref());
            }
        });
        Some(OwnedTask(task.abort_handle()))
    }

    /// Returns the ids of all possible sockets.
    pub(super) fn places(&self) -> impl Iterator<Item = SocketId> + use<> {
        let count = self.all.len() as u8;
        let of = |upstream| (0..limits::DNS_SOCKETS as u8).map(move |socket| SocketId { upstream, socket });
        (0..count).flat_map(of)
    }

    /// Returns a socket if it is open.
    pub(super) fn socket(&mut self, place: SocketId) -> Option<&mut DnsSocket> {
        self.all[usize::from(place.upstream)].sockets[usize::from(place.socket)].as_mut()
    }

    /// Discards a query whose lookup is over.
    pub(super) fn forget(&mut self, place: SocketId, id: u16, serial: u64) {
        if let Some(socket) = self.socket(place) {
            socket.forget(id, serial);
        }
    }

    /// Returns the next socket that reported a refusal while a query was being sent.
    pub(super) fn pop_refused(&mut self) -> Option<SocketId> {
        self.refused.pop()
    }
}
