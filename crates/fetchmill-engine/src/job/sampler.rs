//! The thread that observes a running job. It takes one sample per second, determines what limits the job, and writes
//! the sample and the limit to the journal. Like a progress display, it only reads counters, so it costs nothing per
//! target.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::connect_probe::ConnectProbe;
use super::job_state::JobState;
use crate::control::clock::unix_micros;
use crate::control::counters::Sum;
use crate::control::journal_link::JournalRequest;
use crate::control::telemetry::{
    CapacityUse, CountedCapacity, HostBounds, LastTargets, LimitFacts, LimitKind, LimitedBy, Machine, Pacing,
    Processors, Progress, RecentLatency, RecentOrigins, Sample, Shares, WorkerTelemetry, WriterActivity,
    WriterShares, bottleneck,
};
use crate::control::threads::{join, spawn};
use fetchmill_model::error::Result;
use fetchmill_model::limits::{SAMPLE_EVERY, SAMPLE_LOOK};

/// Number of samples that determine the limiting cause.
const DECIDED_OVER: usize = 3;
/// Number of samples over which the reported rates are averaged.
const RATE_OVER: usize = 10;
/// Minimum length of the last sample. A shorter sample is too short for a rate.
const LAST_SAMPLE_MIN: Duration = Duration::from_millis(50);

/// Facts about a job that stay the same while it runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct SampledJob {
    pub(crate) rate: Option<f64>,
    pub(crate) bwlimit: Option<f64>,
    /// Whether the engine runs in this process's Python interpreter.
    pub(crate) is_python: bool,
    /// Whether the engine's workers report how they use their capacity.
    pub(crate) counts_capacity: bool,
    /// Request rate for a job's only host. `None` means no limit.
    pub(crate) rate_of_only_host: Option<f64>,
    /// Limits per host, in a job with many hosts.
    pub(crate) per_host: HostBounds,
}

/// Handle of the thread. See the [module documentation](self). When it is dropped, the thread takes a last sample and
/// ends.
pub(crate) struct Sampler {
    running: Option<(Sender<()>, JoinHandle<Option<()>>)>,
}

impl Sampler {
    pub(crate) fn start(shared: &Arc<JobState>, job: SampledJob) -> Result<Self> {
        let (end, ended) = crossbeam_channel::bounded(0);
        let shared = Arc::clone(shared);
        let stop = Arc::clone(&shared.control.stop);
        let thread = spawn("fetchmill-sample", &stop, move || {
            Sampling::new(&shared, job).run(&ended);
            Ok(())
        })?;
        Ok(Sampler { running: Some((end, thread)) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.running.take() {
            drop(end);
            join(thread);
        }
    }
}

/// Counts within one sample.
#[derive(Debug, Clone, Default)]
struct SampleCounts {
    seconds: f64,
    listed: u64,
    settled: u64,
    attempts: u64,
    bytes: u64,
    received: u64,
    shares: Shares,
    processors: Processors,
    writers: WriterShares,
}

/// Observations since the last sample.
#[derive(Debug, Default)]
struct Looks {
    count: u32,
    transforming: u32,
    storing: u32,
    without_targets: u32,
    held: u32,
}

struct Sampling<'j> {
    shared: &'j JobState,
    job: SampledJob,
    machine: Machine,
    capacity: CountedCapacity,
    latency: RecentLatency,
    origins: RecentOrigins,
    looks: Looks,
    before: Sum,
    since: Instant,
    last: VecDeque<SampleCounts>,
    probe: ConnectProbe,
}

impl<'j> Sampling<'j> {
    fn new(shared: &'j JobState, job: SampledJob) -> Self {
        Sampling {
            shared,
            job,
            machine: Machine::new(),
            capacity: CountedCapacity::default(),
            latency: RecentLatency::default(),
            origins: RecentOrigins::default(),
            looks: Looks::default(),
            before: shared.control.sum(),
            since: Instant::now(),
            last: VecDeque::new(),
            probe: ConnectProbe::default(),
        }
    }

    fn run(mut self, ended: &Receiver<()>) {
        loop {
            let patience = match self.probe.wait(SAMPLE_LOOK) {
                Some(took) => {
                    self.shared.control.telemetry.note_connection(None, Some(took));
                    Duration::ZERO
                }
                None if self.probe.is_under_way() => Duration::ZERO,
                None => SAMPLE_LOOK,
            };
            if ended.recv_timeout(patience) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            self.look();
            if self.since.elapsed() >= SAMPLE_EVERY {
                self.sample();
            }
        }
        if self.since.elapsed() >= LAST_SAMPLE_MIN {
            self.sample();
        }
        let telemetry = &self.shared.control.telemetry;
        if let Some(last) = telemetry.finish_samples() {
            self.store(&[last], &telemetry.latest());
        }
    }

    fn look(&mut self) {
        let control = &self.shared.control;
        self.looks.count += 1;
        let writers = || control.telemetry.workers.iter().map(WorkerTelemetry::writer);
        self.looks.storing += u32::from(writers().any(|writer| writer == WriterActivity::Storing));
        self.looks.transforming += u32::from(writers().any(|writer| writer == WriterActivity::Transforming));
        if !self.job.counts_capacity {
            self.looks.without_targets += u32::from(control.plan.lock().has_no_targets());
            self.looks.held += u32::from(control.plan.is_closed(control.clock.now()));
        }
    }

    fn sample(&mut self) {
        let sum = self.shared.control.sum();
        let before = std::mem::replace(&mut self.before, sum.clone());
        let seconds = std::mem::replace(&mut self.since, Instant::now()).elapsed().as_secs_f64();
        let telemetry = &self.shared.control.telemetry;
        let replies = telemetry.take_latency();
        let of_sample = replies.latency();
        self.latency.push(replies);
        self.origins.push(seconds, telemetry.take_origins());
        let mut sample = self.counts(seconds, &before, &sum);
        self.remember(&sample, sum.received.saturating_sub(before.received));
        let limited_by = bottleneck(&self.facts(&sample));
        self.probe_path(limited_by.as_ref());
        sample.latency = of_sample;
        sample.limited_by = limited_by.as_ref().map(|limited_by| limited_by.kind);
        self.tell(sample, limited_by);
    }

    /// Measures the connect time if replies seem to be queued. The result shows whether the queue is at the server or
    /// in the network.
    fn probe_path(&mut self, limited_by: Option<&LimitedBy>) {
        let is_queue = |kind| matches!(kind, LimitKind::Server | LimitKind::Network);
        if !limited_by.is_some_and(|limited_by| is_queue(limited_by.kind)) {
            self.probe.rest();
        } else if let Some(peer) = self.shared.control.telemetry.peer() {
            self.probe.start(peer);
        }
    }

    fn tell(&self, sample: Sample, limited_by: Option<LimitedBy>) {
        let control = &self.shared.control;
        if let Some(limited_by) = &limited_by {
            control.telemetry.count_cause(limited_by, sample.interval);
        }
        let progress = Progress {
            time: sample.time,
            objects_per_second: self.rate(RATE_OVER, |counted| counted.settled),
            bytes_per_second: self.rate(RATE_OVER, |counted| counted.bytes),
            in_flight: sample.in_flight,
            concurrency: sample.concurrency,
            latency: self.latency.latency(),
            origins: self.origins.latencies(),
            limited_by,
            pace: control.plan.lock().rate(),
        };
        self.store(&control.telemetry.push_sample(sample), &progress);
        control.telemetry.set_latest(progress);
    }

    fn store(&self, samples: &[Sample], progress: &Progress) {
        let rows =
            samples.iter().filter_map(|sample| Some((sample.time, serde_json::to_string(sample).ok()?)));
        let text = serde_json::to_string(progress).unwrap_or_default();
        self.shared.control.journal.send(JournalRequest::Samples(rows.collect(), text));
    }

    /// Returns a count per second, averaged over the last `samples` samples.
    fn rate(&self, samples: usize, of: fn(&SampleCounts) -> u64) -> f64 {
        let last = || self.last.iter().rev().take(samples);
        let seconds = last().map(|counted| counted.seconds).sum::<f64>().max(1e-3);
        last().map(|counted| of(counted) as f64).sum::<f64>() / seconds
    }

    fn remember(&mut self, sample: &Sample, received: u64) {
        let looks = std::mem::take(&mut self.looks);
        let part = |seen: u32| f64::from(seen) / f64::from(looks.count.max(1));
        let writers = WriterShares { transforming: part(looks.transforming), storing: part(looks.storing) };
        let workers = &self.shared.control.telemetry.workers;
        let mut shares = self.capacity.shares(workers.iter().map(|worker| &worker.capacity));
        if !self.job.counts_capacity {
            shares = seen_shares(part(looks.without_targets), part(looks.held), writers);
        }
        if self.last.len() >= RATE_OVER {
            self.last.pop_front();
        }
        self.last.push_back(SampleCounts {
            seconds: sample.interval,
            listed: sample.listed,
            settled: sample.settled,
            attempts: sample.attempts,
            bytes: sample.bytes,
            received,
            shares,
            processors: self.machine.look(),
            writers,
        });
    }

    fn facts(&self, sample: &Sample) -> LimitFacts {
        let control = &self.shared.control;
        let last = || self.last.iter().rev().take(DECIDED_OVER);
        let rate = |of: fn(&SampleCounts) -> u64| self.rate(DECIDED_OVER, of);
        let seconds = last().map(|counted| counted.seconds).sum::<f64>().max(1e-3);
        let mean = |of: fn(&SampleCounts) -> f64| {
            last().map(|counted| of(counted) * counted.seconds).sum::<f64>() / seconds
        };
        let planner = control.plan.lock();
        let (throttled, next) = (planner.rate(), planner.next_waiting());
        drop(planner);
        let host = || control.origins.host_text();
        LimitFacts {
            seconds,
            shares: Shares::mean(last().map(|counted| (&counted.shares, counted.seconds))),
            listed: rate(|counted| counted.listed),
            settled: rate(|counted| counted.settled),
            requests: rate(|counted| counted.attempts),
            bytes: rate(|counted| counted.received),
            pacing: Pacing {
                rate: self.job.rate,
                rate_per_host: self.job.rate_of_only_host.filter(|_| !control.origins.are_many()),
                bwlimit: self.job.bwlimit,
                throttled: throttled.map(|pace| (pace, host())),
            },
            processors: Processors {
                allowed: self.last.back().map_or(0.0, |counted| counted.processors.allowed),
                busy: mean(|counted| counted.processors.busy),
                own: mean(|counted| counted.processors.own),
                wanted: mean(|counted| counted.processors.wanted),
            },
            threads: control.plan.workers(),
            is_python: self.job.is_python,
            writers: WriterShares {
                transforming: mean(|counted| counted.writers.transforming),
                storing: mean(|counted| counted.writers.storing),
            },
            in_flight: sample.in_flight,
            concurrency: sample.concurrency,
            search: control.concurrency_search(),
            latency: self.latency.last(DECIDED_OVER).mean(),
            unloaded: control.telemetry.unloaded_latency(),
            path: control.telemetry.path(),
            outage: control
                .waits
                .all()
                .first()
                .map(|wait| format!("an outage: {} since {}", wait.what, wait.since)),
            is_listing_done: control.is_listing_done.load(Ordering::Relaxed),
            waiting: sample.waiting,
            last_targets: LastTargets { attempts_until: control.telemetry.attempts_until(), next },
            per_host: self.job.per_host,
        }
    }

    fn counts(&self, seconds: f64, before: &Sum, sum: &Sum) -> Sample {
        let planner = self.shared.control.plan.lock();
        let (concurrency, waiting) = (planner.concurrency() as u64, planner.waiting_targets() as u64);
        drop(planner);
        let kinds = sum
            .kinds
            .iter()
            .map(|(kind, count)| (kind.name().to_owned(), count.saturating_sub(before.kinds.count(kind))));
        let since = |of: fn(&Sum) -> u64| of(sum).saturating_sub(of(before));
        Sample {
            time: unix_micros() as f64 / 1e6,
            interval: seconds,
            listed: since(|sum| sum.tally.listed),
            settled: since(|sum| sum.tally.settled()),
            fetched: since(|sum| sum.tally.fetched),
            absent: since(|sum| sum.tally.absent),
            failed: since(|sum| sum.tally.failed),
            bytes: since(|sum| sum.tally.bytes),
            attempts: since(|sum| sum.attempts),
            in_flight: sum.in_flight,
            concurrency,
            waiting,
            failures: kinds.filter(|(_, count)| *count > 0).collect::<BTreeMap<_, _>>(),
            latency: None,
            limited_by: None,
        }
    }
}

/// Estimates the capacity shares of an engine whose workers do not report them. The estimate is based on how often the
/// engine was out of targets or on hold, and on how busy its writers were.
fn seen_shares(without_targets: f64, held: f64, writers: WriterShares) -> Shares {
    let rest = (1.0 - without_targets).max(0.0);
    let held = held.min(rest);
    let busy = writers.transforming.max(writers.storing);
    let sink = if busy >= 0.9 { rest - held } else { 0.0 };
    Shares::default()
        .with(CapacityUse::NoTargets, without_targets)
        .with(CapacityUse::Held, held)
        .with(CapacityUse::Sink, sink)
        .with(CapacityUse::Exchanging, rest - held - sink)
}
