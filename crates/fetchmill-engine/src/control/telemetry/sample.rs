//! The activity of a job during an interval of one or more seconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bottleneck::{LimitKind, LimitedBy};
use super::latency::Latency;
use super::origins::OriginLatency;
use fetchmill_model::limits::PACE_KEPT;

/// One sample of a job's activity. See the [module documentation](self). Unless noted otherwise, values are counts
/// within the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval, in seconds since 1970 UTC.
    pub time: f64,
    /// Length of the interval in seconds.
    pub interval: f64,
    /// Number of listed targets.
    pub listed: u64,
    /// Number of finished targets.
    pub settled: u64,
    /// Number of finished targets that were fetched.
    pub fetched: u64,
    /// Number of finished targets that were absent.
    pub absent: u64,
    /// Number of finished targets that failed.
    pub failed: u64,
    /// Body bytes fetched.
    pub bytes: u64,
    /// Number of requests.
    pub attempts: u64,
    /// Requests in flight at the end of the interval.
    pub in_flight: u64,
    /// Maximum number of requests in flight, at the end of the interval.
    pub concurrency: u64,
    /// Targets waiting for a retry at the end of the interval.
    pub waiting: u64,
    /// Number of failed targets by kind.
    #[serde(default)]
    pub failures: BTreeMap<String, u64>,
    /// Reply times. `None` if there were no replies, or if the engine does not report times.
    pub latency: Option<Latency>,
    /// Cause that limited the job.
    pub limited_by: Option<LimitKind>,
}

/// Current speed of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Time of the measurement, in seconds since 1970 UTC.
    pub(crate) time: f64,
    /// Finished targets per second, over the last ten seconds.
    pub(crate) objects_per_second: f64,
    /// Fetched body bytes per second, over the last ten seconds.
    pub(crate) bytes_per_second: f64,
    pub(crate) in_flight: u64,
    pub(crate) concurrency: u64,
    /// Reply times of the last ten seconds.
    pub(crate) latency: Option<Latency>,
    /// Reply times per origin, in a job with many origins. They are for live displays and are not stored in the
    /// journal.
    #[serde(skip)]
    pub(crate) origins: Vec<OriginLatency>,
    pub(crate) limited_by: Option<LimitedBy>,
    /// Requests per second that the only origin accepts while it throttles requests.
    pub(crate) pace: Option<f64>,
}

impl Progress {
    /// Returns the pace that an earlier run determined, if it is recent. `now` is in seconds since 1970 UTC.
    pub(crate) fn pace_to_resume(&self, now: f64) -> Option<f64> {
        let is_recent = (0.0..=PACE_KEPT.as_secs_f64()).contains(&(now - self.time));
        self.pace.filter(|pace| is_recent && *pace > 0.0 && pace.is_finite())
    }
}

impl Sample {
    /// Merges this sample with the next one. Percentiles are averaged, weighted by the number of replies, because the
    /// histograms no longer exist. The limiting cause is taken from the longer sample.
    #[must_use]
    pub(super) fn merged(mut self, next: Sample) -> Sample {
        self.latency = merged_latency(&self, &next);
        if next.interval >= self.interval {
            self.limited_by = next.limited_by;
        }
        self.time = next.time;
        self.interval += next.interval;
        for (own, more) in [
            (&mut self.listed, next.listed),
            (&mut self.settled, next.settled),
            (&mut self.fetched, next.fetched),
            (&mut self.absent, next.absent),
            (&mut self.failed, next.failed),
            (&mut self.bytes, next.bytes),
            (&mut self.attempts, next.attempts),
        ] {
            *own += more;
        }
        (self.in_flight, self.concurrency, self.waiting) = (next.in_flight, next.concurrency, next.waiting);
        for (kind, count) in next.failures {
            *self.failures.entry(kind).or_default() += count;
        }
        self
    }
}

fn merged_latency(one: &Sample, other: &Sample) -> Option<Latency> {
    let (Some(first), Some(second)) = (one.latency, other.latency) else {
        return one.latency.or(other.latency);
    };
    let (before, after) = (one.settled.max(1) as f64, other.settled.max(1) as f64);
    let mean = |first: f64, second: f64| (first * before + second * after) / (before + after);
    Some(Latency {
        p50: mean(first.p50, second.p50),
        p90: mean(first.p90, second.p90),
        p99: mean(first.p99, second.p99),
        max: first.max.max(second.max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_resumed_for_some_minutes() {
        let found = Progress { time: 1_000.0, pace: Some(200.0), ..Progress::default() };

        assert_eq!(found.pace_to_resume(1_060.0), Some(200.0));
        assert_eq!(found.pace_to_resume(1_000.0 + 2.0 * PACE_KEPT.as_secs_f64()), None);
        assert_eq!(found.pace_to_resume(900.0), None, "a clock that was set back proves nothing");
        assert_eq!(Progress { pace: None, ..found.clone() }.pace_to_resume(1_001.0), None);
        let read: Progress = serde_json::from_str(&serde_json::to_string(&found).unwrap()).unwrap();
        assert_eq!(read, found);
    }
}
