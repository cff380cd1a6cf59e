//! A rate of requests: the generic cell rate algorithm (ITU-T I.371), one number that all threads share.
//!
//! Clock-free: time is an argument, microseconds on any clock that all callers share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests that may come at once after a quiet time, as time: a tenth of a second's worth.
const BURST_MICROS: u64 = 100_000;

/// At most so many requests a second, evenly.
#[derive(Debug)]
pub struct Pace {
    /// Between two requests, in nanoseconds.
    interval: u64,
    /// When the next request is due, in nanoseconds.
    due: AtomicU64,
}

impl Pace {
    /// Of so many requests a second; any number above 0.
    pub fn new(per_second: f64) -> Self {
        let interval = (1e9 / per_second).clamp(1.0, 1e15) as u64;
        Pace { interval, due: AtomicU64::new(0) }
    }

    /// Takes the next place and tells how long to wait for it, in microseconds.
    pub fn reserve(&self, now: u64) -> u64 {
        let now = now.saturating_mul(1000);
        let earliest = now.saturating_sub(BURST_MICROS * 1000);
        let place = |due: u64| due.max(earliest);
        let next = |due: u64| Some(place(due).saturating_add(self.interval));
        let due = self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default();
        place(due).saturating_sub(now) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spread_and_a_quiet_time_allows_a_short_burst() {
        let pace = Pace::new(100.0);
        let now = 10_000_000;

        let waits: Vec<u64> = (0..21).map(|_| pace.reserve(now)).collect();

        assert_eq!(&waits[..11], [0; 11]);
        assert_eq!(waits[11], 10_000);
        assert_eq!(waits[20], 100_000);
        assert_eq!(pace.reserve(now + 1_000_000), 0);
    }

    #[test]
    fn a_slow_rate_waits_for_seconds() {
        let pace = Pace::new(0.5);

        assert_eq!(pace.reserve(5_000_000), 0);
        assert_eq!(pace.reserve(5_000_000), 1_900_000);
        assert_eq!(pace.reserve(5_000_000), 3_900_000);
    }
}
