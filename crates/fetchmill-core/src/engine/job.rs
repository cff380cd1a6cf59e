//! A job as the outside sees it: start, wait, stop, look, report.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::control::{Control, Stop};
use super::descriptors::fit_descriptors;
use super::desk::Desk;
use super::listing::List;
use super::lobby::Lobby;
use super::options::{JobOptions, Workers};
use super::preflight::Preflight;
use super::run::Run;
use super::{recovery, second_pass};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::kept::Columns;
use crate::limits;
use crate::outcome::{KindCounts, Tally};
use crate::results::{Summary, refuse_unfit};
use crate::source::list::Items;
use crate::transport::TlsRoots;

/// A job that runs.
#[derive(Debug)]
pub struct Job {
    shared: Arc<Shared>,
    lobby: Arc<Lobby>,
    kept: Option<Vec<String>>,
    parcels: Option<Receiver<Vec<u8>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) control: Arc<Control>,
    /// What was settled before this run.
    pub(super) before: Tally,
    pub(super) kinds_before: KindCounts,
    pub(super) is_resumed: bool,
    pub(super) ended: Mutex<Option<Result<Report>>>,
    pub(super) has_ended: Condvar,
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
    /// What a check has found.
    pub summary: Option<Summary>,
    /// What a user should know.
    pub notices: Vec<String>,
}

impl Job {
    /// Checks the options, opens the destination, finishes what an earlier run left half done, and starts.
    /// The list of a program is given with it ([`SourceOptions::Iterable`]); one in a file is opened here.
    pub fn start(mut options: JobOptions, given: Option<Box<dyn Items>>) -> Result<Self> {
        if options.tls.ca_file.is_some() {
            // What is wrong with it is told before anything is made.
            TlsRoots::load(&options.tls)?;
        }
        options.s3.resolve()?;
        let mut list = List::open(&options.source, given)?;
        if let Some(list) = &list {
            options.columns = Columns::of_list(list.columns())?;
        }
        options.add_transformed_columns()?;
        options.check()?;
        let mut notices = Vec::new();
        fit_descriptors(&mut options, &mut notices)?;
        let place = options.prepare_place()?;
        let mut journal = Journal::open(&place, &options.identity(), options.is_durable)?;
        if let Some(target) = options.results() {
            refuse_unfit(&journal, target.path)?;
        }
        recovery::recover(&place, &mut journal, &options.sink_setup(&place, 1)?, options.naming())?;
        if let Some(list) = &mut list {
            list.resume(&journal)?;
        }
        let before = journal.tally();
        let is_resumed = before.listed > 0 || journal.get("marker")?.is_some();
        if options.is_durable && !is_resumed {
            place.sync()?;
        }
        let was_finished = journal.get("finished_at")?.is_some();
        if options.retry_failed {
            second_pass::start(&place, &mut journal, options.naming(), options.is_durable)?;
        }
        let preflight = Preflight::open(&options, &place, &journal)?;
        // What waits in it is bounded by those who send: pages by the planner's window, receipts by one a worker, and
        // waiting targets go into the table faster than any server can fail. A bound would stop a thread that fetches.
        let (to_journal, messages) = crossbeam_channel::unbounded();
        let workers = options.worker_count();
        let control = Control::new(&options, workers, preflight, to_journal);
        let shared = Arc::new(Shared {
            control,
            before: journal.tally(),
            kinds_before: journal.kinds()?,
            is_resumed,
            ended: Mutex::new(None),
            has_ended: Condvar::new(),
        });
        let processes = if let Workers::Processes(count) = options.workers { count } else { 0 };
        let lobby = Arc::new(Lobby::new(processes));
        let kept = list.as_ref().map(List::columns);
        let is_given = options.rows.as_ref().is_some_and(|rows| rows.is_given);
        let (to_program, parcels) =
            is_given.then(|| crossbeam_channel::bounded(limits::PARCELS_QUEUED_MAX)).unzip();
        let run = Run {
            options,
            list,
            place: Arc::new(place),
            journal,
            messages,
            notices,
            was_finished,
            lobby: Arc::clone(&lobby),
            depot: None,
            parcels: to_program,
        };
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("fetchmill-job".into())
            .spawn(move || {
                let ended = run.run(&for_thread);
                *for_thread.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
                for_thread.has_ended.notify_all();
            })
            .map_err(|error| Error::storage("start a thread of", "this process", error))?;
        Ok(Job { shared, lobby, kept, parcels, thread: Mutex::new(Some(thread)) })
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

    /// The desk of an engine in this process ([`super::Workers::Desk`]), once it is there; waits at most this long. None
    /// when it is not there yet, was taken, or the job has nothing to do.
    pub fn take_desk(&self, patience: Duration) -> Option<Desk> {
        self.lobby.take_desk(patience)
    }

    /// A worker's process has come up ([`super::Workers::Processes`]): the job's ends of its two sockets.
    pub fn attach(&self, worker: usize, pid: u32, turns: OwnedFd, receipts: OwnedFd) {
        self.lobby.attach(worker, pid, turns, receipts);
    }

    /// The next rows of a list that is written out to the program ([`super::RowsOptions::is_given`]), as lines of JSON;
    /// waits at most this long, and then gives none. `None` behind the last.
    pub fn take_rows(&self, patience: Duration) -> Option<Vec<u8>> {
        match self.parcels.as_ref()?.recv_timeout(patience) {
            Ok(parcel) => Some(parcel),
            Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// What the kept columns are called, when the source is a list: a worker's process must know.
    pub fn kept(&self) -> Option<&[String]> {
        self.kept.as_deref()
    }

    /// Ends it with an error, after a checkpoint.
    pub fn fail(&self, error: Error) {
        self.shared.control.fail(error);
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
