//! The planner behind a lock, with copies of the values that threads read once per object. Reading a copy takes no
//! lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::journal_link::{JournalLink, JournalRequest};
use super::stop::{Stop, StopSignal, Wakers};
use fetchmill_model::limits;
use fetchmill_model::panics::lock;
use fetchmill_model::planner::origin::{Millis, Observations, OriginTrouble};
use fetchmill_model::planner::pace::Pace;
use fetchmill_model::planner::probing::{HealthCheck, HealthStatus};
use fetchmill_model::planner::{NextWork, Planner, WorkerReport};
use fetchmill_model::target::{LiveBytes, Sequence, WaitingTarget};

/// Value of `probe` if no target checks the origin.
const NO_PROBE: u64 = u64::MAX;

/// Planner that all threads share. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct SharedPlanner {
    planner: Mutex<Planner>,
    wakers: Arc<Wakers>,
    /// Total size of the names in memory.
    pub(crate) live_bytes: LiveBytes,
    /// Time until which targets that have not started are held. Read before each target.
    held_until: AtomicU64,
    /// Number of the target that checks the origin, and is therefore not held.
    probe: AtomicU64,
    /// Maximum number of requests in flight. Set at each turn, read at each tick.
    concurrency: AtomicUsize,
    /// Request rate for the only origin while it throttles. Set at each turn, read before each request.
    pub(crate) origin_pace: Pace,
}

/// Result of a worker's turn, and its consequences for other workers.
pub(crate) struct Turn {
    pub(crate) next: NextWork,
    pub(crate) is_given_up: bool,
    /// Trouble at the origin, if the job is waiting for it to end.
    pub(crate) trouble: Option<OriginTrouble>,
    /// Health check to perform on the origin, if any.
    pub(crate) health_check: Option<HealthCheck>,
    /// Whether held targets can start now.
    pub(crate) is_freed: bool,
}

impl SharedPlanner {
    pub(crate) fn new(planner: Planner, wakers: Arc<Wakers>) -> Self {
        SharedPlanner {
            concurrency: AtomicUsize::new(planner.concurrency()),
            planner: Mutex::new(planner),
            wakers,
            live_bytes: Arc::new(AtomicUsize::new(0)),
            held_until: AtomicU64::new(0),
            probe: AtomicU64::new(NO_PROBE),
            origin_pace: Pace::unset(limits::PACE_BURST),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Planner> {
        lock(&self.planner)
    }

    pub(crate) fn workers(&self) -> usize {
        self.wakers.workers.len()
    }

    /// Reports a worker's progress and returns its next work. Takes one lock.
    ///
    /// Sends the worker's requests to the journal while it holds the lock. Sending never blocks, because the journal's
    /// queue is unbounded. The lock preserves the order: if another worker requests a load, that request cannot
    /// overtake the targets that this worker has deferred.
    pub(crate) fn turn(
        &self,
        worker: usize,
        mut report: WorkerReport,
        max: usize,
        now: Millis,
        journal: &JournalLink,
    ) -> Turn {
        let turn = {
            let mut planner = self.lock();
            if let Some(load) = report.load.take() {
                planner.observe_load(worker, load, now);
            }
            let was_held_back = planner.is_held_back(now);
            let to_journal = planner.report(report, now);
            let next = if max > 0 { planner.next_batch(worker, max, now) } else { planner.outlook() };
            self.show(&planner, now);
            let is_freed = was_held_back && !planner.is_held_back(now) || planner.take_divided();
            ask_journal(&mut planner, to_journal, journal);
            let health_check = planner.take_health_check();
            let (is_given_up, trouble) = (planner.is_given_up(now), planner.trouble());
            Turn { next, is_given_up, trouble, health_check, is_freed }
        };
        self.wakers.room.notify_all();
        turn
    }

    /// Publishes the values that are read without the lock.
    fn show(&self, planner: &Planner, now: Millis) {
        self.set_gate(planner.held_until(now).unwrap_or(0), planner.probe());
        self.origin_pace.set(planner.rate());
        self.concurrency.store(planner.concurrency(), Ordering::Relaxed);
    }

    /// Sets the values that a job sends to its worker process: the end of the hold, and the target that is exempt from
    /// the hold.
    pub(crate) fn set_gate(&self, held_until: Millis, probe: Option<Sequence>) {
        self.held_until.store(held_until, Ordering::Relaxed);
        self.probe.store(probe.unwrap_or(NO_PROBE), Ordering::Relaxed);
    }

    /// Returns the values set by [`SharedPlanner::set_gate`].
    pub(crate) fn gate(&self) -> (Millis, Option<Sequence>) {
        let probe = self.probe.load(Ordering::Relaxed);
        (self.held_until.load(Ordering::Relaxed), (probe != NO_PROBE).then_some(probe))
    }

    /// Lowers the upper bound for the concurrency search.
    pub(crate) fn lower_concurrency(&self, most: usize, now: Millis) {
        let mut planner = self.lock();
        planner.lower_concurrency(most);
        self.show(&planner, now);
    }

    /// Returns a worker's share of the allowed requests in flight.
    pub(crate) fn share(&self, worker: usize) -> usize {
        let (all, workers) = (self.concurrency.load(Ordering::Relaxed), self.workers());
        all / workers + usize::from(worker < all % workers)
    }

    /// Returns the entry of the last object that any worker reported as fetched.
    pub(crate) fn last_fetched(&self) -> Option<Box<[u8]>> {
        self.lock().last_fetched()
    }

    /// Holds targets that have not started until `until`. A time in the past releases them.
    pub(crate) fn pause(&self, until: Millis, now: Millis) {
        let mut planner = self.lock();
        planner.pause(until);
        self.show(&planner, now);
    }

    /// Handles the result of a health check.
    pub(crate) fn health_checked(
        &self,
        asked: &HealthCheck,
        status: HealthStatus,
        now: Millis,
        journal: &JournalLink,
    ) {
        let mut planner = self.lock();
        let to_journal = planner.health_checked(asked, status, now);
        ask_journal(&mut planner, to_journal, journal);
        self.show(&planner, now);
    }

    /// Accepts waiting targets that the journal has loaded. If there is no room, they go back to the journal, after the
    /// targets already on their way there.
    pub(crate) fn loaded_waiting(&self, rows: Vec<WaitingTarget>, complete: bool, journal: &JournalLink) {
        let mut planner = self.lock();
        let to_journal = planner.loaded_waiting(rows, complete);
        if !to_journal.is_empty() {
            journal.send(JournalRequest::Waiting(to_journal));
        }
    }

    /// Sets the request rate for the only origin while it throttles.
    pub(crate) fn resume_rate(&self, rate: f64, now: Millis) {
        let mut planner = self.lock();
        planner.resume_rate(rate);
        self.show(&planner, now);
    }

    /// Passes what the listing observed about the origin to the planner.
    pub(crate) fn observe_listing(&self, observed: Observations, now: Millis) {
        let mut planner = self.lock();
        planner.observe_listing(observed, now);
        self.show(&planner, now);
    }

    /// Switches to routing targets by host. The limits of a single origin no longer apply.
    pub(crate) fn route_by_host(&self, now: Millis) {
        let mut planner = self.lock();
        planner.route_by_host();
        self.show(&planner, now);
    }

    /// Returns whether targets that have not started are held, because the origin rests or is being checked. The target
    /// that checks the origin is never held.
    pub(crate) fn is_held(&self, first: impl FnOnce() -> Option<Sequence>, now: Millis) -> bool {
        self.held_until.load(Ordering::Relaxed) > now && !first().is_some_and(|first| self.is_probe(first))
    }

    /// Returns whether nothing can start now, because the origin rests or is being checked.
    pub(crate) fn is_closed(&self, now: Millis) -> bool {
        self.held_until.load(Ordering::Relaxed) > now
    }

    /// Returns whether this target checks the origin.
    pub(crate) fn is_probe(&self, sequence: Sequence) -> bool {
        self.probe.load(Ordering::Relaxed) == sequence
    }

    /// Waits until the planner has room for another page. Returns `false` if the job is ending.
    pub(crate) fn wait_for_room(&self, stop: &StopSignal) -> bool {
        let mut planner = self.lock();
        while stop.get() == Stop::No {
            if planner.wants_pages(self.live_bytes.load(Ordering::Relaxed)) {
                return true;
            }
            let waited = self.wakers.room.wait_timeout(planner, Duration::from_millis(100));
            planner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    pub(crate) fn wake(&self, worker: usize) -> &Notify {
        &self.wakers.workers[worker]
    }

    pub(crate) fn wake_all(&self) {
        self.wakers.wake_all();
    }
}

/// Sends the planner's requests to the journal in order. The caller must hold the planner's lock.
fn ask_journal(planner: &mut Planner, to_journal: Vec<WaitingTarget>, journal: &JournalLink) {
    if !to_journal.is_empty() {
        journal.send(JournalRequest::Waiting(to_journal));
    }
    if let Some((from, max)) = planner.wants_waiting() {
        journal.send(JournalRequest::LoadWaiting { from, max });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::control::clock::Clock;
    use fetchmill_model::outcome::FailureKind;
    use fetchmill_model::planner::{PlannerOptions, Retry};
    use fetchmill_model::target::{Batch, Names, Page};

    const WORKERS: usize = 4;
    const TARGETS: usize = 3000;

    fn shared_planner() -> SharedPlanner {
        let options = PlannerOptions {
            auto: None,
            workers: WORKERS,
            limit: 1 << 20,
            host_limit: None,
            commit_window: 1,
            give_up_after: 900_000,
            held_max: 8,
            seed: 1,
            end: None,
        };
        let mut planner = Planner::new(options);
        let mut names = Names::default();
        (0..TARGETS).for_each(|number| names.push(number.to_string().as_bytes()));
        planner.announce(TARGETS);
        planner.add_page(&Arc::new(Page::new(0, names, None)), std::iter::once(0..TARGETS));
        planner.end_listing();
        SharedPlanner::new(planner, Wakers::new(WORKERS))
    }

    /// Takes targets until none are left. Each target waits once before it is finished.
    fn work(plan: &SharedPlanner, clock: Clock, worker: usize, journal: &JournalLink) -> usize {
        let (mut report, mut settled) = (WorkerReport::default(), 0);
        loop {
            let turn = plan.turn(worker, std::mem::take(&mut report), 5, clock.now(), journal);
            match turn.next {
                NextWork::Batch(Batch::Retries(targets)) => {
                    settled += targets.len();
                    report.settled = targets.len();
                }
                NextWork::Batch(Batch::Page(page, range)) => {
                    report.retries.extend(range.map(|position| {
                        let target = WaitingTarget {
                            sequence: page.first + position as Sequence,
                            name: Box::default(),
                            attempts: 0,
                            kind: FailureKind::Throttled,
                            not_before: 0,
                            throttled_since: 1,
                        };
                        Retry { target, retry_after: None, not_before: Some(clock.now() + 3) }
                    }));
                }
                NextWork::Batch(Batch::Picked(..)) => panic!("there is only one host"),
                NextWork::Done => return settled,
                NextWork::Wait | NextWork::WaitUntil(_) => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn a_load_does_not_overtake_what_was_put_aside() {
        let (plan, clock) = (shared_planner(), Clock::start());
        let (sender, requests) = crossbeam_channel::unbounded();
        let journal = JournalLink::new(sender);

        let settled: usize = std::thread::scope(|scope| {
            let table = scope.spawn(|| {
                let mut rows: BTreeMap<(u64, Sequence), WaitingTarget> = BTreeMap::new();
                for request in requests {
                    match request {
                        JournalRequest::Waiting(targets) => {
                            rows.extend(
                                targets
                                    .into_iter()
                                    .map(|target| ((target.not_before, target.sequence), target)),
                            );
                        }
                        JournalRequest::LoadWaiting { from, max } => {
                            let found: Vec<_> = rows.range(from..).map(|(_, row)| row.clone()).collect();
                            let complete = found.len() <= max;
                            let found = found.into_iter().take(max).collect();
                            let not_held = plan.lock().loaded_waiting(found, complete);
                            rows.extend(
                                not_held
                                    .into_iter()
                                    .map(|target| ((target.not_before, target.sequence), target)),
                            );
                        }
                        other => panic!("{other:?}"),
                    }
                }
            });
            let workers: Vec<_> = (0..WORKERS)
                .map(|worker| {
                    let (plan, journal) = (&plan, &journal);
                    scope.spawn(move || work(plan, clock, worker, journal))
                })
                .collect();
            let settled = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
            journal.end();
            table.join().unwrap();
            settled
        });

        assert_eq!(settled, TARGETS);
    }
}
