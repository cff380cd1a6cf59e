//! The planner. It decides which targets to fetch next, which must wait, and when the job is done.
//!
//! The planner does no I/O and has no clock: time is an argument. A single lock protects the planner and is taken once
//! per batch. A target is first announced (listed, but not yet in the journal), then ready, then outstanding (with a
//! worker), then finished. An outstanding target can also wait and later become outstanding again.

pub mod concurrency;
pub mod congestion;
pub mod hosts;
mod millis;
pub mod origin;
pub mod pace;
pub mod preflight;
pub mod probing;
mod read_ahead;
pub mod recent_hosts;
pub mod retry;
mod routes;
pub mod waiting;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::limits;
use crate::outcome::{FailureClass, FailureKind};
use crate::target::{Batch, Page, Sequence, WaitingTarget};
use concurrency::{ConcurrencyBounds, ConcurrencyLimit, ListingState, Load};
use origin::{Gate, Millis, Observations, OriginState, OriginTrouble};
use probing::{HealthCheck, HealthStatus, ProbeState, Probing};
use read_ahead::ReadAhead;
use retry::Jitter;
pub use retry::Retry;
use routes::Routes;
use waiting::{DueKey, WaitingTargets};

/// Settings of the planner.
#[derive(Debug, Clone)]
pub struct PlannerOptions {
    /// Number of workers that share the targets.
    pub workers: usize,
    /// Maximum number of requests in flight.
    pub limit: usize,
    /// Maximum number of requests in flight while the job has only one host. `None` if only `limit` applies.
    pub host_limit: Option<usize>,
    /// Bounds of the search for the best number of requests in flight while the job has only one origin. `None` if the
    /// number is fixed.
    pub auto: Option<ConcurrencyBounds>,
    /// Length of a commit window. A target that waits longer is written to the journal.
    pub commit_window: Millis,
    /// Time without any success after which the job ends. See [`limits::GIVE_UP_AFTER`].
    pub give_up_after: Millis,
    /// Maximum number of waiting targets in memory. Further targets stay in the journal.
    pub held_max: usize,
    /// Seed of the random jitter.
    pub seed: u64,
    /// Only targets before this one are handed out. `None` means all targets.
    pub end: Option<Sequence>,
}

/// Next action of a worker.
#[derive(Debug)]
pub enum NextWork {
    /// Fetch these targets.
    Batch(Batch),
    /// Ask for work again at this time, or earlier if woken.
    WaitUntil(Millis),
    /// Ask for work again when woken.
    Wait,
    /// Stop: there will be no more work.
    Done,
}

/// A worker's work since its last report.
#[derive(Debug, Default)]
pub struct WorkerReport {
    /// Targets with a final outcome.
    pub settled: usize,
    /// Targets that need another attempt.
    pub retries: Vec<Retry>,
    /// Observations about the origin.
    pub observed: Observations,
    /// A fetched target, as stored in its page.
    pub fetched: Option<Box<[u8]>>,
    /// Measurements for the search for the best number of requests in flight.
    pub load: Option<Load>,
}

/// The plan of a job. See the module.
#[derive(Debug)]
pub struct Planner {
    options: PlannerOptions,
    ready: VecDeque<(Arc<Page>, Range<usize>)>,
    ready_targets: usize,
    announced: usize,
    outstanding: usize,
    waiting: WaitingTargets,
    listing_done: bool,
    /// Whether targets at or after [`PlannerOptions::end`] were listed.
    is_past_end: bool,
    read_ahead: ReadAhead,
    /// State of the job's only origin.
    origin: OriginState,
    /// Search for the best number of requests in flight to the origin. `None` if the number is fixed.
    concurrency: Option<ConcurrencyLimit>,
    /// The current probe of the origin.
    probing: Probing,
    /// Set in a multi-host job. The workers that own the hosts keep the state of the hosts.
    routes: Option<Routes>,
    jitter: Jitter,
    /// End of a pause that has nothing to do with the origin's state. 0 if there is no pause.
    paused_until: Millis,
}

impl Planner {
    /// Creates an empty plan.
    pub fn new(options: PlannerOptions) -> Self {
        let origin = OriginState::new(options.limit, options.give_up_after);
        let jitter = Jitter::new(options.seed);
        let waiting = WaitingTargets::with_room(options.held_max);
        let concurrency = options.auto.map(|bounds| ConcurrencyLimit::new(bounds, options.workers));
        Planner {
            paused_until: 0,
            options,
            ready: VecDeque::new(),
            ready_targets: 0,
            announced: 0,
            outstanding: 0,
            waiting,
            listing_done: false,
            is_past_end: false,
            read_ahead: ReadAhead::default(),
            origin,
            concurrency,
            probing: Probing::default(),
            routes: None,
            jitter,
        }
    }

    /// Makes this a multi-host job. From now on, each worker gets only targets of its own hosts.
    pub fn route_by_host(&mut self) {
        if self.routes.is_none() {
            self.routes = Some(Routes::new(self.options.workers));
            self.concurrency = None;
            // The state of the first host does not apply to the other hosts. A target that waits for a health check
            // still gets the result of the check.
            self.origin = OriginState::new(self.options.limit, self.options.give_up_after);
        }
    }

    /// Allows the first page of the listing to be used as a health check.
    pub fn can_ask_first_page(&mut self) {
        self.probing.can_ask_first_page();
    }

    /// Adds targets that are listed and are being written to the journal.
    pub fn announce(&mut self, targets: usize) {
        self.announced += targets;
    }

    /// Adds a page that is in the journal. `positions` selects the announced targets to fetch.
    pub fn add_page(&mut self, page: &Arc<Page>, positions: impl IntoIterator<Item = Range<usize>>) {
        for range in positions.into_iter().filter(|range| !range.is_empty()) {
            self.announced = self.announced.saturating_sub(range.len());
            let range = self.before_end(page.first, range);
            if !range.is_empty() {
                self.ready_targets += range.len();
                self.ready.push_back((Arc::clone(page), range));
            }
        }
    }

    /// Returns the part of `range` before [`PlannerOptions::end`].
    fn before_end(&mut self, first: Sequence, range: Range<usize>) -> Range<usize> {
        let Some(end) = self.options.end else { return range };
        let end = (end.saturating_sub(first) as usize).clamp(range.start, range.end);
        self.is_past_end |= end < range.end;
        range.start..end
    }

    /// Removes announced targets, because their outcome is already known.
    pub fn withdraw(&mut self, targets: usize) {
        self.announced = self.announced.saturating_sub(targets);
    }

    /// Ends the listing. No more pages will follow.
    pub fn end_listing(&mut self) {
        self.listing_done = true;
    }

    /// Sets the initial pace to the pace of an earlier run, in requests/s.
    pub fn resume_rate(&mut self, rate: f64) {
        self.origin.resume_rate(rate);
    }

    /// Records that the journal contains waiting targets of an earlier run.
    pub fn resume_waiting(&mut self) {
        self.waiting.all_in_journal();
    }

    /// Returns whether there is room for another page. Only targets that were not fetched yet count. Targets that wait
    /// for another attempt and fetched targets that are not committed yet do not count.
    pub fn wants_pages(&self, live_name_bytes: usize) -> bool {
        let listed = self.unassigned_targets();
        !self.is_past_end
            && listed + self.outstanding < limits::WINDOW_TARGETS_MAX
            // In a multi-host job, the listing runs far ahead so that there is work for all hosts.
            && (self.routes.is_some() || listed < self.read_ahead.targets())
            && live_name_bytes < limits::WINDOW_NAME_BYTES_MAX
    }

    /// Returns whether so few listed targets are left to hand out that more parallel listing would help.
    pub fn needs_targets(&self) -> bool {
        !self.listing_done && self.unassigned_targets() < limits::HUNGRY_TARGETS
    }

    /// Returns whether the listing continues although none of its targets are left to hand out.
    pub fn has_no_targets(&self) -> bool {
        !self.listing_done && self.unassigned_targets() == 0
    }

    /// Returns the number of targets that are listed but not handed out yet.
    fn unassigned_targets(&self) -> usize {
        self.announced + self.ready_targets + self.routes.as_ref().map_or(0, Routes::total)
    }

    /// Returns a worker's next work, with at most `max` targets.
    pub fn next_batch(&mut self, worker: usize, max: usize, now: Millis) -> NextWork {
        if self.routes.is_some() {
            return self.next_of_hosts(worker, max.min(limits::BATCH_TARGETS_MAX), now);
        }
        let next = match self.origin.gate(now) {
            _ if self.paused_until > now => NextWork::WaitUntil(self.paused_until),
            Gate::Resting(until) => NextWork::WaitUntil(until),
            Gate::Asking => self.next_probe(now),
            Gate::Open(_) => match self.take(max.min(limits::BATCH_TARGETS_MAX), now) {
                Some(batch) => {
                    self.outstanding += batch.len();
                    NextWork::Batch(batch)
                }
                None => self.outlook(),
            },
        };
        self.until_given_up(next)
    }

    /// Ends a wait no later than the time at which the job abandons the origin.
    fn until_given_up(&self, next: NextWork) -> NextWork {
        let Some(OriginTrouble { until, .. }) = self.origin.trouble() else { return next };
        match next {
            NextWork::WaitUntil(then) => NextWork::WaitUntil(then.min(until + 1)),
            NextWork::Wait => NextWork::WaitUntil(until + 1),
            other => other,
        }
    }

    /// Returns the next work while only probes are sent.
    fn next_probe(&mut self, now: Millis) -> NextWork {
        if self.is_done() {
            return NextWork::Done;
        }
        if !matches!(self.probing.state, ProbeState::Idle) {
            return NextWork::Wait;
        }
        let (batch, is_first) = if let Some(batch) = self.take_any_ready() {
            (batch, true)
        } else if self.probing.check() {
            return NextWork::Wait;
        } else {
            (Batch::Retries(self.waiting.take_due(now, 1)), false)
        };
        let Some(sequence) = batch.first_sequence() else { return self.outlook() };
        self.probing.state = ProbeState::Target { sequence, is_first };
        self.outstanding += 1;
        NextWork::Batch(batch)
    }

    /// Takes a random target that was never handed out. Targets next to each other could all be broken.
    fn take_any_ready(&mut self) -> Option<Batch> {
        if self.ready.is_empty() {
            return None;
        }
        let drawn = self.jitter.draw();
        let (page, range) = self.ready.remove(drawn as usize % self.ready.len())?;
        let position = range.start + (drawn >> 32) as usize % range.len();
        for rest in [range.start..position, position + 1..range.end] {
            if !rest.is_empty() {
                self.ready.push_back((Arc::clone(&page), rest));
            }
        }
        self.ready_targets -= 1;
        Some(Batch::Page(page, position..position + 1))
    }

    /// Returns the next work of a worker in a multi-host job. See [`Planner::next_batch`].
    fn next_of_hosts(&mut self, worker: usize, max: usize, now: Millis) -> NextWork {
        if let Some(routes) = &mut self.routes {
            for target in self.waiting.take_due(now, limits::BATCH_TARGETS_MAX) {
                routes.add_retry(target);
            }
            while routes.len(worker) < max
                && let Some((page, range)) = self.ready.pop_front()
            {
                self.ready_targets -= range.len();
                routes.add_page(&page, range);
            }
            if let Some(batch) = routes.take(worker, max) {
                self.outstanding += batch.len();
                return NextWork::Batch(batch);
            }
        }
        self.outlook()
    }

    /// Returns whether targets were divided among workers since the last call. If so, other workers may have targets
    /// now.
    pub fn take_divided(&mut self) -> bool {
        self.routes.as_mut().is_some_and(Routes::take_divided)
    }

    /// Returns when a worker that takes no batch now should ask for work again.
    pub fn outlook(&self) -> NextWork {
        if self.is_done() {
            return NextWork::Done;
        }
        self.waiting.next_due().map_or(NextWork::Wait, NextWork::WaitUntil)
    }

    fn take(&mut self, max: usize, now: Millis) -> Option<Batch> {
        let due = self.waiting.take_due(now, max);
        if !due.is_empty() {
            return Some(Batch::Retries(due));
        }
        // Near the end, the remaining targets are divided so that no single worker gets all of them.
        let fair = if self.listing_done { self.ready_targets.div_ceil(self.options.workers) } else { max };
        let (page, range) = self.ready.front_mut()?;
        let count = range.len().min(max).min(fair.max(1));
        let taken = range.start..range.start + count;
        range.start += count;
        let (page, is_used_up) = (Arc::clone(page), range.start == range.end);
        if is_used_up {
            self.ready.pop_front();
        }
        self.ready_targets -= count;
        Some(Batch::Page(page, taken))
    }

    /// Takes back targets that a worker did not start.
    pub fn give_back(&mut self, batch: Batch) {
        self.outstanding = self.outstanding.saturating_sub(batch.len());
        if batch.len() == 1 && batch.first_sequence() == self.probing.target() {
            self.probing.state = ProbeState::Idle;
        }
        match batch {
            Batch::Page(page, range) => {
                self.ready_targets += range.len();
                self.ready.push_front((page, range));
            }
            Batch::Picked(page, positions) => {
                if let Some(routes) = &mut self.routes {
                    routes.give_back(page, positions);
                }
            }
            Batch::Retries(targets) => targets.into_iter().for_each(|target| self.waiting.put_back(target)),
        }
    }

    /// Makes settled targets outstanding again because their process died before their outcomes were durable.
    pub fn take_back(&mut self, targets: usize) {
        self.outstanding += targets;
    }

    /// Records a worker's report. Returns targets to write to the journal's table. They must be written before the next
    /// load for [`Planner::wants_waiting`].
    pub fn report(&mut self, report: WorkerReport, now: Millis) -> Vec<WaitingTarget> {
        let WorkerReport { settled, mut retries, observed, fetched, load: _ } = report;
        self.outstanding = self.outstanding.saturating_sub(settled + retries.len());
        self.probing.note_fetched(fetched);
        self.read_ahead.note(settled, now);
        let can_be_asked = self.can_be_asked();
        self.origin.observe(observed, can_be_asked, now);
        let mut to_journal = self.end_probe(&mut retries, observed, now);
        for retry in retries {
            self.put_off(retry, now, &mut to_journal);
        }
        to_journal
    }

    /// Records a worker's requests in flight and its replies. While an origin is paced or in trouble, goodput does not
    /// reflect its capacity.
    pub fn observe_load(&mut self, worker: usize, load: Load, now: Millis) {
        let is_held = self.rate().is_some() || self.held_until(now).is_some();
        let listing = self.listing_state();
        if let Some(concurrency) = &mut self.concurrency {
            concurrency.note_listing(listing);
            concurrency.observe(worker, load, is_held, now);
        }
    }

    fn listing_state(&mut self) -> ListingState {
        if self.has_no_targets() {
            return ListingState::Behind;
        }
        let listed = self.unassigned_targets();
        if !self.listing_done && self.read_ahead.is_behind(listed) {
            return ListingState::ReadsAhead;
        }
        ListingState::Ahead
    }

    /// Returns the maximum number of requests in flight.
    pub fn concurrency(&self) -> usize {
        let most = self.unbounded_concurrency();
        self.only_host_limit().map_or(most, |limit| most.min(limit))
    }

    /// Returns the limit per host if there is only one host and no other limit is lower.
    pub fn reached_host_limit(&self) -> Option<usize> {
        self.only_host_limit().filter(|limit| *limit <= self.unbounded_concurrency())
    }

    fn only_host_limit(&self) -> Option<usize> {
        self.options.host_limit.filter(|_| self.routes.is_none())
    }

    fn unbounded_concurrency(&self) -> usize {
        self.concurrency.as_ref().map_or(self.options.limit, ConcurrencyLimit::limit)
    }

    /// Lowers the upper bound of the search for the number of requests in flight.
    pub fn lower_concurrency(&mut self, most: usize) {
        if let Some(concurrency) = &mut self.concurrency {
            concurrency.lower_most(most);
        }
    }

    /// Returns whether a search determines the number of requests in flight.
    pub fn finds_concurrency(&self) -> bool {
        self.concurrency.is_some()
    }

    /// Returns whether the search for the number of requests in flight has not settled yet.
    pub fn tries_concurrency(&self) -> bool {
        self.concurrency.as_ref().is_some_and(ConcurrencyLimit::is_trying)
    }

    /// Returns the number of requests in flight if only its upper bound keeps it from being higher.
    pub fn concurrency_reached(&self) -> Option<usize> {
        let searched = self.concurrency.as_ref().filter(|_| self.reached_host_limit().is_none())?;
        searched.is_at_most().then(|| searched.limit())
    }

    /// Returns whether there is a target or a health check with which the origin can be probed.
    fn can_be_asked(&self) -> bool {
        self.routes.is_none() && (self.probing.can_check() || !self.ready.is_empty())
    }

    /// Makes a target wait for another attempt.
    fn put_off(&mut self, retry: Retry, now: Millis, to_journal: &mut Vec<WaitingTarget>) {
        let Retry { mut target, retry_after, not_before } = retry;
        let delay = match not_before {
            Some(not_before) => not_before.saturating_sub(now),
            None => retry::delay(target.kind, self.patience(&target), retry_after, self.jitter.draw()),
        };
        target.not_before = now + delay;
        let sequence = target.sequence;
        let is_long = delay > self.options.commit_window;
        if is_long {
            to_journal.push(target.clone());
        }
        let not_held = self.waiting.add(target);
        to_journal.extend(not_held.filter(|not_held| !is_long || not_held.sequence != sequence));
    }

    /// Ends the probe if its target was returned, or if something else has shown that the origin is healthy. Returns
    /// targets to write to the journal's table.
    fn end_probe(
        &mut self,
        retries: &mut Vec<Retry>,
        observed: Observations,
        now: Millis,
    ) -> Vec<WaitingTarget> {
        let mut to_journal = Vec::new();
        if self.origin.gate(now) != Gate::Asking {
            if let ProbeState::Check(Some(retry)) = std::mem::take(&mut self.probing.state) {
                self.outstanding -= 1;
                self.put_off(retry, now, &mut to_journal);
            }
            return to_journal;
        }
        let ProbeState::Target { sequence, is_first } = self.probing.state else { return to_journal };
        let at = retries.iter().position(|retry| retry.target.sequence == sequence);
        if observed.probes == 0 && at.is_none() {
            return to_journal;
        }
        self.probing.state = ProbeState::Idle;
        if observed.probes == 0 {
            // The target's process died before it sent the request.
            return to_journal;
        }
        let failed = at.filter(|_| is_first).map(|at| retries.remove(at));
        match failed {
            // The origin itself reports an overload.
            Some(retry) if retry.target.kind.class() == FailureClass::Throttle => {
                self.origin.rest(retry.retry_after.unwrap_or(0).min(RETRY_AFTER_MAX), now);
                retries.push(retry);
            }
            Some(retry) if self.probing.check() => {
                self.outstanding += 1;
                self.probing.state = ProbeState::Check(Some(retry));
            }
            Some(retry) => {
                self.origin.rest(0, now);
                retries.push(uncounted(retry));
            }
            None => self.origin.rest(observed.retry_after, now),
        }
        to_journal
    }

    /// Handles the result of a health check. Returns targets to write to the journal's table.
    pub fn health_checked(
        &mut self,
        asked: &HealthCheck,
        status: HealthStatus,
        now: Millis,
    ) -> Vec<WaitingTarget> {
        let mut to_journal = Vec::new();
        if status == HealthStatus::Unknown {
            self.probing.forget(asked);
        }
        let ProbeState::Check(failed) = std::mem::take(&mut self.probing.state) else { return to_journal };
        if self.origin.gate(now) == Gate::Asking {
            match (status, &failed) {
                // A listing page says little about objects, and no object was fetched yet.
                (HealthStatus::Healthy, _) if *asked == HealthCheck::FirstPage => {
                    self.origin.is_partly_healthy(now);
                }
                (HealthStatus::Healthy, Some(_)) => self.origin.is_partly_healthy(now),
                (HealthStatus::Healthy, None) => self.origin.is_healthy(now),
                (HealthStatus::Down, _) | (HealthStatus::Unknown, Some(_)) => self.origin.rest(0, now),
                // The next probe is another health check or a target.
                (HealthStatus::Unknown, None) => {}
            }
        }
        if let Some(retry) = failed {
            self.outstanding -= 1;
            let is_broken = status == HealthStatus::Healthy;
            self.put_off(if is_broken { retry } else { uncounted(retry) }, now, &mut to_journal);
        }
        to_journal
    }

    /// Takes the health check that was requested.
    pub fn take_health_check(&mut self) -> Option<HealthCheck> {
        self.probing.question.take()
    }

    /// Returns the target that is the current probe.
    pub fn probe(&self) -> Option<Sequence> {
        self.probing.target()
    }

    /// Returns the number of attempts from which a target's delay is computed. The number is 0 for a refused target if
    /// there is a pace, because the pace already prevents a burst of retries.
    fn patience(&self, target: &WaitingTarget) -> u32 {
        let is_paced = self.rate().is_some() && target.kind.class() == FailureClass::Throttle;
        if is_paced { 0 } else { target.attempts }
    }

    /// Returns the pace of the job's only origin in requests/s, or `None` if the origin does not throttle.
    pub fn rate(&self) -> Option<f64> {
        self.origin.rate().filter(|_| self.routes.is_none())
    }

    /// Records the result of a listing request: a page that was received, or a failure.
    pub fn observe_listing(&mut self, observed: Observations, now: Millis) {
        if observed.successes > 0 {
            return self.origin.note_page(now);
        }
        let can_be_asked = self.can_be_asked();
        self.origin.observe(observed, can_be_asked, now);
    }

    /// Returns why the job waits for the origin, or `None` if it does not wait.
    pub fn trouble(&self) -> Option<OriginTrouble> {
        self.origin.trouble()
    }

    /// Returns whether the origin currently gets fewer requests than its limit allows. Workers without work wait until
    /// this is no longer the case.
    pub fn is_held_back(&self, now: Millis) -> bool {
        self.origin.gate(now) != Gate::Open(self.options.limit)
    }

    /// Returns the time before which handed-out targets must not start, or `None` if they may start. The
    /// [`Planner::probe`] may always start.
    pub fn held_until(&self, now: Millis) -> Option<Millis> {
        match self.origin.gate(now) {
            Gate::Resting(until) => Some(until.max(self.paused_until)),
            Gate::Asking => Some(Millis::MAX),
            Gate::Open(_) => Some(self.paused_until).filter(|until| *until > now),
        }
    }

    /// Holds all targets until `until`, regardless of the origin's state.
    pub fn pause(&mut self, until: Millis) {
        self.paused_until = until;
    }

    /// Returns the last fetched object, as stored in its page.
    pub fn last_fetched(&self) -> Option<Box<[u8]>> {
        self.probing.last_fetched()
    }

    /// Returns the end of the origin's rest or of a pause. Returns `None` during a probe, or if there is no rest or
    /// pause.
    pub fn resting_until(&self, now: Millis) -> Option<Millis> {
        self.held_until(now).filter(|until| *until < Millis::MAX)
    }

    /// Returns whether the origin has had no success for [`PlannerOptions::give_up_after`]. If so, the job ends.
    pub fn is_given_up(&self, now: Millis) -> bool {
        self.origin.is_given_up(now)
    }

    /// Returns the position in the journal from which to load waiting targets, and their number. Returns `None` if
    /// there is no room.
    pub fn wants_waiting(&mut self) -> Option<(DueKey, usize)> {
        self.waiting.wants_load()
    }

    /// Adds the rows loaded for [`Planner::wants_waiting`]. Returns targets to write to the journal's table.
    #[must_use]
    pub fn loaded_waiting(&mut self, rows: Vec<WaitingTarget>, complete: bool) -> Vec<WaitingTarget> {
        self.waiting.loaded(rows, complete)
    }

    /// Returns the number of targets in memory that wait for another attempt.
    pub fn waiting_targets(&self) -> usize {
        self.waiting.held()
    }

    /// Returns the time at which the next waiting target is due, and the failure of its last attempt. Returns `None` if
    /// no target is waiting.
    pub fn next_waiting(&self) -> Option<(Millis, FailureKind)> {
        self.waiting.next()
    }

    /// Returns whether every listed target has an outcome.
    pub fn is_done(&self) -> bool {
        self.listing_done && !self.is_past_end && self.is_idle()
    }

    /// Returns whether all targets before [`PlannerOptions::end`] have an outcome but there are further targets.
    pub fn is_at_end(&self) -> bool {
        self.is_past_end && self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.unassigned_targets() == 0 && self.outstanding == 0 && self.waiting.is_empty()
    }
}

/// Longest `Retry-After` that is obeyed.
const RETRY_AFTER_MAX: Millis = limits::RETRY_AFTER_MAX.as_millis() as Millis;

/// Does not count the last attempt, because it was made while the origin was down.
fn uncounted(mut retry: Retry) -> Retry {
    retry.target.attempts = retry.target.attempts.saturating_sub(1);
    retry
}

#[cfg(test)]
mod outage_tests;
#[cfg(test)]
mod tests;
