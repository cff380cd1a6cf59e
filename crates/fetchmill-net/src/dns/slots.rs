//! Limits the number of concurrent lookups. Slow lookups have slots of their own, so that names without an answer never
//! block others.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fetchmill_model::limits;

/// The number of lookup slots per thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotLimits {
    /// Slots for lookups that are not slow yet.
    pub fast: usize,
    /// Slots for slow lookups.
    pub slow: usize,
}

impl SlotLimits {
    /// Returns each thread's share if there are `threads` threads: at least one slot of each kind.
    pub fn of(threads: usize) -> Self {
        let threads = threads.max(1);
        SlotLimits {
            fast: (limits::DNS_FAST_MAX / threads).max(1),
            slow: (limits::DNS_SLOW_MAX / threads).max(1),
        }
    }

    /// Returns the cache size in names, proportional to the thread's slow slots and at least 64.
    pub(super) fn cache_names(self) -> usize {
        (self.slow * (limits::DNS_CACHE_NAMES_MAX / limits::DNS_SLOW_MAX)).max(64)
    }
}

/// Time for which a lookup may keep its fast slot while other lookups wait for one, as a multiple of the fastest answer
/// time. The fastest time is used because slower ones include delays on this machine.
const PATIENCE: u32 = 4;
/// Interval after which the fastest answer time is measured again.
const FASTEST_OF: Duration = Duration::from_secs(1);
/// Minimum time in a fast slot. A cache on this machine can answer even faster, but this must not cost lookups their
/// slots.
const PATIENCE_MIN: Duration = Duration::from_millis(10);

/// The slots in use.
#[derive(Debug)]
pub(super) struct LookUpSlots {
    slots: SlotLimits,
    fast: usize,
    slow: usize,
    /// Lookups in fast slots, oldest first, with their serial numbers. Some of them may have left their slot already.
    order: VecDeque<(usize, u64, Instant)>,
    /// Fastest answer times in the previous and the current interval.
    fastest: (Duration, Duration),
    since: Option<Instant>,
    /// Number of fast slots freed since the last call of [`LookUpSlots::take_freed`].
    freed: usize,
}

impl LookUpSlots {
    pub(super) fn new(slots: SlotLimits) -> Self {
        let unknown = limits::DNS_FAST / PATIENCE;
        let fastest = (unknown, unknown);
        LookUpSlots { slots, fast: 0, slow: 0, order: VecDeque::new(), fastest, since: None, freed: 0 }
    }

    /// Records that a lookup has taken a fast slot.
    pub(super) fn entered(&mut self, slot: usize, serial: u64, now: Instant) {
        self.order.push_back((slot, serial, now));
        // Lookups that left their slot stay in the list until they become the oldest.
        if self.order.len() > 2 * self.slots.fast.max(64) {
            self.order.pop_front();
        }
    }

    /// Records that a lookup was answered before it became slow.
    pub(super) fn answered(&mut self, took: Duration, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= FASTEST_OF {
            self.fastest = (self.fastest.1, limits::DNS_FAST / PATIENCE);
            self.since = Some(now);
        }
        self.fastest.1 = self.fastest.1.min(took);
    }

    /// Takes the oldest lookup if it has waited longer than usual, so that another lookup can use its slot. The caller
    /// must check that the lookup still holds its slot.
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

    /// Takes a fast slot if one is free. Returns whether it took one.
    pub(super) fn enter(&mut self) -> bool {
        let is_free = self.has_fast();
        self.fast += usize::from(is_free);
        is_free
    }

    /// Returns whether a fast slot is free.
    pub(super) fn has_fast(&self) -> bool {
        self.fast < self.slots.fast.max(1)
    }

    /// Returns whether a slow slot is free.
    pub(super) fn has_slow(&self) -> bool {
        self.slow < self.slots.slow
    }

    /// Moves a lookup from a fast slot to a slow one if one is free. Returns whether it moved.
    pub(super) fn slow_down(&mut self) -> bool {
        let is_free = self.has_slow();
        if is_free {
            self.slow += 1;
            self.leave(false);
        }
        is_free
    }

    /// Frees a slot.
    pub(super) fn leave(&mut self, is_slow: bool) {
        if is_slow {
            self.slow -= 1;
        } else {
            self.fast -= 1;
            self.freed += 1;
        }
    }

    /// Returns the number of fast slots freed since the last call.
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
