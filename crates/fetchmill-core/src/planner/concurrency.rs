//! How many requests an origin gets at once, found by trying: as many as its goodput grows with, and no more.
//!
//! Clock-free: time is an argument. What is decided on is measured in rounds at one limit: goodput, and the mean latency.
//! - It climbs: the limit doubles each round while goodput grows with it or latency does not. (As TCP's slow start and
//!   BBR's startup do.)
//! - It shrinks from there, by a third at a time, while that costs no goodput: what only waits in a queue is given back.
//! - It holds. Now and then it tries a little more or a little less, in turns with what it has, and keeps what is better.
//!   When what it holds no longer gives what it gave, it climbs again from there. Others may be the reason, so a limit twice
//!   as high must give more than before, and what costs others more than it gives is given back.
//!
//! Rounds in which something else held the job back (no targets, a full sink, a pace) decide nothing, but for one case: when
//! there are no targets and requests wait in a queue, the listing's pages wait in it too, and it gives some back
//! (docs/decisions/0029).

mod round;

use super::millis::Millis;
pub use round::Load;
use round::{Measured, Round, WorkerState};

/// How far the listing is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListingState {
    /// On its way to be ahead for the first time.
    ReadsAhead,
    /// There are targets, or there is no listing that asks the origin.
    #[default]
    Ahead,
    /// It goes on, and all that it has given is handed out.
    Behind,
}

/// A round has at least this long, and one that is compared with few others at least the second, ...
const ROUND_MIN: Millis = 200;
const COMPARED_MIN: Millis = 400;
/// ... so many replies, ...
const ROUND_REPLIES: f64 = 16.0;
/// ... of a trial so many, unless that would take too long, ...
const TRIAL_REPLIES: f64 = 400.0;
const TRIAL_MAX: Millis = 3_000;
/// ... and ends without a result after this long, or so many latencies.
const ROUND_MAX: Millis = 5_000;
const ROUND_MAX_LATENCIES: f64 = 6.0;
/// Latency above so many times the least is that of an overload.
const OVERLOADED: f64 = 8.0;
/// Connections that are still being made, in so many requests, before a round begins.
const CONNECTING: f64 = 0.125;
/// They are waited for so long, or so many latencies: where a link is full they may never come.
const CONNECTING_MAX: Millis = 1_000;
const CONNECTING_LATENCIES: f64 = 4.0;
/// A limit twice as high is worth it when it gives so much more, or while latency has not grown so much.
const GROWTH: f64 = 1.1;
const QUEUED: f64 = 1.25;
/// A limit that gives so much more than the one before it waits in no queue.
const PAID: f64 = 1.2;
/// A limit that gives so much less than a lower one is too high, whatever latency says.
const HARM: f64 = 0.8;
/// The same behind a change for the worse, which others may have made who ask the same origin: twice as much for half of
/// what it gives would bring 4 / 3, and they would want it back. A listing that reads ahead is such another.
const SHARED_GROWTH: f64 = 1.5;
/// Goodput is behind by a latency. Up to so many requests a climb does not wait for it; above that for so long, in
/// milliseconds: four times too many are no trouble to an origin where they are a hundred, but they are where they are thousands.
const CAREFUL: usize = 1024;
const CAREFUL_LAG: f64 = 500.0;
/// Limits one after the other that were not worth it, before it stops to climb.
const STRIKES: u32 = 2;
/// Rounds of a climb in which a limit that was not worth it does not count, while the listing reads ahead for the first time:
/// its pages may be what fills a narrow link.
const READ_AHEAD_ROUNDS: u32 = 20;
/// Where it begins to shrink: the lowest limit that gave this part of the most.
const NEARLY: f64 = 0.95;
/// Shrinking: by what, and what must be left of the goodput.
const SHRINK: f64 = 1.4;
const SHRINK_KEEPS: f64 = 0.97;
/// A part of the goodput that is less even after a short round.
const CLEARLY_LESS: f64 = 0.85;
/// Where nothing waits in a queue yet, a little more than that is tried: by this, then by its root.
const RAISE: f64 = 1.4;
/// What was sent before a limit was lowered, and connections that rest since then, are still in the way while goodput grows
/// by this, and so often at most.
const RECOVERS: f64 = 1.1;
const RECOVERIES: u32 = 5;
/// Below this much more than the least latency nothing waits in a queue.
const FREE: f64 = 1.15;
/// Above this much more no higher limit is tried.
const CROWDED: f64 = 1.5;
/// A round that differs by more than this from what is held is odd; so many in a row are a change.
const CHANGE: f64 = 1.5;
const CHANGED_ROUNDS: u32 = 2;
/// Weight of a round in what is held.
const HELD_WEIGHT: f64 = 0.3;
/// A higher limit is on probation for so many rounds, which are 2 s or more: a second behind new connections some of them
/// rest, and others take their place. It is given up when it gives less than this part of what the lower one gave, and
/// the next one is tried after so many calm rounds.
const PROBATION_ROUNDS: u32 = 10;
const PROBATION_KEEPS: f64 = 0.95;
const PROBATION_CALM: u32 = 16;
/// A trial's step; twice as large after one that was worth it, up to the second.
const STEP: f64 = 1.06;
const STEP_MAX: f64 = 2.0;
/// Calm rounds before a trial: twice as many after each that was not worth it, up to the second.
const CALM_FIRST: u32 = 4;
const CALM_MAX: u32 = 32;
/// The same where others may ask the origin: what they give back, or take, is found sooner.
const SHARED_STEP: f64 = 1.2;
const SHARED_CALM_MAX: u32 = 8;
/// The part of a step that goodput must grow by for it to be kept, and may fall by.
const STEP_GAIN: f64 = 0.6;
const STEP_LOSS: f64 = 0.25;
/// Whoever has three fifths of what an origin gives loses this part.
const SHARED_LOSS: f64 = 0.4;
/// Memory for what is in flight: a connection has room for its next body and holds some until they are certain, and half as
/// many more rest: two and a half bodies for each request, and what a connection takes itself. What is larger than the
/// second has a budget of its own (docs/decisions/0024).
const MEMORY: f64 = 128.0 * 1024.0 * 1024.0;
const COUNTED_BODY_MAX: f64 = 16.0 * 1024.0;
const BODIES: f64 = 2.5;
const CONNECTION_BYTES: f64 = 6.0 * 1024.0;

/// Within what the limit is looked for.
#[derive(Debug, Clone, Copy)]
pub struct ConcurrencyBounds {
    /// Where it begins.
    pub first: usize,
    /// At least: one for each worker.
    pub least: usize,
    /// At most.
    pub most: usize,
}

/// Higher limits, one after the other.
#[derive(Debug, Clone, Default)]
struct Climb {
    /// Each with its goodput.
    levels: Vec<(usize, f64)>,
    strikes: u32,
    /// Rounds that did not count.
    read_ahead: u32,
}

impl Climb {
    fn best(&self) -> f64 {
        self.levels.iter().map(|(_, goodput)| *goodput).fold(0.0, f64::max)
    }

    /// What a limit gave at first. Goodput is behind by a latency, so that is what the limit before it gives.
    fn at_first(&self, limit: usize) -> f64 {
        self.levels.iter().find(|(level, _)| *level == limit).map_or(f64::INFINITY, |(_, goodput)| *goodput)
    }

    /// The lowest of them that gave this part of the most.
    fn lowest_good(&self, part: f64) -> Option<usize> {
        let enough = self.best() * part;
        self.levels.iter().find(|(_, goodput)| *goodput >= enough).map(|(limit, _)| *limit)
    }
}

/// A limit that is good, and lower ones that are tried.
#[derive(Debug, Clone, Copy)]
struct Shrink {
    good: usize,
    /// The most that was given; none before `good` itself is measured.
    goodput: Option<f64>,
    /// What it gave before a higher one was tried; what it gives while it recovers from that, and how often that was seen.
    before: f64,
    recovered: f64,
    recoveries: u32,
    /// What a lower one gave that seemed worse.
    doubted: Option<f64>,
}

impl Shrink {
    /// Whether a lower limit, which gives this where the one before it gave `before`, may give more in a moment: it gives
    /// more in each round, or something else than that in its first one.
    fn is_recovering(&self, before: f64, goodput: f64) -> bool {
        if self.recoveries == 0 {
            return !(before * SHRINK_KEEPS..before * RECOVERS).contains(&goodput);
        }
        self.recoveries < RECOVERIES && goodput > self.recovered * RECOVERS
    }
}

/// A limit that is good with what it gives, and by how much more is tried.
#[derive(Debug, Clone, Copy)]
struct Raise {
    good: usize,
    goodput: f64,
    by: f64,
    /// Where it began, and what that gave.
    from: (usize, f64),
}

/// What is held.
#[derive(Debug, Clone, Copy, Default)]
struct Hold {
    /// Of earlier rounds.
    held: Option<Measured>,
    odd: u32,
    calm: u32,
    /// The lower limit that it has replaced, for a while.
    replaced: Option<Replaced>,
}

/// A limit that a higher one has replaced, what it gave, and for how many rounds more that is remembered.
#[derive(Debug, Clone, Copy)]
struct Replaced {
    limit: usize,
    goodput: f64,
    rounds: u32,
}

impl Hold {
    /// A limit that has replaced a lower one, which gave so much.
    fn on_probation(limit: usize, goodput: f64) -> Self {
        let replaced = Some(Replaced { limit, goodput, rounds: PROBATION_ROUNDS });
        Hold { replaced, ..Hold::default() }
    }

    /// A round has given this: the lower limit, when it was better.
    fn given_up(&mut self, goodput: f64) -> Option<usize> {
        let replaced = self.replaced.as_mut()?;
        if goodput < replaced.goodput * PROBATION_KEEPS {
            return Some(replaced.limit);
        }
        replaced.rounds -= 1;
        if replaced.rounds == 0 {
            self.replaced = None;
        }
        None
    }
}

/// Another limit in turns with the one that is held: that one, twice the other, that one.
#[derive(Debug, Clone, Copy)]
struct Trial {
    other: usize,
    rounds: [f64; 4],
    done: usize,
}

#[derive(Debug, Clone)]
enum Phase {
    Climb(Climb),
    Shrink(Shrink),
    Raise(Raise),
    Hold(Hold),
    Trial(Hold, Trial),
}

/// What trials have shown so far.
#[derive(Debug, Clone, Copy)]
struct TrialPlan {
    is_up: bool,
    step: f64,
    calm: u32,
}

impl TrialPlan {
    fn new(step: f64) -> Self {
        TrialPlan { is_up: true, step, calm: CALM_FIRST }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimit {
    bounds: ConcurrencyBounds,
    /// At most, as there is memory for bodies that are as long as those of the last round.
    most: usize,
    /// What goes out now, and what is held beside a trial.
    limit: usize,
    held: usize,
    phase: Phase,
    round: Round,
    workers: Vec<WorkerState>,
    listing: ListingState,
    /// The last round's mean, and the least mean since the last change: microseconds.
    latency: f64,
    floor: f64,
    trials: TrialPlan,
    /// Others may ask the origin: it has become slower, or gives less, and nothing here was the reason.
    is_shared: bool,
}

impl ConcurrencyLimit {
    /// Nothing is known yet.
    pub fn new(bounds: ConcurrencyBounds, workers: usize) -> Self {
        let most = bounds.most.max(bounds.least);
        let bounds = ConcurrencyBounds { most, ..bounds };
        let first = bounds.first.clamp(bounds.least, most);
        ConcurrencyLimit {
            bounds,
            most,
            limit: first,
            held: first,
            phase: Phase::Climb(Climb::default()),
            round: Round::default(),
            workers: vec![WorkerState::default(); workers],
            listing: ListingState::default(),
            latency: 0.0,
            floor: f64::INFINITY,
            trials: TrialPlan::new(STEP),
            is_shared: false,
        }
    }

    /// Requests in flight at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// It must never be higher than this.
    pub fn lower_most(&mut self, most: usize) {
        self.bounds.most = self.bounds.most.min(most).max(self.bounds.least);
        self.bound(self.bounds.most);
    }

    fn bound(&mut self, most: usize) {
        self.most = most.clamp(self.bounds.least, self.bounds.most);
        self.limit = self.limit.min(self.most);
        self.held = self.held.min(self.most);
    }

    /// Whether its bound is what keeps it from more.
    pub fn is_at_most(&self) -> bool {
        self.held.min(self.limit) >= self.most
    }

    /// Whether it has not yet settled.
    pub fn is_trying(&self) -> bool {
        matches!(self.phase, Phase::Climb(_) | Phase::Shrink(_) | Phase::Raise(_))
    }

    /// Takes note of how far the listing is.
    pub fn note_listing(&mut self, listing: ListingState) {
        self.listing = listing;
    }

    /// Takes note of what a worker saw. `is_paced`: the origin has a pace, which is what holds the job back.
    pub fn observe(&mut self, worker: usize, load: Load, is_paced: bool, now: Millis) {
        let Some(state) = self.workers.get_mut(worker) else { return };
        state.note(load, now);
        if is_paced {
            self.round = Round::since(now);
            return;
        }
        if self.round.begun.is_none() {
            return self.begin_round(now);
        }
        // One worker's part, as if all had said so now.
        self.round.behind += u32::from(load.is_starved && self.listing == ListingState::Behind);
        self.round.add(load, load.in_flight as usize * self.workers.len());
        self.end_round(now);
    }

    /// A round begins when everybody has heard of the limit and has made its connections, and but for a climb when the
    /// replies are those to its requests.
    fn begin_round(&mut self, now: Millis) {
        let waited = now.saturating_sub(self.round.since);
        let have_heard = self.workers.iter().all(|worker| worker.said_at > self.round.since);
        let in_flight: usize = self.workers.iter().map(|worker| worker.in_flight).sum();
        let exchanging: usize = self.workers.iter().map(|worker| worker.exchanging).sum();
        let connecting = in_flight.saturating_sub(exchanging) as f64;
        let is_late =
            waited as f64 >= (CONNECTING_MAX as f64).max(self.round_latency() * CONNECTING_LATENCIES);
        let is_connected = is_late || connecting <= CONNECTING * in_flight as f64 + 1.0;
        let have_ended = in_flight as f64 <= self.limit as f64 * (1.0 + CONNECTING) + 1.0;
        if !(have_heard && is_connected && have_ended) {
            if waited >= self.round_max() {
                self.count_from(now);
            }
            return;
        }
        let ready = *self.round.ready.get_or_insert(now);
        let (from, lag) = match self.phase {
            Phase::Climb(_) if self.limit <= CAREFUL => (now, 0.0),
            Phase::Climb(_) => (ready, self.round_latency().min(CAREFUL_LAG)),
            _ => (self.round.since, self.round_latency()),
        };
        if now.saturating_sub(from) as f64 >= lag || waited >= self.round_max() {
            self.count_from(now);
        }
    }

    fn count_from(&mut self, now: Millis) {
        self.round.begun = Some(now);
        self.workers.iter_mut().for_each(WorkerState::count_anew);
    }

    fn round_max(&self) -> Millis {
        ROUND_MAX.max((self.round_latency() * ROUND_MAX_LATENCIES) as Millis)
    }

    /// Milliseconds that rounds are measured by: a queue that an overload has left is no reason to wait for as long.
    fn round_latency(&self) -> f64 {
        self.latency.min(self.floor * OVERLOADED) / 1000.0
    }

    fn end_round(&mut self, now: Millis) {
        let Some(begun) = self.round.begun else { return };
        let took = now.saturating_sub(begun);
        // Replies come in waves: a round of several latencies has whole ones.
        let (latencies, least, enough) = match self.phase {
            Phase::Climb(_) => (1.0, ROUND_MIN, ROUND_REPLIES),
            Phase::Hold(_) => (2.0, ROUND_MIN, ROUND_REPLIES),
            Phase::Shrink(_) | Phase::Raise(_) => (3.0, COMPARED_MIN, ROUND_REPLIES),
            Phase::Trial(..) => (3.0, COMPARED_MIN, TRIAL_REPLIES),
        };
        let least = least.max((latencies * self.round_latency()) as Millis);
        let enough = if took >= TRIAL_MAX { ROUND_REPLIES } else { enough };
        let is_over = (took >= least || self.is_clearly_less(took)) && self.round.replies >= enough;
        let is_stuck = took >= least + self.round_max();
        if !is_over && !is_stuck {
            return;
        }
        let round = std::mem::replace(&mut self.round, Round::since(now));
        let measured =
            Measured { goodput: self.goodput(), latency: round.latency_micros / round.replies.max(1.0) };
        if is_over && round.is_behind() && measured.latency > self.floor * CROWDED {
            // Pages wait in the queue that the job's own requests are.
            self.phase = self.settle_at(self.below(self.limit));
            return;
        }
        if !is_over || !round.is_telling(self.limit) {
            return;
        }
        self.latency = measured.latency;
        let body = (round.bytes / round.replies.max(1.0)).min(COUNTED_BODY_MAX);
        self.bound((MEMORY / (body * BODIES + CONNECTION_BYTES)) as usize);
        self.decide(measured);
        if matches!(self.phase, Phase::Hold(_)) && self.limit == self.held {
            // Nothing has changed: the next round goes on from here.
            self.count_from(now);
        }
    }

    /// Units a second in this round.
    fn goodput(&self) -> f64 {
        self.workers.iter().map(WorkerState::goodput).sum()
    }

    /// A lower limit that gives much less need not be measured for long: the one before it is measured again.
    fn is_clearly_less(&self, took: Millis) -> bool {
        let Phase::Shrink(Shrink { goodput: Some(goodput), doubted: None, recoveries: 0, .. }) = self.phase
        else {
            return false;
        };
        took >= ROUND_MIN.max(self.round_latency() as Millis) && self.goodput() < goodput * CLEARLY_LESS
    }

    fn decide(&mut self, measured: Measured) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Hold(Hold::default())) {
            Phase::Climb(climb) => self.climb(climb, measured),
            Phase::Shrink(shrink) => self.shrink(shrink, measured),
            Phase::Raise(raise) => self.raise(raise, measured),
            Phase::Hold(hold) => self.hold(hold, measured),
            Phase::Trial(hold, trial) => self.try_other(hold, trial, measured),
        };
    }

    fn set(&mut self, limit: usize) {
        self.limit = limit.clamp(self.bounds.least, self.most);
    }

    fn climb(&mut self, mut climb: Climb, measured: Measured) -> Phase {
        let best = climb.best();
        let has_queue = measured.latency > self.floor * QUEUED;
        // At the most it is known what that gives when two rounds brought no more.
        let is_at_most = self.limit >= self.most;
        let is_harm = measured.goodput < best * HARM;
        let may_grow = !has_queue && !is_at_most && !is_harm;
        let reads_ahead = self.listing == ListingState::ReadsAhead;
        // Of a number that was not worth it, the one before it has given at least that part.
        let (growth, part) = if self.is_shared || reads_ahead {
            (SHARED_GROWTH, 1.0 / SHARED_GROWTH)
        } else {
            (GROWTH, NEARLY)
        };
        let is_worth_it = measured.goodput >= best * growth || may_grow;
        self.floor = self.floor.min(measured.latency);
        if reads_ahead && !is_worth_it && !is_harm && climb.read_ahead < READ_AHEAD_ROUNDS {
            climb.read_ahead += 1;
            climb.levels.push((self.limit, measured.goodput));
            self.set(climb.lowest_good(part).unwrap_or(self.limit));
            return Phase::Climb(climb);
        }
        climb.strikes = if is_worth_it { 0 } else { climb.strikes + 1 };
        climb.levels.push((self.limit, measured.goodput));
        if climb.strikes >= STRIKES {
            let good = climb.lowest_good(part).unwrap_or(self.limit);
            if good >= self.most && measured.goodput >= climb.at_first(good) * PAID {
                return self.settle_at(good);
            }
            self.set(good);
            return Phase::Shrink(Shrink {
                good,
                goodput: None,
                before: best,
                recovered: 0.0,
                recoveries: 0,
                doubted: None,
            });
        }
        // Goodput is behind by a latency: one that was not worth it is looked at again before a higher one is tried.
        if is_worth_it {
            self.set(self.limit * 2);
        }
        Phase::Climb(climb)
    }

    fn shrink(&mut self, mut shrink: Shrink, measured: Measured) -> Phase {
        let is_less = shrink.goodput.is_none() && measured.goodput < shrink.before * HARM;
        if is_less && measured.goodput > shrink.recovered * RECOVERS && shrink.recoveries < RECOVERIES {
            (shrink.recovered, shrink.recoveries) = (measured.goodput, shrink.recoveries + 1);
            return Phase::Shrink(shrink);
        }
        let is_free = measured.latency <= self.floor * FREE;
        self.floor = self.floor.min(measured.latency);
        let goodput = match (shrink.goodput, shrink.doubted) {
            (None, _) => measured.goodput,
            (Some(_), Some(lower)) => return self.shrink_again(shrink, lower, measured),
            (Some(goodput), None) if shrink.is_recovering(goodput, measured.goodput) => {
                (shrink.recovered, shrink.recoveries) = (measured.goodput, shrink.recoveries + 1);
                return Phase::Shrink(shrink);
            }
            (Some(goodput), None) if measured.goodput < goodput * SHRINK_KEEPS => {
                // It may have been chance: the other one again.
                self.set(shrink.good);
                return Phase::Shrink(Shrink { doubted: Some(measured.goodput), ..shrink });
            }
            (Some(goodput), None) => goodput.max(measured.goodput),
        };
        if is_free && shrink.goodput.is_none() {
            let from = (self.limit, goodput);
            return self.try_more(Raise { good: self.limit, goodput, by: RAISE, from });
        }
        if is_free {
            return self.settle_at(self.limit);
        }
        self.try_less(Shrink { good: self.limit, goodput: Some(goodput), ..shrink })
    }

    /// A lower limit gave less: whether the one before it still gives more is known now.
    fn shrink_again(&mut self, shrink: Shrink, lower: f64, measured: Measured) -> Phase {
        let goodput = f64::midpoint(shrink.goodput.unwrap_or(measured.goodput), measured.goodput);
        if lower < goodput * SHRINK_KEEPS {
            return self.settle_at(shrink.good);
        }
        self.try_less(Shrink {
            good: self.below(shrink.good),
            goodput: Some(goodput),
            doubted: None,
            ..shrink
        })
    }

    fn try_less(&mut self, shrink: Shrink) -> Phase {
        let lower = self.below(shrink.good);
        if lower == shrink.good {
            return self.settle_at(shrink.good);
        }
        self.set(lower);
        Phase::Shrink(Shrink { recovered: 0.0, recoveries: 0, ..shrink })
    }

    /// The next limit when it shrinks.
    fn below(&self, limit: usize) -> usize {
        let lower = (limit as f64 / SHRINK) as usize;
        if lower < self.bounds.least { limit } else { lower }
    }

    fn try_more(&mut self, raise: Raise) -> Phase {
        let more = ((raise.good as f64 * raise.by) as usize).min(self.most);
        if more == raise.good {
            return self.settle_at(raise.good);
        }
        self.set(more);
        Phase::Raise(raise)
    }

    fn raise(&mut self, raise: Raise, measured: Measured) -> Phase {
        let step = self.limit as f64 / raise.good as f64 - 1.0;
        let is_better = measured.goodput >= raise.goodput * (1.0 + step * STEP_GAIN);
        let by = raise.by.sqrt();
        let raised = if is_better {
            Raise { good: self.limit, goodput: measured.goodput, by, from: raise.from }
        } else {
            Raise { by, ..raise }
        };
        if raise.by < RAISE {
            let (limit, goodput) = raised.from;
            let settled = self.settle_at(raised.good);
            return if self.limit > limit {
                Phase::Hold(Hold::on_probation(limit, goodput))
            } else {
                settled
            };
        }
        self.try_more(raised)
    }

    fn settle_at(&mut self, limit: usize) -> Phase {
        self.set(limit);
        self.held = self.limit;
        self.trials = TrialPlan::new(self.first_step());
        Phase::Hold(Hold::default())
    }

    fn hold(&mut self, mut hold: Hold, measured: Measured) -> Phase {
        let Some(held) = &mut hold.held else {
            return Phase::Hold(Hold { held: Some(measured), ..hold });
        };
        let differs = |now: f64, then: f64| now > then * CHANGE || now < then / CHANGE;
        if differs(measured.latency, held.latency) || differs(measured.goodput, held.goodput) {
            hold.odd += 1;
            hold.calm = 0;
            if hold.odd < CHANGED_ROUNDS {
                return Phase::Hold(hold);
            }
            return self.climb_again(measured.latency * CHANGE < held.latency, measured);
        }
        held.latency += (measured.latency - held.latency) * HELD_WEIGHT;
        held.goodput += (measured.goodput - held.goodput) * HELD_WEIGHT;
        let Measured { goodput, latency } = *held;
        self.floor = self.floor.min(latency);
        (hold.odd, hold.calm) = (0, hold.calm + 1);
        if let Some(lower) = hold.given_up(goodput) {
            let settled = self.settle_at(lower);
            self.trials = TrialPlan { is_up: false, calm: PROBATION_CALM, step: self.first_step() };
            return settled;
        }
        match (hold.replaced.is_none() && hold.calm >= self.trials.calm)
            .then(|| self.next_trial(latency))
            .flatten()
        {
            Some(other) => Phase::Trial(Hold { calm: 0, ..hold }, Trial { other, rounds: [0.0; 4], done: 0 }),
            None => Phase::Hold(hold),
        }
    }

    /// The origin, or the way to it, is another than before. Where replies come sooner, less may do: it begins anew.
    fn climb_again(&mut self, is_faster: bool, measured: Measured) -> Phase {
        self.floor = measured.latency;
        self.is_shared = !is_faster;
        if is_faster && self.limit > self.bounds.first {
            self.set(self.bounds.first);
            return Phase::Climb(Climb::default());
        }
        self.climb(Climb::default(), measured)
    }

    /// The limit that is tried next, if there is one that may be better.
    fn next_trial(&mut self, latency: f64) -> Option<usize> {
        let is_free = latency <= self.floor * FREE;
        let is_crowded = latency > self.floor * CROWDED;
        let may_go = |is_up: bool| if is_up { !is_crowded } else { !is_free };
        if !may_go(self.trials.is_up) {
            self.trials.is_up = !self.trials.is_up;
        }
        let held = self.held as f64;
        let other = if self.trials.is_up {
            ((held * self.trials.step).ceil() as usize).max(self.held + 1).min(self.most)
        } else {
            ((held / self.trials.step) as usize).min(self.held.saturating_sub(1)).max(self.bounds.least)
        };
        (may_go(self.trials.is_up) && other != self.held).then_some(other)
    }

    fn try_other(&mut self, mut hold: Hold, mut trial: Trial, measured: Measured) -> Phase {
        trial.rounds[trial.done] = measured.goodput;
        trial.done += 1;
        match trial.done {
            1 | 2 => self.set(trial.other),
            3 => self.set(self.held),
            _ => {
                self.conclude(&mut hold, trial);
                return Phase::Hold(hold);
            }
        }
        Phase::Trial(hold, trial)
    }

    fn conclude(&mut self, hold: &mut Hold, trial: Trial) {
        let [before, first, second, after] = trial.rounds;
        let step = (trial.other as f64 / self.held as f64 - 1.0).abs();
        let loss = if self.is_shared { SHARED_LOSS } else { STEP_LOSS };
        let least = if trial.other > self.held { 1.0 + step * STEP_GAIN } else { 1.0 - step * loss };
        // Chance seldom favours it twice.
        let is_better = first >= before * least && second >= after * least;
        if is_better {
            let lower = self.held;
            self.set(trial.other);
            self.held = self.limit;
            *hold = if self.limit > lower {
                Hold::on_probation(lower, f64::midpoint(before, after))
            } else {
                Hold::default()
            };
            self.trials.step = (self.trials.step * self.trials.step).min(STEP_MAX);
            self.trials.calm = 1;
            return;
        }
        if trial.other < self.held
            && let Some(held) = hold.held
        {
            // Less costs as much goodput: what replies take is no queue of ours.
            self.floor = held.latency;
        }
        let calm_max = if self.is_shared { SHARED_CALM_MAX } else { CALM_MAX };
        let calm = (self.trials.calm * 2).min(calm_max);
        self.trials = TrialPlan { is_up: !self.trials.is_up, step: self.first_step(), calm };
    }

    fn first_step(&self) -> f64 {
        if self.is_shared { SHARED_STEP } else { STEP }
    }
}

#[cfg(test)]
mod tests;
