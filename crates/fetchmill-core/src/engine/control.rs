//! What the threads of a job share: the plan behind its lock, the signals, and the first error.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;

use super::counters::{self, Counters, Sum};
use super::desk::{self, Outlet};
use super::options::JobOptions;
use super::preflight::Preflight;
use super::recorder::ToJournal;
use super::s3::Access;
use crate::error::Error;
use crate::limits;
use crate::origin::OriginKey;
use crate::planner::origin::Millis;
use crate::planner::pace::Pace;
use crate::planner::{Next, Planner, PlannerOptions, Report};
use crate::target::{Batch, LiveBytes};

/// How far a job is asked to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Stop {
    /// To its end.
    No = 0,
    /// Finish what is in flight, make it durable, end.
    Drain = 1,
    /// End.
    Abort = 2,
}

/// Milliseconds: 1970 UTC when the job starts, monotonic from there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    started: Instant,
    offset: Millis,
}

impl Clock {
    pub(super) fn start() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Clock { started: Instant::now(), offset: since.as_millis() as Millis }
    }

    pub(super) fn now(&self) -> Millis {
        self.offset + self.started.elapsed().as_millis() as Millis
    }

    /// Microseconds from its start to a moment.
    pub(super) fn micros_at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.started).as_micros() as u64
    }

    /// Microseconds since the job started.
    pub(super) fn micros(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) clock: Clock,
    planner: Mutex<Planner>,
    /// Signalled when there may be room for a page.
    room: Condvar,
    wake: Vec<Notify>,
    pub(super) live_bytes: LiveBytes,
    stop: AtomicU8,
    /// When it was first asked to stop, in microseconds of the clock.
    stopped_at: AtomicU64,
    /// The origin rests until then: looked at before each target, so no lock.
    resting_until: AtomicU64,
    /// The origin has sent a reply that nobody asked for: looked at after each reply.
    is_suspicious: AtomicBool,
    /// The server that lists its objects itself. Where a bucket is shows when it was talked to.
    server: OnceLock<OriginKey>,
    /// What is known of stores of S3, if the job has anything to do with them.
    store: Arc<Access>,
    /// What a user should know at the end.
    notices: Mutex<Vec<String>>,
    /// A list that leads to more than one origin: what fails at one says nothing of the job.
    has_many_origins: AtomicBool,
    /// The origin of a list's first target.
    first_origin: Mutex<Option<Vec<u8>>>,
    /// The rate of the whole job, if it is limited.
    pub(super) pace: Option<Pace>,
    /// That of the only origin, while it throttles: set at each turn, looked at before each request, so no lock.
    pub(super) origin_pace: Pace,
    /// Waiting targets that the journal has not yet written.
    parking: AtomicUsize,
    failure: Mutex<Option<Error>>,
    /// Of a desk, which might not come back.
    outlet: Mutex<Option<Outlet>>,
    /// None: nothing is checked.
    pub(super) preflight: Option<Preflight>,
    pub(super) is_listing_done: AtomicBool,
    pub(super) counters: Vec<Counters>,
    /// Taken away at the end: the journal's thread works until nobody can send.
    to_journal: Mutex<Option<crossbeam_channel::Sender<ToJournal>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked ends the job anyway (engine::job); what it held is plain data.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Control {
    pub(super) fn new(
        options: &JobOptions,
        workers: usize,
        preflight: Option<Preflight>,
        to_journal: crossbeam_channel::Sender<ToJournal>,
    ) -> Arc<Self> {
        let clock = Clock::start();
        let planner = PlannerOptions {
            workers,
            limit: options.limit as usize,
            commit_window: options.commit_window.as_millis() as Millis,
            give_up_after: options.give_up_after.as_millis() as Millis,
            seed: options.seed.unwrap_or_else(|| clock.now() ^ (u64::from(std::process::id()) << 32)),
        };
        let mut planner = Planner::new(planner, clock.now());
        if options.rows.is_some() && !options.lists_only() {
            // What a host says in a check says nothing of the job, be it the only one.
            planner.route_by_host(clock.now());
        }
        Arc::new(Control {
            clock,
            planner: Mutex::new(planner),
            room: Condvar::new(),
            wake: (0..workers).map(|_| Notify::new()).collect(),
            live_bytes: Arc::new(AtomicUsize::new(0)),
            stop: AtomicU8::new(0),
            stopped_at: AtomicU64::new(u64::MAX),
            resting_until: AtomicU64::new(0),
            is_suspicious: AtomicBool::new(false),
            server: OnceLock::new(),
            store: Access::new(options.s3.clone()),
            notices: Mutex::default(),
            // Of targets that are only listed it does not matter.
            has_many_origins: AtomicBool::new(options.rows.is_some()),
            first_origin: Mutex::new(None),
            pace: options.rate.map(Pace::new),
            origin_pace: Pace::unset(limits::PACE_BURST),
            parking: AtomicUsize::new(0),
            failure: Mutex::new(None),
            outlet: Mutex::new(None),
            preflight,
            is_listing_done: AtomicBool::new(false),
            // The workers' and the listing's.
            counters: (0..=workers).map(|_| Counters::default()).collect(),
            to_journal: Mutex::new(Some(to_journal)),
        })
    }

    pub(super) fn planner(&self) -> MutexGuard<'_, Planner> {
        lock(&self.planner)
    }

    pub(super) fn workers(&self) -> usize {
        self.wake.len()
    }

    pub(super) fn listing_counters(&self) -> &Counters {
        &self.counters[self.counters.len() - 1]
    }

    pub(super) fn sum(&self) -> Sum {
        counters::sum(self.counters.iter())
    }

    /// Sends to the journal's thread. When that has ended there is an error already, and the job is ending.
    pub(super) fn journal(&self, message: ToJournal) {
        if let ToJournal::Waiting(targets) = &message {
            self.parking.fetch_add(targets.len(), Ordering::Relaxed);
        }
        let to_journal = lock(&self.to_journal).clone();
        if let Some(to_journal) = to_journal {
            let _ = to_journal.send(message);
        }
    }

    /// The journal has written so many waiting targets.
    pub(super) fn parked(&self, targets: usize) {
        self.parking.fetch_sub(targets, Ordering::Relaxed);
    }

    /// Whether the journal has enough waiting targets to write: no more are parked.
    pub(super) fn is_parking_full(&self) -> bool {
        self.parking.load(Ordering::Relaxed) >= limits::PARKING_MAX
    }

    /// Nobody will send to the journal's thread any more.
    pub(super) fn end_journal(&self) {
        lock(&self.to_journal).take();
    }

    /// A worker's turn: it says what it has done and gets something to do. One lock.
    pub(super) fn turn(&self, worker: usize, report: Report, max: usize) -> Next {
        let now = self.clock.now();
        let (to_journal, load, next, is_given_up, is_freed) = {
            let mut planner = self.planner();
            let was_held_back = planner.is_held_back(now);
            let to_journal = planner.report(report, now);
            let next = if max > 0 { planner.next_batch(worker, max, now) } else { planner.outlook() };
            self.resting_until.store(planner.resting_until(now).unwrap_or(0), Ordering::Relaxed);
            self.is_suspicious.store(planner.is_suspicious(), Ordering::Relaxed);
            self.origin_pace.set(planner.rate());
            let is_freed = was_held_back && !planner.is_held_back(now) || planner.take_divided();
            (to_journal, planner.wants_waiting(), next, planner.is_given_up(now), is_freed)
        };
        self.room.notify_all();
        if !to_journal.is_empty() {
            self.journal(ToJournal::Waiting(to_journal));
        }
        if let Some((from, max)) = load {
            self.journal(ToJournal::LoadWaiting { from, max });
        }
        if is_given_up {
            self.fail(Error::Temporary(
                "the server gave no good reply for too long (--give-up-after); run the same command again to resume"
                    .into(),
            ));
        }
        if is_freed || matches!(next, Next::Done) {
            self.wake_all();
        }
        next
    }

    pub(super) fn give_back(&self, batch: Batch) {
        self.planner().give_back(batch);
    }

    pub(super) fn is_suspicious(&self) -> bool {
        self.is_suspicious.load(Ordering::Relaxed)
    }

    /// Whether this origin is all that the job has: it lists its objects, or a list that is long enough names no other.
    pub(super) fn is_only_origin(&self, key: &OriginKey) -> bool {
        if let Some(server) = self.server.get() {
            return server == key;
        }
        let is_long = || self.listing_counters().listed() >= limits::LIST_OF_ONE_ORIGIN;
        let is_listed = self.is_listing_done.load(Ordering::Relaxed) || is_long();
        is_listed && !self.has_many_origins() && self.first_origin().as_deref() == Some(key.text().as_bytes())
    }

    /// Whether a server lists the targets.
    pub(super) fn has_server(&self) -> bool {
        self.server.get().is_some()
    }

    /// The only origin of the job is this.
    pub(super) fn set_server(&self, key: OriginKey) {
        // Set once, before there are threads that look.
        let _ = self.server.set(key);
    }

    /// What is known of stores of S3.
    pub(super) fn store(&self) -> &Arc<Access> {
        &self.store
    }

    /// Something that a user should know at the end.
    pub(super) fn notice(&self, text: String) {
        lock(&self.notices).push(text);
    }

    /// All of these.
    pub(super) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.notices))
    }

    pub(super) fn first_origin(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        lock(&self.first_origin)
    }

    pub(super) fn find_many_origins(&self) {
        self.has_many_origins.store(true, Ordering::Relaxed);
        let mut planner = self.planner();
        planner.route_by_host(self.clock.now());
        self.resting_until.store(0, Ordering::Relaxed);
        self.origin_pace.set(None);
    }

    pub(super) fn has_many_origins(&self) -> bool {
        self.has_many_origins.load(Ordering::Relaxed)
    }

    pub(super) fn is_resting(&self, now: Millis) -> bool {
        self.resting_until.load(Ordering::Relaxed) > now
    }

    /// Waits until the planner wants another page; `false` when the job is to end.
    pub(super) fn wait_for_room(&self) -> bool {
        let mut planner = self.planner();
        while self.stop() == Stop::No {
            if planner.wants_pages(self.live_bytes.load(Ordering::Relaxed)) {
                return true;
            }
            let waited = self.room.wait_timeout(planner, Duration::from_millis(100));
            planner = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        false
    }

    pub(super) fn end_listing(&self) {
        self.is_listing_done.store(true, Ordering::Relaxed);
        self.planner().end_listing();
        self.wake_all();
    }

    pub(super) fn wake(&self, worker: usize) -> &Notify {
        &self.wake[worker]
    }

    pub(super) fn wake_all(&self) {
        self.wake.iter().for_each(Notify::notify_one);
        self.room.notify_all();
    }

    pub(super) fn stop(&self) -> Stop {
        match self.stop.load(Ordering::Relaxed) {
            0 => Stop::No,
            1 => Stop::Drain,
            _ => Stop::Abort,
        }
    }

    /// A desk's way to its sink is taken away when the job is to end at once: the writer need not wait for the desk.
    pub(super) fn close_at_abort(&self, outlet: Outlet) {
        *lock(&self.outlet) = Some(outlet);
    }

    /// Whether the job was asked to stop and nothing is waited for any more.
    pub(super) fn is_drained(&self) -> bool {
        let since = self.clock.micros().saturating_sub(self.stopped_at.load(Ordering::Relaxed));
        self.stop() == Stop::Abort || since >= limits::DRAIN.as_micros() as u64
    }

    pub(super) fn ask_to_stop(&self, stop: Stop) {
        self.stopped_at.fetch_min(self.clock.micros(), Ordering::Relaxed);
        self.stop.fetch_max(stop as u8, Ordering::Relaxed);
        if stop == Stop::Abort
            && let Some(outlet) = &*lock(&self.outlet)
        {
            desk::close(outlet);
        }
        self.wake_all();
    }

    /// Keeps the first error and lets the job drain: what is in flight is made durable where that is still possible.
    pub(super) fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.ask_to_stop(Stop::Drain);
    }

    /// Keeps the first error; what is listed already is fetched all the same.
    pub(super) fn fail_listing(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.end_listing();
    }

    pub(super) fn take_failure(&self) -> Option<Error> {
        lock(&self.failure).take()
    }

    pub(super) fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }
}
