//! The planner: which targets go out next, which wait, when the job is done.
//!
//! No I/O, no clock: time is an argument. It is behind one lock that is taken once a batch. A target's way:
//! announced (listed, not yet in the journal) -> ready -> outstanding (with a worker) -> settled, or waiting and
//! then outstanding again.

pub mod congestion;
pub mod hosts;
pub mod origin;
pub mod pace;
pub mod preflight;
pub mod retry;
mod routes;
pub mod waiting;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::outcome::FailureClass;
use crate::target::{Batch, Page, Waiting};
use origin::{Gate, Millis, Observed, Origin};
use retry::Jitter;
use routes::Routes;
use waiting::{Key, WaitingTargets};

/// What the planner must know.
#[derive(Debug, Clone)]
pub struct PlannerOptions {
    /// Workers that share the targets.
    pub workers: usize,
    /// Requests in flight at most.
    pub limit: usize,
    /// A target that waits longer than a commit window goes to the journal.
    pub commit_window: Millis,
    /// See [`limits::GIVE_UP_AFTER`].
    pub give_up_after: Millis,
    /// Of the jitter.
    pub seed: u64,
}

/// What a worker is to do next.
#[derive(Debug)]
pub enum Next {
    /// Fetch these.
    Batch(Batch),
    /// Ask again then, or when woken.
    WaitUntil(Millis),
    /// Ask again when woken.
    Wait,
    /// Nothing will come any more.
    Done,
}

/// A target whose attempt failed and that is to be tried again.
#[derive(Debug, Serialize, Deserialize)]
pub struct Retry {
    /// The target; its not-before time is set by the planner.
    pub target: Waiting,
    /// What the server asked for.
    pub retry_after: Option<Millis>,
    /// When it is due, if that is known: it is put aside without an attempt.
    pub not_before: Option<Millis>,
}

/// What a worker has done since its last report.
#[derive(Debug, Default)]
pub struct Report {
    /// Targets with a final outcome.
    pub settled: usize,
    /// Targets to be tried again.
    pub retries: Vec<Retry>,
    /// What was seen of the origin.
    pub observed: Observed,
}

/// See the module.
#[derive(Debug)]
pub struct Planner {
    options: PlannerOptions,
    ready: VecDeque<(Arc<Page>, Range<usize>)>,
    ready_targets: usize,
    announced: usize,
    outstanding: usize,
    waiting: WaitingTargets,
    listing_done: bool,
    /// Of the only origin of the job.
    origin: Origin,
    /// In a job over many hosts: their state is with the workers that have them.
    routes: Option<Routes>,
    jitter: Jitter,
}

impl Planner {
    /// An empty plan.
    pub fn new(options: PlannerOptions, now: Millis) -> Self {
        let origin = Origin::new(options.limit, options.give_up_after, now);
        let jitter = Jitter::new(options.seed);
        Planner {
            options,
            ready: VecDeque::new(),
            ready_targets: 0,
            announced: 0,
            outstanding: 0,
            waiting: WaitingTargets::default(),
            listing_done: false,
            origin,
            routes: None,
            jitter,
        }
    }

    /// The job is one over many hosts: from now on each worker gets the targets of its own.
    pub fn route_by_host(&mut self, now: Millis) {
        if self.routes.is_none() {
            self.routes = Some(Routes::new(self.options.workers));
            // What was seen of the first host says nothing of the others.
            self.origin = Origin::new(self.options.limit, self.options.give_up_after, now);
        }
    }

    /// Targets that are listed and on their way into the journal.
    pub fn announce(&mut self, targets: usize) {
        self.announced += targets;
    }

    /// A page that is in the journal: these positions of it are to be fetched. They were announced.
    pub fn add_page(&mut self, page: &Arc<Page>, positions: impl IntoIterator<Item = Range<usize>>) {
        for range in positions.into_iter().filter(|range| !range.is_empty()) {
            self.announced = self.announced.saturating_sub(range.len());
            self.ready_targets += range.len();
            self.ready.push_back((Arc::clone(page), range));
        }
    }

    /// Announced targets that will not come: their outcome was known at once.
    pub fn withdraw(&mut self, targets: usize) {
        self.announced = self.announced.saturating_sub(targets);
    }

    /// No more pages will come.
    pub fn end_listing(&mut self) {
        self.listing_done = true;
    }

    /// The journal holds targets that wait, from an earlier run.
    pub fn resume_waiting(&mut self) {
        self.waiting.all_in_journal();
    }

    /// Whether there is room for another page: it counts what is not yet fetched, neither what waits for another
    /// attempt nor what is fetched and not yet committed.
    pub fn wants_pages(&self, live_name_bytes: usize) -> bool {
        self.announced + self.ready_targets() + self.outstanding < limits::WINDOW_TARGETS_MAX
            && live_name_bytes < limits::WINDOW_NAME_BYTES_MAX
    }

    /// Whether what is listed and not fetched is little: more of a listing at a time would help.
    pub fn is_hungry(&self) -> bool {
        !self.listing_done && self.announced + self.ready_targets() < limits::HUNGRY_TARGETS
    }

    fn ready_targets(&self) -> usize {
        self.ready_targets + self.routes.as_ref().map_or(0, Routes::total)
    }

    /// What a worker is to do next; it takes at most `max` targets.
    pub fn next_batch(&mut self, worker: usize, max: usize, now: Millis) -> Next {
        if self.routes.is_some() {
            return self.next_of_hosts(worker, max.min(limits::BATCH_TARGETS_MAX), now);
        }
        let allowed = match self.origin.gate(now) {
            Gate::Resting(until) => return Next::WaitUntil(until),
            Gate::Open(allowed) if allowed < self.options.limit => allowed.saturating_sub(self.outstanding),
            Gate::Open(_) => max,
        };
        let max = max.min(allowed).min(limits::BATCH_TARGETS_MAX);
        if max > 0
            && let Some(batch) = self.take(max, now)
        {
            self.outstanding += batch.len();
            return Next::Batch(batch);
        }
        // Without room for a request nothing becomes due before one has come back.
        if max == 0 && !self.is_done() { Next::Wait } else { self.outlook() }
    }

    /// The same in a job over many hosts.
    fn next_of_hosts(&mut self, worker: usize, max: usize, now: Millis) -> Next {
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
                return Next::Batch(batch);
            }
        }
        self.outlook()
    }

    /// Whether targets were divided since this was asked the last time: other workers may have some now.
    pub fn take_divided(&mut self) -> bool {
        self.routes.as_mut().is_some_and(Routes::take_divided)
    }

    /// For a worker that wants no batch: when it should.
    pub fn outlook(&self) -> Next {
        if self.is_done() {
            return Next::Done;
        }
        self.waiting.next_due().map_or(Next::Wait, Next::WaitUntil)
    }

    fn take(&mut self, max: usize, now: Millis) -> Option<Batch> {
        let due = self.waiting.take_due(now, max);
        if !due.is_empty() {
            return Some(Batch::Retries(due));
        }
        // Near the end everybody gets a share, so that nobody is left with all of the rest.
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

    /// Takes back what a worker did not start.
    pub fn give_back(&mut self, batch: Batch) {
        self.outstanding = self.outstanding.saturating_sub(batch.len());
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

    /// So many targets that were reported as settled are not: their process died before that was durable. They are
    /// outstanding again.
    pub fn take_back(&mut self, targets: usize) {
        self.outstanding += targets;
    }

    /// Takes note of what a worker has done. Returned are the targets that must go into the journal's table.
    pub fn report(&mut self, report: Report, now: Millis) -> Vec<Waiting> {
        self.outstanding = self.outstanding.saturating_sub(report.settled + report.retries.len());
        self.origin.observe(report.observed, now);
        let mut to_journal = Vec::new();
        for Retry { mut target, retry_after, not_before } in report.retries {
            let delay = match not_before {
                Some(not_before) => not_before.saturating_sub(now),
                None => retry::delay(target.kind, self.patience(&target), retry_after, self.jitter.draw()),
            };
            target.not_before = now + delay;
            if delay > self.options.commit_window || self.waiting.is_full() {
                to_journal.push(target.clone());
            }
            self.waiting.add(target);
        }
        to_journal
    }

    /// Attempts for which a target's wait grows. With a pace those that were refused do not come back as a storm,
    /// whatever their attempts were.
    fn patience(&self, target: &Waiting) -> u32 {
        let is_paced = self.rate().is_some() && target.kind.class() == FailureClass::Throttle;
        if is_paced { 0 } else { target.attempts }
    }

    /// Requests a second that the only origin of the job gets, while it throttles.
    pub fn rate(&self) -> Option<f64> {
        self.origin.rate().filter(|_| self.routes.is_none())
    }

    /// The listing's own requests tell something of the origin as well.
    pub fn observe(&mut self, observed: Observed, now: Millis) {
        self.origin.observe(observed, now);
    }

    /// Whether the origin gets fewer requests than it may: workers that found no room wait for the end of that.
    pub fn is_held_back(&self, now: Millis) -> bool {
        self.origin.gate(now) != Gate::Open(self.options.limit)
    }

    /// See [`Origin::is_suspicious`].
    pub fn is_suspicious(&self) -> bool {
        self.origin.is_suspicious()
    }

    /// Until when the origin rests, if it does.
    pub fn resting_until(&self, now: Millis) -> Option<Millis> {
        match self.origin.gate(now) {
            Gate::Resting(until) => Some(until),
            Gate::Open(_) => None,
        }
    }

    /// Whether the origin had no success for so long that the job ends.
    pub fn is_given_up(&self, now: Millis) -> bool {
        self.origin.is_given_up(now)
    }

    /// Where to load waiting targets from the journal, when there is room for them.
    pub fn wants_waiting(&mut self) -> Option<(Key, usize)> {
        self.waiting.wants_load()
    }

    /// The answer to [`Planner::wants_waiting`].
    pub fn loaded_waiting(&mut self, rows: Vec<Waiting>, complete: bool) {
        self.waiting.loaded(rows, complete);
    }

    /// Targets that wait for another attempt, in memory.
    pub fn waiting_targets(&self) -> usize {
        self.waiting.held()
    }

    /// Whether every listed target has an outcome.
    pub fn is_done(&self) -> bool {
        self.listing_done
            && self.announced == 0
            && self.ready_targets() == 0
            && self.outstanding == 0
            && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::FailureKind;
    use crate::target::Names;

    fn planner(workers: usize) -> Planner {
        let options =
            PlannerOptions { workers, limit: 64, commit_window: 1000, give_up_after: 900_000, seed: 1 };
        Planner::new(options, 0)
    }

    fn page(first: u64, count: usize) -> Arc<Page> {
        let mut names = Names::default();
        for position in 0..count {
            names.push(position.to_string().as_bytes());
        }
        Arc::new(Page::new(first, names, None))
    }

    fn add(planner: &mut Planner, page: &Arc<Page>) {
        planner.announce(page.names.len());
        let all = 0..page.names.len();
        planner.add_page(page, std::iter::once(all));
    }

    fn retry(sequence: u64, kind: FailureKind, retry_after: Option<Millis>) -> Retry {
        let target =
            Waiting { sequence, name: Box::default(), attempts: 1, kind, not_before: 0, throttled_since: 0 };
        Retry { target, retry_after, not_before: None }
    }

    #[test]
    fn every_target_is_handed_out_once_and_the_plan_ends() {
        let mut planner = planner(2);
        add(&mut planner, &page(0, 10));
        add(&mut planner, &page(10, 5));
        planner.end_listing();

        let mut seen = Vec::new();
        loop {
            match planner.next_batch(0, 4, 0) {
                Next::Batch(Batch::Page(page, range)) => {
                    let settled = range.len();
                    seen.extend(range.map(|position| page.first + position as u64));
                    planner.report(Report { settled, ..Report::default() }, 0);
                }
                Next::Done => break,
                other => panic!("{other:?}"),
            }
        }

        assert_eq!(seen, (0..15).collect::<Vec<_>>());
    }

    #[test]
    fn the_rest_is_shared() {
        let mut planner = planner(2);
        add(&mut planner, &page(0, 10));
        planner.end_listing();

        let Next::Batch(first) = planner.next_batch(0, 100, 0) else { panic!() };

        assert_eq!(first.len(), 5);
    }

    #[test]
    fn in_a_job_over_many_hosts_each_worker_gets_its_own() {
        let mut planner = planner(2);
        let mut names = Names::default();
        (0..40).for_each(|number| names.push(format!("https://h{number}/").as_bytes()));
        add(&mut planner, &Arc::new(Page::new(0, names, None)));
        planner.route_by_host(0);
        planner.end_listing();

        let mut counts = [0, 0];
        for worker in [0, 1] {
            while let Next::Batch(Batch::Picked(_, positions)) = planner.next_batch(worker, 3, 0) {
                counts[worker] += positions.len();
                assert_eq!(planner.take_divided(), counts == [3, 0]);
                planner.report(Report { settled: positions.len(), ..Report::default() }, 0);
            }
        }

        assert_eq!(counts[0] + counts[1], 40);
        assert!(planner.is_done());
    }

    #[test]
    fn what_is_put_aside_comes_back_at_its_time_to_the_worker_of_its_host() {
        let mut planner = planner(2);
        let mut names = Names::default();
        names.push(b"https://h1/");
        add(&mut planner, &Arc::new(Page::new(0, names, None)));
        planner.route_by_host(0);
        let worker = hosts::HostId::of_url(b"https://h1/").worker(2);
        assert!(matches!(planner.next_batch(worker, 3, 0), Next::Batch(_)));
        let mut aside = retry(0, FailureKind::Refused, None);
        (aside.not_before, aside.target.name) = (Some(7_000), b"https://h1/"[..].into());

        let to_journal = planner.report(Report { retries: vec![aside], ..Report::default() }, 1_000);

        assert_eq!(to_journal.len(), 1);
        assert!(matches!(planner.next_batch(1 - worker, 3, 7_000), Next::Wait));
        let Next::Batch(Batch::Retries(due)) = planner.next_batch(worker, 3, 7_000) else { panic!() };
        assert_eq!((due.len(), due[0].attempts), (1, 1));
    }

    #[test]
    fn a_target_that_waits_long_goes_to_the_journal_and_comes_back_in_time() {
        let mut planner = planner(1);
        add(&mut planner, &page(0, 1));
        planner.end_listing();
        assert!(matches!(planner.next_batch(0, 10, 0), Next::Batch(_)));

        let retries = vec![retry(0, FailureKind::Throttled, Some(30_000))];
        let to_journal = planner.report(Report { retries, ..Report::default() }, 0);

        assert_eq!(to_journal.len(), 1);
        let Next::WaitUntil(until) = planner.next_batch(0, 10, 0) else { panic!() };
        assert_eq!(until, to_journal[0].not_before);
        assert!(matches!(planner.next_batch(0, 10, until), Next::Batch(Batch::Retries(_))));
        assert!(!planner.is_done());
        planner.report(Report { settled: 1, ..Report::default() }, until);
        assert!(planner.is_done());
    }

    #[test]
    fn a_resting_origin_gets_nothing_then_one_at_a_time() {
        let mut planner = planner(1);
        add(&mut planner, &page(0, 100));
        planner.observe(Observed { transient: 40, ..Observed::default() }, 0);

        assert!(matches!(planner.next_batch(0, 10, 0), Next::WaitUntil(5_000)));
        let Next::Batch(probe) = planner.next_batch(0, 10, 5_000) else { panic!() };
        assert_eq!(probe.len(), 1);
        assert!(matches!(planner.next_batch(0, 10, 5_000), Next::Wait));

        let observed = Observed { successes: 1, ..Observed::default() };
        planner.report(Report { settled: 1, observed, ..Report::default() }, 5_001);
        let Next::Batch(batch) = planner.next_batch(0, 10, 5_001) else { panic!() };
        assert_eq!(batch.len(), 10);
    }

    #[test]
    fn with_a_pace_a_refused_target_is_due_soon_whatever_its_attempts() {
        let mut planner = planner(1);
        add(&mut planner, &page(0, 1000));
        planner.end_listing();
        let Next::Batch(batch) = planner.next_batch(0, 1000, 0) else { panic!() };
        planner.observe(Observed { successes: 100, throttled: 50, ..Observed::default() }, 0);
        planner.observe(Observed { successes: 100, throttled: 50, ..Observed::default() }, 200);
        assert!(planner.rate().is_some());

        let mut refused: Vec<_> =
            (0..batch.len() as u64).map(|sequence| retry(sequence, FailureKind::Throttled, None)).collect();
        for retry in &mut refused {
            retry.target.attempts = 4;
        }
        let to_journal = planner.report(Report { retries: refused, ..Report::default() }, 200);

        assert!(to_journal.is_empty());
        let Next::Batch(due) = planner.next_batch(0, 1000, 1200) else { panic!() };
        assert_eq!(due.len(), 1000);
    }

    #[test]
    fn a_job_over_many_hosts_has_no_pace_of_one() {
        let mut planner = planner(1);
        planner.observe(Observed { successes: 100, ..Observed::default() }, 0);
        planner.observe(Observed { throttled: 50, ..Observed::default() }, 200);
        assert!(planner.rate().is_some());

        planner.route_by_host(200);

        assert_eq!(planner.rate(), None);
    }

    #[test]
    fn what_is_given_back_comes_first() {
        let mut planner = planner(1);
        add(&mut planner, &page(0, 10));
        let Next::Batch(batch) = planner.next_batch(0, 4, 0) else { panic!() };

        planner.give_back(batch);

        let Next::Batch(Batch::Page(_, range)) = planner.next_batch(0, 4, 0) else { panic!() };
        assert_eq!(range, 0..4);
    }

    #[test]
    fn listing_stops_when_the_window_is_full_and_goes_on_for_waiting_targets() {
        let mut planner = planner(1);
        let count = limits::WINDOW_TARGETS_MAX;
        add(&mut planner, &page(0, count));
        assert!(!planner.wants_pages(0));

        let mut taken = 0;
        while taken < count {
            let Next::Batch(batch) = planner.next_batch(0, 4096, 0) else { panic!() };
            taken += batch.len();
        }
        assert!(!planner.wants_pages(0));
        let retries =
            (0..1000).map(|sequence| retry(sequence, FailureKind::Throttled, Some(60_000))).collect();
        let observed = Observed { successes: 9000, throttled: 1000, ..Observed::default() };
        planner.report(Report { retries, observed, ..Report::default() }, 0);

        assert!(planner.wants_pages(0));
        assert!(!planner.wants_pages(limits::WINDOW_NAME_BYTES_MAX));
    }
}
