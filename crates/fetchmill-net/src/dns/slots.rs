//! How many names are looked up at the same time: those that are not slow yet, and those that are. Slow ones have
//! places of their own, so that names that nobody answers for never hold up the others.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fetchmill_model::limits;

/// Places of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotLimits {
    /// For look-ups that are not slow yet.
    pub fast: usize,
    /// For slow ones.
    pub slow: usize,
}

impl SlotLimits {
    /// A thread's share when there are so many, at least one place of each.
    pub fn of(threads: usize) -> Self {
        let threads = threads.max(1);
        SlotLimits {
            fast: (limits::DNS_FAST_MAX / threads).max(1),
            slow: (limits::DNS_SLOW_MAX / threads).max(1),
        }
    }

    /// Names in the thread's cache: as large a share of them as of the slow places, and some in any case.
    pub(super) fn cache_names(self) -> usize {
        (self.slow * (limits::DNS_CACHE_NAMES_MAX / limits::DNS_SLOW_MAX)).max(64)
    }
}

/// So many times as long as the fastest answers take, a look-up may keep its place while others want it. The fastest
/// ones, since the others waited for this machine too.
const PATIENCE: u32 = 4;
/// What the fastest answers are is seen anew after this.
const FASTEST_OF: Duration = Duration::from_secs(1);
/// Answers of a machine's own cache take less: a look-up is not pushed out for that.
const PATIENCE_MIN: Duration = Duration::from_millis(10);

/// Those of them that are taken.
#[derive(Debug)]
pub(super) struct LookUpSlots {
    slots: SlotLimits,
    fast: usize,
    slow: usize,
    /// Look-ups in the fast slots, the oldest first, with their serial numbers; some may have left it.
    order: VecDeque<(usize, u64, Instant)>,
    /// How long the fastest answers took lately, and since the moment that is told.
    fastest: (Duration, Duration),
    since: Option<Instant>,
    /// Fast slots that became free since somebody last asked.
    freed: usize,
}

impl LookUpSlots {
    pub(super) fn new(slots: SlotLimits) -> Self {
        let unknown = limits::DNS_FAST / PATIENCE;
        let fastest = (unknown, unknown);
        LookUpSlots { slots, fast: 0, slow: 0, order: VecDeque::new(), fastest, since: None, freed: 0 }
    }

    /// A look-up has taken a place.
    pub(super) fn entered(&mut self, slot: usize, serial: u64, now: Instant) {
        self.order.push_back((slot, serial, now));
        // Those that have left stay in it until they are the oldest.
        if self.order.len() > 2 * self.slots.fast.max(64) {
            self.order.pop_front();
        }
    }

    /// A look-up had an answer before it was slow.
    pub(super) fn answered(&mut self, took: Duration, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= FASTEST_OF {
            self.fastest = (self.fastest.1, limits::DNS_FAST / PATIENCE);
            self.since = Some(now);
        }
        self.fastest.1 = self.fastest.1.min(took);
    }

    /// The oldest look-up, when it has waited for longer than usual: it makes place for others. Whether it is still in
    /// the slots it has is for the caller to know.
    pub(super) fn take_oldest(&mut self, now: Instant) -> Option<(usize, u64)> {
        let fastest = self.fastest.0.min(self.fastest.1);
        let patience = (fastest * PATIENCE).clamp(PATIENCE_MIN, limits::DNS_FAST);
        let (slot, serial, since) = *self.order.front()?;
        if now.saturating_duration_since(since) < patience {
            return None;
        }
        self.order.pop_front();
        Some((slot, serial))
    }

    /// Takes a fast slot.
    pub(super) fn enter(&mut self) -> bool {
        let is_free = self.has_fast();
        self.fast += usize::from(is_free);
        is_free
    }

    /// Whether a fast slot is free.
    pub(super) fn has_fast(&self) -> bool {
        self.fast < self.slots.fast.max(1)
    }

    /// Whether a slow slot is free.
    pub(super) fn has_slow(&self) -> bool {
        self.slow < self.slots.slow
    }

    /// From a fast slot to a slow one, if one is free.
    pub(super) fn slow_down(&mut self) -> bool {
        let is_free = self.has_slow();
        if is_free {
            self.slow += 1;
            self.leave(false);
        }
        is_free
    }

    /// Gives a place back.
    pub(super) fn leave(&mut self, is_slow: bool) {
        if is_slow {
            self.slow -= 1;
        } else {
            self.fast -= 1;
            self.freed += 1;
        }
    }

    /// See [`LookUpSlots::freed`].
    pub(super) fn take_freed(&mut self) -> usize {
        std::mem::take(&mut self.freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_waited_for_longer_than_usual_makes_place() {
        let mut places = LookUpSlots::new(SlotLimits { fast: 2, slow: 2 });
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        places.entered(7, 1, start);
        assert_eq!(places.take_oldest(after(299)), None);
        for took in [5, 80, 40] {
            places.answered(Duration::from_millis(took), start);
        }

        assert_eq!(places.take_oldest(after(19)), None);
        assert_eq!(places.take_oldest(after(30)), Some((7, 1)));
        assert_eq!(places.take_oldest(after(300)), None);
    }

    #[test]
    fn all_threads_together_have_no_more_places_and_each_has_some() {
        for threads in [0, 1, 3, 16, 256] {
            let slots = SlotLimits::of(threads);
            assert!(slots.fast * threads <= limits::DNS_FAST_MAX && slots.fast > 0);
            assert!(slots.slow * threads <= limits::DNS_SLOW_MAX && slots.slow > 0);
            assert!(slots.cache_names() * threads <= limits::DNS_CACHE_NAMES_MAX);
        }
        assert_eq!(SlotLimits::of(100_000), SlotLimits { fast: 1, slow: 1 });
    }
}
