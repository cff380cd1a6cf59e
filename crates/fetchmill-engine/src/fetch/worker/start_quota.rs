//! Limits the number of targets that a worker starts per tick, depending on the worker's load.
//!
//! A TLS connection costs a third of a millisecond of processor time. If thousands are opened together, each waits for
//! all the others. Some can then time out because of this machine rather than their hosts. A worker whose tick is late
//! therefore opens half as many connections in its next tick. A worker that is on time and has used its whole quota can
//! open a quarter more.

use std::cell::Cell;

use fetchmill_model::limits;
use fetchmill_model::planner::origin::Millis;

/// Tick delay in milliseconds at which the worker counts as too busy.
const LATE: Millis = 60;
/// Tick delay in milliseconds at which attempts might have failed because of the delay.
const OVERLOADED: Millis = 500;
const LEAST: usize = 8;
const FIRST: usize = 64;
const MOST: usize = 4096;
/// Maximum cost per tick of targets that might have to wait for their hosts. One unit takes about 5 us, during which
/// replies wait.
const SPENT_MAX: usize = 4096;
/// Cost of a target that is queued after other targets of its host.
pub(super) const TO_TAKE: usize = 1;
pub(super) const TO_LOOK_UP: usize = 3;

/// Start quota of a worker. See the [module documentation](self).
#[derive(Debug)]
pub(super) struct StartQuota {
    quota: Cell<usize>,
    started: Cell<usize>,
    spent: Cell<usize>,
    /// Whether a target was turned away during this tick.
    is_wanted: Cell<bool>,
    overloaded_at: Cell<Millis>,
}

impl Default for StartQuota {
    fn default() -> Self {
        StartQuota {
            quota: Cell::new(FIRST),
            started: Cell::new(0),
            spent: Cell::new(0),
            is_wanted: Cell::new(false),
            overloaded_at: Cell::new(0),
        }
    }
}

impl StartQuota {
    /// Returns whether another target can start in this tick.
    pub(super) fn allows(&self) -> bool {
        let is_allowed = self.started.get() < self.quota.get() && self.spent.get() < SPENT_MAX;
        self.is_wanted.set(self.is_wanted.get() || !is_allowed);
        is_allowed
    }

    /// Adds the `cost` of a target in the batch.
    pub(super) fn spend(&self, cost: usize) {
        self.spent.set(self.spent.get() + cost);
    }

    /// Counts a target that was started.
    pub(super) fn start(&self) {
        self.started.set(self.started.get() + 1);
    }

    /// Adapts the quota at a tick that comes `elapsed` after the previous one. Returns the quota if targets are waiting
    /// for it.
    pub(super) fn tick(&self, elapsed: Millis, now: Millis) -> Option<usize> {
        let late = elapsed.saturating_sub(limits::TICK.as_millis() as Millis);
        let quota = self.quota.get();
        if late >= OVERLOADED {
            self.overload(now);
        }
        if late >= LATE {
            self.quota.set((quota / 2).max(LEAST));
        } else if self.started.get() >= quota {
            self.quota.set((quota + quota / 4).min(MOST));
        }
        self.started.set(0);
        self.spent.set(0);
        self.is_wanted.take().then(|| self.quota.get())
    }

    /// Records that this machine was too busy or out of descriptors or ports.
    pub(super) fn overload(&self, now: Millis) {
        self.overloaded_at.set(now);
    }

    /// Returns whether an overload was recorded at or after `then`.
    pub(super) fn was_overloaded_since(&self, then: Millis) -> bool {
        self.overloaded_at.get() >= then.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_all(opening: &StartQuota) -> usize {
        let mut started = 0;
        while opening.allows() {
            opening.start();
            started += 1;
        }
        started
    }

    #[test]
    fn a_worker_in_time_opens_more_and_a_late_one_half() {
        let opening = StartQuota::default();

        assert_eq!(start_all(&opening), FIRST);
        assert_eq!(opening.tick(50, 1000), Some(80));
        assert_eq!(start_all(&opening), 80);
        assert_eq!(opening.tick(120, 1120), Some(40));
        assert_eq!(opening.tick(50, 1170), None);
        assert_eq!(start_all(&opening), 40);
    }

    #[test]
    fn it_stays_between_its_bounds() {
        let opening = StartQuota::default();
        for now in 0..100 {
            opening.tick(5_000, now);
        }
        assert_eq!(start_all(&opening), LEAST);
        for now in 0..100 {
            start_all(&opening);
            opening.tick(50, now);
        }
        assert_eq!(start_all(&opening), MOST);
    }

    #[test]
    fn an_attempt_that_met_an_overload_knows_it() {
        let opening = StartQuota::default();
        assert!(!opening.was_overloaded_since(0));

        opening.tick(600, 10_000);

        assert!(opening.was_overloaded_since(9_500));
        assert!(!opening.was_overloaded_since(10_001));
    }
}
