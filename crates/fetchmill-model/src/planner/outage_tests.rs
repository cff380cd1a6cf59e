//! Simulates an origin with broken objects and outages, the planner, and the reactions of the engine. Time is only a
//! number.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::probing::HealthStatus;
use super::*;
use crate::limits::WAITING_HELD_MAX;
use crate::outcome::FailureKind;
use crate::target::Names;

const WORKERS: usize = 2;
const LIMIT: usize = 64;
const TAKES: Millis = 20;
const ATTEMPTS_MAX: u32 = 5;
const REPORTED_EVERY: Millis = 50;

/// Parameters of a simulation.
struct Play {
    targets: u64,
    broken: BTreeSet<Sequence>,
    outages: Vec<Range<Millis>>,
    has_first_page: bool,
    /// Whether the listing works while objects cannot be fetched.
    pages_stay: bool,
    seed: u64,
}

/// Results of a simulation.
#[derive(Debug, Default)]
struct Played {
    fetched: BTreeSet<Sequence>,
    failed: BTreeSet<Sequence>,
    requests_in_outages: usize,
    seconds: f64,
    is_given_up: bool,
}

struct Flight {
    ends_at: Millis,
    target: WaitingTarget,
}

impl Play {
    fn is_down(&self, now: Millis) -> bool {
        self.outages.iter().any(|outage| outage.contains(&now))
    }

    fn planner(&self) -> Planner {
        let mut planner = Planner::new(PlannerOptions {
            workers: WORKERS,
            limit: LIMIT,
            host_limit: None,
            auto: None,
            commit_window: 1000,
            give_up_after: 900_000,
            held_max: WAITING_HELD_MAX,
            seed: self.seed,
            end: None,
        });
        for first in (0..self.targets).step_by(500) {
            let mut names = Names::default();
            (first..(first + 500).min(self.targets))
                .for_each(|number| names.push(number.to_string().as_bytes()));
            let all = 0..names.len();
            planner.announce(all.len());
            planner.add_page(&Arc::new(Page::new(first, names, None)), std::iter::once(all));
        }
        planner.end_listing();
        if self.has_first_page {
            planner.can_ask_first_page();
        }
        planner
    }

    fn play(&self) -> Played {
        let mut planner = self.planner();
        let mut played = Played::default();
        let mut queues: [Vec<WaitingTarget>; WORKERS] = Default::default();
        let mut flights: [Vec<Flight>; WORKERS] = Default::default();
        let mut reports: [WorkerReport; WORKERS] = Default::default();
        let mut check: Option<(Millis, HealthCheck)> = None;
        let start = 1_000_000;
        for now in (start..).step_by(5) {
            assert!(now < start + 3_600_000, "seed {}: no end: {played:?}", self.seed);
            played.seconds = (now - start) as f64 / 1000.0;
            if let Some((at, asked)) = check.take_if(|(at, _)| *at <= now) {
                let is_given = !self.is_down(at) || self.pages_stay && asked == HealthCheck::FirstPage;
                let status = if is_given { HealthStatus::Healthy } else { HealthStatus::Down };
                assert_eq!(planner.health_checked(&asked, status, now), []);
            }
            for worker in 0..WORKERS {
                let landed =
                    flights[worker].extract_if(.., |flight| flight.ends_at <= now).collect::<Vec<_>>();
                for flight in landed {
                    self.land(flight, &mut reports[worker], planner.probe(), now, &mut played);
                }
                let held = planner.held_until(now).is_some_and(|until| until > now);
                let is_probe =
                    queues[worker].len() == 1 && Some(queues[worker][0].sequence) == planner.probe();
                if held && !is_probe && !queues[worker].is_empty() {
                    planner.give_back(Batch::Retries(std::mem::take(&mut queues[worker])));
                }
                if now % REPORTED_EVERY == 0 || queues[worker].is_empty() {
                    let report = std::mem::take(&mut reports[worker]);
                    planner.report(report, now);
                    if queues[worker].is_empty() {
                        match planner.next_batch(worker, 200, now) {
                            NextWork::Batch(batch) => queues[worker] = targets_of(batch),
                            NextWork::Done => return played,
                            NextWork::Wait | NextWork::WaitUntil(_) => {}
                        }
                    }
                    check = planner.take_health_check().map(|asked| (now + TAKES, asked)).or(check);
                }
                while flights[worker].len() < LIMIT / WORKERS
                    && let Some(target) = queues[worker].pop()
                {
                    played.requests_in_outages += usize::from(self.is_down(now));
                    flights[worker].push(Flight { ends_at: now + TAKES, target });
                }
            }
            if planner.is_given_up(now) {
                played.is_given_up = true;
                return played;
            }
        }
        played
    }

    fn land(
        &self,
        flight: Flight,
        report: &mut WorkerReport,
        probe: Option<Sequence>,
        now: Millis,
        played: &mut Played,
    ) {
        let Flight { mut target, .. } = flight;
        report.observed.probes += u32::from(probe == Some(target.sequence));
        if !self.is_down(now) && !self.broken.contains(&target.sequence) {
            report.observed.successes += 1;
            report.settled += 1;
            report.fetched = Some(target.name.clone());
            assert!(played.fetched.insert(target.sequence), "seed {}", self.seed);
            return;
        }
        let kind = FailureKind::Reset;
        report.observed.note_failure(kind, target.attempts, None);
        target.attempts += 1;
        if target.attempts == ATTEMPTS_MAX {
            report.settled += 1;
            assert!(played.failed.insert(target.sequence), "seed {}", self.seed);
        } else {
            report.retries.push(Retry { target, retry_after: None, not_before: None });
        }
    }
}

fn targets_of(batch: Batch) -> Vec<WaitingTarget> {
    match batch {
        Batch::Retries(targets) => targets,
        Batch::Page(page, range) => range
            .map(|position| WaitingTarget {
                sequence: page.first + position as u64,
                name: page.names.get(position).into(),
                attempts: 0,
                kind: FailureKind::Reset,
                not_before: 0,
                throttled_since: 0,
            })
            .collect(),
        Batch::Picked(..) => panic!("there is one host"),
    }
}

/// Returns `count` different random numbers below a bound.
fn drawn(count: usize, below: u64, seed: u64) -> BTreeSet<Sequence> {
    let mut jitter = Jitter::new(seed);
    let mut drawn = BTreeSet::new();
    while drawn.len() < count {
        drawn.insert(jitter.draw() % below);
    }
    drawn
}

#[test]
fn broken_targets_fail_and_good_ones_are_fetched_at_their_rate() {
    for seed in 0..20 {
        let clean = Play {
            targets: 20_000,
            broken: BTreeSet::new(),
            outages: vec![],
            has_first_page: true,
            pages_stay: false,
            seed,
        };
        let clean = clean.play();
        let broken = drawn(400, 20_000, seed);
        let play = Play {
            targets: 20_000,
            broken: broken.clone(),
            outages: vec![],
            has_first_page: true,
            pages_stay: false,
            seed,
        };

        let played = play.play();

        assert_eq!(played.failed, broken, "seed {seed}");
        assert_eq!(played.fetched.len(), 19_600);
        assert!(
            played.seconds < clean.seconds * 1.25 + 3.0,
            "seed {seed}: {} {}",
            played.seconds,
            clean.seconds
        );
    }
}

#[test]
fn an_outage_costs_no_target_and_few_requests_whatever_is_broken() {
    for seed in 0..60 {
        let broken = drawn([0, 40, 400][seed as usize % 3], 5_000, seed);
        let starts_at = 1_000_000 + (seed * 37) % 1_700;
        let outages: Vec<Range<Millis>> = std::iter::once(starts_at..starts_at + 20_000).collect();
        let has_first_page = seed % 2 == 0;
        let play =
            Play { targets: 5_000, broken: broken.clone(), outages, has_first_page, pages_stay: false, seed };

        let played = play.play();

        assert_eq!(played.failed, broken, "seed {seed}");
        assert!(played.requests_in_outages < 400, "seed {seed}: {}", played.requests_in_outages);
        assert!(played.seconds < 60.0, "seed {seed}: {}", played.seconds);
    }
}

#[test]
fn a_short_outage_costs_little_more_than_it_lasts() {
    for seed in 0..20 {
        let play = |outages| Play {
            targets: 20_000,
            broken: BTreeSet::new(),
            outages,
            has_first_page: seed % 2 == 0,
            pages_stay: false,
            seed,
        };
        let without = play(vec![]).play();
        let outage = std::iter::once(1_001_000..1_001_100).collect();

        let played = play(outage).play();

        assert_eq!(played.fetched.len(), 20_000, "seed {seed}");
        let lost = played.seconds - without.seconds;
        assert!(lost < 1.5, "seed {seed}: {lost} s");
    }
}

#[test]
fn neighbours_may_be_broken_together() {
    for (seed, first) in [(1, 0), (2, 2_300), (3, 4_800)] {
        for has_first_page in [true, false] {
            let broken: BTreeSet<_> = (first..first + 200).collect();
            let play = Play {
                targets: 5_000,
                broken: broken.clone(),
                outages: vec![],
                has_first_page,
                pages_stay: false,
                seed,
            };

            let played = play.play();

            assert_eq!(played.failed, broken, "from {first}");
            assert_eq!(played.fetched.len(), 4_800);
            assert!(played.seconds < 40.0, "from {first}: {}", played.seconds);
        }
    }
}

#[test]
fn an_outage_while_only_those_that_failed_are_left_costs_none() {
    for seed in 0..20 {
        // All targets were requested at the start, so no target has a first attempt left.
        let play = Play {
            targets: 30,
            broken: BTreeSet::new(),
            outages: std::iter::once(999_000..1_020_000).collect(),
            has_first_page: true,
            pages_stay: false,
            seed,
        };

        let played = play.play();

        assert_eq!(played.fetched.len(), 30, "seed {seed}: {:?}", played.failed);
        assert!(played.seconds < 60.0, "seed {seed}");
    }
}

#[test]
fn a_page_alone_does_not_show_that_objects_are_broken() {
    for seed in 0..20 {
        let play = Play {
            targets: 90,
            broken: BTreeSet::new(),
            outages: std::iter::once(999_000..1_008_000).collect(),
            has_first_page: true,
            pages_stay: true,
            seed,
        };

        let played = play.play();

        assert_eq!(played.fetched.len(), 90, "seed {seed}: {:?}", played.failed);
        assert!(played.seconds < 30.0, "seed {seed}");
    }
}

#[test]
fn an_origin_that_never_comes_back_is_given_up() {
    let play = Play {
        targets: 5_000,
        broken: BTreeSet::new(),
        outages: std::iter::once(1_000_500..u64::MAX).collect(),
        has_first_page: true,
        pages_stay: false,
        seed: 1,
    };

    let played = play.play();

    assert!(played.is_given_up);
    assert_eq!(played.failed, BTreeSet::new());
    assert!((900.0..1000.0).contains(&played.seconds), "{}", played.seconds);
}

#[test]
fn what_always_fails_ends_where_nothing_can_be_asked_for() {
    // The list has one host, from which nothing was ever fetched.
    let broken: BTreeSet<_> = (0..30).collect();
    let play = Play {
        targets: 30,
        broken: broken.clone(),
        outages: vec![],
        has_first_page: false,
        pages_stay: false,
        seed: 1,
    };

    let played = play.play();

    assert_eq!(played.failed, broken);
    assert!(played.seconds < 10.0, "{}", played.seconds);
}
