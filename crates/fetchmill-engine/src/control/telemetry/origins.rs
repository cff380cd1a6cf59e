//! Reply times per origin, in a job with many origins. At most [`ORIGINS_MAX`] origins are covered.

use std::collections::{HashMap, VecDeque};

use super::latency::{Latency, LatencyHistogram};
use fetchmill_model::origin::OriginKey;

/// Maximum number of origins recorded at a time: the first ones that reply.
const ORIGINS_MAX: usize = 64;
/// Number of entries kept for the recent latency.
const RECENT: usize = 10;

/// Histogram with one significant digit, which takes 2 KiB.
type OriginHistogram = LatencyHistogram<1>;

/// Replies of an origin during the last ten seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginLatency {
    /// The origin, such as `https://files.example.com`.
    pub origin: String,
    /// Complete replies per second, not counting those that indicate trouble.
    pub replies_per_second: f64,
    /// Reply times, with one significant digit.
    pub latency: Latency,
}

/// Histograms recorded since they were last taken. They use up to 128 KiB.
#[derive(Debug, Default)]
pub(crate) struct OriginHistograms(HashMap<OriginKey, OriginHistogram>);

impl OriginHistograms {
    /// Records a reply time in microseconds.
    pub(crate) fn record(&mut self, origin: &OriginKey, micros: u64) {
        if let Some(histogram) = self.0.get_mut(origin) {
            histogram.record(micros);
        } else if self.0.len() < ORIGINS_MAX {
            self.0.entry(origin.clone()).or_default().record(micros);
        }
    }

    /// Adds the histograms of `other` for which there is room, and empties `other`.
    pub(crate) fn append(&mut self, other: &mut OriginHistograms) {
        for (origin, mut histogram) in other.0.drain() {
            if self.0.len() < ORIGINS_MAX || self.0.contains_key(&origin) {
                self.0.entry(origin).or_default().append(&mut histogram);
            }
        }
    }
}

/// Histograms of the last seconds. They use up to 1.3 MiB.
#[derive(Debug, Default)]
pub(crate) struct RecentOrigins(VecDeque<(f64, OriginHistograms)>);

impl RecentOrigins {
    /// Adds the histograms of another sample, which covers `seconds` seconds.
    pub(crate) fn push(&mut self, seconds: f64, histograms: OriginHistograms) {
        if self.0.len() >= RECENT {
            self.0.pop_front();
        }
        self.0.push_back((seconds, histograms));
    }

    /// Returns up to [`ORIGINS_MAX`] origins, busiest first.
    pub(crate) fn latencies(&self) -> Vec<OriginLatency> {
        let seconds: f64 = self.0.iter().map(|(seconds, _)| seconds).sum::<f64>().max(1e-3);
        let mut all: HashMap<&OriginKey, OriginHistogram> = HashMap::new();
        for (origin, histogram) in self.0.iter().flat_map(|(_, histograms)| &histograms.0) {
            all.entry(origin).or_default().add(histogram);
        }
        let told = |(origin, histogram): (&OriginKey, OriginHistogram)| {
            Some(OriginLatency {
                origin: origin.text().to_owned(),
                replies_per_second: histogram.count() as f64 / seconds,
                latency: histogram.latency()?,
            })
        };
        let mut latencies: Vec<_> = all.into_iter().filter_map(told).collect();
        latencies.sort_by(|one, other| {
            let by_replies = other.replies_per_second.total_cmp(&one.replies_per_second);
            by_replies.then_with(|| one.origin.cmp(&other.origin))
        });
        latencies.truncate(ORIGINS_MAX);
        latencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> OriginKey {
        OriginKey::of_url(&format!("http://host-{number}.example/")).unwrap().0
    }

    #[test]
    fn the_busiest_origins_come_first_and_only_the_last_seconds_count() {
        let mut recent = RecentOrigins::default();
        let mut own = OriginHistograms::default();
        for number in 1..=3 {
            (0..number).for_each(|_| own.record(&key(number), 20_000 * number as u64));
        }
        let mut second = OriginHistograms::default();
        second.append(&mut own);
        recent.push(2.0, second);

        let told = recent.latencies();

        let names: Vec<_> = told.iter().map(|each| each.origin.as_str()).collect();
        assert_eq!(names, ["http://host-3.example", "http://host-2.example", "http://host-1.example"]);
        assert!(
            (told[0].replies_per_second - 1.5).abs() < 1e-9 && (0.055..0.065).contains(&told[0].latency.p50)
        );
        (0..RECENT).for_each(|_| recent.push(1.0, OriginHistograms::default()));
        assert_eq!(recent.latencies(), []);
    }

    #[test]
    fn no_more_than_64_are_kept() {
        let mut recent = RecentOrigins::default();
        for from in [0, 100] {
            let mut own = OriginHistograms::default();
            (from..from + 100).for_each(|number| own.record(&key(number), 1_000));
            let mut second = OriginHistograms::default();
            second.append(&mut own);
            assert_eq!((own.0.len(), second.0.len()), (0, ORIGINS_MAX));
            recent.push(1.0, second);
        }
        assert_eq!(recent.latencies().len(), ORIGINS_MAX);
    }
}
