//! The number of targets that a worker has in flight, and its limit.

use std::cell::Cell;

use fetchmill_model::planner::origin::Millis;

/// After a reduction, a share counts as recently lowered for this many milliseconds.
const LOWERED: Millis = 5_000;

/// Number of a worker's targets in flight, and the share that the planner allows.
#[derive(Debug)]
pub(super) struct InFlight {
    count: Cell<usize>,
    share: Cell<usize>,
    /// Time when the share was last lowered, if ever.
    lowered_at: Cell<Option<Millis>>,
}

impl InFlight {
    pub(super) fn new(share: usize) -> Self {
        InFlight { count: Cell::new(0), share: Cell::new(share), lowered_at: Cell::new(None) }
    }

    /// Counts a target that is now in flight.
    pub(super) fn enter(&self) {
        self.count.set(self.count.get() + 1);
    }

    /// Counts a target that is no longer in flight.
    pub(super) fn leave(&self) {
        self.count.set(self.count.get() - 1);
    }

    pub(super) fn count(&self) -> usize {
        self.count.get()
    }

    pub(super) fn share(&self) -> usize {
        self.share.get()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Returns how many more targets can be in flight.
    pub(super) fn room(&self) -> usize {
        self.share.get().saturating_sub(self.count.get())
    }

    pub(super) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Sets the share and returns the previous one. If the new share is lower, surplus targets stay in flight until
    /// they are finished.
    pub(super) fn set_share(&self, share: usize, now: Millis) -> usize {
        let before = self.share.replace(share);
        if share < before {
            self.lowered_at.set(Some(now));
        }
        before
    }

    /// Returns whether the share was lowered in the last 5 s.
    pub(super) fn was_lowered(&self, now: Millis) -> bool {
        self.lowered_at.get().is_some_and(|at| now.saturating_sub(at) < LOWERED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_what_the_share_leaves() {
        let in_flight = InFlight::new(2);
        assert_eq!((in_flight.room(), in_flight.is_full(), in_flight.is_empty()), (2, false, true));

        in_flight.enter();
        in_flight.enter();
        assert_eq!((in_flight.room(), in_flight.is_full(), in_flight.is_empty()), (0, true, false));

        in_flight.leave();
        assert_eq!((in_flight.room(), in_flight.count()), (1, 1));
    }

    #[test]
    fn a_lower_share_leaves_no_room_until_targets_are_over() {
        let in_flight = InFlight::new(4);
        for _ in 0..4 {
            in_flight.enter();
        }

        assert_eq!(in_flight.set_share(2, 1_000), 4);

        assert_eq!((in_flight.room(), in_flight.count(), in_flight.share()), (0, 4, 2));
        for _ in 0..3 {
            in_flight.leave();
        }
        assert_eq!(in_flight.room(), 1);
    }

    #[test]
    fn a_share_was_lowered_for_five_seconds() {
        let in_flight = InFlight::new(4);
        in_flight.set_share(8, 1_000);
        assert!(!in_flight.was_lowered(1_000), "it became higher");

        in_flight.set_share(4, 2_000);
        in_flight.set_share(6, 3_000);

        assert!(in_flight.was_lowered(6_999));
        assert!(!in_flight.was_lowered(7_000));
    }
}
