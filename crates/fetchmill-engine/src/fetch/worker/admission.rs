//! Admits the targets of a job with many hosts before they get a connection. A target waits for its host's address, and
//! then for its turn at the host. Waiting targets are not in flight. A host that is slow or dead, or that has very many
//! targets, therefore does not block the others.
//!
//! The number of waiting targets is limited. A target that does not fit is deferred to the journal and returns later.

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
    /// Takes the next target that can start. Returns `false` if none can start now.
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

    /// Returns whether an admitted target can start. A target that fetches robots.txt always can. Any other target can
    /// start only if the known robots.txt allows its URL.
    fn may_start(&self, target: &mut CurrentTarget) -> bool {
        if target.asks_robots {
            return true;
        }
        if self.waiters.needs_robots(target.host) {
            // The robots.txt of the host was dropped while the target waited.
            self.leave(target, RequestOutcome::Nothing);
            return self.admit(target);
        }
        self.is_permitted(target)
    }

    /// Returns whether a target can start immediately. If not, the target has been moved: it waits here, was deferred,
    /// or has an outcome.
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
        // The old addresses might belong to another host.
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

    /// Returns whether the address of the target's host is known. If not, requests the address. The target then waits
    /// for it, or has failed.
    fn knows_address(&self, key: &OriginKey, target: &mut CurrentTarget, now: Millis) -> bool {
        let how = if self.is_second_look(target) { LookUpKind::Again } else { LookUpKind::Usual };
        self.begin_row(target);
        target.asked_at = self.control().clock.micros();
        if target.last_kind == Some(FailureKind::DnsTimeout) && self.pool.names().is_slow_full() {
            // An earlier lookup of this name was slow, so this one must not occupy a slot for fast lookups.
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

    /// Defers a target that must wait for its host in the journal rather than in memory. A target that waits in memory
    /// is already queued.
    pub(super) fn wait_at(&self, place: WaitPlace, target: &CurrentTarget, now: Millis) {
        if let WaitPlace::Journal(until) = place {
            self.defer(target, until, now);
        }
    }

    /// Releases hosts whose wait is over and starts targets that wait for a slot. Called at each tick.
    pub(super) fn tick_hosts(&self, elapsed: Millis, now: Millis) {
        self.pool.names().tick();
        while let Some(host) = self.waiters.take_due(now) {
            self.release(host);
        }
        self.release_crowded();
        if let Some(places) = self.start_quota.tick(elapsed, now) {
            self.idle_connections.wake(places);
        } else if !self.supply.is_empty() {
            // The event that should have woken a connection might have been missed.
            self.idle_connections.wake_one();
        }
    }

    /// Handles the results of name lookups, so that the targets of these hosts can continue.
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

    /// Retries targets for which no lookup slot was free.
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
        // The remaining targets of the batch are no longer blocked.
        self.idle_connections.wake(self.supply.len());
    }

    /// Records that a lookup found no address. This counts as an attempt.
    fn was_not_found(&self, mut target: CurrentTarget, kind: FailureKind, now: Millis) {
        self.waiters.note(target.host, RequestOutcome::Failure(kind), now);
        let _ = self.failed(&mut target, Failure::unconnected(kind), None);
    }
}
