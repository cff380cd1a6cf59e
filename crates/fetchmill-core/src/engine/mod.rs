//! The native engine: threads, connections, stop signal; it wires everything else.
//!
//! Threads of a job: one for the job itself, one for the journal, one for the listing, and for each processor a
//! worker that fetches with a writer beside it that has the sink. They meet once a batch (the planner's lock) and
//! once a block or window (channels).

mod control;
mod counters;
mod listing;
mod options;
mod recorder;
mod recovery;
mod worker;
mod writer;

pub use counters::Sum;
pub use options::{Format, JobOptions, Listing};

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::http1::RequestTemplate;
use crate::journal::{Journal, Place};
use crate::limits;
use crate::outcome::{FailureKind, KindCounts, Tally};
use crate::sink::failures::{FailureRows, FailuresShard};
use crate::sink::{FilesSink, NullSink, Properties, Sink, Stage};
use crate::target::Waiting;
use control::{Control, Stop};
use recorder::ToJournal;

/// A job that runs.
#[derive(Debug)]
pub struct Job {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    control: Arc<Control>,
    /// What was settled before this run.
    before: Tally,
    kinds_before: KindCounts,
    is_resumed: bool,
    ended: Mutex<Option<Result<Report>>>,
    has_ended: Condvar,
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
    /// Failed targets by kind.
    pub kinds: KindCounts,
    /// `listing`, `fetching`, `draining` or `done`.
    pub phase: &'static str,
    /// Since the run started.
    pub elapsed: Duration,
    /// Whether an earlier run had begun it.
    pub is_resumed: bool,
}

/// A job that has ended.
#[derive(Debug, Clone)]
pub struct Report {
    /// The ledger: what is durable.
    pub tally: Tally,
    /// Failed targets by kind.
    pub kinds: KindCounts,
    /// Of this run.
    pub elapsed: Duration,
    /// Requests of this run.
    pub attempts: u64,
    /// When the listing was complete, ISO 8601 UTC.
    pub listed_at: Option<String>,
    /// There was nothing left to do.
    pub was_finished: bool,
    /// It was stopped before its end.
    pub is_interrupted: bool,
    /// An earlier run had begun it.
    pub is_resumed: bool,
    /// What a user should know.
    pub notices: Vec<String>,
}

impl Job {
    /// Checks the options, opens the destination, finishes what an earlier run left half done, and starts.
    pub fn start(mut options: JobOptions) -> Result<Self> {
        options.check()?;
        let mut notices = Vec::new();
        fit_descriptors(&mut options, &mut notices)?;
        let place = Place::prepare(&options.dest, options.state.as_deref())?;
        let mut journal = Journal::open(&place, &options.identity(), options.is_durable)?;
        recovery::recover(&place, &mut journal, options.is_durable)?;
        let before = journal.tally();
        let is_resumed = before.listed > 0 || journal.get("marker")?.is_some();
        let was_finished = journal.get("finished_at")?.is_some();
        if options.retry_failed {
            start_pass(&place, &mut journal)?;
        }
        // What waits in it is bounded by those who send: pages by the planner's window, receipts by one a worker, and
        // waiting targets go into the table faster than any server can fail. A bound would stop a thread that fetches.
        let (to_journal, messages) = crossbeam_channel::unbounded();
        let workers = options.threads.unwrap_or(1).min(options.limit as usize);
        let control = Control::new(&options, workers, to_journal);
        let shared = Arc::new(Shared {
            control,
            before: journal.tally(),
            kinds_before: journal.kinds()?,
            is_resumed,
            ended: Mutex::new(None),
            has_ended: Condvar::new(),
        });
        let run = Run { options, place, journal, messages, notices, was_finished };
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("fetchmill-job".into())
            .spawn(move || {
                let ended = run.run(&for_thread);
                *for_thread.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
                for_thread.has_ended.notify_all();
            })
            .map_err(|error| Error::storage("start a thread of", "this process", error))?;
        Ok(Job { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Waits for the end; whether it has come.
    pub fn wait(&self, timeout: Duration) -> bool {
        let ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.shared.has_ended.wait_timeout_while(ended, timeout, |ended| ended.is_none());
        let has_ended = waited.unwrap_or_else(PoisonError::into_inner).0.is_some();
        if has_ended && let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It has nothing left to do but to return.
            let _ = thread.join();
        }
        has_ended
    }

    /// Finishes what is in flight, makes it durable and ends; the same job can be resumed.
    pub fn stop(&self) {
        self.shared.control.ask_to_stop(Stop::Drain);
    }

    /// Ends without making anything durable; the same job can be resumed.
    pub fn abort(&self) {
        self.shared.control.ask_to_stop(Stop::Abort);
    }

    /// The report or error of a job that has ended; an error can be taken once.
    pub fn report(&self) -> Option<Result<Report>> {
        self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How it stands. Cheap.
    pub fn snapshot(&self) -> Snapshot {
        let control = &self.shared.control;
        let mut sum = control.sum();
        sum.kinds.add_all(&self.shared.kinds_before);
        let has_ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let is_listing_done = control.is_listing_done.load(Ordering::Relaxed);
        Snapshot {
            tally: add(self.shared.before, sum.tally),
            settled_before: self.shared.before.settled(),
            in_flight: sum.in_flight,
            waiting: control.planner().waiting_targets() as u64,
            is_listing_done,
            kinds: sum.kinds,
            phase: match (has_ended, control.stop(), is_listing_done) {
                (true, ..) => "done",
                (_, Stop::Drain | Stop::Abort, _) => "draining",
                (_, _, true) => "fetching",
                _ => "listing",
            },
            elapsed: control.clock.elapsed(),
            is_resumed: self.shared.is_resumed,
        }
    }
}

impl Drop for Job {
    /// No thread outlives the job.
    fn drop(&mut self) {
        self.abort();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

fn add(one: Tally, other: Tally) -> Tally {
    Tally {
        listed: one.listed + other.listed,
        fetched: one.fetched + other.fetched,
        absent: one.absent + other.absent,
        failed: one.failed + other.failed,
        skipped: one.skipped + other.skipped,
        bytes: one.bytes + other.bytes,
    }
}

/// Processors that this process may use.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Raises the soft limit of descriptors, and lowers the number of threads and of requests to what it allows.
fn fit_descriptors(options: &mut JobOptions, notices: &mut Vec<String>) -> Result<()> {
    use limits::{DESCRIPTORS_A_WORKER, DESCRIPTORS_RESERVED, WORKER_CONNECTIONS_MIN};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let workers = options.threads.unwrap_or_else(processors).min(options.limit as usize);
    options.threads = Some(workers);
    let Some(allowed) = allowed else { return Ok(()) };
    // A body that does not fit into memory is in a file of its own while it is received.
    let each = if options.format == Format::Files { 2 } else { 1 };
    let left = allowed.saturating_sub(DESCRIPTORS_RESERVED);
    if left < DESCRIPTORS_A_WORKER + each {
        return Err(Error::Usage(format!(
            "only {allowed} open files are allowed, at least {} are needed: raise the limit (ulimit -n)",
            DESCRIPTORS_RESERVED + DESCRIPTORS_A_WORKER + each
        )));
    }
    let workers_max = left / (DESCRIPTORS_A_WORKER + WORKER_CONNECTIONS_MIN * each);
    let workers = (workers as u64).min(workers_max.max(1));
    let connections = (left - workers * DESCRIPTORS_A_WORKER) / each;
    if u64::from(options.limit) > connections {
        notices.push(format!(
            "--limit {} lowered to {connections}: {allowed} open files are allowed (ulimit -n)",
            options.limit
        ));
        options.limit = connections as u32;
    }
    options.threads = Some(workers as usize);
    Ok(())
}

/// Everything that failed or was absent waits for another attempt.
fn start_pass(place: &Place, journal: &mut Journal) -> Result<()> {
    let shards = journal.failures_shards()?;
    let folder = place.failures_path();
    journal.start_pass(|each| {
        for shard in &shards {
            for row in FailureRows::open(&folder, shard)? {
                let row = row?;
                let damaged = || Error::Journal(format!("{} is damaged: a row has no name", shard.path));
                let kind = row.kind.as_deref().and_then(FailureKind::from_name);
                each(Waiting {
                    sequence: row.sequence,
                    name: row.name_bytes().ok_or_else(damaged)?.into_boxed_slice(),
                    attempts: 0,
                    kind: kind.unwrap_or(FailureKind::Status),
                    not_before: 0,
                    throttled_since: 0,
                })?;
            }
        }
        Ok(())
    })?;
    crate::sink::failures::cut_back(&folder, &[])
}

/// A sink, what it does, and where it stages.
type SinkParts = (Box<dyn Sink>, Properties, Option<Arc<Stage>>);

/// A job before its threads are there.
struct Run {
    options: JobOptions,
    place: Place,
    journal: Journal,
    messages: crossbeam_channel::Receiver<ToJournal>,
    notices: Vec<String>,
    was_finished: bool,
}

impl Run {
    fn run(mut self, shared: &Shared) -> Result<Report> {
        if !self.options.retry_failed && self.was_finished {
            return self.report(shared, true);
        }
        let control = Arc::clone(&shared.control);
        let from = self.listing_start()?;
        if self.journal.has_waiting()? {
            control.planner().resume_waiting();
        }
        let addresses = self.resolve(matches!(from, listing::From::Nowhere))?;
        let (writers, workers) = self.threads(&control, &addresses)?;
        let lister = self.lister(&control, &addresses)?;
        let journal = self.journal;
        let messages = self.messages;
        let recorder = {
            let control = Arc::clone(&control);
            spawn("fetchmill-journal", &Arc::clone(&control), move || {
                recorder::run(journal, &messages, &control)
            })?
        };
        let lister = spawn("fetchmill-list", &control, move || {
            lister.run(from);
            Ok(())
        })?;
        let mut threads = Vec::new();
        for writer in writers {
            threads.push(spawn("fetchmill-sink", &control, move || writer.run())?);
        }
        for setup in workers {
            threads.push(spawn("fetchmill-fetch", &control, move || worker::run(setup))?);
        }
        for thread in threads.into_iter().chain([lister]) {
            join(thread, &control);
        }
        control.end_journal();
        let journal = join(recorder, &control);
        let run = Finished { place: self.place, journal, notices: self.notices };
        run.finish(shared)
    }

    fn report(&self, shared: &Shared, was_finished: bool) -> Result<Report> {
        report(shared, &self.journal, self.notices.clone(), was_finished)
    }

    fn listing_start(&mut self) -> Result<listing::From> {
        match &self.options.listing {
            Listing::Api(_) if self.journal.get("listed_at")?.is_some() => Ok(listing::From::Nowhere),
            Listing::Api(names) => Ok(listing::From::Api(names.clone(), self.journal.get("marker")?)),
            Listing::Autoindex => {
                if self.journal.get("walk")?.is_none() {
                    self.journal.start_walk()?;
                }
                Ok(listing::From::Autoindex)
            }
        }
    }

    fn resolve(&self, is_listed: bool) -> Result<Arc<[SocketAddr]>> {
        let source = &self.options.source;
        crate::transport::resolve(&source.host(), source.port()).map(Into::into).map_err(|reason| {
            let message =
                format!("cannot look up the host {} (dns): {reason}; is the name right?", source.host());
            if is_listed { Error::Temporary(message) } else { Error::Listing(message) }
        })
    }

    fn template(&self) -> Result<RequestTemplate> {
        let source = &self.options.source;
        let (before, behind) = match &self.options.listing {
            Listing::Api(names) => names.around_name()?,
            Listing::Autoindex => ("/", ""),
        };
        RequestTemplate::new(&source.authority(), &format!("{}{before}", source.path()), behind, &[])
    }

    fn lister(&self, control: &Arc<Control>, addresses: &Arc<[SocketAddr]>) -> Result<listing::Lister> {
        Ok(listing::Lister {
            control: Arc::clone(control),
            origin: self.options.source.clone(),
            addresses: Arc::clone(addresses),
            template: self.template()?,
            timeouts: listing::page_timeouts(self.options.timeouts),
            runtime: waiting_runtime()?,
            connection: None,
            jitter: listing::jitter(control.clock.now()),
            has_listed: self.journal.tally().listed > 0 || self.journal.get("marker")?.is_some(),
        })
    }

    fn sink(&self, index: usize) -> Result<SinkParts> {
        match self.options.format {
            Format::Null => {
                let properties = Properties { keeps_bodies: false, names_are_paths: false };
                Ok((Box::new(NullSink::default()), properties, None))
            }
            Format::Files => {
                let stage = Arc::new(Stage::open(&self.place.stage_path().join(index.to_string()))?);
                let sink = FilesSink::open(&self.place.dest, Arc::clone(&stage), self.options.is_durable)?
                    .settle_before_rename(self.options.settle_before_rename);
                let properties = Properties { keeps_bodies: true, names_are_paths: true };
                Ok((Box::new(sink), properties, Some(stage)))
            }
        }
    }

    fn threads(
        &self,
        control: &Arc<Control>,
        addresses: &Arc<[SocketAddr]>,
    ) -> Result<(Vec<writer::Writer>, Vec<worker::Setup>)> {
        let count = control.workers();
        let limit = self.options.limit as usize;
        let (mut writers, mut workers) = (Vec::new(), Vec::new());
        for index in 0..count {
            let (blocks, to_write) = tokio::sync::mpsc::channel((limits::BLOCKS_QUEUED_MAX / count).max(1));
            let (empty, to_fill) = tokio::sync::mpsc::unbounded_channel();
            let (sink, properties, stage) = self.sink(index)?;
            writers.push(writer::Writer {
                worker: index as u32,
                control: Arc::clone(control),
                sink,
                failures: FailuresShard::new(
                    &self.place.failures_path(),
                    recovery::shard_name("worker", index as u32),
                    self.options.is_durable,
                ),
                commit_window: self.options.commit_window,
                runtime: waiting_runtime()?,
                blocks: to_write,
                empty,
                others: Vec::new(),
                tally: Tally::default(),
                kinds: KindCounts::default(),
            });
            workers.push(worker::Setup {
                index,
                control: Arc::clone(control),
                addresses: Arc::clone(addresses),
                template: self.template()?,
                connections: limit / count + usize::from(index < limit % count),
                timeouts: self.options.timeouts,
                attempts_max: self.options.attempts,
                max_body: self.options.max_size,
                allow_eof_bodies: self.options.allow_eof_bodies,
                properties,
                stage,
                blocks,
                empty: to_fill,
            });
        }
        Ok((writers, workers))
    }
}

/// A runtime for a thread that does one thing at a time.
fn waiting_runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| Error::storage("make an event queue of", "this process", error))
}

/// Starts a thread whose error, or panic, ends the job.
fn spawn<T: Send + 'static>(
    name: &str,
    control: &Arc<Control>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Option<T>>> {
    let control = Arc::clone(control);
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            let guard = PanicGuard(&control);
            let done = work();
            std::mem::forget(guard);
            done.map_err(|error| control.fail(error)).ok()
        })
        .map_err(|error| Error::storage("start a thread of", "this process", error))
}

/// A thread that panics ends the job at once: a half-alive one would wait for it for ever.
struct PanicGuard<'c>(&'c Control);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        self.0.fail(Error::Internal("a thread has panicked".into()));
        self.0.ask_to_stop(Stop::Abort);
    }
}

fn join<T>(thread: JoinHandle<Option<T>>, control: &Control) -> Option<T> {
    thread.join().unwrap_or_else(|_| {
        control.fail(Error::Internal("a thread has panicked".into()));
        None
    })
}

/// A job whose threads have ended.
struct Finished {
    place: Place,
    journal: Option<Journal>,
    notices: Vec<String>,
}

impl Finished {
    fn finish(self, shared: &Shared) -> Result<Report> {
        let control = &shared.control;
        let failure = control.take_failure();
        let Some(mut journal) = self.journal else {
            return Err(failure.unwrap_or_else(|| Error::Internal("the journal's thread has ended".into())));
        };
        let is_complete = failure.is_none() && control.stop() == Stop::No;
        if is_complete {
            let tally = journal.tally();
            if tally.pending() > 0 {
                return Err(Error::Internal(format!(
                    "{} targets have no outcome: {tally:?}",
                    tally.pending()
                )));
            }
            journal.begin()?;
            journal.finish()?;
            journal.commit()?;
        }
        // After an error a journaled window may still be there: the next run puts it in its place.
        if control.stop() != Stop::Abort && journal.staged()?.is_empty() {
            recovery::remove_stage(&self.place.stage_path())?;
        }
        match failure {
            Some(error) => Err(error),
            None => report(shared, &journal, self.notices, false),
        }
    }
}

fn report(shared: &Shared, journal: &Journal, notices: Vec<String>, was_finished: bool) -> Result<Report> {
    let sum = shared.control.sum();
    Ok(Report {
        tally: journal.tally(),
        kinds: journal.kinds()?,
        elapsed: shared.control.clock.elapsed(),
        attempts: sum.attempts,
        listed_at: journal.get("listed_at")?,
        was_finished,
        is_interrupted: shared.control.stop() != Stop::No,
        is_resumed: shared.is_resumed,
        notices,
    })
}
