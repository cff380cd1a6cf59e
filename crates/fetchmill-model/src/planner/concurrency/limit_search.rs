//! The state of the search for the limit, and its current phase.

use super::round::Measured;
use crate::planner::millis::Millis;

/// Below this multiple of the lowest latency, no requests wait in a queue.
pub(super) const FREE: f64 = 1.15;
/// Below this multiple of the lowest latency, a doubled limit may be worthwhile.
pub(super) const QUEUED: f64 = 1.25;
/// Above this multiple of the lowest latency, no higher limit is tried.
pub(super) const CROWDED: f64 = 1.5;
/// If a limit achieves less than this fraction of a lower limit's goodput, it is too high, regardless of latency.
pub(super) const HARM: f64 = 0.8;
/// A climb above this limit is careful. An origin can cope with four times too many requests if the excess is in the
/// hundreds, but not if it is in the thousands.
pub(super) const CAREFUL: usize = 1024;
/// A higher limit is kept if goodput grows by at least this fraction of the step.
pub(super) const STEP_GAIN: f64 = 0.6;

/// Factor by which a limit is lowered.
const SHRINK: f64 = 1.4;
/// First step of a trial. `CALM_FIRST` is the number of calm rounds before it.
const STEP: f64 = 1.06;
const CALM_FIRST: u32 = 4;
/// First step of a trial if other clients may be using the origin. It is larger, so that changes in the share of these
/// clients are detected sooner.
const SHARED_STEP: f64 = 1.2;

/// State of the listing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListingState {
    /// The listing reads ahead for the first time.
    ReadsAhead,
    /// There are targets to hand out, or no listing uses the origin.
    #[default]
    Ahead,
    /// The listing continues, but all targets listed so far have been handed out.
    Behind,
}

/// Bounds of the search.
#[derive(Debug, Clone, Copy)]
pub struct ConcurrencyBounds {
    /// First limit.
    pub first: usize,
    /// Lowest limit: one for each worker.
    pub least: usize,
    /// Highest limit.
    pub most: usize,
}

/// Phase of the search.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    Climb(Climb),
    Shrink(Shrink),
    Raise(Raise),
    Hold(Hold),
    Trial(Hold, Trial),
}

/// A climb, which tries one higher limit after another.
#[derive(Debug, Clone, Default)]
pub(super) struct Climb {
    /// Measured limits, each with its goodput.
    pub(super) levels: Vec<(usize, f64)>,
    pub(super) strikes: u32,
    /// Number of rounds that did not count because the listing was reading ahead.
    pub(super) read_ahead: u32,
}

/// Shrinking, which tries limits lower than a good one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shrink {
    pub(super) good: usize,
    /// Highest goodput so far. `None` until `good` itself is measured.
    pub(super) goodput: Option<f64>,
    /// Goodput before a higher limit was tried. `recovered` is the goodput during the recovery from that higher limit,
    /// and `recoveries` is the number of rounds in the recovery.
    pub(super) before: f64,
    pub(super) recovered: f64,
    pub(super) recoveries: u32,
    /// Goodput of a lower limit that seemed worse.
    pub(super) doubted: Option<f64>,
}

/// A raise: a good limit, its goodput, and the factor for the next higher limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raise {
    pub(super) good: usize,
    pub(super) goodput: f64,
    pub(super) by: f64,
    /// First limit and its goodput.
    pub(super) from: (usize, f64),
}

/// A held limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hold {
    /// Mean values of earlier rounds.
    pub(super) held: Option<Measured>,
    /// Number of consecutive odd rounds. `odd_for` is their total time.
    pub(super) odd: u32,
    pub(super) odd_for: Millis,
    pub(super) calm: u32,
    /// The lower limit that the held limit replaced. Set during probation.
    pub(super) replaced: Option<Replaced>,
}

/// A lower limit that was replaced by a higher one, its goodput, and the number of remaining probation rounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replaced {
    pub(super) limit: usize,
    pub(super) goodput: f64,
    pub(super) rounds: u32,
}

/// A trial of another limit. Its four rounds use the held limit, the other limit twice, and the held limit again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    pub(super) other: usize,
    pub(super) rounds: [f64; 4],
    pub(super) done: usize,
}

/// The plan for the next trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrialPlan {
    pub(super) is_up: bool,
    pub(super) step: f64,
    pub(super) calm: u32,
}

/// State shared by all phases.
#[derive(Debug, Clone)]
pub(super) struct LimitSearch {
    pub(super) bounds: ConcurrencyBounds,
    /// Highest limit that fits into memory if bodies are as long as in the last round.
    pub(super) most: usize,
    /// The current limit. `held` is the limit that is held during a trial.
    pub(super) limit: usize,
    pub(super) held: usize,
    pub(super) listing: ListingState,
    /// Whether the listing read ahead during the climb. If so, its pages may have ended the climb.
    pub(super) climbed_beside_pages: bool,
    /// Lowest mean latency since the last change, in microseconds.
    pub(super) floor: f64,
    pub(super) trials: TrialPlan,
    /// Whether other clients may be using the origin: latency or goodput has become worse, and this job is not the
    /// cause.
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

    /// Returns the limit one step below `limit`.
    pub(super) fn below(&self, limit: usize) -> usize {
        let lower = (limit as f64 / SHRINK) as usize;
        if lower < self.bounds.least { limit } else { lower }
    }

    /// Returns the first step of a trial.
    pub(super) fn first_step(&self) -> f64 {
        if self.is_shared { SHARED_STEP } else { STEP }
    }
}
