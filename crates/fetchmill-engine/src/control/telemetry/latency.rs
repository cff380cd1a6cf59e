//! Histograms of reply times. They use the crate `hdrhistogram`, a port of Gil Tene's `HdrHistogram`.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Upper end of the histograms: one hour. Longer times count as one hour, and the lower end is one microsecond. A
/// histogram takes 13 KiB with two significant digits and 2 KiB with one.
const HIGHEST_MICROS: u64 = 3_600_000_000;
/// Number of histograms kept for the recent latency.
const RECENT: usize = 10;

/// Reply times in seconds, from the request to the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// Histogram of reply times with `DIGITS` significant digits. See the [module documentation](self). It uses no memory
/// while empty.
#[derive(Debug, Default)]
pub(crate) struct LatencyHistogram<const DIGITS: u8 = 2>(Option<Histogram<u32>>);

impl<const DIGITS: u8> LatencyHistogram<DIGITS> {
    fn histogram(&mut self) -> Option<&mut Histogram<u32>> {
        if self.0.is_none() {
            // The bounds are valid constants.
            self.0 = Histogram::new_with_bounds(1, HIGHEST_MICROS, DIGITS).ok();
        }
        self.0.as_mut()
    }

    /// Records a reply time in microseconds.
    pub(crate) fn record(&mut self, micros: u64) {
        if let Some(histogram) = self.histogram() {
            histogram.saturating_record(micros.max(1));
        }
    }

    /// Adds another histogram and empties it. The other histogram keeps its allocation.
    pub(crate) fn append(&mut self, other: &mut Self) {
        if other.is_empty() {
            return;
        }
        self.add(other);
        if let Some(others) = other.0.as_mut() {
            others.reset();
        }
    }

    /// Adds another histogram.
    pub(crate) fn add(&mut self, other: &Self) {
        if let (Some(own), Some(others)) = (self.histogram(), other.0.as_ref()) {
            // Both have the same bounds.
            let _ = own.add(others);
        }
    }

    /// Returns the number of recorded replies.
    pub(crate) fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    /// Returns whether no reply was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(Histogram::is_empty)
    }

    /// Returns the mean reply time in seconds.
    pub(crate) fn mean(&self) -> Option<f64> {
        self.0.as_ref().filter(|histogram| !histogram.is_empty()).map(|histogram| histogram.mean() / 1e6)
    }

    pub(crate) fn latency(&self) -> Option<Latency> {
        let histogram = self.0.as_ref().filter(|histogram| !histogram.is_empty())?;
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e6;
        Some(Latency { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: histogram.max() as f64 / 1e6 })
    }
}

/// Histograms of the last seconds. They use 140 KiB.
#[derive(Debug, Default)]
pub(crate) struct RecentLatency(VecDeque<LatencyHistogram>);

impl RecentLatency {
    /// Adds the histogram of the next second.
    pub(crate) fn push(&mut self, histogram: LatencyHistogram) {
        if self.0.len() >= RECENT {
            self.0.pop_front();
        }
        self.0.push_back(histogram);
    }

    /// Returns the sum of the last `seconds` histograms.
    pub(crate) fn last(&self, seconds: usize) -> LatencyHistogram {
        let mut all = LatencyHistogram::default();
        for recent in self.0.iter().rev().take(seconds) {
            all.add(recent);
        }
        all
    }

    pub(crate) fn latency(&self) -> Option<Latency> {
        self.last(RECENT).latency()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_two_digits_and_only_the_last_seconds_count() {
        let mut recent = RecentLatency::default();
        assert_eq!(recent.latency(), None);
        let mut own = LatencyHistogram::<2>::default();
        for micros in 1..=100 {
            own.record(micros * 1_000);
        }
        let mut second = LatencyHistogram::default();
        second.append(&mut own);
        assert!(own.is_empty());
        recent.push(second);

        let latency = recent.latency().unwrap();

        let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.01;
        assert!(is_near(latency.p50, 0.05) && is_near(latency.p90, 0.09), "{latency:?}");
        assert!(is_near(latency.p99, 0.099) && is_near(latency.max, 0.1), "{latency:?}");
        for _ in 0..RECENT {
            recent.push(LatencyHistogram::default());
        }
        assert_eq!(recent.latency(), None);
    }

    #[test]
    fn what_takes_longer_than_an_hour_counts_as_an_hour() {
        let mut histogram = LatencyHistogram::<2>::default();
        histogram.record(u64::MAX);
        histogram.record(0);

        let latency = histogram.latency().unwrap();

        assert!((3_600.0..3_700.0).contains(&latency.max), "{latency:?}");
    }
}
