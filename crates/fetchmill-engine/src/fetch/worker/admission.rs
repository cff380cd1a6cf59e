//! Targets of a job over many hosts before they get a connection: each waits for its host's address, and for its turn
//! there. None of this waiting takes a place of those in flight, so no host that is slow, dead or huge holds up others.
//!
//! What waits is bounded: a target for which there is no place here is deferred: it waits in the journal and comes back
//! later.

use super::start_quota::{TO_LOOK_UP, TO_TAKE};
use super::state::Worker;
use super::waiters::{SHORT_REST, WaitPlace};
use crate::attempt::Failure;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::hosts::{Admission, HostId, RequestOutcome};
use fetchmill_model::planner::origin::Millis;
use fetchmill_net::dns::{LookUpEnd, LookUpKind, LookUpStart};

impl Worker {
    /// Takes the next target that may go; `false` when there is none now.
    pub(super) fn take_of_hosts(&self, target: &mut CurrentTarget) -> bool {
        loop {
            if !self.start_quota.allows() {
                return false;
            }
            if let Some(ready) = self.waiters.take_ready() {
                *target = ready;
                if !self.may_start(target) {
                    continue;
                }
                self.start_quota.start();
                return true;
            }
            let has_next = self.waiters.blocked() == 0 && !self.control().journal.is_full();
            if !has_next || self.is_idle() || !self.supply.take(target) {
                return false;
            }
            self.start_quota.spend(TO_TAKE);
            target.taken_at = self.control().clock.micros();
            if self.admit(target) {
                self.start_quota.start();
                return true;
            }
        }
    }

    /// Whether a target that its host has admitted starts: with the question for robots.txt, or since that permits it.
    fn may_start(&self, target: &mut CurrentTarget) -> bool {
        if target.asks_robots {
            return true;
        }
        if self.waiters.needs_robots(target.host) {
            // It was forgotten meanwhile.
            self.leave(target, RequestOutcome::Nothing);
            return self.admit(target);
        }
        self.is_permitted(target)
    }

    /// Whether a target may go at once. If not it is somewhere else afterwards: it waits here, is deferred, or has its
    /// outcome.
    pub(super) fn admit(&self, target: &mut CurrentTarget) -> bool {
        let key = match self.origin_key(target) {
            Ok(key) => key,
            Err(FailureKind::Credentials) if self.control().store.loading().is_some() => {
                self.defer_for_credentials(target);
                return false;
            }
            Err(kind) => {
                self.settle_other(target, Outcome::Failed(kind), 0, 0, None);
                return false;
            }
        };
        let host = HostId::of_url(target.at.url.as_bytes());
        target.host = host;
        // Where it was before has another address.
        target.found = None;
        if !self.is_permitted(target) {
            return false;
        }
        let now = self.clock.now();
        if let Some(place) = self.waiters.join_queue(target, now) {
            self.wait_at(place, target, now);
            return false;
        }
        if let Some(refusal) = self.waiters.refusal(target, now) {
            return self.act_on(refusal, target, now);
        }
        if self.pool.proxy_of(&key).is_none() && !self.knows_address(&key, target, now) {
            return false;
        }
        self.act_on(self.waiters.admit(host, now), target, now)
            && (target.asks_robots || self.is_permitted(target))
    }

    /// Asks for the address of a target's host; without it the target waits for it, or has failed.
    fn knows_address(&self, key: &OriginKey, target: &mut CurrentTarget, now: Millis) -> bool {
        let how = if self.is_second_look(target) { LookUpKind::Again } else { LookUpKind::Usual };
        self.begin_row(target);
        target.asked_at = self.control().clock.micros();
        if target.last_kind == Some(FailureKind::DnsTimeout) && self.pool.names().is_slow_full() {
            // It was slow before: it would only take the place of one that may be fast.
            self.defer(target, self.waiters.place_among_slow(now), now);
            return false;
        }
        self.start_quota.spend(TO_LOOK_UP);
        match self.pool.names().ask(key.host(), target.host.number(), how) {
            LookUpStart::Known(Ok(found)) => {
                target.found = Some(found);
                return true;
            }
            LookUpStart::Known(Err(kind)) => self.was_not_found(std::mem::take(target), kind, now),
            LookUpStart::Started | LookUpStart::Joined => {
                self.waiters.wait_for_address(std::mem::take(target), now);
            }
            LookUpStart::Full => self.waiters.block(std::mem::take(target)),
        }
        false
    }

    fn act_on(&self, admission: Admission, target: &mut CurrentTarget, now: Millis) -> bool {
        match admission {
            Admission::Go => {
                target.is_admitted = true;
                target.admitted_at = now;
                target.asks_robots = self.waiters.asks_robots(target.host);
                return true;
            }
            Admission::Closed(kind) => self.close(target, kind),
            Admission::Resting(then) if then > now + SHORT_REST => self.defer(target, then, now),
            Admission::Full | Admission::Crowded | Admission::Later(_) | Admission::Resting(_) => {
                let place = self.waiters.wait_for_turn(admission, target, now);
                self.wait_at(place, target, now);
            }
        }
        false
    }

    /// A target waits for its host in memory, where it is already, or is deferred.
    pub(super) fn wait_at(&self, place: WaitPlace, target: &CurrentTarget, now: Millis) {
        if let WaitPlace::Journal(until) = place {
            self.defer(target, until, now);
        }
    }

    /// What the tick does: hosts whose time has come, and places for those that wait to start.
    pub(super) fn tick_hosts(&self, elapsed: Millis, now: Millis) {
        self.pool.names().tick();
        while let Some(host) = self.waiters.take_due(now) {
            self.release(host);
        }
        self.release_crowded();
        if let Some(places) = self.start_quota.tick(elapsed, now) {
            self.idle_connections.wake(places);
        } else if !self.supply.is_empty() {
            // What kept it from being taken may have passed without a word.
            self.idle_connections.wake_one();
        }
    }

    /// Names that were looked up: their targets go on.
    pub(super) fn take_answers(&self) {
        let now = self.clock.now();
        let micros = self.control().clock.micros();
        for (token, looked) in self.pool.names().take_answered() {
            let host = HostId::from_number(token);
            let addresses =
                if let LookUpEnd::Answer(Ok(addresses)) = &looked { Some(addresses) } else { None };
            self.waiters.end_look_up(host, addresses, micros);
            match looked {
                LookUpEnd::Answer(Ok(_)) => self.release(host),
                LookUpEnd::Answer(Err(kind)) => {
                    for target in self.waiters.take_queue(host) {
                        self.was_not_found(target, kind, now);
                    }
                }
                LookUpEnd::Deferred => {
                    let then = self.waiters.place_among_slow(now);
                    for mut target in self.waiters.take_queue(host) {
                        target.last_kind = Some(FailureKind::DnsTimeout);
                        self.defer(&target, then, now);
                    }
                }
            }
        }
        self.ask_again();
    }

    /// Targets whose names found no place may find one now.
    fn ask_again(&self) {
        loop {
            let blocked = self.waiters.blocked();
            let Some(mut target) = self.waiters.take_blocked() else { break };
            if self.admit(&mut target) {
                self.waiters.push_ready(target);
            }
            if self.waiters.blocked() == blocked {
                return;
            }
            self.idle_connections.wake_one();
        }
        // Nothing holds up the rest of the batch any more.
        self.idle_connections.wake(self.supply.len());
    }

    /// There is no address: that was an attempt.
    fn was_not_found(&self, mut target: CurrentTarget, kind: FailureKind, now: Millis) {
        self.waiters.note(target.host, RequestOutcome::Failure(kind), now);
        let _ = self.failed(&mut target, Failure::unconnected(kind), None);
    }
}
