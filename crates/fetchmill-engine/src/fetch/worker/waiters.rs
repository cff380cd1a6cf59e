//! Queues of targets that wait for a connection, in a job with many hosts. Each host has its own queue. The total
//! number of queued targets is limited, so queues can be full.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use super::host_queue::HostQueue;
use super::host_waits::{HostWait, HostWaits};
use super::robots_gate::RobotsGate;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::limits;
use fetchmill_model::opt_out::robots::HostRobots;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::hosts::{Admission, HostId, HostRules, HostTable, RequestOutcome};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::verdict::Rules;
use fetchmill_net::dns::SlotLimits;

/// Duration of a lookup in microseconds if no name server answers. It includes all retries and delays.
const DEAD_NAME_MICROS: u64 = 7_100_000;
/// Targets wait in memory rather than in the journal for rests that are shorter than this many milliseconds.
pub(super) const SHORT_REST: Millis = 1000;

/// Place where a target waits for its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitPlace {
    /// In memory.
    Memory,
    /// In the journal until this time, because memory has no room.
    Journal(Millis),
}

/// Next step for the first target in the queue of a host.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AdmissionStep {
    /// The target can get a connection.
    Goes,
    Waits,
    /// The host rests. All its targets are deferred until this time.
    Rests(Millis),
    /// The host is dead for this reason. None of its targets can start.
    Ends(FailureKind),
}

/// Hosts of a worker, with their queues of targets.
#[derive(Debug)]
pub(super) struct Waiters {
    rules: Rules,
    hosts: RefCell<HostTable>,
    queues: RefCell<HashMap<HostId, HostQueue>>,
    /// Number of waiting hosts, by reason.
    waits: HostWaits,
    /// Gate for robots.txt. `None` without `--robots`.
    robots: Option<RobotsGate>,
    /// Admitted targets that get a connection soon. There is one queue for fast hosts and one for other hosts. Targets
    /// are taken from the two queues in turn.
    ready: RefCell<[VecDeque<CurrentTarget>; 2]>,
    turn: Cell<usize>,
    /// Hosts that wait for a slot that fast hosts leave free.
    crowded: RefCell<VecDeque<HostId>>,
    timer: RefCell<BinaryHeap<Reverse<(Millis, HostId)>>>,
    /// Total number of targets in `queues`.
    held: Cell<usize>,
    held_max: usize,
    /// Targets whose name lookups exceed the limit of concurrent lookups. While any are kept, no other target is taken.
    /// All but the last come from redirects, so they never outnumber the tasks.
    blocked: RefCell<VecDeque<CurrentTarget>>,
    /// Time of the last scheduled retry of a deferred name, in microseconds. `slow_pace` is the interval between such
    /// retries.
    slow_until: Cell<u64>,
    slow_pace: u64,
}

impl Waiters {
    pub(super) fn new(hosts: HostRules, rules: Rules, workers: usize) -> Self {
        Waiters {
            rules,
            hosts: RefCell::new(HostTable::new(hosts)),
            queues: RefCell::default(),
            waits: HostWaits::default(),
            robots: None,
            ready: RefCell::default(),
            turn: Cell::new(0),
            crowded: RefCell::default(),
            timer: RefCell::default(),
            held: Cell::new(0),
            held_max: (limits::HOST_TARGETS_MAX / workers).max(limits::HOST_TARGETS_SHARE),
            blocked: RefCell::default(),
            slow_until: Cell::new(0),
            slow_pace: DEAD_NAME_MICROS / SlotLimits::of(workers).slow as u64,
        }
    }

    /// Returns why a target cannot start now, if its host is dead or must rest.
    pub(super) fn refusal(&self, target: &CurrentTarget, now: Millis) -> Option<Admission> {
        self.doubt_what_was_seen(target, now);
        self.hosts.borrow().refusal(target.host, now)
    }

    /// Adds the gate that applies robots.txt.
    #[must_use]
    pub(super) fn with_robots(self, robots: Option<RobotsGate>) -> Self {
        Waiters { robots, ..self }
    }

    /// Requests a slot for one target of a host. While the host's robots.txt is unknown, only the first target is
    /// admitted, which fetches that file ([`Waiters::asks_robots`]).
    pub(super) fn admit(&self, host: HostId, now: Millis) -> Admission {
        let Some(robots) = self.robots.as_ref().filter(|_| self.needs_robots(host)) else {
            return self.admit_at_host(host, now);
        };
        if robots.is_asking(host) {
            return Admission::Full;
        }
        let admission = self.admit_at_host(host, now);
        if admission != Admission::Go || robots.claim(host) {
            return admission;
        }
        self.hosts.borrow_mut().left(host, RequestOutcome::Nothing, now);
        Admission::Later(now + limits::ROBOTS_AWAITED.as_millis() as Millis)
    }

    /// Requests a slot in the same way as [`Waiters::admit`], but ignores robots.txt.
    pub(super) fn admit_at_host(&self, host: HostId, now: Millis) -> Admission {
        self.hosts.borrow_mut().admit(host, now)
    }

    /// Returns whether the target that was just admitted must fetch the robots.txt of its host.
    pub(super) fn asks_robots(&self, host: HostId) -> bool {
        self.robots.as_ref().is_some_and(|robots| robots.is_asking(host))
    }

    /// Returns a host's robots.txt, or `None` if it is ignored or unknown.
    pub(super) fn known_robots(&self, host: HostId) -> Option<Arc<HostRobots>> {
        self.robots.as_ref()?.known(host)
    }

    /// Returns whether a host's robots.txt is required but still unknown.
    pub(super) fn needs_robots(&self, host: HostId) -> bool {
        self.robots.as_ref().is_some_and(|robots| robots.known(host).is_none())
    }

    /// Ends the request for a host's robots.txt. `None` means that the request failed.
    pub(super) fn settle_robots(&self, host: HostId, answer: Option<HostRobots>) {
        if let Some(robots) = &self.robots {
            robots.settle(host, answer);
        }
    }

    /// Prepares a recheck, in which earlier observations of the host do not count.
    fn doubt_what_was_seen(&self, target: &CurrentTarget, now: Millis) {
        if target.is_second_look(&self.rules) {
            self.hosts.borrow_mut().doubt(target.host, target.state.throttled_since, now);
        }
    }

    /// Records that a target leaves its host. `took` is the time since its admission.
    pub(super) fn leave(&self, host: HostId, seen: RequestOutcome, took: Millis, now: Millis) {
        self.hosts.borrow_mut().left_after(host, seen, took, now);
    }

    /// Records an observation of a host that has no target in flight.
    pub(super) fn note(&self, host: HostId, seen: RequestOutcome, now: Millis) {
        self.hosts.borrow_mut().note(host, seen, now);
    }

    /// Returns whether a target could start now.
    pub(super) fn has_ready(&self) -> bool {
        self.ready.borrow().iter().any(|ready| !ready.is_empty())
    }

    /// Adds a target that starts when a connection is free.
    pub(super) fn push_ready(&self, target: CurrentTarget) {
        let is_prompt = self.hosts.borrow().is_prompt(target.host);
        self.ready.borrow_mut()[usize::from(is_prompt)].push_back(target);
    }

    /// Takes the next target to start, from both queues in turn.
    pub(super) fn take_ready(&self) -> Option<CurrentTarget> {
        let turn = self.turn.replace(1 - self.turn.get());
        let mut ready = self.ready.borrow_mut();
        let taken = ready[turn].pop_front();
        taken.or_else(|| ready[1 - turn].pop_front())
    }

    /// Returns the most common reason why hosts wait, or `None` if no host waits.
    pub(super) fn main_wait(&self) -> Option<HostWait> {
        self.waits.most()
    }

    fn set_wait(&self, queue: &mut HostQueue, wait: Option<HostWait>) {
        self.waits.change(queue.waits_for(), wait);
        queue.wait_for(wait);
    }

    /// Queues a target after others of its host and returns the place where it waits. Returns `None` if the queue of
    /// the host is empty.
    pub(super) fn join_queue(&self, target: &mut CurrentTarget, now: Millis) -> Option<WaitPlace> {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.get_mut(&target.host)?;
        Some(self.hold(queue, target, now))
    }

    /// Queues a target that its host did not admit and returns the place where it waits.
    pub(super) fn wait_for_turn(
        &self,
        admission: Admission,
        target: &mut CurrentTarget,
        now: Millis,
    ) -> WaitPlace {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(target.host).or_default();
        queue.wait_from(now);
        self.set_wait(queue, HostWait::of(admission));
        if let Admission::Later(then) | Admission::Resting(then) = admission {
            self.wake_at(queue, target.host, then);
        }
        if admission == Admission::Crowded {
            self.wait_for_room(queue, target.host);
        }
        self.hold(queue, target, now)
    }

    /// Queues a target until the address of its host is known.
    pub(super) fn wait_for_address(&self, target: CurrentTarget, now: Millis) {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(target.host).or_default();
        queue.wait_from(now);
        self.set_wait(queue, Some(HostWait::Address));
        self.push(queue, target);
    }

    /// Ends the lookup of a host and passes on the addresses if any were found.
    pub(super) fn end_look_up(&self, host: HostId, addresses: Option<&Arc<[IpAddr]>>, now: MonotonicMicros) {
        if let Some(queue) = self.queues.borrow_mut().get_mut(&host) {
            self.set_wait(queue, None);
            queue.end_look_up(addresses, now);
        }
    }

    /// Appends a target to the queue of its host. If there is no room, defers it until the queue is expected to be
    /// empty.
    fn hold(&self, queue: &mut HostQueue, target: &mut CurrentTarget, now: Millis) -> WaitPlace {
        // The first target of a queue always stays in memory, because it wakes the queue.
        if self.has_room(queue) || queue.is_empty() {
            self.push(queue, std::mem::take(target));
            return WaitPlace::Memory;
        }
        let hosts = self.hosts.borrow();
        let outlook = hosts.outlook(target.host, queue.len(), now);
        WaitPlace::Journal(queue.defer(hosts.interval(), outlook, now))
    }

    fn has_room(&self, queue: &HostQueue) -> bool {
        self.held.get() < self.held_max && queue.len() < self.held_max / limits::HOST_TARGETS_SHARE
    }

    fn push(&self, queue: &mut HostQueue, target: CurrentTarget) {
        self.held.set(self.held.get() + 1);
        queue.push(target);
    }

    /// Makes the first target of a host ready if it can start.
    pub(super) fn step(&self, host: HostId, now: Millis) -> AdmissionStep {
        let mut queues = self.queues.borrow_mut();
        let Some(queue) = queues.get_mut(&host) else { return AdmissionStep::Waits };
        if queue.is_looked_up() {
            return AdmissionStep::Waits;
        }
        let Some(first) = queue.first() else {
            self.set_wait(queue, None);
            queues.remove(&host);
            return AdmissionStep::Waits;
        };
        self.doubt_what_was_seen(first, now);
        let admission = self.admit(host, now);
        if let Some(wait) = HostWait::of(admission) {
            self.set_wait(queue, Some(wait));
        }
        match admission {
            Admission::Go => {
                let mut target = queue.pop().unwrap_or_default();
                self.held.set(self.held.get() - 1);
                target.is_admitted = true;
                target.admitted_at = now;
                target.asks_robots = self.asks_robots(host);
                self.push_ready(target);
                AdmissionStep::Goes
            }
            Admission::Full => AdmissionStep::Waits,
            Admission::Crowded => {
                self.wait_for_room(queue, host);
                AdmissionStep::Waits
            }
            Admission::Resting(then) if then > now + SHORT_REST => AdmissionStep::Rests(then),
            Admission::Later(then) | Admission::Resting(then) => {
                self.wake_at(queue, host, then);
                AdmissionStep::Waits
            }
            Admission::Closed(kind) => AdmissionStep::Ends(kind),
        }
    }

    /// Makes a host wait for a slot that fast hosts leave free.
    fn wait_for_room(&self, queue: &mut HostQueue, host: HostId) {
        if queue.enter_crowd() {
            self.crowded.borrow_mut().push_back(host);
        }
    }

    /// Takes the first host that waits for a slot that fast hosts leave free, if such a slot is free.
    pub(super) fn take_crowded(&self, now: Millis) -> Option<HostId> {
        if self.crowded.borrow().is_empty() || !self.hosts.borrow().has_room(now) {
            return None;
        }
        let host = self.crowded.borrow_mut().pop_front()?;
        if let Some(queue) = self.queues.borrow_mut().get_mut(&host) {
            queue.leave_crowd();
        }
        Some(host)
    }

    fn wake_at(&self, queue: &mut HostQueue, host: HostId, then: Millis) {
        if queue.set_due(then) {
            self.timer.borrow_mut().push(Reverse((then, host)));
        }
    }

    /// Returns the next host whose wait is over.
    pub(super) fn take_due(&self, now: Millis) -> Option<HostId> {
        let mut timer = self.timer.borrow_mut();
        let Reverse((then, host)) = *timer.peek()?;
        if then > now {
            return None;
        }
        timer.pop();
        if let Some(queue) = self.queues.borrow_mut().get_mut(&host) {
            queue.clear_due();
        }
        Some(host)
    }

    /// Keeps a target whose name cannot be looked up yet, because too many lookups are running.
    pub(super) fn block(&self, target: CurrentTarget) {
        self.blocked.borrow_mut().push_front(target);
    }

    /// Returns the number of targets that wait for a free lookup slot.
    pub(super) fn blocked(&self) -> usize {
        self.blocked.borrow().len()
    }

    /// Takes the first target that waits for a free lookup slot, if any.
    pub(super) fn take_blocked(&self) -> Option<CurrentTarget> {
        self.blocked.borrow_mut().pop_front()
    }

    /// Returns the time at which a deferred name is looked up next. Deferred names are looked up at the rate at which
    /// slow lookups end, so that names without an answer are not retried constantly.
    pub(super) fn place_among_slow(&self, now: Millis) -> Millis {
        let earliest = now * 1000 + DEAD_NAME_MICROS;
        let place = self.slow_until.get().max(earliest) + self.slow_pace;
        self.slow_until.set(place);
        place / 1000
    }

    /// Takes all queued targets.
    pub(super) fn take_all(&self) -> Vec<CurrentTarget> {
        let queues = std::mem::take(&mut *self.queues.borrow_mut());
        let ready = std::mem::take(&mut *self.ready.borrow_mut());
        let blocked = std::mem::take(&mut *self.blocked.borrow_mut());
        self.held.set(0);
        for queue in queues.values() {
            self.waits.change(queue.waits_for(), None);
        }
        let queued = queues.into_values().flat_map(HostQueue::into_targets);
        queued.chain(ready.into_iter().flatten()).chain(blocked).collect()
    }

    /// Takes all targets in the queue of a host.
    pub(super) fn take_queue(&self, host: HostId) -> VecDeque<CurrentTarget> {
        let queue = self.queues.borrow_mut().remove(&host);
        self.waits.change(queue.as_ref().and_then(HostQueue::waits_for), None);
        let targets = queue.map(HostQueue::into_targets).unwrap_or_default();
        self.held.set(self.held.get() - targets.len());
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &[u8] = b"http://127.0.0.1/a";

    /// Returns waiters that allow one request in flight per host.
    fn waiters() -> Waiters {
        let hosts =
            HostRules { connections: 1, rate: None, probes: 1, dead_for: 60_000, held_max: 100, places: 0 };
        Waiters::new(hosts, Rules::default(), 1)
    }

    fn target(sequence: u64) -> CurrentTarget {
        CurrentTarget { sequence, host: HostId::of_url(HOST), ..CurrentTarget::default() }
    }

    #[test]
    fn a_target_waits_until_another_one_has_left_its_host() {
        let (waiters, host) = (waiters(), HostId::of_url(HOST));
        assert_eq!(waiters.admit(host, 0), Admission::Go);
        assert_eq!(waiters.join_queue(&mut target(1), 0), None, "nobody waits");
        assert_eq!(waiters.wait_for_turn(Admission::Full, &mut target(1), 0), WaitPlace::Memory);
        assert_eq!(waiters.join_queue(&mut target(2), 0), Some(WaitPlace::Memory));
        assert_eq!(waiters.step(host, 0), AdmissionStep::Waits);

        waiters.leave(host, RequestOutcome::Answer, 5, 5);

        assert_eq!(waiters.step(host, 5), AdmissionStep::Goes);
        assert_eq!(waiters.step(host, 5), AdmissionStep::Waits);
        let ready = waiters.take_ready().unwrap();
        assert!(ready.is_admitted && ready.admitted_at == 5);
        assert_eq!(waiters.main_wait(), Some(HostWait::Turn));
        assert_eq!((ready.sequence, waiters.take_queue(host).len(), waiters.main_wait()), (1, 1, None));
    }

    #[test]
    fn a_full_queue_sends_targets_to_the_journal() {
        let waiters = waiters();
        let room = limits::HOST_TARGETS_MAX / limits::HOST_TARGETS_SHARE;
        waiters.wait_for_turn(Admission::Full, &mut target(0), 0);
        for sequence in 1..room as u64 {
            assert_eq!(waiters.join_queue(&mut target(sequence), 0), Some(WaitPlace::Memory));
        }

        let mut last = target(7);
        assert!(matches!(waiters.join_queue(&mut last, 0), Some(WaitPlace::Journal(_))));
        assert_eq!(last.sequence, 7, "the last target should still be there");
    }

    #[test]
    fn a_host_wakes_when_its_time_has_come() {
        let (waiters, host) = (waiters(), HostId::of_url(HOST));
        waiters.wait_for_turn(Admission::Later(10), &mut target(1), 0);
        assert_eq!(waiters.main_wait(), Some(HostWait::Rate));

        assert_eq!(waiters.take_due(9), None);
        assert_eq!(waiters.take_due(10), Some(host));
        assert_eq!(waiters.take_due(10), None);
        assert_eq!(waiters.step(host, 10), AdmissionStep::Goes);
    }

    #[test]
    fn a_target_that_waits_for_an_address_does_not_go() {
        let (waiters, host) = (waiters(), HostId::of_url(HOST));
        waiters.wait_for_address(target(1), 0);
        assert_eq!(waiters.step(host, 0), AdmissionStep::Waits);

        waiters.end_look_up(host, None, 0);

        assert_eq!(waiters.step(host, 0), AdmissionStep::Goes);
    }

    #[test]
    fn everything_that_waits_is_taken_at_the_end() {
        let waiters = waiters();
        waiters.push_ready(target(1));
        waiters.block(target(2));
        waiters.wait_for_address(target(3), 0);
        assert!(waiters.has_ready() && waiters.blocked() == 1);
        assert_eq!(waiters.main_wait(), Some(HostWait::Address));

        assert_eq!(waiters.take_all().len(), 3);

        assert!(!waiters.has_ready() && waiters.take_blocked().is_none());
        assert_eq!(waiters.main_wait(), None);
    }
}
