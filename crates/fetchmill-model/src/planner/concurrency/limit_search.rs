//! What is known while the limit is looked for, and what it does at the moment.

use super::round::Measured;
use crate::planner::millis::Millis;

/// Below this much more than the least latency nothing waits in a queue.
pub(super) const FREE: f64 = 1.15;
/// Below this much more a limit twice as high may be worth it.
pub(super) const QUEUED: f64 = 1.25;
/// Above this much more no higher limit is tried.
pub(super) const CROWDED: f64 = 1.5;
/// A limit that gives so much less than a lower one is too high, whatever latency says.
pub(super) const HARM: f64 = 0.8;
/// Four times too many requests are no trouble to an origin where they are a hundred, but they are where they are thousands:
/// above so many a climb is careful.
pub(super) const CAREFUL: usize = 1024;
/// The part of a step that goodput must grow by for a higher limit to be kept.
pub(super) const STEP_GAIN: f64 = 0.6;

/// What it shrinks by.
const SHRINK: f64 = 1.4;
/// A trial's first step, and calm rounds before it.
const STEP: f64 = 1.06;
const CALM_FIRST: u32 = 4;
/// The step where others may ask the origin: what they give back, or take, is found sooner.
const SHARED_STEP: f64 = 1.2;

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

/// What it does.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    Climb(Climb),
    Shrink(Shrink),
    Raise(Raise),
    Hold(Hold),
    Trial(Hold, Trial),
}

/// Higher limits, one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Climb {
    /// Each with its goodput.
    pub(super) levels: Vec<(usize, f64)>,
    pub(super) strikes: u32,
    /// Rounds that did not count.
    pub(super) read_ahead: u32,
}

/// A limit that is good, and lower ones that are tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shrink {
    pub(super) good: usize,
    /// The most that was given; none before `good` itself is measured.
    pub(super) goodput: Option<f64>,
    /// What it gave before a higher one was tried; what it gives while it recovers from that, and how often that was seen.
    pub(super) before: f64,
    pub(super) recovered: f64,
    pub(super) recoveries: u32,
    /// What a lower one gave that seemed worse.
    pub(super) doubted: Option<f64>,
}

/// A limit that is good with what it gives, and by how much more is tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raise {
    pub(super) good: usize,
    pub(super) goodput: f64,
    pub(super) by: f64,
    /// Where it began, and what that gave.
    pub(super) from: (usize, f64),
}

/// What is held.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hold {
    /// Of earlier rounds.
    pub(super) held: Option<Measured>,
    /// Odd rounds in a row, and how long they took.
    pub(super) odd: u32,
    pub(super) odd_for: Millis,
    pub(super) calm: u32,
    /// The lower limit that it has replaced, for a while.
    pub(super) replaced: Option<Replaced>,
}

/// A limit that a higher one has replaced, what it gave, and for how many rounds more that is remembered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replaced {
    pub(super) limit: usize,
    pub(super) goodput: f64,
    pub(super) rounds: u32,
}

/// Another limit in turns with the one that is held: that one, twice the other, that one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    pub(super) other: usize,
    pub(super) rounds: [f64; 4],
    pub(super) done: usize,
}

/// What trials have shown so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrialPlan {
    pub(super) is_up: bool,
    pub(super) step: f64,
    pub(super) calm: u32,
}

/// What is known, whatever it does.
#[derive(Debug, Clone)]
pub(super) struct LimitSearch {
    pub(super) bounds: ConcurrencyBounds,
    /// At most, as there is memory for bodies that are as long as those of the last round.
    pub(super) most: usize,
    /// What goes out now, and what is held beside a trial.
    pub(super) limit: usize,
    pub(super) held: usize,
    pub(super) listing: ListingState,
    /// The listing has read ahead while it climbed: its pages may be what ended that.
    pub(super) climbed_beside_pages: bool,
    /// The least mean latency since the last change: microseconds.
    pub(super) floor: f64,
    pub(super) trials: TrialPlan,
    /// Others may ask the origin: it has become slower, or gives less, and nothing here was the reason.
    pub(super) is_shared: bool,
}

impl LimitSearch {
    pub(super) fn new(bounds: ConcurrencyBounds) -> Self {
        let most = bounds.most.max(bounds.least);
        let bounds = ConcurrencyBounds { most, ..bounds };
        let first = bounds.first.clamp(bounds.least, most);
        LimitSearch {
            bounds,
            most,
            limit: first,
            held: first,
            listing: ListingState::default(),
            climbed_beside_pages: false,
            floor: f64::INFINITY,
            trials: TrialPlan { is_up: true, step: STEP, calm: CALM_FIRST },
            is_shared: false,
        }
    }

    pub(super) fn bound(&mut self, most: usize) {
        self.most = most.clamp(self.bounds.least, self.bounds.most);
        self.limit = self.limit.min(self.most);
        self.held = self.held.min(self.most);
    }

    pub(super) fn set(&mut self, limit: usize) {
        self.limit = limit.clamp(self.bounds.least, self.most);
    }

    pub(super) fn settle_at(&mut self, limit: usize) -> Phase {
        self.set(limit);
        self.held = self.limit;
        self.trials = TrialPlan { is_up: true, step: self.first_step(), calm: CALM_FIRST };
        Phase::Hold(Hold::default())
    }

    /// The next limit when it shrinks.
    pub(super) fn below(&self, limit: usize) -> usize {
        let lower = (limit as f64 / SHRINK) as usize;
        if lower < self.bounds.least { limit } else { lower }
    }

    /// A trial's first step.
    pub(super) fn first_step(&self) -> f64 {
        if self.is_shared { SHARED_STEP } else { STEP }
    }
}
