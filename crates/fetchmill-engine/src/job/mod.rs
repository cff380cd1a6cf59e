//! The public interface of jobs: start, wait, stop, inspect, report.

mod cdxj;
mod connect_probe;
mod export;
mod health_check;
mod job_state;
mod run;
mod sampler;
mod second_pass;
mod skipped;
mod stop_watch;
mod take_up;

pub use export::{Export, ExportOptions, ExportSource, RangeCopies};
pub use job_state::{Interruption, JobReport};
pub use skipped::SkippedByReason;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use self::job_state::{JobState, plus};
use self::run::Run;
use self::take_up::{TakenUp, resume_times, take_up};
use super::control::Control;
use super::control::stop::Stop;
use super::control::telemetry::{Latency, LimitedBy, OriginLatency, Sample};
use super::fetch::dispatch::Dispatcher;
use super::fetch::dispatch::worker_registry::WorkerRegistry;
use super::plan::planning::plan_job;
use super::plan::preflight::Preflight;
use super::request::job_request::JobRequest;
use super::request::stop_rules::StopReason;
use super::request::workers::Workers;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::outcome::{KindCounts, Tally};
use fetchmill_model::source::list::Items;
use fetchmill_model::target::extra_columns::ColumnType;
use fetchmill_store::background::Background;
use fetchmill_store::journal::Wait;

/// A running job.
#[derive(Debug)]
pub struct Job {
    shared: Arc<JobState>,
    worker_registry: Arc<WorkerRegistry>,
    kept: Option<Vec<(String, ColumnType)>>,
    rows_chunks: Option<Receiver<Vec<u8>>>,
    running: Background<JobReport>,
}

/// State of a running job.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Counts of the whole job. They include earlier runs and outcomes that are not durable yet.
    pub tally: Tally,
    /// Number of targets that were finished before this run.
    pub settled_before: u64,
    /// Number of requests in flight.
    pub in_flight: u64,
    /// Number of targets that wait for a retry in memory.
    pub waiting: u64,
    /// Whether the listing is complete, so that the total number of targets is known.
    pub is_listing_done: bool,
    /// Number of objects that the listing announces, if any.
    pub total: Option<u64>,
    /// Fraction of the list read so far. `None` if it is unknown, or if the source is not a list.
    pub list_share: Option<f64>,
    /// Amount of the list read in this run: rows of a Parquet list, or decompressed bytes of any other list.
    pub list_read: u64,
    /// Amount of the list that was read when [`Job::end_list`] ended it.
    pub list_cut_at: Option<u64>,
    /// Number of listing pages in this run.
    pub pages: u64,
    /// Number of failed targets by kind.
    pub kinds: KindCounts,
    /// `listing`, `fetching`, `draining` or `done`.
    pub phase: &'static str,
    /// Time since the run started.
    pub elapsed: Duration,
    /// Whether an earlier run started the job.
    pub is_resumed: bool,
    /// Rule that stopped this run, if any.
    pub stopped_by: Option<StopReason>,
    /// Outages that the job is currently waiting out.
    pub waits: Vec<Wait>,
    /// Number of requests in this run.
    pub attempts: u64,
    /// Maximum number of requests in flight.
    pub concurrency: u64,
    /// Whether the search for the best concurrency is still running.
    pub tries_concurrency: bool,
    /// Requests per second sent to the only origin while it throttles requests.
    pub pace: Option<f64>,
    /// Cause that limits the job. `None` before the first measurement.
    pub limited_by: Option<LimitedBy>,
    /// Reply times of the last ten seconds. `None` if there were no replies, or if the engine does not report times.
    pub latency: Option<Latency>,
    /// Reply times per origin, in a job with many origins. Contains up to 64 origins: those with the most replies,
    /// busiest first.
    pub origins: Vec<OriginLatency>,
}

impl Job {
    /// Plans the job, recovers the unfinished work of an earlier run, and starts the threads. `given` is a list from a
    /// program ([`SourceOptions::Iterable`]). A list in a file is opened here.
    pub fn start(request: JobRequest, given: Option<Box<dyn Items>>) -> Result<Self> {
        let (plan, list) = plan_job(request, given)?;
        let TakenUp { mut journal, list, was_finished, is_resumed } = take_up(&plan, list)?;
        let preflight = Preflight::open(&plan, &journal)?;
        // The channel is unbounded because other limits bound its messages. The planner's window limits pages, each
        // worker sends one receipt at a time, and waiting targets are written faster than any server can fail. A
        // bounded channel would block the fetching threads.
        let (to_journal, messages) = crossbeam_channel::unbounded();
        let control = Control::new(&plan, plan.worker_count(), preflight, to_journal);
        resume_times(&control, &mut journal)?;
        let shared = Arc::new(JobState {
            control,
            before: journal.tally(),
            kinds_before: journal.kinds()?,
            is_resumed,
            rules: plan.request.stop_rules(),
        });
        let processes = if let Workers::Processes(count) = plan.request.workers { count } else { 0 };
        let worker_registry = Arc::new(WorkerRegistry::new(processes));
        let kept = list.as_ref().map(|list| plan.columns_of_list(&list.columns()));
        let is_given = plan.request.rows.as_ref().is_some_and(|rows| rows.is_given);
        let (to_program, rows_chunks) =
            is_given.then(|| crossbeam_channel::bounded(limits::ROWS_CHUNKS_QUEUED_MAX)).unzip();
        let run = Run {
            plan,
            list,
            journal,
            messages,
            was_finished,
            worker_registry: Arc::clone(&worker_registry),
            rows_chunks: to_program,
        };
        let (for_thread, panics) = (Arc::clone(&shared), Arc::clone(&shared.control.stop.panics));
        let running = Background::start("fetchmill-job", &panics, move || run.run(&for_thread))?;
        Ok(Job { shared, worker_registry, kept, rows_chunks, running })
    }

    /// Waits up to `timeout` for the job to end. Returns whether it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.shared.control.stop.heed_panic();
        self.running.wait(timeout)
    }

    /// Stops the job gracefully: finishes the requests in flight and makes them durable. A later run can resume the
    /// job.
    pub fn stop(&self) {
        self.shared.control.stop.ask(Stop::Drain);
    }

    /// Sets the maximum request rate per second, which must be above 0. Has no effect if the job was started without a
    /// rate.
    pub fn set_rate(&self, per_second: f64) {
        if let Some(pace) = &self.shared.control.pace {
            pace.set(Some(per_second));
        }
    }

    /// Sets the request rate per second for the only origin while it throttles requests. The rate must be above 0. The
    /// job then adapts the rate to the origin's refusals.
    pub fn set_pace(&self, per_second: f64) {
        let control = &self.shared.control;
        control.plan.resume_rate(per_second, control.clock.now());
    }

    /// Allows the job to read up to this many rows of its Parquet list in total. The last page can exceed the limit. If
    /// this is never called, the job reads all rows.
    pub fn allow_rows(&self, rows: u64) {
        self.shared.control.list_gate.allow(rows);
    }

    /// Ends the list at the current position. The job is finished when all targets before this position are finished.
    pub fn end_list(&self) {
        self.shared.control.list_gate.end();
    }

    /// Aborts the job without making anything durable. A later run can resume the job.
    pub fn abort(&self) {
        self.shared.control.stop.ask(Stop::Abort);
    }

    /// Takes the dispatcher for an engine in this process ([`super::Workers::Dispatcher`]). Waits up to `patience` for
    /// it. Returns `None` if the dispatcher does not exist yet, was already taken, or is not needed because nothing is
    /// left to do.
    pub fn take_dispatcher(&self, patience: Duration) -> Option<Dispatcher> {
        self.worker_registry.take_dispatcher(patience)
    }

    /// Attaches a worker process that was started ([`super::Workers::Processes`]). The two sockets are the ends that
    /// the job uses.
    pub fn attach(&self, worker: usize, pid: u32, turns: OwnedFd, receipts: OwnedFd) {
        self.worker_registry.attach(worker, pid, turns, receipts);
    }

    /// Returns the next rows as JSON lines, if the list is written out to the program
    /// ([`super::RowsOptions::is_given`]). Returns an empty string if no row arrives within `patience`, and `None`
    /// after the last row.
    pub fn take_rows(&self, patience: Duration) -> Option<Vec<u8>> {
        match self.rows_chunks.as_ref()?.recv_timeout(patience) {
            Ok(rows_chunk) => Some(rows_chunk),
            Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Returns the names and types of the kept columns, if the source is a list. Worker processes need them.
    pub fn kept(&self) -> Option<&[(String, ColumnType)]> {
        self.kept.as_deref()
    }

    /// Ends the job with an error after a checkpoint.
    pub fn fail(&self, error: Error) {
        self.shared.control.stop.fail(error);
    }

    /// Returns the report or the error once the job has ended. Only one call can take an error.
    pub fn report(&self) -> Option<Result<JobReport>> {
        self.running.take()
    }

    /// Returns the samples after the time `after`, in seconds since 1970 UTC, oldest first. Samples of earlier runs are
    /// included.
    pub fn samples(&self, after: f64) -> Vec<Sample> {
        self.shared.control.telemetry.samples(after)
    }

    /// Returns the current state, which is cheap to read.
    pub fn snapshot(&self) -> Snapshot {
        let control = &self.shared.control;
        let mut sum = control.sum();
        sum.kinds.add_all(&self.shared.kinds_before);
        let is_listing_done = control.is_listing_done.load(Ordering::Relaxed);
        let latest = control.telemetry.latest();
        let (waiting, concurrency, tries_concurrency, pace) = {
            let planner = control.plan.lock();
            let (waiting, concurrency) = (planner.waiting_targets() as u64, planner.concurrency() as u64);
            (waiting, concurrency, planner.tries_concurrency(), planner.rate())
        };
        Snapshot {
            tally: plus(self.shared.before, sum.tally),
            settled_before: self.shared.before.settled(),
            in_flight: sum.in_flight,
            waiting,
            is_listing_done,
            total: Some(control.told_total.load(Ordering::Relaxed)).filter(|total| *total > 0),
            list_share: control.list_share(),
            list_read: control.list_gate.read(),
            list_cut_at: control.list_gate.cut_at(),
            pages: control.listed_pages.load(Ordering::Relaxed),
            kinds: sum.kinds,
            phase: match (self.running.has_ended(), control.stop.get(), is_listing_done) {
                (true, ..) => "done",
                (_, Stop::Drain | Stop::Abort, _) => "draining",
                (_, _, true) => "fetching",
                _ => "listing",
            },
            elapsed: control.clock.elapsed(),
            is_resumed: self.shared.is_resumed,
            stopped_by: control.stop.reason(),
            waits: control.waits.all(),
            attempts: sum.attempts,
            concurrency,
            tries_concurrency,
            pace,
            limited_by: latest.limited_by,
            latency: latest.latency,
            origins: latest.origins,
        }
    }
}

impl Drop for Job {
    /// Ends the job's threads.
    fn drop(&mut self) {
        self.abort();
        self.running.join();
    }
}
