//! Targets of a job over many hosts before they get a connection: each waits for its host's address, and for its turn
//! there. None of this waiting takes a place of those in flight, so no host that is slow, dead or huge holds up others.
//!
//! What waits is bounded: a target for which there is no place here is deferred: it waits in the journal and comes back
//! later.

use std::sync::Arc;

use super::host_turns::SHORT_REST;
use super::start_quota::{TO_LOOK_UP, TO_TAKE};
use super::state::Worker;
use super::waiters::HostQueue;
use crate::attempt::Failure;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::hosts::{Admission, HostId, RequestOutcome};
use fetchmill_model::planner::origin::Millis;
use fetchmill_net::dns::{LookUpEnd, LookUpKind, LookUpStart};

/// Targets of a host that had to wait until its pace is believed.
const PACE_SAMPLE: u32 = 16;
/// Between two targets of a host without a rate that are deferred, before its pace is known: microseconds.
const FIRST_PACE: u64 = 1000;

impl Worker {
    /// Takes the next target that may go; `false` when there is none now.
    pub(super) fn take_of_hosts(&self, target: &mut CurrentTarget) -> bool {
        loop {
            if !self.waiters.opening.allows() {
                return false;
            }
            if let Some(ready) = self.waiters.take_ready() {
                *target = ready;
                self.waiters.opening.start();
                return true;
            }
            let has_next = self.waiters.blocked.borrow().is_empty() && !self.control().journal.is_full();
            if !has_next || self.is_idle() || !self.supply.take(target) {
                return false;
            }
            self.waiters.opening.spend(TO_TAKE);
            target.taken_at = self.control().clock.micros();
            if self.admit(target) {
                self.waiters.opening.start();
                return true;
            }
        }
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
        let now = self.clock.now();
        if let Some(queue) = self.waiters.queues.borrow_mut().get_mut(&host) {
            self.hold_or_defer(queue, target, now);
            return false;
        }
        self.doubt_what_was_seen(target);
        let refusal = self.waiters.hosts.borrow().refusal(host, now);
        if let Some(refusal) = refusal {
            return self.act_on(refusal, target, now);
        }
        if self.pool.proxy_of(&key).is_none() && !self.knows_address(&key, target, now) {
            return false;
        }
        let admission = self.waiters.hosts.borrow_mut().admit(host, now);
        self.act_on(admission, target, now)
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
        self.waiters.opening.spend(TO_LOOK_UP);
        match self.pool.names().ask(key.host(), target.host.number(), how) {
            LookUpStart::Known(Ok(found)) => {
                target.found = Some(found);
                return true;
            }
            LookUpStart::Known(Err(kind)) => self.was_not_found(std::mem::take(target), kind, now),
            LookUpStart::Started | LookUpStart::Joined => {
                let mut queues = self.waiters.queues.borrow_mut();
                let queue = queues.entry(target.host).or_default();
                queue.is_looked_up = true;
                queue.since = now;
                self.waiters.push(queue, std::mem::take(target));
            }
            LookUpStart::Full => self.waiters.blocked.borrow_mut().push_front(std::mem::take(target)),
        }
        false
    }

    fn act_on(&self, admission: Admission, target: &mut CurrentTarget, now: Millis) -> bool {
        match admission {
            Admission::Go => {
                target.is_admitted = true;
                target.admitted_at = now;
                return true;
            }
            Admission::Closed(kind) => self.close(target, kind),
            Admission::Resting(then) if then > now + SHORT_REST => self.defer(target, then, now),
            Admission::Full | Admission::Crowded | Admission::Later(_) | Admission::Resting(_) => {
                let mut queues = self.waiters.queues.borrow_mut();
                let queue = queues.entry(target.host).or_default();
                queue.since = now;
                if let Admission::Later(then) | Admission::Resting(then) = admission {
                    self.waiters.wake_at(queue, target.host, then);
                }
                if admission == Admission::Crowded {
                    self.waiters.wait_for_room(queue, target.host);
                }
                self.hold_or_defer(queue, target, now);
            }
        }
        false
    }

    /// Behind others of its host. Without room it comes back when they should have gone.
    fn hold_or_defer(&self, queue: &mut HostQueue, target: &mut CurrentTarget, now: Millis) {
        // The first of a queue is always held: it is what wakes the queue.
        if self.waiters.has_room(queue) || queue.targets.is_empty() {
            return self.waiters.push(queue, std::mem::take(target));
        }
        let seen = now.saturating_sub(queue.since).max(1) * 1000 / u64::from(queue.gone.max(1));
        let pace = if queue.gone < PACE_SAMPLE { FIRST_PACE } else { seen };
        let pace = pace.max(self.waiters.hosts.borrow().interval());
        let outlook = self.waiters.hosts.borrow().outlook(target.host, queue.targets.len(), now);
        let earliest = outlook.saturating_mul(1000).max(now * 1000 + pace * queue.targets.len() as u64);
        queue.deferred_until = queue.deferred_until.max(earliest) + pace;
        self.defer(target, queue.deferred_until / 1000, now);
    }

    /// What the tick does: hosts whose time has come, and places for those that wait to start.
    pub(super) fn tick_hosts(&self, elapsed: Millis, now: Millis) {
        self.pool.names().tick();
        while let Some(host) = self.waiters.take_due(now) {
            if let Some(queue) = self.waiters.queues.borrow_mut().get_mut(&host) {
                queue.due = None;
            }
            self.release(host);
        }
        self.release_crowded();
        if let Some(places) = self.waiters.opening.tick(elapsed, now) {
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
            if let Some(queue) = self.waiters.queues.borrow_mut().get_mut(&host) {
                queue.is_looked_up = false;
                for target in &mut queue.targets {
                    target.looked_up_in = Some(micros.saturating_sub(target.asked_at));
                    if let LookUpEnd::Answer(Ok(found)) = &looked {
                        target.found = Some(Arc::clone(found));
                    }
                }
            }
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
            let blocked = self.waiters.blocked.borrow().len();
            let Some(mut target) = self.waiters.blocked.borrow_mut().pop_front() else { break };
            if self.admit(&mut target) {
                self.waiters.push_ready(target);
            }
            if self.waiters.blocked.borrow().len() == blocked {
                return;
            }
            self.idle_connections.wake_one();
        }
        // Nothing holds up the rest of the batch any more.
        self.idle_connections.wake(self.supply.len());
    }

    /// There is no address: that was an attempt.
    fn was_not_found(&self, mut target: CurrentTarget, kind: FailureKind, now: Millis) {
        self.waiters.hosts.borrow_mut().note(target.host, RequestOutcome::Failure(kind), now);
        let _ = self.failed(&mut target, Failure::unconnected(kind), None);
    }
}
