//! The clock of a worker, which advances only at ticks.

use std::cell::Cell;
use std::rc::Rc;

use fetchmill_model::planner::origin::Millis;

/// Number of milliseconds since the previous tick after which a tick counts as late.
const LATE: Millis = 100;

/// Time of the last tick, which the deadlines of the connections share.
#[derive(Debug)]
pub(super) struct WorkerClock {
    ticked_at: Rc<Cell<Millis>>,
    /// Whether the last tick was late and therefore checked no deadlines.
    was_late: Cell<bool>,
}

impl WorkerClock {
    pub(super) fn new(now: Millis) -> Self {
        WorkerClock { ticked_at: Rc::new(Cell::new(now)), was_late: Cell::new(false) }
    }

    /// Returns the time of the last tick, which is up to one tick ago.
    pub(super) fn now(&self) -> Millis {
        self.ticked_at.get()
    }

    /// Returns the clock as a shared cell.
    pub(super) fn share(&self) -> Rc<Cell<Millis>> {
        Rc::clone(&self.ticked_at)
    }

    /// Advances the clock. Returns the number of milliseconds since the last tick, which is at least 1.
    pub(super) fn tick(&self, now: Millis) -> Millis {
        now.saturating_sub(self.ticked_at.replace(now)).max(1)
    }

    /// Returns whether a tick that comes `elapsed` after the previous one checks deadlines. After a late tick, replies
    /// that arrived in time might still be unread. The worker reads them first, and the next tick checks the deadlines.
    pub(super) fn checks_deadlines(&self, elapsed: Millis) -> bool {
        let checks = elapsed < LATE || self.was_late.get();
        self.was_late.set(!checks);
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_with_ticks_only() {
        let clock = WorkerClock::new(1_000);
        let shared = clock.share();

        assert_eq!(clock.tick(1_050), 50);
        assert_eq!(clock.tick(1_050), 1, "a tick takes at least 1 ms");

        assert_eq!((clock.now(), shared.get()), (1_050, 1_050));
    }

    #[test]
    fn a_late_tick_checks_no_deadline_and_the_next_one_does() {
        let clock = WorkerClock::new(0);

        assert!(clock.checks_deadlines(50));
        assert!(!clock.checks_deadlines(LATE));
        assert!(clock.checks_deadlines(LATE), "two late ticks never follow each other");
        assert!(!clock.checks_deadlines(LATE));
        assert!(clock.checks_deadlines(50));
        assert!(!clock.checks_deadlines(LATE));
    }
}
