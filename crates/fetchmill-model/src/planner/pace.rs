//! A request rate, limited by the generic cell rate algorithm (ITU-T I.371) with two numbers that all threads share.
//!
//! This module has no clock: time is an argument, in microseconds on a clock that all callers share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Limits requests to a number per second and spaces them evenly.
#[derive(Debug)]
pub struct Pace {
    /// Time between two requests, in nanoseconds. 0 if there is no rate.
    interval: AtomicU64,
    /// Time at which the next request is due, in nanoseconds.
    due: AtomicU64,
    /// Burst after a quiet time, expressed as a time in nanoseconds.
    burst: u64,
}

impl Pace {
    /// Creates a pace with a rate above 0 requests/s. After a quiet time, as many requests as the rate allows in a
    /// tenth of a second can be sent together.
    pub fn new(per_second: f64) -> Self {
        let pace = Self::unset(Duration::from_millis(100));
        pace.set(Some(per_second));
        pace
    }

    /// Creates a pace without a rate. After a quiet time, as many requests as the rate allows in `burst` can be sent
    /// together.
    pub fn unset(burst: Duration) -> Self {
        Pace { interval: AtomicU64::new(0), due: AtomicU64::new(0), burst: burst.as_nanos() as u64 }
    }

    /// Sets or removes the rate. Times that are already reserved stay unchanged.
    pub fn set(&self, per_second: Option<f64>) {
        let interval = per_second.map_or(0, |per_second| (1e9 / per_second).clamp(1.0, 1e15) as u64);
        self.interval.store(interval, Ordering::Relaxed);
    }

    /// Returns whether there is a rate.
    pub fn is_set(&self) -> bool {
        self.interval.load(Ordering::Relaxed) > 0
    }

    /// Reserves the time for the next request. Returns how long to wait until that time, in microseconds.
    pub fn reserve(&self, now: u64) -> u64 {
        let interval = self.interval.load(Ordering::Relaxed);
        if interval == 0 {
            return 0;
        }
        let now = now.saturating_mul(1000);
        let earliest = now.saturating_sub(self.burst);
        let place = |due: u64| due.max(earliest);
        let next = |due: u64| Some(place(due).saturating_add(interval));
        let due = self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default();
        place(due).saturating_sub(now) / 1000
    }
}

/// A byte rate. Bytes are charged when they arrive. Before requesting more bytes, the caller waits until the bytes
/// received so far are within the rate.
#[derive(Debug)]
pub struct ByteRate {
    per_second: f64,
    /// Time from which the received bytes are within the rate, in nanoseconds.
    due: AtomicU64,
}

impl ByteRate {
    /// Burst after a quiet time, expressed as a time in nanoseconds.
    const BURST: u64 = 100_000_000;

    /// Creates a rate above 0 bytes/s.
    pub fn new(per_second: f64) -> Self {
        ByteRate { per_second, due: AtomicU64::new(0) }
    }

    /// Returns how long these bytes take at the rate, in nanoseconds.
    fn cost(&self, bytes: usize) -> u64 {
        (bytes as f64 * 1e9 / self.per_second).min(1e18) as u64
    }

    /// Charges bytes that were received. `now` is in microseconds.
    pub fn take(&self, bytes: usize, now: u64) {
        let cost = self.cost(bytes);
        let earliest = now.saturating_mul(1000).saturating_sub(Self::BURST);
        let next = |due: u64| Some(due.max(earliest).saturating_add(cost));
        let _ = self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Corrects a charge of `taken` bytes, of which `came` bytes were actually received.
    pub fn correct(&self, taken: usize, came: usize) {
        let next = |due: u64| Some(due.saturating_add(self.cost(came)).saturating_sub(self.cost(taken)));
        let _ = self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Returns how long to wait before requesting more bytes, or `None` if no wait is needed.
    pub fn wait(&self, now: u64) -> Option<Duration> {
        let wait = self.due.load(Ordering::Relaxed).saturating_sub(now.saturating_mul(1000));
        (wait > 0).then(|| Duration::from_nanos(wait))
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

    #[test]
    fn a_rate_may_come_change_and_go() {
        let pace = Pace::unset(Duration::ZERO);
        assert_eq!([pace.reserve(1_000_000), pace.reserve(1_000_000)], [0, 0]);

        pace.set(Some(100.0));
        assert!(pace.is_set());
        assert_eq!([pace.reserve(1_000_000), pace.reserve(1_000_000)], [0, 10_000]);
        pace.set(Some(1000.0));
        assert_eq!([pace.reserve(1_000_000), pace.reserve(1_000_000)], [20_000, 21_000]);
        pace.set(None);

        assert_eq!(pace.reserve(1_000_000), 0);
    }

    #[test]
    fn bytes_are_paid_for_behind_a_burst() {
        let rate = ByteRate::new(1e6);
        let now = 10_000_000;
        assert_eq!(rate.wait(now), None);

        // The bytes of a tenth of a second can arrive together.
        rate.take(100_000, now);
        assert_eq!(rate.wait(now), None);
        rate.take(1_000_000, now);
        assert_eq!(rate.wait(now), Some(Duration::from_secs(1)));
        assert_eq!(rate.wait(now + 400_000), Some(Duration::from_millis(600)));
        assert_eq!(rate.wait(now + 1_000_000), None);

        // An estimate is charged before the bytes arrive and corrected afterwards.
        rate.take(300_000, now + 1_000_000);
        rate.correct(300_000, 500_000);
        assert_eq!(rate.wait(now + 1_000_000), Some(Duration::from_millis(500)));
    }
}
