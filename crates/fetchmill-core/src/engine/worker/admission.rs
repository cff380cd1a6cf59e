//! Targets of a job over many hosts before they get a connection: each waits for its host's address, and for its turn
//! there. None of this waiting takes a place of those in flight, so no host that is slow, dead or huge holds up others.
//!
//! What waits is bounded: a target for which there is no place here is parked, in the journal, and comes back later.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use super::Worker;
use super::opening::{Opening, TO_LOOK_UP, TO_TAKE};
use super::queue::Target;
use crate::limits;
use crate::origin::OriginKey;
use crate::outcome::{FailureKind, Outcome};
use crate::planner::Retry;
use crate::planner::hosts::{Admission, HostId, HostRules, Hosts, Seen};
use crate::planner::origin::Millis;
use crate::target::Waiting;
use crate::transport::dns::{Asked, How, Lanes, Looked};

/// A rest that is shorter than this is waited for in memory.
const SHORT_REST: Millis = 1000;
/// Targets of a host that had to wait until its pace is believed.
const PACE_SAMPLE: u32 = 16;
/// Between two targets of a host without a rate that are parked, before its pace is known: microseconds.
const FIRST_PACE: u64 = 1000;
/// A name that nobody answers for is looked up for so long: its tries and what they wait for.
const DEAD_NAME_MICROS: u64 = 7_100_000;

/// The targets of one host that wait here.
#[derive(Debug, Default)]
struct HostQueue {
    targets: VecDeque<Target>,
    /// Its address is being looked up.
    is_looked_up: bool,
    /// It is in the timer for then.
    due: Option<Millis>,
    /// Since when it waits, and how many have gone since: its pace.
    since: Millis,
    gone: u32,
    /// When the last one that was parked comes back, microseconds.
    parked_until: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Waiters {
    hosts: RefCell<Hosts>,
    queues: RefCell<HashMap<HostId, HostQueue>>,
    /// In flight at their hosts, and soon on a connection.
    ready: RefCell<VecDeque<Target>>,
    timer: RefCell<BinaryHeap<Reverse<(Millis, HostId)>>>,
    held: Cell<usize>,
    held_max: usize,
    /// Targets whose names find no place among those that are looked up: no other is taken before they have. Besides
    /// the one that was taken last they were redirected, so they are no more than tasks.
    blocked: RefCell<VecDeque<Target>>,
    /// When the last name that was parked is asked for again, microseconds; and how long after the one before it.
    slow_until: Cell<u64>,
    slow_pace: u64,
    pub(super) opening: Opening,
}

impl Waiters {
    pub(super) fn new(rules: HostRules, workers: usize) -> Self {
        Waiters {
            hosts: RefCell::new(Hosts::new(rules)),
            queues: RefCell::default(),
            ready: RefCell::default(),
            timer: RefCell::default(),
            held: Cell::new(0),
            held_max: (limits::HOST_TARGETS_MAX / workers).max(limits::HOST_TARGETS_SHARE),
            blocked: RefCell::default(),
            slow_until: Cell::new(0),
            slow_pace: DEAD_NAME_MICROS / Lanes::of(workers).slow as u64,
            opening: Opening::default(),
        }
    }

    /// Whether a target could start now.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    /// Whether targets wait for a host.
    pub(super) fn is_waited_for(&self, host: HostId) -> bool {
        self.queues.borrow().contains_key(&host)
    }

    /// When a name that was parked is asked for again: as fast as slow names end, so that those that are never answered
    /// for do not come back all the time.
    fn place_among_slow(&self, now: Millis) -> Millis {
        let earliest = now * 1000 + DEAD_NAME_MICROS;
        let place = self.slow_until.get().max(earliest) + self.slow_pace;
        self.slow_until.set(place);
        place / 1000
    }

    fn has_room(&self, queue: &HostQueue) -> bool {
        self.held.get() < self.held_max && queue.targets.len() < self.held_max / limits::HOST_TARGETS_SHARE
    }

    fn push(&self, queue: &mut HostQueue, target: Target) {
        self.held.set(self.held.get() + 1);
        queue.targets.push_back(target);
    }

    fn wake_at(&self, queue: &mut HostQueue, host: HostId, then: Millis) {
        if queue.due.is_none_or(|due| then < due) {
            queue.due = Some(then);
            self.timer.borrow_mut().push(Reverse((then, host)));
        }
    }

    /// The next host whose time has come.
    fn take_due(&self, now: Millis) -> Option<HostId> {
        let mut timer = self.timer.borrow_mut();
        let Reverse((then, host)) = *timer.peek()?;
        if then > now {
            return None;
        }
        timer.pop();
        Some(host)
    }

    /// Everything that waits for a host.
    fn take_queue(&self, host: HostId) -> VecDeque<Target> {
        let targets = self.queues.borrow_mut().remove(&host).map(|queue| queue.targets).unwrap_or_default();
        self.held.set(self.held.get() - targets.len());
        targets
    }
}

/// What is done with the first target that waits for a host.
enum Step {
    Goes(Box<Target>),
    Waits,
    Rests(Millis),
    Ends(FailureKind),
}

impl Worker {
    /// Takes the next target that may go; `false` when there is none now.
    pub(super) fn take_of_hosts(&self, target: &mut Target) -> bool {
        loop {
            if !self.waiters.opening.allows() {
                return false;
            }
            if let Some(ready) = self.waiters.ready.borrow_mut().pop_front() {
                *target = ready;
                self.waiters.opening.start();
                return true;
            }
            let has_next = self.waiters.blocked.borrow().is_empty() && !self.control().is_parking_full();
            if !has_next || self.is_idle() || !self.queue.borrow_mut().take(target) {
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

    /// Whether a target may go at once. If not it is somewhere else afterwards: it waits here, is parked, or has its
    /// outcome.
    pub(super) fn admit(&self, target: &mut Target) -> bool {
        let key = match self.origin_key(target) {
            Ok(key) => key,
            Err(kind) => {
                self.settle_other(target, Outcome::Failed(kind), 0, 0);
                return false;
            }
        };
        let host = HostId::of_url(target.url.as_bytes());
        target.host = host;
        // Where it was before has another address.
        target.found = None;
        let now = self.clock.get();
        if let Some(queue) = self.waiters.queues.borrow_mut().get_mut(&host) {
            self.hold_or_park(queue, target, now);
            return false;
        }
        self.doubt_what_was_seen(target);
        let refusal = self.waiters.hosts.borrow().refusal(host, now);
        if let Some(refusal) = refusal {
            return self.heed(refusal, target, now);
        }
        if self.pool.proxy_of(&key).is_none() && !self.knows_address(&key, target, now) {
            return false;
        }
        let admission = self.waiters.hosts.borrow_mut().admit(host, now);
        self.heed(admission, target, now)
    }

    /// A second look is to find a host as it is then.
    fn doubt_what_was_seen(&self, target: &Target) {
        if self.is_second_look(target) {
            self.waiters.hosts.borrow_mut().doubt(target.host, target.throttled_since, self.clock.get());
        }
    }

    /// Asks for the address of a target's host; without it the target waits for it, or has failed.
    fn knows_address(&self, key: &OriginKey, target: &mut Target, now: Millis) -> bool {
        let how = if self.is_second_look(target) { How::Again } else { How::Usual };
        self.begin_row(target);
        target.asked_at = self.control().clock.micros();
        if target.last_kind == Some(FailureKind::DnsTimeout) && self.pool.names().is_slow_full() {
            // It was slow before: it would only take the place of one that may be fast.
            self.put_aside(target, self.waiters.place_among_slow(now), now);
            return false;
        }
        self.waiters.opening.spend(TO_LOOK_UP);
        match self.pool.names().ask(key.host(), target.host.number(), how) {
            Asked::Known(Ok(found)) => {
                target.found = Some(found);
                return true;
            }
            Asked::Known(Err(kind)) => self.was_not_found(std::mem::take(target), kind, now),
            Asked::Started | Asked::Joined => {
                let mut queues = self.waiters.queues.borrow_mut();
                let queue = queues.entry(target.host).or_default();
                queue.is_looked_up = true;
                queue.since = now;
                self.waiters.push(queue, std::mem::take(target));
            }
            Asked::Full => self.waiters.blocked.borrow_mut().push_front(std::mem::take(target)),
        }
        false
    }

    fn heed(&self, admission: Admission, target: &mut Target, now: Millis) -> bool {
        match admission {
            Admission::Go => {
                target.is_admitted = true;
                return true;
            }
            Admission::Closed(kind) => self.close(target, kind),
            Admission::Resting(then) if then > now + SHORT_REST => self.put_aside(target, then, now),
            Admission::Full | Admission::Later(_) | Admission::Resting(_) => {
                let mut queues = self.waiters.queues.borrow_mut();
                let queue = queues.entry(target.host).or_default();
                queue.since = now;
                if let Admission::Later(then) | Admission::Resting(then) = admission {
                    self.waiters.wake_at(queue, target.host, then);
                }
                self.hold_or_park(queue, target, now);
            }
        }
        false
    }

    /// Behind others of its host. Without room it comes back when they should have gone.
    fn hold_or_park(&self, queue: &mut HostQueue, target: &mut Target, now: Millis) {
        // The first of a queue is always held: it is what wakes the queue.
        if self.waiters.has_room(queue) || queue.targets.is_empty() {
            return self.waiters.push(queue, std::mem::take(target));
        }
        let seen = now.saturating_sub(queue.since).max(1) * 1000 / u64::from(queue.gone.max(1));
        let pace = if queue.gone < PACE_SAMPLE { FIRST_PACE } else { seen };
        let pace = pace.max(self.waiters.hosts.borrow().interval());
        let outlook = self.waiters.hosts.borrow().outlook(target.host, queue.targets.len(), now);
        let earliest = outlook.saturating_mul(1000).max(now * 1000 + pace * queue.targets.len() as u64);
        queue.parked_until = queue.parked_until.max(earliest) + pace;
        self.put_aside(target, queue.parked_until / 1000, now);
    }

    /// The host is dead: so is the target, without an attempt more.
    fn close(&self, target: &Target, kind: FailureKind) {
        if self.wants_second_look(target, kind) {
            self.look_again_later(target, target.attempts, kind);
        } else {
            self.settle_other(target, Outcome::Failed(kind), 0, 0);
        }
    }

    /// Puts a target aside, on disk when that is for long. It has had no attempt more.
    pub(super) fn put_aside(&self, target: &Target, not_before: Millis, now: Millis) {
        let waiting = Waiting {
            sequence: target.sequence,
            name: target.entry.as_slice().into(),
            attempts: target.attempts,
            kind: target.last_kind.unwrap_or(FailureKind::Throttled),
            not_before: 0,
            throttled_since: target.throttled_since,
        };
        let not_before = not_before.max(now + limits::PARKED_FOR.as_millis() as Millis);
        self.report.borrow_mut().retries.push(Retry {
            target: waiting,
            retry_after: None,
            not_before: Some(not_before),
        });
    }

    /// A target has left its host: the next one may go.
    pub(super) fn leave(&self, target: &mut Target, seen: Seen) {
        if std::mem::take(&mut target.is_admitted) {
            self.waiters.hosts.borrow_mut().left(target.host, seen, self.clock.get());
            self.release(target.host);
        }
    }

    /// Lets those go that wait for a host, as far as they may.
    fn release(&self, host: HostId) {
        let now = self.clock.get();
        loop {
            match self.step(host, now) {
                Step::Goes(target) => {
                    self.waiters.ready.borrow_mut().push_back(*target);
                    self.parking.wake_one();
                }
                Step::Waits => return,
                Step::Rests(then) => {
                    for target in self.waiters.take_queue(host) {
                        self.put_aside(&target, then, now);
                    }
                    return;
                }
                Step::Ends(kind) => {
                    for target in self.waiters.take_queue(host) {
                        self.close(&target, kind);
                    }
                    return;
                }
            }
        }
    }

    fn step(&self, host: HostId, now: Millis) -> Step {
        let mut queues = self.waiters.queues.borrow_mut();
        let Some(queue) = queues.get_mut(&host) else { return Step::Waits };
        if queue.is_looked_up {
            return Step::Waits;
        }
        if queue.targets.is_empty() {
            queues.remove(&host);
            return Step::Waits;
        }
        if let Some(first) = queue.targets.front() {
            self.doubt_what_was_seen(first);
        }
        match self.waiters.hosts.borrow_mut().admit(host, now) {
            Admission::Go => {
                queue.gone += 1;
                self.waiters.held.set(self.waiters.held.get() - 1);
                let mut target = queue.targets.pop_front().unwrap_or_default();
                target.is_admitted = true;
                Step::Goes(Box::new(target))
            }
            Admission::Full => Step::Waits,
            Admission::Resting(then) if then > now + SHORT_REST => Step::Rests(then),
            Admission::Later(then) | Admission::Resting(then) => {
                self.waiters.wake_at(queue, host, then);
                Step::Waits
            }
            Admission::Closed(kind) => Step::Ends(kind),
        }
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
        if let Some(places) = self.waiters.opening.tick(elapsed, now) {
            self.parking.wake(places);
        } else if !self.queue.borrow().is_empty() {
            // What kept it from being taken may have passed without a word.
            self.parking.wake_one();
        }
    }

    /// Names that were looked up: their targets go on.
    pub(super) fn take_answers(&self) {
        let now = self.clock.get();
        let micros = self.control().clock.micros();
        for (token, looked) in self.pool.names().take_answered() {
            let host = HostId::from_number(token);
            if let Some(queue) = self.waiters.queues.borrow_mut().get_mut(&host) {
                queue.is_looked_up = false;
                for target in &mut queue.targets {
                    target.looked_up_in = Some(micros.saturating_sub(target.asked_at));
                    if let Looked::Answer(Ok(found)) = &looked {
                        target.found = Some(Arc::clone(found));
                    }
                }
            }
            match looked {
                Looked::Answer(Ok(_)) => self.release(host),
                Looked::Answer(Err(kind)) => {
                    for target in self.waiters.take_queue(host) {
                        self.was_not_found(target, kind, now);
                    }
                }
                Looked::Parked => {
                    let then = self.waiters.place_among_slow(now);
                    for mut target in self.waiters.take_queue(host) {
                        target.last_kind = Some(FailureKind::DnsTimeout);
                        self.put_aside(&target, then, now);
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
                self.waiters.ready.borrow_mut().push_back(target);
            }
            if self.waiters.blocked.borrow().len() == blocked {
                return;
            }
            self.parking.wake_one();
        }
        // Nothing holds up the rest of the batch any more.
        self.parking.wake(self.queue.borrow().len());
    }

    /// There is no address: that was an attempt.
    fn was_not_found(&self, mut target: Target, kind: FailureKind, now: Millis) {
        self.waiters.hosts.borrow_mut().note(target.host, Seen::Failure(kind), now);
        let _ = self.failed(&mut target, kind, None);
    }
}
