//! Limits how far the listing of a job's only origin can run ahead of fetching. Pages that are not needed yet take
//! bandwidth, server time and memory away from objects. At 10 Mbit/s, 256 Ki names took a third of the bandwidth for 15
//! s.

use super::millis::Millis;
use crate::limits;

/// Length of the read-ahead, expressed as milliseconds of fetching.
const AHEAD: f64 = 10_000.0;
/// Interval between rate measurements. The rate is measured over one to two seconds, because the targets of a batch
/// finish together.
const MEASURED: Millis = 1_000;

/// The read-ahead of the listing. See the module.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReadAhead {
    settled: usize,
    /// Number of settled targets one interval and two intervals ago, each with its time.
    before: [(Millis, usize); 2],
    /// Fetching rate in targets per millisecond.
    rate: f64,
    has_been_ahead: bool,
}

impl ReadAhead {
    /// Records that `settled` more targets have an outcome.
    pub(super) fn note(&mut self, settled: usize, now: Millis) {
        self.settled += settled;
        if now >= self.before[1].0 + MEASURED {
            self.before = [self.before[1], (now, self.settled)];
            let [(then, first), (_, last)] = self.before;
            self.rate = (last - first) as f64 / (now - then).max(1) as f64;
        }
    }

    /// Returns whether the listing has not yet reached its full read-ahead. `listed` is the number of targets that are
    /// listed but not handed out.
    pub(super) fn is_behind(&mut self, listed: usize) -> bool {
        self.has_been_ahead |= listed >= self.targets();
        !self.has_been_ahead
    }

    /// Returns the maximum number of targets that may be listed but not handed out.
    pub(super) fn targets(&self) -> usize {
        ((self.rate * AHEAD) as usize).clamp(limits::READ_AHEAD_TARGETS_MIN, limits::WINDOW_TARGETS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_ten_seconds_take_within_bounds() {
        let mut ahead = ReadAhead::default();
        let mut now = 1_700_000_000_000;
        for (rate, targets) in [
            (100, limits::READ_AHEAD_TARGETS_MIN),
            (10_000, 100_000),
            (60_000, limits::WINDOW_TARGETS_MAX),
            (0, limits::READ_AHEAD_TARGETS_MIN),
        ] {
            for _ in 0..100 {
                now += 50;
                ahead.note(rate / 20, now);
            }
            assert_eq!(ahead.targets(), targets, "{rate}/s");
        }
    }

    #[test]
    fn it_is_behind_until_it_was_ahead_once() {
        let mut ahead = ReadAhead::default();
        let seen = [0, limits::READ_AHEAD_TARGETS_MIN - 1, limits::READ_AHEAD_TARGETS_MIN, 0]
            .map(|listed| ahead.is_behind(listed));
        assert_eq!(seen, [true, true, false, false]);
    }

    #[test]
    fn at_first_it_is_the_least() {
        let mut ahead = ReadAhead::default();
        assert_eq!(ahead.targets(), limits::READ_AHEAD_TARGETS_MIN);
        ahead.note(1_000_000, 1_700_000_000_000);
        assert_eq!(ahead.targets(), limits::READ_AHEAD_TARGETS_MIN);
    }
}
