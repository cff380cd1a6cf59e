//! The lookup of a name: its questions, and the callers that wait for the answer.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::answers::{LookUpEnd, millis};
use super::candidates::WireName;
use super::message::{DnsReply, Family, NameAnswer, QueryForm};
use super::question::{Question, SentQuery};
use super::setup::Families;
use super::socket::{QueryOwner, SendResult, SocketId};
use super::upstreams::Upstreams;
use crate::Millis;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;

/// A caller that waits for a lookup.
#[derive(Debug)]
pub(super) enum LookUpWaiter {
    Token(u64),
    Task(oneshot::Sender<LookUpEnd>),
}

/// Server and socket that a lookup tries first.
#[derive(Debug, Clone, Copy)]
pub(super) struct LookUpOrigin {
    /// Index of the server.
    pub(super) upstream: usize,
    /// Index of the socket to the server.
    pub(super) socket: usize,
}

/// The lookup of a name.
#[derive(Debug)]
pub(super) struct LookUp {
    slot: usize,
    serial: u64,
    pub(super) name: Box<str>,
    /// The name being queried. If it has no addresses, the next candidate follows.
    current: WireName,
    candidates: std::vec::IntoIter<WireName>,
    pub(super) questions: Vec<Question>,
    families: Families,
    start: LookUpOrigin,
    pub(super) started: Millis,
    /// Precise time when the lookup started.
    pub(super) began: Instant,
    pub(super) is_slow: bool,
    pub(super) waiters: Vec<LookUpWaiter>,
    /// Time from which the addresses found so far are enough.
    enough_at: Option<Millis>,
    /// Whether any of the queried names exists but has no address.
    was_empty: bool,
    /// How long to cache a negative answer: the minimum over all queried names.
    absent_ttl: Duration,
}

impl LookUp {
    /// Creates a lookup that has not sent a query yet. `None` if there is no name to query.
    pub(super) fn new(
        (slot, serial): (usize, u64),
        name: &str,
        candidates: Vec<WireName>,
        families: Families,
        start: LookUpOrigin,
        now: Millis,
    ) -> Option<Self> {
        let mut candidates = candidates.into_iter();
        Some(LookUp {
            slot,
            serial,
            name: name.into(),
            current: candidates.next()?,
            candidates,
            questions: Vec::new(),
            families,
            start,
            started: now,
            began: Instant::now(),
            is_slow: false,
            waiters: Vec::new(),
            enough_at: None,
            was_empty: false,
            absent_ttl: limits::DNS_ABSENT_TTL_MAX,
        })
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// Sends the queries for the current name.
    pub(super) fn ask(&mut self, upstreams: &mut Upstreams, now: Millis) {
        let families: &[Family] = match self.families {
            Families::V4 => &[Family::V4],
            Families::V6 => &[Family::V6],
            Families::Both => &[Family::V6, Family::V4],
        };
        self.enough_at = None;
        self.questions = families.iter().map(|family| Question::new(*family, self.start.upstream)).collect();
        for which in 0..self.questions.len() {
            self.try_next(which, upstreams, now);
        }
    }

    /// Sends a question to the next available server.
    fn try_next(&mut self, which: usize, upstreams: &mut Upstreams, now: Millis) {
        loop {
            let question = &mut self.questions[which];
            let Some(upstream) = question.next_upstream(upstreams.len(), upstreams.tries()) else {
                return question.give_up();
            };
            let due = now + millis(upstreams.timeout(question.tries()));
            match self.send(which, upstream, upstreams.form(upstream), upstreams) {
                SendResult::Sent => return self.questions[which].tried(upstream, due),
                SendResult::Busy => {
                    self.questions[which].due = now;
                    return;
                }
                SendResult::Refused => {
                    let question = &mut self.questions[which];
                    question.tried(upstream, due);
                    if !question.has_unasked(upstreams.len()) {
                        return;
                    }
                }
            }
        }
    }

    fn send(&mut self, which: usize, upstream: u8, form: QueryForm, upstreams: &mut Upstreams) -> SendResult {
        let question = &self.questions[which];
        let socket = (self.start.socket + question.tries() + which) % limits::DNS_SOCKETS;
        let place = SocketId { upstream, socket: socket as u8 };
        let (sending, query) = upstreams.send(place, self.asker(which), question.family, form, &self.current);
        self.questions[which].sent.extend(query.map(|query| SentQuery {
            place,
            query,
            is_over: false,
            over_tcp: None,
        }));
        sending
    }

    fn asker(&self, which: usize) -> QueryOwner {
        QueryOwner { slot: self.slot, serial: self.serial, question: which as u8 }
    }

    /// Parses a datagram from `place` as the answer to the query with this id. Returns the answer and its query.
    pub(super) fn read(
        &self,
        which: usize,
        place: SocketId,
        id: u16,
        bytes: &[u8],
    ) -> Option<(usize, DnsReply)> {
        let question = self.questions.get(which)?;
        let sent = question.sent.iter().position(|sent| sent.place == place && sent.query.id == id)?;
        Some((sent, question.sent[sent].query.read(bytes, &self.current)))
    }

    /// Parses the answer to a query over TCP. `bytes` is `None` if the query failed.
    pub(super) fn read_over_tcp(&self, which: usize, sent: usize, bytes: Option<&[u8]>) -> DnsReply {
        let query = self.questions.get(which).and_then(|question| question.sent.get(sent));
        match query.zip(bytes).map(|(sent, bytes)| sent.query.read(bytes, &self.current)) {
            Some(reply @ DnsReply::Found(_)) => reply,
            _ => DnsReply::Found(NameAnswer::Failed(FailureKind::Dns)),
        }
    }

    /// Handles a server's answer.
    pub(super) fn take(
        &mut self,
        which: usize,
        sent: usize,
        reply: DnsReply,
        upstreams: &mut Upstreams,
        now: Millis,
    ) {
        let asker = self.asker(which);
        let question = &mut self.questions[which];
        let Some(SentQuery { place, query, is_over, over_tcp }) = question.sent.get_mut(sent) else { return };
        let (upstream, query) = (place.upstream, *query);
        if question.found.is_some() {
            return;
        }
        match reply {
            DnsReply::Found(NameAnswer::Failed(kind)) => self.fails(which, sent, kind, upstreams, now),
            DnsReply::Found(found) => {
                question.found = Some(found);
                upstreams.remember(upstream, query.form);
            }
            // Fall back to a simpler form at most once per query. Later replies to the same query are ignored.
            DnsReply::Simpler(form) if !std::mem::replace(is_over, true) => {
                self.send(which, upstream, form, upstreams);
            }
            DnsReply::Truncated if over_tcp.is_none() => {
                *over_tcp = upstreams.ask_over_tcp(upstream, asker, sent, query, &self.current);
                if over_tcp.is_none() {
                    self.fails(which, sent, FailureKind::Dns, upstreams, now);
                }
            }
            DnsReply::Simpler(_) | DnsReply::Truncated | DnsReply::Foreign => {}
        }
    }

    /// Records that a server has no answer, and immediately queries the next one.
    fn fails(
        &mut self,
        which: usize,
        sent: usize,
        kind: FailureKind,
        upstreams: &mut Upstreams,
        now: Millis,
    ) {
        let question = &mut self.questions[which];
        let Some(SentQuery { place, is_over, .. }) = question.sent.get_mut(sent) else { return };
        *is_over = true;
        let upstream = place.upstream;
        question.failed_at(upstream, kind);
        if question.is_idle() {
            self.try_next(which, upstreams, now);
        }
    }

    /// Handles a refused socket by immediately querying another server. If every server has been queried, each one is
    /// tried again when due, because a server that is restarting will soon be available again.
    pub(super) fn refused(&mut self, which: usize, place: SocketId, upstreams: &mut Upstreams, now: Millis) {
        let Some(question) = self.questions.get_mut(which) else { return };
        for sent in question.sent.iter_mut().filter(|sent| sent.place == place) {
            sent.is_over = true;
        }
        if question.found.is_none() && question.is_idle() && question.has_unasked(upstreams.len()) {
            self.try_next(which, upstreams, now);
        }
    }

    /// Sends the queries that are due.
    pub(super) fn tick(&mut self, upstreams: &mut Upstreams, now: Millis) {
        for which in 0..self.questions.len() {
            let question = &self.questions[which];
            if question.found.is_none() && now >= question.due {
                self.try_next(which, upstreams, now);
            }
        }
    }

    /// Returns the answer if it is complete. If the current name does not exist, moves on to the next one.
    pub(super) fn settle(&mut self, upstreams: &mut Upstreams, now: Millis) -> Option<NameAnswer> {
        loop {
            let found = self.conclude(now)?;
            let ttl = match found {
                NameAnswer::Addresses { .. } | NameAnswer::Failed(_) => return Some(found),
                NameAnswer::NoName { ttl } => ttl,
                NameAnswer::Empty { ttl } => {
                    self.was_empty = true;
                    ttl
                }
            };
            self.absent_ttl = self.absent_ttl.min(ttl);
            let Some(next) = self.candidates.next() else { return Some(self.absent()) };
            self.forget(upstreams);
            self.current = next;
            self.ask(upstreams, now);
        }
    }

    fn absent(&self) -> NameAnswer {
        let ttl = self.absent_ttl;
        if self.was_empty { NameAnswer::Empty { ttl } } else { NameAnswer::NoName { ttl } }
    }

    /// Combines the answers for the current name.
    fn conclude(&mut self, now: Millis) -> Option<NameAnswer> {
        let found = || self.questions.iter().filter_map(|question| question.found.as_ref());
        if let Some(absent) = found().find(|found| matches!(found, NameAnswer::NoName { .. })) {
            return Some(absent.clone());
        }
        let has_all = found().count() == self.questions.len();
        let has_addresses = self.questions.iter().any(|question| question.addresses().is_some());
        if has_addresses {
            // If only IPv6 addresses are known, wait longer for IPv4, because IPv6 is unreachable more often.
            let has_v4 =
                self.questions.iter().any(|one| one.family == Family::V4 && one.addresses().is_some());
            let patience = if has_v4 { limits::DNS_FAMILY_DELAY } else { limits::DNS_FAMILY_DELAY_V4 };
            let delay = millis(patience + limits::TICK);
            if has_v4 && self.enough_at.is_some_and(|enough_at| enough_at > now + delay) {
                self.enough_at = None;
            }
            let enough_at = *self.enough_at.get_or_insert(now + delay);
            return (has_all || now >= enough_at).then(|| self.mixed());
        }
        if !has_all {
            return None;
        }
        let failed = found().find(|found| matches!(found, NameAnswer::Failed(_)));
        failed.or_else(|| found().min_by_key(|found| ttl_of(found))).cloned()
    }

    /// Alternates addresses of both families, so that a client soon tries each family.
    fn mixed(&self) -> NameAnswer {
        let families: Vec<_> = self.questions.iter().filter_map(Question::addresses).collect();
        let ttl = families.iter().map(|(_, ttl)| *ttl).min().unwrap_or(limits::DNS_TTL_MIN);
        let longest = families.iter().map(|(addresses, _)| addresses.len()).max().unwrap_or(0);
        let in_turns = (0..longest)
            .flat_map(|turn| families.iter().filter_map(move |(addresses, _)| addresses.get(turn)).copied());
        let addresses: Vec<IpAddr> = in_turns.take(limits::DNS_ADDRESSES_MAX).collect();
        NameAnswer::Addresses { addresses, ttl }
    }

    /// Removes the lookup's queries from the tables of the sockets.
    pub(super) fn forget(&self, upstreams: &mut Upstreams) {
        for sent in self.questions.iter().flat_map(|question| &question.sent) {
            upstreams.forget(sent.place, sent.query.id, self.serial);
        }
    }
}

fn ttl_of(found: &NameAnswer) -> Duration {
    match found {
        NameAnswer::Addresses { ttl, .. } | NameAnswer::NoName { ttl } | NameAnswer::Empty { ttl } => *ttl,
        NameAnswer::Failed(_) => limits::DNS_NEGATIVE_TTL,
    }
}
