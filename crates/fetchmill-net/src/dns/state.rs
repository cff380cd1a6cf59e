//! State of a thread's resolver: running lookups, answers and the cache. Its functions never block.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Weak;
use std::sync::Arc;
use std::time::Instant;

use super::answers::{DnsCounts, LookUpEnd, LookUpKind, LookUpStart, millis};
use super::cache::{Cache, Resolution};
use super::candidates::candidates;
use super::look_up::{LookUp, LookUpOrigin, LookUpWaiter};
use super::message::{DnsReply, NameAnswer};
use super::setup::DnsSetup;
use super::slots::{LookUpSlots, SlotLimits};
use super::socket::{DnsSocket, Inbox, QueryOwner, SocketId};
use super::upstreams::Upstreams;
use crate::Millis;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;

/// State of a thread's resolver.
#[derive(Debug)]
pub(super) struct DnsState {
    setup: Arc<DnsSetup>,
    upstreams: Upstreams,
    places: LookUpSlots,
    look_ups: Vec<Option<LookUp>>,
    free: Vec<usize>,
    by_name: HashMap<Box<str>, usize>,
    serial: u64,
    cache: Cache<Millis>,
    hasher: RandomState,
    answered: Vec<(u64, LookUpEnd)>,
    counts: DnsCounts,
}

impl DnsState {
    pub(super) fn new(setup: Arc<DnsSetup>, slots: SlotLimits, inbox: Weak<dyn Inbox>) -> Self {
        DnsState {
            upstreams: Upstreams::new(Arc::clone(&setup), inbox),
            setup,
            places: LookUpSlots::new(slots),
            look_ups: Vec::new(),
            free: Vec::new(),
            by_name: HashMap::new(),
            serial: 0,
            cache: Cache::new(slots.cache_names()),
            hasher: RandomState::new(),
            answered: Vec::new(),
            counts: DnsCounts::default(),
        }
    }

    /// Returns the answer for a name if no query is needed.
    pub(super) fn known(&mut self, name: &str, now: Millis) -> Option<Resolution> {
        let name = lower_case(name);
        self.setup.fixed(&name).map(Ok).or_else(|| self.cache.get(&name, now))
    }

    /// Starts or joins a lookup. If `yields` is set, starts no new lookup.
    pub(super) fn ask(
        &mut self,
        name: &str,
        waiter: LookUpWaiter,
        how: LookUpKind,
        yields: bool,
        now: Millis,
    ) -> LookUpStart {
        let name = lower_case(name);
        let known = match how {
            LookUpKind::Usual => self.known(&name, now),
            LookUpKind::Again => self.setup.fixed(&name).map(Ok),
        };
        if let Some(answer) = known {
            return LookUpStart::Known(answer);
        }
        if let Some(look_up) = self.by_name.get(&*name).and_then(|slot| self.look_ups[*slot].as_mut()) {
            look_up.waiters.push(waiter);
            return LookUpStart::Joined;
        }
        if yields {
            return LookUpStart::Full;
        }
        let moment = Instant::now();
        if !self.places.enter() {
            self.push_out(moment, now);
            if !self.places.enter() {
                return LookUpStart::Full;
            }
        }
        let slot = self.free.pop().unwrap_or(self.look_ups.len());
        self.serial += 1;
        let wire_names = candidates(&self.setup, &name);
        let (families, start) = (self.setup.families, self.start_of(&name, how));
        let Some(mut look_up) = LookUp::new((slot, self.serial), &name, wire_names, families, start, now)
        else {
            self.free.extend((slot < self.look_ups.len()).then_some(slot));
            self.places.leave(false);
            return LookUpStart::Known(Err(FailureKind::DnsNotFound));
        };
        look_up.waiters.push(waiter);
        self.places.entered(slot, self.serial, moment);
        look_up.ask(&mut self.upstreams, now);
        if slot == self.look_ups.len() {
            self.look_ups.push(None);
        }
        self.look_ups[slot] = Some(look_up);
        self.by_name.insert(name.into(), slot);
        self.pass_on_refusals(now);
        LookUpStart::Started
    }

    /// Returns the server and socket to start with. A repeated lookup starts with different ones.
    fn start_of(&self, name: &str, how: LookUpKind) -> LookUpOrigin {
        let hash = self.hasher.hash_one(name) as usize;
        let again = usize::from(how == LookUpKind::Again);
        let upstreams = self.upstreams.len().max(1);
        let first = if self.setup.spreads { hash % upstreams } else { 0 };
        LookUpOrigin {
            upstream: (first + again) % upstreams,
            socket: (hash / upstreams + again) % limits::DNS_SOCKETS,
        }
    }

    /// Handles a datagram.
    pub(super) fn received(&mut self, place: SocketId, bytes: &[u8], now: Millis) {
        let id = bytes.first_chunk().map(|id| u16::from_be_bytes(*id));
        let asked = id.and_then(|id| Some((id, self.upstreams.socket(place)?.asker(id)?)));
        let read = asked.and_then(|(id, asker)| {
            let look_up = self.look_up(asker)?;
            Some((asker, look_up.read(asker.question.into(), place, id, bytes)?))
        });
        match read {
            Some((asker, (sent, reply))) if reply != DnsReply::Foreign => self.take(asker, sent, reply, now),
            _ => self.counts.foreign += 1,
        }
    }

    /// Handles the answer to a query over TCP, or its failure.
    pub(super) fn received_over_tcp(
        &mut self,
        asker: QueryOwner,
        sent: usize,
        bytes: Option<&[u8]>,
        now: Millis,
    ) {
        if let Some(look_up) = self.look_up(asker) {
            let reply = look_up.read_over_tcp(asker.question.into(), sent, bytes);
            self.take(asker, sent, reply, now);
        }
    }

    fn look_up(&mut self, asker: QueryOwner) -> Option<&mut LookUp> {
        let look_up = self.look_ups.get_mut(asker.slot)?.as_mut()?;
        (look_up.serial() == asker.serial).then_some(look_up)
    }

    fn take(&mut self, asker: QueryOwner, sent: usize, reply: DnsReply, now: Millis) {
        if let Some(look_up) = self.look_ups.get_mut(asker.slot).and_then(Option::as_mut) {
            look_up.take(asker.question.into(), sent, reply, &mut self.upstreams, now);
            self.settle(asker.slot, now);
        }
        self.pass_on_refusals(now);
    }

    /// Handles the report that the server of a socket is not listening.
    pub(super) fn refused(&mut self, place: SocketId, now: Millis) {
        let askers = self.upstreams.socket(place).map(DnsSocket::give_up).unwrap_or_default();
        for asker in askers {
            let look_up = self.look_ups.get_mut(asker.slot).and_then(Option::as_mut);
            if let Some(look_up) = look_up.filter(|look_up| look_up.serial() == asker.serial) {
                look_up.refused(asker.question.into(), place, &mut self.upstreams, now);
                self.settle(asker.slot, now);
            }
        }
    }

    /// Passes refusals on to the waiting lookups. The loop ends because each refusal uses up one of the lookup's tries.
    fn pass_on_refusals(&mut self, now: Millis) {
        while let Some(place) = self.upstreams.pop_refused() {
            self.refused(place, now);
        }
    }

    /// Checks all lookups for due tries, slots and deadlines.
    pub(super) fn tick(&mut self, now: Millis) {
        for slot in 0..self.look_ups.len() {
            let Some(look_up) = &mut self.look_ups[slot] else { continue };
            if now >= look_up.started + millis(limits::DNS_LOOK_UP_TIMEOUT) {
                self.finish(slot, &NameAnswer::Failed(FailureKind::DnsTimeout), now);
                continue;
            }
            look_up.tick(&mut self.upstreams, now);
            self.settle(slot, now);
            self.change_connection(slot, now);
        }
        self.pass_on_refusals(now);
    }

    /// Frees fast slots. Lookups that have waited longer than usual become slow, starting with the oldest.
    fn push_out(&mut self, moment: Instant, now: Millis) {
        self.take_waiting(now);
        while !self.places.has_fast()
            && let Some((slot, serial)) = self.places.take_oldest(moment)
        {
            let look_up = self.look_ups.get(slot).and_then(Option::as_ref);
            if look_up.is_some_and(|look_up| look_up.serial() == serial && !look_up.is_slow) {
                self.slow_down(slot);
            }
        }
    }

    /// Reads the answers that arrived while the thread was busy.
    fn take_waiting(&mut self, now: Millis) {
        let mut buffer = [0; limits::DNS_UDP_BUFFER_BYTES];
        for place in self.upstreams.places() {
            for _ in 0..limits::DNS_UDP_BURST {
                let received =
                    self.upstreams.socket(place).and_then(|socket| socket.try_receive(&mut buffer));
                let Some(length) = received else { break };
                self.received(place, &buffer[..length], now);
            }
        }
    }

    fn change_connection(&mut self, slot: usize, now: Millis) {
        let Some(look_up) = &self.look_ups[slot] else { return };
        if !look_up.is_slow && now >= look_up.started + millis(limits::DNS_FAST) {
            self.slow_down(slot);
        }
    }

    fn slow_down(&mut self, slot: usize) {
        let Some(look_up) = &mut self.look_ups[slot] else { return };
        if self.places.slow_down() {
            look_up.is_slow = true;
        } else {
            self.counts.deferred += 1;
            self.remove(slot, &LookUpEnd::Deferred);
        }
    }

    fn settle(&mut self, slot: usize, now: Millis) {
        let Some(look_up) = &mut self.look_ups[slot] else { return };
        if let Some(found) = look_up.settle(&mut self.upstreams, now) {
            self.finish(slot, &found, now);
        }
    }

    /// Caches the answer and reports it to the callers.
    fn finish(&mut self, slot: usize, found: &NameAnswer, now: Millis) {
        let (answer, ttl): (Resolution, _) = match found {
            NameAnswer::Addresses { addresses, ttl } => (Ok(addresses.as_slice().into()), *ttl),
            NameAnswer::NoName { ttl } => (Err(FailureKind::DnsNotFound), *ttl),
            NameAnswer::Empty { ttl } => (Err(FailureKind::DnsEmpty), *ttl),
            NameAnswer::Failed(kind) => (Err(*kind), limits::DNS_NEGATIVE_TTL),
        };
        match answer {
            Err(FailureKind::DnsTimeout) => self.counts.timeouts += 1,
            Err(FailureKind::Dns | FailureKind::DnsServfail) => self.counts.failed += 1,
            _ => self.counts.answered += 1,
        }
        if let Some(look_up) = &self.look_ups[slot] {
            if !look_up.is_slow {
                self.places.answered(look_up.began.elapsed(), Instant::now());
            }
            self.cache.insert(look_up.name.clone(), answer.clone(), now + millis(ttl));
        }
        self.remove(slot, &LookUpEnd::Answer(answer));
    }

    fn remove(&mut self, slot: usize, looked: &LookUpEnd) {
        let Some(look_up) = self.look_ups[slot].take() else { return };
        look_up.forget(&mut self.upstreams);
        self.free.push(slot);
        self.by_name.remove(&look_up.name);
        self.places.leave(look_up.is_slow);
        for waiter in look_up.waiters {
            match waiter {
                LookUpWaiter::Token(token) => self.answered.push((token, looked.clone())),
                // The task may have stopped waiting.
                LookUpWaiter::Task(task) => drop(task.send(looked.clone())),
            }
        }
    }

    /// Returns whether any answers are ready to be taken.
    pub(super) fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Returns the answers that arrived since the last call.
    pub(super) fn take_answered(&mut self) -> Vec<(u64, LookUpEnd)> {
        std::mem::take(&mut self.answered)
    }

    /// Returns whether a slow slot is free.
    pub(super) fn has_slow_place(&self) -> bool {
        self.places.has_slow()
    }

    /// Returns whether a fast slot is free.
    pub(super) fn has_place(&self) -> bool {
        self.places.has_fast()
    }

    /// Returns the number of fast slots freed since the last call.
    pub(super) fn take_freed(&mut self) -> usize {
        self.places.take_freed()
    }

    pub(super) fn counts(&self) -> DnsCounts {
        DnsCounts { queries: self.upstreams.queries, over_tcp: self.upstreams.over_tcp, ..self.counts }
    }
}

/// Converts a name to lower case, because names are not case-sensitive.
fn lower_case(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        name.to_ascii_lowercase().into()
    } else {
        name.into()
    }
}
