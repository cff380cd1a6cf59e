//! Measurements of a running job beyond its counters: capacity use, reply times, writer activity, and one sample per
//! second. Fetching threads update these measurements once per tick, and their own histogram once per reply. One thread
//! reads them ([`crate::job::sampler`]).

mod bottleneck;
mod capacity;
mod latency;
mod machine;
mod origins;
mod sample;
mod series;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

pub(crate) use bottleneck::{
    HostBounds, LastTargets, LimitFacts, Pacing, PathTimes, Search, WriterShares, bottleneck,
};
pub use bottleneck::{LimitKind, LimitedBy};
pub(crate) use capacity::{CapacityCounters, CapacityUse, CountedCapacity, Shares};
pub use latency::Latency;
pub(crate) use latency::{LatencyHistogram, RecentLatency};
pub(crate) use machine::{Machine, Processors};
pub use origins::OriginLatency;
pub(crate) use origins::{OriginHistograms, RecentOrigins};
pub(crate) use sample::Progress;
pub use sample::Sample;
pub(crate) use series::Series;

use fetchmill_model::panics::lock;
use fetchmill_model::planner::origin::Millis;

/// Current activity of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WriterActivity {
    /// Waiting for a block.
    Idle = 0,
    /// Running a transform on replies.
    Transforming = 1,
    /// Storing, syncing, or waiting for the journal.
    Storing = 2,
}

/// Measurements of one worker and its writer.
#[derive(Debug, Default)]
pub(crate) struct WorkerTelemetry {
    pub(crate) capacity: CapacityCounters,
    latency: Mutex<LatencyHistogram>,
    origins: Mutex<OriginHistograms>,
    /// Number of replies whose requests were sent while few others were in flight, and the sum of their times in
    /// microseconds.
    unloaded_replies: AtomicU64,
    unloaded_micros: AtomicU64,
    writer: AtomicU8,
    /// Latest time at which a running attempt times out. 0 if none is running.
    attempts_until: AtomicU64,
}

impl WorkerTelemetry {
    /// Adds the worker's own histogram to the total, and empties it.
    pub(crate) fn add_latency(&self, own: &mut LatencyHistogram) {
        lock(&self.latency).append(own);
    }

    fn take_latency(&self) -> LatencyHistogram {
        std::mem::take(&mut *lock(&self.latency))
    }

    /// Adds the worker's own histograms per origin to the totals and empties them. Used in jobs with many origins.
    pub(crate) fn add_origins(&self, own: &mut OriginHistograms) {
        lock(&self.origins).append(own);
    }

    pub(crate) fn add_unloaded(&self, replies: u64, micros: u64) {
        self.unloaded_replies.fetch_add(replies, Ordering::Relaxed);
        self.unloaded_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn set_attempts_until(&self, until: Millis) {
        self.attempts_until.store(until, Ordering::Relaxed);
    }

    pub(crate) fn set_writer(&self, activity: WriterActivity) {
        self.writer.store(activity as u8, Ordering::Relaxed);
    }

    pub(crate) fn writer(&self) -> WriterActivity {
        match self.writer.load(Ordering::Relaxed) {
            1 => WriterActivity::Transforming,
            2 => WriterActivity::Storing,
            _ => WriterActivity::Idle,
        }
    }
}

/// Measurements of a job. See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    pub(crate) workers: Vec<WorkerTelemetry>,
    /// Peer address of the first connection that any worker opened. It is set only once, so that later connections take
    /// no lock.
    peer: OnceLock<SocketAddr>,
    /// Shortest, second-to-last and last TCP connect times to this address, in microseconds. 0 means unknown.
    connect_least: AtomicU64,
    connect_last: AtomicU64,
    connect_before: AtomicU64,
    latest: Mutex<Progress>,
    /// Causes that limited this run, with their total duration in seconds and their latest text.
    causes: Mutex<Vec<(LimitedBy, f64)>>,
    series: Mutex<Series>,
}

impl Telemetry {
    pub(crate) fn new(workers: usize) -> Self {
        Telemetry {
            workers: (0..workers).map(|_| WorkerTelemetry::default()).collect(),
            ..Telemetry::default()
        }
    }

    /// Records a new connection and its connect time. Returns whether it is the first connection.
    pub(crate) fn note_connection(&self, peer: Option<SocketAddr>, took: Option<Duration>) -> bool {
        let peer = peer.filter(|_| self.peer.get().is_none());
        let is_first = peer.is_some_and(|peer| self.peer.set(peer).is_ok());
        if let Some(took) = took {
            let micros = (took.as_micros() as u64).max(1);
            self.connect_before.store(self.connect_last.swap(micros, Ordering::Relaxed), Ordering::Relaxed);
            let least = |known: u64| (known == 0 || micros < known).then_some(micros);
            let _ = self.connect_least.fetch_update(Ordering::Relaxed, Ordering::Relaxed, least);
        }
        is_first
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer.get().copied()
    }

    /// Returns the connect times. `now` is the shorter of the last two, because a lost packet makes one of them a
    /// second longer.
    pub(crate) fn path(&self) -> Option<PathTimes> {
        let seconds = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64 / 1e6;
        let [least, last, before] =
            [&self.connect_least, &self.connect_last, &self.connect_before].map(seconds);
        let now = if before > 0.0 { last.min(before) } else { last };
        (least > 0.0).then_some(PathTimes { now, least })
    }

    /// Returns the latest time at which a running attempt times out. Returns `None` if no attempt is running or the
    /// time is unknown.
    pub(crate) fn attempts_until(&self) -> Option<Millis> {
        let of_worker = |worker: &WorkerTelemetry| worker.attempts_until.load(Ordering::Relaxed);
        self.workers.iter().map(of_worker).max().filter(|until| *until > 0)
    }

    /// Returns the reply time under low load, in seconds.
    pub(crate) fn unloaded_latency(&self) -> Option<f64> {
        let sum = |part: fn(&WorkerTelemetry) -> &AtomicU64| -> u64 {
            self.workers.iter().map(|worker| part(worker).load(Ordering::Relaxed)).sum()
        };
        let replies = sum(|worker| &worker.unloaded_replies);
        (replies > 0).then(|| sum(|worker| &worker.unloaded_micros) as f64 / replies as f64 / 1e6)
    }

    /// Takes the histograms recorded since the last call, merged over all workers.
    pub(crate) fn take_latency(&self) -> LatencyHistogram {
        let mut all = LatencyHistogram::default();
        for worker in &self.workers {
            all.append(&mut worker.take_latency());
        }
        all
    }

    /// Takes the histograms per origin that were recorded since the last call. Used in jobs with many origins.
    pub(crate) fn take_origins(&self) -> OriginHistograms {
        let mut all = OriginHistograms::default();
        for worker in &self.workers {
            all.append(&mut lock(&worker.origins));
        }
        all
    }

    pub(crate) fn set_latest(&self, latest: Progress) {
        *lock(&self.latest) = latest;
    }

    /// Adds `seconds` to the time for which this cause limited the run.
    pub(crate) fn count_cause(&self, limited_by: &LimitedBy, seconds: f64) {
        let mut causes = lock(&self.causes);
        match causes.iter_mut().find(|(known, _)| known.kind == limited_by.kind) {
            Some((known, all)) => {
                known.text.clone_from(&limited_by.text);
                *all += seconds;
            }
            None => causes.push((limited_by.clone(), seconds)),
        }
    }

    /// Returns the cause that limited the run for the longest time, and its share of the run's time.
    pub(crate) fn main_cause(&self) -> Option<(LimitedBy, f64)> {
        let causes = lock(&self.causes);
        let all: f64 = causes.iter().map(|(_, seconds)| seconds).sum();
        let longest = causes.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((longest.0.clone(), longest.1 / all))
    }

    pub(crate) fn latest(&self) -> Progress {
        lock(&self.latest).clone()
    }

    /// Adds a sample. See [`Series::push`].
    pub(crate) fn push_sample(&self, sample: Sample) -> Vec<Sample> {
        lock(&self.series).push(sample)
    }

    /// Takes the incomplete sample at the end of a run.
    pub(crate) fn finish_samples(&self) -> Option<Sample> {
        lock(&self.series).finish()
    }

    /// Continues the series of earlier runs.
    pub(crate) fn resume_series(&self, samples: Vec<Sample>) {
        *lock(&self.series) = Series::of(samples);
    }

    /// Returns the samples after the time `after`, in seconds since 1970 UTC.
    pub(crate) fn samples(&self, after: f64) -> Vec<Sample> {
        lock(&self.series).after(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lost_packet_is_no_longer_way_and_two_are() {
        let telemetry = Telemetry::new(1);
        let connect = |took| {
            telemetry.note_connection(None, Some(Duration::from_millis(took)));
        };
        assert_eq!(telemetry.path(), None);

        connect(12);
        assert_eq!(telemetry.path(), Some(PathTimes { now: 0.012, least: 0.012 }));
        connect(10);
        connect(1_010);
        assert_eq!(telemetry.path(), Some(PathTimes { now: 0.01, least: 0.01 }));
        connect(1_020);
        assert_eq!(telemetry.path(), Some(PathTimes { now: 1.01, least: 0.01 }));
    }
}
