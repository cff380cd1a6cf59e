//! Targets of a job over many hosts that wait before they get a connection, by their hosts. What waits is bounded: there
//! may be no place for a target here.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use super::start_quota::StartQuota;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::limits;
use fetchmill_model::planner::hosts::{HostId, HostRules, HostTable};
use fetchmill_model::planner::origin::Millis;
use fetchmill_net::dns::SlotLimits;

/// A name that nobody answers for is looked up for so long: its tries and what they wait for.
const DEAD_NAME_MICROS: u64 = 7_100_000;

/// The targets of one host that wait here.
#[derive(Debug, Default)]
pub(super) struct HostQueue {
    pub(super) targets: VecDeque<CurrentTarget>,
    /// Its address is being looked up.
    pub(super) is_looked_up: bool,
    /// It waits for a place beside prompt hosts.
    is_crowded: bool,
    /// It is in the timer for then.
    pub(super) due: Option<Millis>,
    /// Since when it waits, and how many have gone since: its pace.
    pub(super) since: Millis,
    pub(super) gone: u32,
    /// When the last one that was deferred comes back, microseconds.
    pub(super) deferred_until: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Waiters {
    pub(super) hosts: RefCell<HostTable>,
    pub(super) queues: RefCell<HashMap<HostId, HostQueue>>,
    /// In flight at their hosts, and soon on a connection: of prompt ones and of others, which take turns.
    ready: RefCell<[VecDeque<CurrentTarget>; 2]>,
    turn: Cell<usize>,
    /// Hosts that wait for a place beside prompt ones.
    crowded: RefCell<VecDeque<HostId>>,
    timer: RefCell<BinaryHeap<Reverse<(Millis, HostId)>>>,
    pub(super) held: Cell<usize>,
    pub(super) held_max: usize,
    /// Targets whose names find no place among those that are looked up: no other is taken before they have. Besides
    /// the one that was taken last they were redirected, so they are no more than tasks.
    pub(super) blocked: RefCell<VecDeque<CurrentTarget>>,
    /// When the last name that was deferred is asked for again, microseconds; and how long after the one before it.
    pub(super) slow_until: Cell<u64>,
    pub(super) slow_pace: u64,
    pub(super) opening: StartQuota,
}

impl Waiters {
    pub(super) fn new(rules: HostRules, workers: usize) -> Self {
        Waiters {
            hosts: RefCell::new(HostTable::new(rules)),
            queues: RefCell::default(),
            ready: RefCell::default(),
            turn: Cell::new(0),
            crowded: RefCell::default(),
            timer: RefCell::default(),
            held: Cell::new(0),
            held_max: (limits::HOST_TARGETS_MAX / workers).max(limits::HOST_TARGETS_SHARE),
            blocked: RefCell::default(),
            slow_until: Cell::new(0),
            slow_pace: DEAD_NAME_MICROS / SlotLimits::of(workers).slow as u64,
            opening: StartQuota::default(),
        }
    }

    /// Whether a target could start now.
    pub(super) fn has_ready(&self) -> bool {
        self.ready.borrow().iter().any(|ready| !ready.is_empty())
    }

    /// A target may start as soon as a connection is free.
    pub(super) fn push_ready(&self, target: CurrentTarget) {
        let is_prompt = self.hosts.borrow().is_prompt(target.host);
        self.ready.borrow_mut()[usize::from(is_prompt)].push_back(target);
    }

    /// The next one that starts.
    pub(super) fn take_ready(&self) -> Option<CurrentTarget> {
        let turn = self.turn.replace(1 - self.turn.get());
        let mut ready = self.ready.borrow_mut();
        let taken = ready[turn].pop_front();
        taken.or_else(|| ready[1 - turn].pop_front())
    }

    /// A host waits for a place beside prompt ones.
    pub(super) fn wait_for_room(&self, queue: &mut HostQueue, host: HostId) {
        if !std::mem::replace(&mut queue.is_crowded, true) {
            self.crowded.borrow_mut().push_back(host);
        }
    }

    /// The first of them, if there is one.
    pub(super) fn take_crowded(&self, now: Millis) -> Option<HostId> {
        if self.crowded.borrow().is_empty() || !self.hosts.borrow().has_room(now) {
            return None;
        }
        let host = self.crowded.borrow_mut().pop_front()?;
        if let Some(queue) = self.queues.borrow_mut().get_mut(&host) {
            queue.is_crowded = false;
        }
        Some(host)
    }

    /// When a name that was deferred is asked for again: as fast as slow names end, so that those that are never
    /// answered for do not come back all the time.
    pub(super) fn place_among_slow(&self, now: Millis) -> Millis {
        let earliest = now * 1000 + DEAD_NAME_MICROS;
        let place = self.slow_until.get().max(earliest) + self.slow_pace;
        self.slow_until.set(place);
        place / 1000
    }

    pub(super) fn has_room(&self, queue: &HostQueue) -> bool {
        self.held.get() < self.held_max && queue.targets.len() < self.held_max / limits::HOST_TARGETS_SHARE
    }

    pub(super) fn push(&self, queue: &mut HostQueue, target: CurrentTarget) {
        self.held.set(self.held.get() + 1);
        queue.targets.push_back(target);
    }

    pub(super) fn wake_at(&self, queue: &mut HostQueue, host: HostId, then: Millis) {
        if queue.due.is_none_or(|due| then < due) {
            queue.due = Some(then);
            self.timer.borrow_mut().push(Reverse((then, host)));
        }
    }

    /// The next host whose time has come.
    pub(super) fn take_due(&self, now: Millis) -> Option<HostId> {
        let mut timer = self.timer.borrow_mut();
        let Reverse((then, host)) = *timer.peek()?;
        if then > now {
            return None;
        }
        timer.pop();
        Some(host)
    }

    /// Everything that waits.
    pub(super) fn take_all(&self) -> Vec<CurrentTarget> {
        let queues = std::mem::take(&mut *self.queues.borrow_mut());
        let ready = std::mem::take(&mut *self.ready.borrow_mut());
        let blocked = std::mem::take(&mut *self.blocked.borrow_mut());
        self.held.set(0);
        let queued = queues.into_values().flat_map(|queue| queue.targets);
        queued.chain(ready.into_iter().flatten()).chain(blocked).collect()
    }

    /// Everything that waits for a host.
    pub(super) fn take_queue(&self, host: HostId) -> VecDeque<CurrentTarget> {
        let targets = self.queues.borrow_mut().remove(&host).map(|queue| queue.targets).unwrap_or_default();
        self.held.set(self.held.get() - targets.len());
        targets
    }
}
