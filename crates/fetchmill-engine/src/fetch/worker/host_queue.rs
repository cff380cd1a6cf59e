//! The queue of a host's targets that wait in a worker.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use super::host_waits::HostWait;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::certainty::MonotonicMicros;

/// Number of targets that must leave the queue before the measured pace is used.
const PACE_SAMPLE: u32 = 16;
/// Interval in microseconds between two deferred targets of a host that has no rate and whose pace is still unknown.
const FIRST_PACE: u64 = 1000;

/// Waiting targets of a host, in order, with the reason for the wait and the pace at which they leave.
#[derive(Debug, Default)]
pub(super) struct HostQueue {
    targets: VecDeque<CurrentTarget>,
    /// Reason for the wait, if the host waits.
    waits_for: Option<HostWait>,
    /// Whether the host waits for a slot that fast hosts leave free.
    is_crowded: bool,
    /// Time of the timer that wakes the host, if one is set.
    due: Option<Millis>,
    /// Start of the wait.
    since: Millis,
    /// Number of targets that left the queue after `since`.
    gone: u32,
    /// Time in microseconds at which the last deferred target returns.
    deferred_until: u64,
}

impl HostQueue {
    pub(super) fn push(&mut self, target: CurrentTarget) {
        self.targets.push_back(target);
    }

    /// Takes the first target.
    pub(super) fn pop(&mut self) -> Option<CurrentTarget> {
        let target = self.targets.pop_front()?;
        self.gone += 1;
        Some(target)
    }

    pub(super) fn first(&self) -> Option<&CurrentTarget> {
        self.targets.front()
    }

    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    pub(super) fn into_targets(self) -> VecDeque<CurrentTarget> {
        self.targets
    }

    /// Records that the host's targets have been waiting since `now`.
    pub(super) fn wait_from(&mut self, now: Millis) {
        self.since = now;
    }

    /// Returns the reason why the host's targets wait, if they do.
    pub(super) fn waits_for(&self) -> Option<HostWait> {
        self.waits_for
    }

    /// Records why the targets wait from now on.
    pub(super) fn wait_for(&mut self, wait: Option<HostWait>) {
        self.waits_for = wait;
    }

    pub(super) fn is_looked_up(&self) -> bool {
        self.waits_for == Some(HostWait::Address)
    }

    /// Ends the lookup for the waiting targets and passes them the addresses if any were found.
    pub(super) fn end_look_up(&mut self, addresses: Option<&Arc<[IpAddr]>>, now: MonotonicMicros) {
        for target in &mut self.targets {
            target.looked_up_in = Some(now.saturating_sub(target.asked_at));
            if let Some(addresses) = addresses {
                target.found = Some(Arc::clone(addresses));
            }
        }
    }

    /// Records that the host waits for a slot that fast hosts leave free. Returns `false` if it was already waiting.
    pub(super) fn enter_crowd(&mut self) -> bool {
        !std::mem::replace(&mut self.is_crowded, true)
    }

    pub(super) fn leave_crowd(&mut self) {
        self.is_crowded = false;
    }

    /// Sets the timer that wakes the host. Returns `false` if an earlier timer is already set.
    pub(super) fn set_due(&mut self, then: Millis) -> bool {
        let is_earlier = self.due.is_none_or(|due| then < due);
        if is_earlier {
            self.due = Some(then);
        }
        is_earlier
    }

    pub(super) fn clear_due(&mut self) {
        self.due = None;
    }

    /// Returns when a target that does not fit into this queue becomes due again. The targets before it should have
    /// left by then. `interval` is the host's rate in microseconds per target. `outlook` is the time at which the host
    /// accepts targets again.
    pub(super) fn defer(&mut self, interval: u64, outlook: Millis, now: Millis) -> Millis {
        let seen = now.saturating_sub(self.since).max(1) * 1000 / u64::from(self.gone.max(1));
        let pace = if self.gone < PACE_SAMPLE { FIRST_PACE } else { seen };
        let pace = pace.max(interval);
        let earliest = outlook.saturating_mul(1000).max(now * 1000 + pace * self.targets.len() as u64);
        self.deferred_until = self.deferred_until.max(earliest) + pace;
        self.deferred_until / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(targets: usize) -> HostQueue {
        let mut queue = HostQueue::default();
        queue.wait_from(1_000);
        for _ in 0..targets {
            queue.push(CurrentTarget::default());
        }
        queue
    }

    #[test]
    fn deferred_targets_come_back_after_those_that_wait() {
        let mut queue = queue(10);

        assert_eq!(queue.defer(0, 0, 1_000), 1_011);
        assert_eq!(queue.defer(0, 0, 1_000), 1_012);
        assert_eq!(queue.defer(500_000, 0, 1_000), 6_500, "at the host's rate");
        assert_eq!(queue.defer(0, 60_000, 1_000), 60_001, "once the host accepts targets again");
    }

    #[test]
    fn a_known_pace_counts_after_some_targets() {
        let mut queue = queue(26);
        for _ in 0..PACE_SAMPLE {
            queue.pop();
        }
        assert_eq!((queue.len(), queue.gone), (10, PACE_SAMPLE));

        // The pace is 16 targets in 1.6 s.
        assert_eq!(queue.defer(0, 0, 2_600), 2_600 + 11 * 100);
    }

    #[test]
    fn an_earlier_timer_replaces_a_later_one() {
        let mut queue = queue(1);

        assert!(queue.set_due(20));
        assert!(!queue.set_due(20));
        assert!(queue.set_due(10));
        queue.clear_due();
        assert!(queue.set_due(30));
    }

    #[test]
    fn a_look_up_gives_its_addresses_to_all() {
        let mut queue = queue(2);
        let addresses: Arc<[IpAddr]> = Arc::new([IpAddr::from([127, 0, 0, 1])]);

        queue.end_look_up(Some(&addresses), 5);

        let is_found = |target: &CurrentTarget| target.found.as_ref() == Some(&addresses);
        assert!(queue.into_targets().iter().all(|target| is_found(target) && target.looked_up_in == Some(5)));
    }
}
