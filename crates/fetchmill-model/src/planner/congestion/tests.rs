//! Simulates an origin that refuses requests above its rate, and the client whose pace is tested.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::super::origin::{Gate, Millis, Observations, OriginState};
use super::super::pace::Pace;
use super::super::retry::Jitter;
use super::Congestion;
use crate::limits;

/// Processor time that a client needs per request, in microseconds. It limits the client to 40,000 requests/s.
const REQUEST_MICROS: u64 = 25;
/// Processor time that a client needs per request while other programs use the machine, in microseconds. It limits the
/// client to 80 requests/s.
const BUSY_REQUEST_MICROS: u64 = 12_500;
const TICK_MICROS: u64 = 50_000;
const REPORTED_AT: u32 = 16;

/// How an origin handles requests.
#[derive(Clone, Copy)]
struct Server {
    /// Rate in requests/s. `burst` is the number of requests allowed together after a quiet time.
    rate: fn(u64) -> f64,
    burst: f64,
    /// Share of the other requests that are refused regardless of the rate.
    stray: f64,
    /// `Retry-After` of refused requests.
    retry_after: Millis,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick,
    Arrival,
    Reply(bool),
    /// The client is free to make another request.
    Free,
}

struct World {
    server: Server,
    tokens: f64,
    filled_at: u64,
    random: Jitter,
    origin: OriginState,
    pace: Pace,
    report: Observations,
    /// Numbers of successes and refusals in each second.
    seconds: Vec<(u32, u32)>,
    rests: u32,
    /// Time until which the client's machine is busy, in microseconds.
    busy_until: u64,
}

impl World {
    fn new(server: Server, seed: u64) -> Self {
        World {
            server,
            tokens: server.burst,
            filled_at: 0,
            random: Jitter::new(seed),
            origin: OriginState::new(256, 900_000),
            pace: Pace::unset(limits::PACE_BURST),
            report: Observations::default(),
            seconds: Vec::new(),
            rests: 0,
            busy_until: 0,
        }
    }

    fn unit(&mut self) -> f64 {
        (self.random.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn is_refused(&mut self, now: u64) -> bool {
        let rate = (self.server.rate)(now / 1_000_000);
        self.tokens += (now - self.filled_at) as f64 / 1e6 * rate;
        self.tokens = self.tokens.min(self.server.burst.max(1.0));
        self.filled_at = now;
        if self.unit() < self.server.stray {
            return true;
        }
        let is_refused = self.tokens < 1.0;
        self.tokens -= if is_refused { 0.0 } else { 1.0 };
        is_refused
    }

    fn replied(&mut self, is_refused: bool, now: u64) {
        let second = (now / 1_000_000) as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, (0, 0));
        }
        let counts = &mut self.seconds[second];
        if is_refused {
            counts.1 += 1;
            self.report.throttled += 1;
            self.report.retry_after = self.server.retry_after;
        } else {
            counts.0 += 1;
            self.report.successes += 1;
        }
        if self.report.throttled >= REPORTED_AT {
            self.tell(now);
        }
    }

    fn tell(&mut self, now: u64) {
        let now: Millis = now / 1000;
        let was_open = !matches!(self.origin.gate(now), Gate::Resting(_));
        self.origin.observe(std::mem::take(&mut self.report), true, now);
        self.rests += u32::from(was_open && matches!(self.origin.gate(now), Gate::Resting(_)));
        self.pace.set(self.origin.rate());
    }

    /// Runs `clients` connections for `seconds`. Each connection sends its next request after a reply.
    fn run(&mut self, clients: usize, latency_micros: u64, seconds: u64) {
        let mut events = BinaryHeap::from([Reverse((0, Event::Free)), Reverse((TICK_MICROS, Event::Tick))]);
        let (mut idle, mut free_at) = (clients, 0);
        while let Some(Reverse((now, event))) = events.pop() {
            if now >= seconds * 1_000_000 {
                return;
            }
            match event {
                Event::Tick => {
                    self.tell(now);
                    events.push(Reverse((now + TICK_MICROS, Event::Tick)));
                }
                Event::Arrival => {
                    let is_refused = self.is_refused(now);
                    let jitter = (self.unit() * latency_micros as f64 / 4.0) as u64;
                    events.push(Reverse((now + latency_micros / 2 + jitter, Event::Reply(is_refused))));
                }
                Event::Reply(is_refused) => {
                    self.replied(is_refused, now);
                    idle += 1;
                }
                Event::Free => {}
            }
            let rests = matches!(self.origin.gate(now / 1000), Gate::Resting(_));
            if idle > 0 && free_at <= now && !rests {
                idle -= 1;
                // A timer has a resolution of a millisecond and fires late.
                let wait = self.pace.reserve(now).div_ceil(1000) * 1000;
                let cost = if now < self.busy_until { BUSY_REQUEST_MICROS } else { REQUEST_MICROS };
                free_at = now + wait + cost;
                events.push(Reverse((free_at + latency_micros / 2, Event::Arrival)));
                events.push(Reverse((free_at, Event::Free)));
            }
        }
    }

    /// Returns the goodput in replies/s, and the refused share.
    fn in_seconds(&self, seconds: Range<usize>) -> (f64, f64) {
        let length = seconds.len() as f64;
        let counts = &self.seconds[seconds];
        let successes: u32 = counts.iter().map(|(successes, _)| successes).sum();
        let refused: u32 = counts.iter().map(|(_, refused)| refused).sum();
        (f64::from(successes) / length, f64::from(refused) / f64::from((successes + refused).max(1)))
    }
}

impl Server {
    /// Creates an origin with a token bucket, which holds as many tokens as the rate allows in `bucket_seconds`. A
    /// bucket for fewer than three requests would refuse some requests only because timers are inexact.
    fn steady(rate: fn(u64) -> f64, bucket_seconds: f64) -> Self {
        Server { rate, burst: (rate(0) * bucket_seconds).max(3.0), stray: 0.0, retry_after: 0 }
    }
}

/// Rates in requests/s, each as a function of the second.
const RATES: [fn(u64) -> f64; 6] = [|_| 50.0, |_| 150.0, |_| 500.0, |_| 2000.0, |_| 6000.0, |_| 20_000.0];

#[test]
fn goodput_is_near_what_the_origin_gives_and_little_is_refused() {
    for (rate, clients) in RATES.iter().flat_map(|rate| [1, 4, 16, 64, 256].map(|clients| (rate, clients))) {
        for latency in [100, 1000, 10_000, 50_000] {
            for bucket in [0.05, 0.1, 0.3, 1.0] {
                let seed = (rate(0) as u64 * 1000 + clients) * 7919 + latency;
                let mut world = World::new(Server::steady(*rate, bucket), seed);
                world.run(clients as usize, latency, 20);

                let (goodput, refused) = world.in_seconds(5..20);
                let most = (clients as f64 * 1e6 / (latency as f64 * 1.125 + 50.0)).min(rate(0));
                let case = format!(
                    "{} a second, {clients} in flight, {latency} us, bucket {bucket} s, seed {seed}: \
                     goodput {:.3}, refused {refused:.4}",
                    rate(0),
                    goodput / most
                );
                assert!(goodput >= 0.9 * most, "{case}");
                assert!(refused <= 0.05, "{case}");
                assert_eq!(world.rests, 0, "{case}");
            }
        }
    }
}

#[test]
fn an_origin_that_asks_for_patience_gives_as_much() {
    for (rate, retry_after) in RATES.iter().flat_map(|rate| [1000, 30_000].map(|asked| (rate, asked))) {
        for (clients, latency) in [(4, 1000), (64, 1000), (256, 10_000)] {
            let mut world = World::new(Server { retry_after, ..Server::steady(*rate, 0.1) }, 7919);
            world.run(clients, latency, 25);

            let (goodput, refused) = world.in_seconds(10..25);
            let most = (clients as f64 * 1e6 / (latency as f64 * 1.125 + 50.0)).min(rate(0));
            let case = format!(
                "{} a second, asks for {retry_after} ms, {clients} in flight, {latency} us: goodput {:.3}, \
                 refused {refused:.4}",
                rate(0),
                goodput / most
            );
            assert!(goodput >= 0.9 * most && refused <= 0.05, "{case}");
            assert_eq!(world.rests, 0, "{case}");
        }
    }
}

#[test]
fn a_rate_that_drops_to_a_third_and_comes_back_is_followed() {
    for seed in 1..=10 {
        let rate = |second| if (20..40).contains(&second) { 1000.0 } else { 3000.0 };
        let mut world = World::new(Server::steady(rate, 0.2), seed);
        world.run(64, 5000, 70);

        for (seconds, given) in [(5..20, 3000.0), (23..40, 1000.0), (55..70, 3000.0)] {
            let (goodput, refused) = world.in_seconds(seconds.clone());
            let case =
                format!("seed {seed}, {seconds:?}: goodput {:.3}, refused {refused:.4}", goodput / given);
            assert!(goodput >= 0.9 * given && refused <= 0.05, "{case}");
        }
        assert_eq!(world.rests, 0);
    }
}

#[test]
fn refusals_that_come_whatever_the_pace_is_do_not_slow_it_for_long() {
    for (seed, stray) in [(1, 0.005), (2, 0.05), (3, 0.2), (4, 0.4)] {
        let mut world = World::new(Server { stray, ..Server::steady(|_| 1e9, 1.0) }, seed);
        world.run(64, 5000, 60);

        let most = 64.0 * 1e6 / 5675.0 * (1.0 - stray);
        let (goodput, _) = world.in_seconds(5..60);
        assert!(goodput >= 0.8 * most, "seed {seed}, {stray} refused: goodput {:.3}", goodput / most);
        assert_eq!(world.rests, 0);
    }
}

#[test]
fn what_was_measured_while_the_machine_was_busy_does_not_slow_it_for_long() {
    for (seed, busy_seconds) in (1..=20).zip([1, 2, 4].into_iter().cycle()) {
        let mut world = World::new(Server { stray: 0.3, ..Server::steady(|_| 1e9, 1.0) }, seed);
        world.busy_until = busy_seconds * 1_000_000;
        world.run(64, 5000, 60);

        let most = 64.0 * 1e6 / 5675.0 * 0.7;
        let (goodput, _) = world.in_seconds(15..60);
        let seconds: Vec<u32> = world.seconds.iter().map(|counts| counts.0).collect();
        assert!(goodput >= 0.7 * most, "seed {seed}, busy for {busy_seconds} s: {goodput:.0} {seconds:?}");
    }
}

#[test]
fn an_outage_rests_and_the_pace_is_there_again_after_it() {
    let rate = |second| if (10..13).contains(&second) { 0.0 } else { 1000.0 };
    let mut world = World::new(Server::steady(rate, 0.1), 1);
    world.run(64, 5000, 30);

    let (_, refused) = world.in_seconds(10..13);
    assert!(refused > 0.95 && world.rests == 1, "refused {refused:.4}, rests {}", world.rests);
    let in_rest = world.seconds[11];
    assert!(in_rest.0 + in_rest.1 < 50, "while it rests: {in_rest:?}");
    let (goodput, refused) = world.in_seconds(20..30);
    assert!(goodput >= 900.0 && refused <= 0.05, "goodput {goodput}, refused {refused:.4}");
}

#[test]
fn a_pace_goes_away_when_the_origin_gives_all_that_is_asked() {
    let rate = |second| if second < 10 { 500.0 } else { 1e9 };
    let mut world = World::new(Server::steady(rate, 0.1), 1);

    world.run(16, 5000, 10);
    assert!(world.origin.rate().is_some());
    let mut world = World::new(Server::steady(rate, 0.1), 1);
    world.run(16, 5000, 40);

    assert_eq!(world.origin.rate(), None);
}

#[test]
fn a_run_that_is_resumed_begins_with_the_pace_of_the_one_before() {
    let given: [fn(u64) -> f64; 3] = [|_| 1000.0, |_| 500.0, |_| 1000.0];
    for (found, rate) in [1000.0, 1000.0, 200.0].into_iter().zip(given) {
        let given = rate(0);
        let mut world = World::new(Server::steady(rate, 0.1), 1);
        world.origin.resume_rate(found);
        world.pace.set(world.origin.rate());

        world.run(64, 5000, 30);

        let (_, first) = world.in_seconds(0..1);
        let (goodput, refused) = world.in_seconds(15..30);
        let case =
            format!("found {found}, given {given}: {first:.4}, then {goodput:.0}, {refused:.4} refused");
        assert!(goodput >= 0.9 * given && refused <= 0.05, "{case}");
        assert!(given < found || first == 0.0, "{case}");
    }
}

#[test]
fn a_pace_that_is_resumed_goes_away_where_nothing_is_refused_any_more() {
    let mut world = World::new(Server::steady(|_| 1e9, 1.0), 1);
    world.origin.resume_rate(500.0);
    world.pace.set(world.origin.rate());

    world.run(16, 5000, 40);

    assert_eq!(world.origin.rate(), None);
}

#[test]
fn one_refusal_among_many_is_no_reason_for_a_pace() {
    let mut congestion = Congestion::default();
    for step in 0..100 {
        congestion.observe(500, u32::from(step % 10 == 0), step * 50);
    }

    assert_eq!(congestion.rate(), None);
}

#[test]
fn a_burst_of_refusals_cuts_once() {
    let mut congestion = Congestion::default();
    congestion.observe(50, 0, 0);
    congestion.observe(50, 20, 100);
    let cut = congestion.rate();
    for now in 101..200 {
        congestion.observe(0, 16, now);
    }

    assert!(cut.is_some());
    assert_eq!(congestion.rate(), cut);
}
