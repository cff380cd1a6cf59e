//! A job as the outside sees it: start, wait, stop, look, report.

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

pub use export::{Export, ExportOptions};
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

/// A job that runs.
#[derive(Debug)]
pub struct Job {
    shared: Arc<JobState>,
    worker_registry: Arc<WorkerRegistry>,
    kept: Option<Vec<(String, ColumnType)>>,
    rows_chunks: Option<Receiver<Vec<u8>>>,
    running: Background<JobReport>,
}

/// A job while it runs.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// All of the job, earlier runs included; what is not durable yet as well.
    pub tally: Tally,
    /// What was settled before this run.
    pub settled_before: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Targets in memory that wait for another attempt.
    pub waiting: u64,
    /// Whether the number of targets is known.
    pub is_listing_done: bool,
    /// How many objects the listing says that it has, if it does.
    pub total: Option<u64>,
    /// Part of the list that was read so far; `None` = not known, or no list.
    pub list_share: Option<f64>,
    /// Rows of a list that were read in this run, for Parquet; else bytes, decompressed.
    pub list_read: u64,
    /// How much of the list was read when that ended early, since it was asked to.
    pub list_cut_at: Option<u64>,
    /// Pages of the listing in this run.
    pub pages: u64,
    /// Failed targets by kind.
    pub kinds: KindCounts,
    /// `listing`, `fetching`, `draining` or `done`.
    pub phase: &'static str,
    /// Since the run started.
    pub elapsed: Duration,
    /// Whether an earlier run had begun it.
    pub is_resumed: bool,
    /// The rule that ends this run.
    pub stopped_by: Option<StopReason>,
    /// What it waits for now.
    pub waits: Vec<Wait>,
    /// Requests of this run.
    pub attempts: u64,
    /// Requests in flight at most.
    pub concurrency: u64,
    /// Whether that number is still being looked for.
    pub tries_concurrency: bool,
    /// What holds it back; none before that was measured.
    pub limited_by: Option<LimitedBy>,
    /// What replies took in the last ten seconds; none when there were none, or the engine does not say.
    pub latency: Option<Latency>,
    /// The same by origin, of a job over many: at most 64, the one with the most replies first.
    pub origins: Vec<OriginLatency>,
}

impl Job {
    /// Plans the job, finishes what an earlier run left half done, and starts.
    /// The list of a program is given with it ([`SourceOptions::Iterable`]); one in a file is opened here.
    pub fn start(request: JobRequest, given: Option<Box<dyn Items>>) -> Result<Self> {
        let (plan, list) = plan_job(request, given)?;
        let TakenUp { mut journal, list, was_finished, is_resumed } = take_up(&plan, list)?;
        let preflight = Preflight::open(&plan, &journal)?;
        // What waits in it is bounded by those who send: pages by the planner's window, receipts by one a worker, and
        // waiting targets go into the table faster than any server can fail. A bound would stop a thread that fetches.
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

    /// Waits for the end; whether it has come.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.shared.control.stop.heed_panic();
        self.running.wait(timeout)
    }

    /// Finishes what is in flight, makes it durable and ends; the same job can be resumed.
    pub fn stop(&self) {
        self.shared.control.stop.ask(Stop::Drain);
    }

    /// From now on at most so many requests a second; a number above 0. A job that began without a rate keeps none.
    pub fn set_rate(&self, per_second: f64) {
        if let Some(pace) = &self.shared.control.pace {
            pace.set(Some(per_second));
        }
    }

    /// Lets the job read so many rows of its Parquet list in all; a page may go beyond. Without this it reads all.
    pub fn allow_rows(&self, rows: u64) {
        self.shared.control.list_gate.allow(rows);
    }

    /// Ends the list with what was read of it: the job is finished when that is settled.
    pub fn end_list(&self) {
        self.shared.control.list_gate.end();
    }

    /// Ends without making anything durable; the same job can be resumed.
    pub fn abort(&self) {
        self.shared.control.stop.ask(Stop::Abort);
    }

    /// The dispatcher of an engine in this process ([`super::Workers::Dispatcher`]); waits at most this long for it.
    /// None when it is not there yet, was taken, or the job has nothing to do.
    pub fn take_dispatcher(&self, patience: Duration) -> Option<Dispatcher> {
        self.worker_registry.take_dispatcher(patience)
    }

    /// A worker's process has come up ([`super::Workers::Processes`]): the job's ends of its two sockets.
    pub fn attach(&self, worker: usize, pid: u32, turns: OwnedFd, receipts: OwnedFd) {
        self.worker_registry.attach(worker, pid, turns, receipts);
    }

    /// The next rows of a list that is written out to the program ([`super::RowsOptions::is_given`]), as lines of JSON;
    /// waits at most this long, and then gives none. `None` behind the last.
    pub fn take_rows(&self, patience: Duration) -> Option<Vec<u8>> {
        match self.rows_chunks.as_ref()?.recv_timeout(patience) {
            Ok(rows_chunk) => Some(rows_chunk),
            Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// What the kept columns are called and what their values are, when the source is a list: a worker's process must
    /// know.
    pub fn kept(&self) -> Option<&[(String, ColumnType)]> {
        self.kept.as_deref()
    }

    /// Ends it with an error, after a checkpoint.
    pub fn fail(&self, error: Error) {
        self.shared.control.stop.fail(error);
    }

    /// The report or error of a job that has ended; an error can be taken once.
    pub fn report(&self) -> Option<Result<JobReport>> {
        self.running.take()
    }

    /// What was sampled behind a moment, seconds since 1970 UTC, also in earlier runs: the oldest first.
    pub fn samples(&self, after: f64) -> Vec<Sample> {
        self.shared.control.telemetry.samples(after)
    }

    /// How it stands. Cheap.
    pub fn snapshot(&self) -> Snapshot {
        let control = &self.shared.control;
        let mut sum = control.sum();
        sum.kinds.add_all(&self.shared.kinds_before);
        let is_listing_done = control.is_listing_done.load(Ordering::Relaxed);
        let latest = control.telemetry.latest();
        let (waiting, concurrency, tries_concurrency) = {
            let planner = control.plan.lock();
            (planner.waiting_targets() as u64, planner.concurrency() as u64, planner.tries_concurrency())
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
            limited_by: latest.limited_by,
            latency: latest.latency,
            origins: latest.origins,
        }
    }
}

impl Drop for Job {
    /// No thread outlives the job.
    fn drop(&mut self) {
        self.abort();
        self.running.join();
    }
}
