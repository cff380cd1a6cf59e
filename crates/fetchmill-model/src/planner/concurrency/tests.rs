//! Simulates a client and several kinds of origins to test the limit and the goodput that it achieves.

mod two_jobs;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::super::retry::Jitter;
use super::{ConcurrencyBounds, ConcurrencyLimit, ListingState, Load, Millis};

const TICK_MICROS: u64 = 50_000;
const SLOT_MICROS: u64 = 100_000;
/// Share of an origin's capacity that pages leave to requests while a listing reads ahead. `LEFT_BY_A_PAGE` is the
/// share that a single page leaves later. A page has 10,000 names and as many bytes as `PAGE_REPLIES` replies.
const LEFT_BY_PAGES: f64 = 0.28;
const LEFT_BY_A_PAGE: f64 = 0.5;
const PAGE_NAMES: f64 = 10_000.0;
const PAGE_REPLIES: f64 = 800.0;
const WORKERS: usize = 2;
/// Number of resting connections for each active connection.
const RESTING: f64 = 0.5;
const BOUNDS: ConcurrencyBounds = ConcurrencyBounds { first: 32, least: WORKERS, most: 16_384 };

/// An origin. `latency` is the range of its reply times in a given second, in microseconds. `capacity` is the number of
/// replies/s for a given number of requests.
#[derive(Clone, Copy)]
struct Origin {
    latency: fn(u64) -> (u64, u64),
    capacity: fn(usize) -> f64,
    /// Time to open a connection, in microseconds.
    connect_micros: u64,
    /// Maximum relative deviation of the capacity. Each deviation lasts a tenth of a second.
    noise: f64,
    /// Number of connections above which replies take longer, in proportion to the square of the excess. As with a real
    /// client, a second later there is one resting connection for every two active ones.
    crowd: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick,
    Sent { worker: usize },
    Reply { worker: usize, sent: u64 },
}

#[derive(Default)]
struct Worker {
    in_flight: usize,
    exchanging: usize,
    connections: usize,
    load: Load,
}

impl Worker {
    /// Begins a request. Returns whether it needs a new connection.
    fn begin(&mut self) -> bool {
        self.in_flight += 1;
        let is_new = self.in_flight > self.connections;
        self.connections = self.connections.max(self.in_flight);
        is_new
    }

    fn note_reply(&mut self, took: u64, bytes: u64) {
        self.in_flight -= 1;
        self.exchanging -= 1;
        self.load.replies += 1;
        self.load.bytes += bytes;
        self.load.latency_micros += took;
    }

    fn take_load(&mut self) -> Load {
        let load = std::mem::take(&mut self.load);
        Load { in_flight: self.in_flight as u32, exchanging: self.exchanging as u32, ..load }
    }
}

struct World {
    origin: Origin,
    random: Jitter,
    seed: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    workers: [Worker; WORKERS],
    free_at: f64,
    /// Number of connections, including resting ones.
    connections: f64,
    /// The limit that is tested. `None` if the number of requests is fixed.
    controller: Option<ConcurrencyLimit>,
    limit: usize,
    /// Maximum number of requests/s, which is the number of targets that are available.
    targets: f64,
    taken: f64,
    /// Time at which the listing's read-ahead ends, in microseconds.
    reads_ahead_until: u64,
    /// Number of names handed out since the last page. `page_left` is the part of the next page that is still to
    /// arrive. `None` if pages do not share the capacity with requests.
    names_taken: Option<f64>,
    page_left: f64,
    /// Size of a body in bytes.
    body: u64,
    /// Number of replies in each slot, and the limit at its end.
    slots: Vec<(u32, usize)>,
}

impl World {
    fn new(origin: Origin, seed: u64) -> Self {
        let controller = ConcurrencyLimit::new(BOUNDS, WORKERS);
        World {
            origin,
            random: Jitter::new(seed),
            seed,
            events: BinaryHeap::new(),
            workers: Default::default(),
            free_at: 0.0,
            connections: 0.0,
            limit: controller.limit(),
            controller: Some(controller),
            targets: f64::INFINITY,
            taken: 0.0,
            reads_ahead_until: 0,
            names_taken: None,
            page_left: 0.0,
            body: 100,
            slots: Vec::new(),
        }
    }

    fn fixed(origin: Origin, limit: usize) -> Self {
        World { controller: None, limit, ..World::new(origin, 1) }
    }

    fn run(&mut self, seconds: u64) {
        self.events.push(Reverse((0, Event::Tick)));
        while let Some(Reverse((now, event))) = self.events.pop() {
            if now >= seconds * 1_000_000 {
                return;
            }
            match event {
                Event::Tick => self.tick(now),
                Event::Sent { worker } => {
                    self.workers[worker].exchanging += 1;
                    let replied = self.serve(now);
                    self.events.push(Reverse((replied, Event::Reply { worker, sent: now })));
                }
                Event::Reply { worker, sent } => {
                    self.workers[worker].note_reply(now - sent, self.body);
                    self.slot(now).0 += 1;
                    self.fill(worker, now);
                }
            }
        }
    }

    fn serve(&mut self, now: u64) -> u64 {
        let exchanging: usize = self.workers.iter().map(|worker| worker.exchanging).sum();
        let chance = Jitter::new(self.seed ^ (now / SLOT_MICROS)).draw() as f64 / u64::MAX as f64;
        let noise = 1.0 + self.origin.noise * (2.0 * chance - 1.0);
        let left = if now < self.reads_ahead_until {
            LEFT_BY_PAGES
        } else if self.page_left > 0.0 {
            LEFT_BY_A_PAGE
        } else {
            1.0
        };
        let capacity = (self.origin.capacity)(exchanging) * noise * left;
        self.free_at = self.free_at.max(now as f64) + 1e6 / capacity;
        let (least, most) = (self.origin.latency)(now / 1_000_000);
        let crowding = (self.connections / self.origin.crowd).max(1.0).powi(2);
        let latency = least + self.random.draw() % (most - least + 1);
        self.free_at as u64 + (latency as f64 * crowding) as u64
    }

    fn fill(&mut self, worker: usize, now: u64) {
        let share = self.limit / WORKERS + usize::from(worker < self.limit % WORKERS);
        while self.workers[worker].in_flight < share {
            let at = &mut self.workers[worker];
            if self.taken >= self.targets * now as f64 / 1e6 {
                at.load.is_starved = true;
                return;
            }
            self.taken += 1.0;
            if let Some(names) = &mut self.names_taken {
                *names += 1.0;
            }
            let sent = now + if at.begin() { self.origin.connect_micros } else { 0 };
            self.events.push(Reverse((sent, Event::Sent { worker })));
        }
    }

    fn tick(&mut self, now: u64) {
        self.list(now);
        let resting = (self.connections - self.limit as f64).max(0.0);
        let wanted = self.limit as f64 * RESTING;
        self.connections = self.limit as f64 + resting + (wanted - resting) * TICK_MICROS as f64 / 1e6;
        for worker in 0..WORKERS {
            let counts = self.workers[worker].take_load();
            if let Some(controller) = &mut self.controller {
                controller.note_listing(if now < self.reads_ahead_until {
                    ListingState::ReadsAhead
                } else {
                    ListingState::Ahead
                });
                controller.observe(worker, counts, false, now / 1000);
                self.limit = controller.limit();
            }
        }
        for worker in 0..WORKERS {
            self.fill(worker, now);
        }
        self.slot(now).1 = self.limit;
        self.events.push(Reverse((now + TICK_MICROS, Event::Tick)));
    }

    /// Begins the next page, or receives more of the current page.
    fn list(&mut self, now: u64) {
        let Some(names) = &mut self.names_taken else { return };
        if *names >= PAGE_NAMES && now >= self.reads_ahead_until {
            *names -= PAGE_NAMES;
            self.page_left += PAGE_REPLIES;
        } else if self.page_left > 0.0 {
            let came = (self.origin.capacity)(1) * (1.0 - LEFT_BY_A_PAGE) * TICK_MICROS as f64 / 1e6;
            self.page_left -= came;
        }
    }

    fn slot(&mut self, now: u64) -> &mut (u32, usize) {
        let number = (now / SLOT_MICROS) as usize;
        if self.slots.len() <= number {
            self.slots.resize(number + 1, (0, 0));
        }
        &mut self.slots[number]
    }

    fn slots_of(&self, seconds: Range<u64>) -> &[(u32, usize)] {
        let a_second = 1_000_000 / SLOT_MICROS;
        &self.slots[(seconds.start * a_second) as usize..(seconds.end * a_second) as usize]
    }

    /// Returns the number of replies/s.
    fn goodput(&self, seconds: Range<u64>) -> f64 {
        let replies: u32 = self.slots_of(seconds.clone()).iter().map(|(replies, _)| replies).sum();
        f64::from(replies) / (seconds.end - seconds.start) as f64
    }

    /// Returns the lowest and the highest limit.
    fn limits(&self, seconds: Range<u64>) -> (usize, usize) {
        let limits = self.slots_of(seconds).iter().map(|(_, limit)| *limit);
        (limits.clone().min().unwrap_or(0), limits.max().unwrap_or(0))
    }
}

/// Returns the highest goodput that any fixed number of requests achieves.
fn best_fixed(origin: Origin, seconds: Range<u64>, most: usize) -> f64 {
    let limits = (1..=14).map(|power| 1 << power).chain([200]).filter(|limit| *limit <= most);
    let goodput = |limit| {
        let mut world = World::fixed(origin, limit);
        world.run(seconds.end);
        world.goodput(seconds.clone())
    };
    limits.map(goodput).fold(0.0, f64::max)
}

/// Returns the message that is shown if a limit fails the test.
fn told(name: &str, world: &World, best: f64, seconds: Range<u64>) -> String {
    format!(
        "{name}: {:.3} of the best fixed number's {best:.0}/s; limit within {:?}",
        world.goodput(seconds.clone()) / best,
        world.limits(seconds)
    )
}

/// Origins with different latencies, capacities and costs of new connections, each with a name.
const ORIGINS: [(&str, Origin); 15] = [
    (
        "loopback",
        Origin {
            latency: |_| (50, 150),
            capacity: |_| 10_000.0,
            connect_micros: 100,
            noise: 0.0,
            crowd: f64::INFINITY,
        },
    ),
    (
        "0.2 ms",
        Origin {
            latency: |_| (200, 250),
            capacity: |_| 10_000.0,
            connect_micros: 400,
            noise: 0.0,
            crowd: f64::INFINITY,
        },
    ),
    (
        "10 ms",
        Origin {
            latency: |_| (10_000, 11_000),
            capacity: |_| 12_000.0,
            connect_micros: 20_000,
            noise: 0.0,
            crowd: f64::INFINITY,
        },
    ),
    (
        "50 ms",
        Origin {
            latency: |_| (50_000, 51_000),
            capacity: |_| 8000.0,
            connect_micros: 150_000,
            noise: 0.0,
            crowd: f64::INFINITY,
        },
    ),
    (
        "100 ms",
        Origin {
            latency: |_| (100_000, 100_000),
            capacity: |_| 10_000.0,
            connect_micros: 0,
            noise: 0.0,
            crowd: f64::INFINITY,
        },
    ),
    (
        "150 ms",
        Origin {
            latency: |_| (150_000, 160_000),
            capacity: |_| 5000.0,
            connect_micros: 450_000,
            noise: 0.0,
            crowd: f64::INFINITY,
        },
    ),
    (
        "0 to 3 s",
        Origin {
            latency: |_| (0, 3_000_000),
            capacity: |_| 10_000.0,
            connect_micros: 100,
            noise: 0.0,
            crowd: f64::INFINITY,
        },
    ),
    (
        "a slow one",
        Origin {
            latency: |_| (40_000, 120_000),
            capacity: |_| 300.0,
            connect_micros: 50_000,
            noise: 0.0,
            crowd: f64::INFINITY,
        },
    ),
    (
        "noisy loopback",
        Origin {
            latency: |_| (50, 150),
            capacity: |_| 10_000.0,
            connect_micros: 100,
            noise: 0.2,
            crowd: f64::INFINITY,
        },
    ),
    (
        "noisy 10 ms",
        Origin {
            latency: |_| (10_000, 11_000),
            capacity: |_| 12_000.0,
            connect_micros: 20_000,
            noise: 0.2,
            crowd: f64::INFINITY,
        },
    ),
    (
        "noisy 50 ms",
        Origin {
            latency: |_| (50_000, 51_000),
            capacity: |_| 8000.0,
            connect_micros: 150_000,
            noise: 0.2,
            crowd: f64::INFINITY,
        },
    ),
    (
        "10 ms, faster with more requests",
        Origin {
            latency: |_| (10_000, 10_100),
            capacity: |there| 6_000.0 * (1.0 + 0.33 * (there as f64 / 64.0).max(1.0).log2()).min(2.4),
            connect_micros: 100,
            noise: 0.05,
            crowd: f64::INFINITY,
        },
    ),
    (
        "worse beyond 200 requests",
        Origin {
            latency: |_| (40_000, 60_000),
            capacity: |there| if there <= 200 { 20_000.0 } else { 4000.0 * (200.0 / there as f64).powi(2) },
            connect_micros: 50_000,
            noise: 0.0,
            crowd: f64::INFINITY,
        },
    ),
    (
        "slower with each connection beyond 200",
        Origin {
            latency: |_| (50_000, 52_000),
            capacity: |_| 20_000.0,
            connect_micros: 1000,
            noise: 0.0,
            crowd: 200.0,
        },
    ),
    (
        "150 ms, collapses beyond 10,000 requests",
        Origin {
            latency: |_| (150_000, 160_000),
            capacity: |there| if there <= 10_000 { 20_000.0 } else { 200.0 },
            connect_micros: 450_000,
            noise: 0.0,
            crowd: f64::INFINITY,
        },
    ),
];

#[test]
fn it_gives_nine_tenths_of_the_best_fixed_number_in_time() {
    for (name, origin) in ORIGINS {
        let (least, most) = (origin.latency)(0);
        let in_time = 10.max(u64::midpoint(least, most) * 12 / 1_000_000);
        let seconds = in_time..in_time + 10;
        let best = best_fixed(origin, seconds.clone(), BOUNDS.most);
        for seed in 1..=2 {
            let mut world = World::new(origin, seed);
            world.run(seconds.end);
            assert!(
                world.goodput(seconds.clone()) >= 0.9 * best,
                "seed {seed}, {}",
                told(name, &world, best, seconds)
            );
        }
    }
}

#[test]
fn pages_that_fill_the_link_at_first_do_not_end_the_climb() {
    let (_, origin) = ORIGINS[3];
    let best = best_fixed(origin, 10..20, BOUNDS.most);
    for (seed, seconds) in [(1, 1), (2, 2), (3, 4)] {
        let mut world = World { reads_ahead_until: seconds * 1_000_000, ..World::new(origin, seed) };
        world.run(20);
        assert!(world.goodput(10..20) >= 0.9 * best, "{seconds} s, {}", told("pages", &world, best, 10..20));
    }
}

/// Simulates a page that takes half of the link for a third of a second, every two seconds.
#[test]
fn pages_that_come_now_and_then_are_no_change() {
    let (_, quiet) = ORIGINS[3];
    let origin = Origin { capacity: |_| 5200.0, noise: 0.1, ..quiet };
    let listed = |world: World| World { names_taken: Some(0.0), ..world };
    let mut fixed = listed(World::fixed(origin, 512));
    fixed.run(40);
    let best = fixed.goodput(10..40);
    let mut far_too_many = 0;
    for seed in 1..=20 {
        let mut world = listed(World::new(origin, seed));
        world.reads_ahead_until = seed % 7 * 1_000_000;
        world.run(40);

        assert!(world.goodput(10..40) >= 0.9 * best, "seed {seed}, {}", told("pages", &world, best, 10..40));
        far_too_many += world.slots_of(10..40).iter().filter(|(_, limit)| *limit > 1024).count();
    }
    assert!(far_too_many <= 20 * 300 * 15 / 100, "{far_too_many} of {} tenths of a second", 20 * 300);
}

#[test]
fn pages_at_first_do_not_lead_a_climb_farther_than_an_origin_bears() {
    let (name, origin) = ORIGINS[14];
    let best = best_fixed(origin, 20..30, BOUNDS.most);
    for (seconds, seed) in [(2, 1), (4, 2), (6, 3), (8, 1), (8, 4)] {
        let reads_ahead_until = seconds * 1_000_000;
        let mut world = World { reads_ahead_until, names_taken: Some(0.0), ..World::new(origin, seed) };
        world.run(30);
        assert!(
            world.goodput(20..30) >= 0.8 * best,
            "{seconds} s, seed {seed}, {}",
            told(name, &world, best, 20..30)
        );
    }
}

#[test]
fn requests_that_keep_pages_waiting_become_fewer() {
    let bounds = ConcurrencyBounds { most: 512, ..BOUNDS };
    for (millis, is_kept) in [(40, false), (10, true)] {
        let mut concurrency = ConcurrencyLimit::new(bounds, 1);
        let mut run = |listing, millis: u64, ticks: std::ops::Range<u64>| {
            for tick in ticks {
                let limit = concurrency.limit() as u32;
                let (replies, is_starved) = (limit * 5, listing == ListingState::Behind);
                let latency_micros = u64::from(replies) * millis * 1000;
                let load = Load {
                    replies,
                    latency_micros,
                    in_flight: limit,
                    exchanging: limit,
                    is_starved,
                    bytes: 0,
                };
                concurrency.note_listing(listing);
                concurrency.observe(0, load, false, tick * 50);
            }
            concurrency.limit()
        };
        assert_eq!(run(ListingState::Ahead, 10, 0..200), 512);
        assert_eq!(run(ListingState::Behind, millis, 200..400) == 512, is_kept);
    }
}

#[test]
fn a_listing_that_reads_ahead_all_the_time_does_not_keep_a_climb_from_its_end() {
    let (_, origin) = ORIGINS[3];
    let mut world = World { reads_ahead_until: u64::MAX, ..World::new(origin, 1) };
    world.run(30);
    let controller = world.controller.as_ref();
    assert!(controller.is_some_and(|controller| !controller.is_trying()), "{:?}", world.limits(25..30));
}

#[test]
fn once_settled_it_swings_by_less_than_a_quarter() {
    for (name, origin) in ORIGINS {
        for seed in 1..=2 {
            let mut world = World::new(origin, seed);
            world.run(60);
            let (least, most) = world.limits(40..60);
            let middle = (least + most) as f64 / 2.0;
            assert!((most - least) as f64 / middle < 0.25, "seed {seed}, {name}: {least} to {most}");
        }
    }
}

#[test]
fn what_only_waits_in_a_queue_is_given_back() {
    for (name, origin) in ORIGINS.into_iter().filter(|(name, _)| !name.contains("faster with more")) {
        let (least, most) = (origin.latency)(0);
        let needed = (origin.capacity)(1) * (least + most) as f64 / 2e6;
        let mut world = World::new(origin, 7);
        world.run(30);
        let (_, most) = world.limits(25..30);
        assert!(most as f64 <= 2.5 * needed + 32.0, "{name}: {most} for {needed:.0}");
    }
}

#[test]
fn a_change_of_latency_is_followed_both_ways() {
    let latency = |second| if (20..50).contains(&second) { (300_000, 310_000) } else { (10_000, 10_500) };
    let origin =
        Origin { latency, capacity: |_| 30_000.0, connect_micros: 10_000, noise: 0.0, crowd: f64::INFINITY };
    let bounds = ConcurrencyBounds { most: 4096, ..BOUNDS };
    let best =
        [10..20, 30..50, 60..80].map(|seconds| (seconds.clone(), best_fixed(origin, seconds, bounds.most)));
    for seed in 1..=2 {
        let mut world =
            World { controller: Some(ConcurrencyLimit::new(bounds, WORKERS)), ..World::new(origin, seed) };
        world.run(80);

        for (seconds, best) in best.clone() {
            let case = told("changing", &world, best, seconds.clone());
            assert!(world.goodput(seconds) >= 0.9 * best, "seed {seed}, {case}");
        }
        let (_, most) = world.limits(60..80);
        assert!(most <= 750, "seed {seed}: 10 ms needs 300, but the limit is {most}");
    }
}

#[test]
fn a_job_that_something_else_holds_back_says_nothing() {
    let origin = Origin {
        latency: |_| (20_000, 20_000),
        capacity: |_| 20_000.0,
        connect_micros: 0,
        noise: 0.0,
        crowd: f64::INFINITY,
    };
    let mut world = World { targets: 200.0, ..World::new(origin, 1) };

    world.run(20);

    assert_eq!(world.limits(1..20), (BOUNDS.first, BOUNDS.first));
}

#[test]
fn a_pace_is_not_read_as_latency() {
    let mut concurrency = ConcurrencyLimit::new(BOUNDS, 1);
    let load = Load { replies: 10, latency_micros: 10_000, in_flight: 32, exchanging: 32, ..Load::default() };
    for now in (0..20_000).step_by(50) {
        let slow = Load { latency_micros: load.latency_micros * (1 + now / 1000), ..load };
        concurrency.observe(0, slow, true, now);
        assert_eq!(concurrency.limit(), BOUNDS.first);
    }
}

#[test]
fn it_stays_within_its_bounds() {
    let bounds = ConcurrencyBounds { first: 64, least: 2, most: 100 };
    let origin = Origin {
        latency: |_| (100_000, 100_000),
        capacity: |_| 1e9,
        connect_micros: 0,
        noise: 0.0,
        crowd: f64::INFINITY,
    };
    let mut world =
        World { controller: Some(ConcurrencyLimit::new(bounds, WORKERS)), ..World::new(origin, 1) };
    world.run(20);
    assert_eq!(world.limits(10..20).1, 100);
    assert!(world.controller.as_ref().is_some_and(ConcurrencyLimit::is_at_most));

    let mut few = ConcurrencyLimit::new(ConcurrencyBounds { first: 64, least: 2, most: 1 }, 2);
    few.observe(9, Load::default(), false, 0);
    assert_eq!(few.limit(), 2);
}

#[test]
fn large_bodies_leave_memory_for_fewer() {
    let origin = Origin {
        latency: |_| (1_000_000, 1_000_000),
        capacity: |_| 1e9,
        connect_micros: 0,
        noise: 0.0,
        crowd: f64::INFINITY,
    };
    for (body, bound) in [(100, BOUNDS.most), (16 << 10, 2_849), (1 << 20, 2_849)] {
        let mut world = World { body, ..World::new(origin, 1) };
        world.run(20);
        assert_eq!(world.limits(15..20), (bound, bound), "{body}");
    }
}

#[test]
fn a_lower_bound_holds_at_once() {
    let mut concurrency = ConcurrencyLimit::new(BOUNDS, 2);
    concurrency.lower_most(20);
    assert_eq!((concurrency.limit(), concurrency.is_at_most()), (20, true));
    concurrency.lower_most(0);
    assert_eq!(concurrency.limit(), BOUNDS.least);
}

#[test]
fn connections_that_never_come_are_waited_for_for_a_second() {
    let mut concurrency = ConcurrencyLimit::new(BOUNDS, 1);
    let seen: Vec<usize> = (0..50_u64)
        .map(|tick| {
            let in_flight = concurrency.limit() as u32;
            let exchanging = in_flight * 3 / 4;
            let latency_micros = u64::from(exchanging) * 50_000;
            let load = Load { replies: exchanging, latency_micros, in_flight, exchanging, ..Load::default() };
            concurrency.observe(0, load, false, tick * 50);
            concurrency.limit()
        })
        .collect();
    let first = seen.iter().position(|limit| *limit > BOUNDS.first);
    assert!(first.is_some_and(|tick| (20..30).contains(&tick)), "{seen:?}");
}

#[test]
fn replies_that_never_come_decide_nothing() {
    let mut concurrency = ConcurrencyLimit::new(BOUNDS, 1);
    let load = Load { in_flight: 32, exchanging: 32, ..Load::default() };
    for now in (0..120_000_u64).step_by(50) {
        concurrency.observe(0, load, false, now as Millis);
        assert_eq!(concurrency.limit(), BOUNDS.first);
    }
}
