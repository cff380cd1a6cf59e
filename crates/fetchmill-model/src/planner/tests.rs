//! The plan of a job: targets that are handed out, targets that wait, and the end of the job.

use super::*;
use crate::limits::WAITING_HELD_MAX;
use crate::outcome::FailureKind;
use crate::target::Names;

fn planner(workers: usize) -> Planner {
    let options = PlannerOptions {
        workers,
        limit: 64,
        host_limit: None,
        auto: None,
        commit_window: 1000,
        give_up_after: 900_000,
        held_max: WAITING_HELD_MAX,
        seed: 1,
        end: None,
    };
    Planner::new(options)
}

fn planner_until(end: u64) -> Planner {
    let mut planner = planner(2);
    planner.options.end = Some(end);
    planner
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
    let target = WaitingTarget {
        sequence,
        name: Box::default(),
        attempts: 1,
        kind,
        not_before: 0,
        throttled_since: 0,
    };
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
            NextWork::Batch(Batch::Page(page, range)) => {
                let settled = range.len();
                seen.extend(range.map(|position| page.first + position as u64));
                planner.report(WorkerReport { settled, ..WorkerReport::default() }, 0);
            }
            NextWork::Done => break,
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

    let NextWork::Batch(first) = planner.next_batch(0, 100, 0) else { panic!() };

    assert_eq!(first.len(), 5);
}

#[test]
fn in_a_job_over_many_hosts_each_worker_gets_its_own() {
    let mut planner = planner(2);
    let mut names = Names::default();
    (0..40).for_each(|number| names.push(format!("https://h{number}/").as_bytes()));
    add(&mut planner, &Arc::new(Page::new(0, names, None)));
    planner.route_by_host();
    planner.end_listing();

    let mut counts = [0, 0];
    for worker in [0, 1] {
        while let NextWork::Batch(Batch::Picked(_, positions)) = planner.next_batch(worker, 3, 0) {
            counts[worker] += positions.len();
            assert_eq!(planner.take_divided(), counts == [3, 0]);
            planner.report(WorkerReport { settled: positions.len(), ..WorkerReport::default() }, 0);
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
    planner.route_by_host();
    let worker = hosts::HostId::of_url(b"https://h1/").worker(2);
    assert!(matches!(planner.next_batch(worker, 3, 0), NextWork::Batch(_)));
    let mut aside = retry(0, FailureKind::Refused, None);
    (aside.not_before, aside.target.name) = (Some(7_000), b"https://h1/"[..].into());

    let to_journal = planner.report(WorkerReport { retries: vec![aside], ..WorkerReport::default() }, 1_000);

    assert_eq!(to_journal.len(), 1);
    assert!(matches!(planner.next_batch(1 - worker, 3, 7_000), NextWork::Wait));
    let NextWork::Batch(Batch::Retries(due)) = planner.next_batch(worker, 3, 7_000) else { panic!() };
    assert_eq!((due.len(), due[0].attempts), (1, 1));
}

#[test]
fn a_target_that_waits_long_goes_to_the_journal_and_comes_back_in_time() {
    let mut planner = planner(1);
    add(&mut planner, &page(0, 1));
    planner.end_listing();
    assert!(matches!(planner.next_batch(0, 10, 0), NextWork::Batch(_)));

    let retries = vec![retry(0, FailureKind::Throttled, Some(30_000))];
    let to_journal = planner.report(WorkerReport { retries, ..WorkerReport::default() }, 0);

    assert_eq!(to_journal.len(), 1);
    let NextWork::WaitUntil(until) = planner.next_batch(0, 10, 0) else { panic!() };
    assert_eq!(until, to_journal[0].not_before);
    assert!(matches!(planner.next_batch(0, 10, until), NextWork::Batch(Batch::Retries(_))));
    assert!(!planner.is_done());
    planner.report(WorkerReport { settled: 1, ..WorkerReport::default() }, until);
    assert!(planner.is_done());
}

fn observe(planner: &mut Planner, observed: Observations, now: Millis) {
    planner.report(WorkerReport { observed, ..WorkerReport::default() }, now);
}

#[test]
fn a_resting_origin_gets_nothing_then_one_at_a_time() {
    let mut planner = planner(1);
    add(&mut planner, &page(0, 100));
    observe(&mut planner, Observations { transient: 40, ..Observations::default() }, 0);

    // The origin seems to be down, so only a probe is sent.
    let NextWork::Batch(probe) = planner.next_batch(0, 10, 0) else { panic!() };
    let sequence = probe.first_sequence();
    assert_eq!((probe.len(), sequence), (1, planner.probe()));
    assert_eq!(planner.held_until(0), Some(Millis::MAX));
    assert!(matches!(planner.next_batch(0, 10, 0), NextWork::Wait));
    // The probe has failed, and no object was fetched before the probe.
    let failed = retry(sequence.unwrap(), FailureKind::Reset, None);
    let observed = Observations { probes: 1, transient: 1, ..Observations::default() };
    planner.report(WorkerReport { retries: vec![failed], observed, ..WorkerReport::default() }, 0);

    assert!(matches!(planner.next_batch(0, 10, 0), NextWork::WaitUntil(1_000)));
    let NextWork::Batch(probe) = planner.next_batch(0, 10, 1_000) else { panic!() };
    assert_eq!(probe.len(), 1);
    assert!(matches!(planner.next_batch(0, 10, 1_000), NextWork::Wait | NextWork::WaitUntil(900_001)));

    let observed = Observations { successes: 1, ..Observations::default() };
    planner.report(WorkerReport { settled: 1, observed, ..WorkerReport::default() }, 1_001);
    let NextWork::Batch(Batch::Retries(again)) = planner.next_batch(0, 10, 1_001) else { panic!() };
    assert_eq!((again.len(), again[0].attempts), (1, 0), "its attempt did not count");
    let NextWork::Batch(batch) = planner.next_batch(0, 10, 1_001) else { panic!() };
    assert_eq!(batch.len(), 10);
}

#[test]
fn with_a_pace_a_refused_target_is_due_soon_whatever_its_attempts() {
    let mut planner = planner(1);
    add(&mut planner, &page(0, 1000));
    planner.end_listing();
    let NextWork::Batch(batch) = planner.next_batch(0, 1000, 0) else { panic!() };
    observe(&mut planner, Observations { successes: 100, throttled: 50, ..Observations::default() }, 0);
    observe(&mut planner, Observations { successes: 100, throttled: 50, ..Observations::default() }, 200);
    assert!(planner.rate().is_some());

    let mut refused: Vec<_> =
        (0..batch.len() as u64).map(|sequence| retry(sequence, FailureKind::Throttled, None)).collect();
    for retry in &mut refused {
        retry.target.attempts = 4;
    }
    let to_journal = planner.report(WorkerReport { retries: refused, ..WorkerReport::default() }, 200);

    assert!(to_journal.is_empty());
    let NextWork::Batch(due) = planner.next_batch(0, 1000, 1200) else { panic!() };
    assert_eq!(due.len(), 1000);
}

#[test]
fn a_job_over_many_hosts_has_no_pace_of_one() {
    let mut planner = planner(1);
    observe(&mut planner, Observations { successes: 100, ..Observations::default() }, 0);
    observe(&mut planner, Observations { throttled: 50, ..Observations::default() }, 200);
    assert!(planner.rate().is_some());

    planner.route_by_host();

    assert_eq!(planner.rate(), None);
}

#[test]
fn what_is_given_back_comes_first() {
    let mut planner = planner(1);
    add(&mut planner, &page(0, 10));
    let NextWork::Batch(batch) = planner.next_batch(0, 4, 0) else { panic!() };

    planner.give_back(batch);

    let NextWork::Batch(Batch::Page(_, range)) = planner.next_batch(0, 4, 0) else { panic!() };
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
        let NextWork::Batch(batch) = planner.next_batch(0, 4096, 0) else { panic!() };
        taken += batch.len();
    }
    assert!(!planner.wants_pages(0));
    let retries = (0..1000).map(|sequence| retry(sequence, FailureKind::Throttled, Some(60_000))).collect();
    let observed = Observations { successes: 9000, throttled: 1000, ..Observations::default() };
    planner.report(WorkerReport { retries, observed, ..WorkerReport::default() }, 0);

    assert!(planner.wants_pages(0));
    assert!(!planner.wants_pages(limits::WINDOW_NAME_BYTES_MAX));
}

#[test]
fn targets_from_the_end_on_are_listed_and_not_handed_out() {
    let mut planner = planner_until(12);
    add(&mut planner, &page(0, 10));
    assert!(planner.wants_pages(0) && !planner.is_at_end());
    add(&mut planner, &page(10, 5));
    assert!(!planner.wants_pages(0));
    add(&mut planner, &page(15, 5));
    planner.end_listing();

    let mut seen = 0;
    while let NextWork::Batch(batch) = planner.next_batch(0, 100, 0) {
        assert!(!planner.is_at_end());
        seen += batch.len();
        planner.report(WorkerReport { settled: batch.len(), ..WorkerReport::default() }, 0);
    }

    assert_eq!(seen, 12);
    assert!(planner.is_at_end() && !planner.is_done());
    assert!(matches!(planner.outlook(), NextWork::Wait));
}

#[test]
fn a_listing_that_ends_at_the_end_or_before_it_is_done() {
    for count in [9, 10] {
        let mut planner = planner_until(10);
        add(&mut planner, &page(0, count));
        planner.end_listing();
        while let NextWork::Batch(batch) = planner.next_batch(0, 100, 0) {
            planner.report(WorkerReport { settled: batch.len(), ..WorkerReport::default() }, 0);
        }
        assert!(planner.is_done() && !planner.is_at_end());
    }
}
