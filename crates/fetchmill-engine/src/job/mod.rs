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
use super::control::Control;
use super::control::clock::unix_micros;
use super::control::stop::Stop;
use super::control::telemetry::{Latency, LimitedBy, OriginLatency, Progress, Sample};
use super::fetch::dispatch::Dispatcher;
use super::fetch::dispatch::worker_registry::WorkerRegistry;
use super::list_input::OpenedList;
use super::plan::descriptors::fit_machine;
use super::plan::preflight::Preflight;
use super::request::options::{JobOptions, Workers};
use super::request::stop_rules::StopReason;
use super::writer::recovery;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::extra_columns::ColumnType;
use fetchmill_model::limits;
use fetchmill_model::outcome::{KindCounts, Tally};
use fetchmill_model::planner::retry::LONGEST_DELAY;
use fetchmill_model::source::list::Items;
use fetchmill_net::TlsRoots;
use fetchmill_store::background::Background;
use fetchmill_store::journal::{JobLocation, Journal, Wait};
use fetchmill_store::results::{refuse_unfit, take_back_unfetched};
use fetchmill_store::sink::{SinkSetup, UnfetchedFiles};

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
    /// Checks the options, opens the destination, finishes what an earlier run left half done, and starts.
    /// The list of a program is given with it ([`SourceOptions::Iterable`]); one in a file is opened here.
    pub fn start(mut options: JobOptions, given: Option<Box<dyn Items>>) -> Result<Self> {
        let mut list = open_source(&mut options, given)?;
        let mut notices = Vec::new();
        let resting_max = fit_machine(&mut options, &mut notices)?;
        let place = options.prepare_place()?;
        options.settle_listing(&place)?;
        options.settle_types(&place)?;
        let mut journal = Journal::open(&place, &options.identity(), options.is_durable())?;
        if let Some(pass) = &options.pass {
            journal.begin_at(pass.first_sequence)?;
        }
        if let Some(target) = options.results() {
            refuse_unfit(&journal, target.path)?;
        }
        let was_finished = take_up(&options, &place, &mut journal)?;
        if let Some(list) = &mut list {
            list.resume(&journal)?;
        }
        let before = journal.tally();
        let is_resumed = before.listed > 0 || journal.get("marker")?.is_some();
        if options.is_durable() && !is_resumed {
            place.sync()?;
        }
        if options.retry_failed.is_some() {
            start_second_pass(&options, &place, &mut journal)?;
        }
        let preflight = Preflight::open(&options, &place, &journal)?;
        // What waits in it is bounded by those who send: pages by the planner's window, receipts by one a worker, and
        // waiting targets go into the table faster than any server can fail. A bound would stop a thread that fetches.
        let (to_journal, messages) = crossbeam_channel::unbounded();
        let workers = options.worker_count();
        let control = Control::new(&options, workers, preflight, to_journal);
        resume_times(&control, &mut journal)?;
        let shared = Arc::new(JobState {
            control,
            before: journal.tally(),
            kinds_before: journal.kinds()?,
            is_resumed,
            rules: options.stop_rules(),
        });
        let processes = if let Workers::Processes(count) = options.workers { count } else { 0 };
        let worker_registry = Arc::new(WorkerRegistry::new(processes));
        let kept = list.as_ref().map(|list| options.kept_of_list(&list.columns()));
        let is_given = options.rows.as_ref().is_some_and(|rows| rows.is_given);
        let (to_program, rows_chunks) =
            is_given.then(|| crossbeam_channel::bounded(limits::ROWS_CHUNKS_QUEUED_MAX)).unzip();
        let run = Run {
            options,
            list,
            place: Arc::new(place),
            journal,
            messages,
            notices,
            resting_max,
            was_finished,
            worker_registry: Arc::clone(&worker_registry),
            upload_queue: None,
            first_page: None,
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

/// Finishes what an earlier run has left half done; whether the job is finished.
fn take_up(options: &JobOptions, place: &JobLocation, journal: &mut Journal) -> Result<bool> {
    let setup = options.sink_setup(place, 1)?;
    let is_finished = journal.get("finished_at")?.is_some();
    if !is_finished {
        take_back(options, journal, &setup)?;
        if let Some(shard_folder) = setup.shard_folder() {
            cdxj::forget_unplaced(journal, &shard_folder)?;
        }
    }
    recovery::recover(place, journal, &setup, (options.naming(), &options.stored_names()))?;
    Ok(is_finished)
}

/// What is meant waits for another attempt, and the job is not finished any more.
fn start_second_pass(options: &JobOptions, place: &JobLocation, journal: &mut Journal) -> Result<()> {
    let (naming, meant) = (options.naming(), &options.retry_failed);
    second_pass::start(place, journal, naming, options.is_durable(), meant)?;
    take_back(options, journal, &options.sink_setup(place, 1)?)
}

/// Removes what an earlier run has written of targets without an object. What it has uploaded of it is removed once the
/// store can be asked.
fn take_back(options: &JobOptions, journal: &Journal, setup: &SinkSetup) -> Result<()> {
    let Some(shard_folder) = setup.shard_folder() else { return Ok(()) };
    take_back_unfetched(journal, &shard_folder, UnfetchedFiles::of(&setup.columns))?;
    if options.upload.is_none() { journal.forget_unfetched() } else { Ok(()) }
}

/// Targets that wait, samples of earlier runs, and the pace of an origin that has throttled the last one.
fn resume_times(control: &Control, journal: &mut Journal) -> Result<()> {
    journal.clamp_waiting(control.clock.now(), LONGEST_DELAY)?;
    let samples = journal.samples()?;
    let samples = samples.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    control.telemetry.resume_series(samples);
    let progress = journal.progress()?.and_then(|text| serde_json::from_str::<Progress>(&text).ok());
    if let Some(pace) = progress.and_then(|progress| progress.pace_to_resume(unix_micros() as f64 / 1e6)) {
        control.plan.lock().resume_rate(pace);
    }
    Ok(())
}

/// Opens the list, if the source is one, and completes the options: with what it, the environment and the profile say.
fn open_source(options: &mut JobOptions, given: Option<Box<dyn Items>>) -> Result<Option<OpenedList>> {
    options.settle_rules()?;
    options.resolve_s3()?;
    if options.http.ca_file.is_some() || options.s3.ca_bundle.is_some() {
        // What is wrong with it is told before anything is made.
        TlsRoots::load(&options.http.tls(&options.s3))?;
    }
    let list = OpenedList::open(options, given)?;
    options.settle_columns(list.as_ref().map(OpenedList::columns))?;
    options.check()?;
    Ok(list)
}
