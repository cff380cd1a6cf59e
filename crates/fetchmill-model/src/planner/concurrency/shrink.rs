//! Lowers the limit after a climb, or raises it a little if no requests wait in a queue.

use super::limit_search::{FREE, HARM, Hold, LimitSearch, Phase, Raise, STEP_GAIN, Shrink};
use super::round::Measured;

/// Fraction of the goodput that a lower limit must keep.
const SHRINK_KEEPS: f64 = 0.97;
/// Below this fraction, goodput is clearly lower, even after a short round.
const CLEARLY_LESS: f64 = 0.85;
/// If no requests wait in a queue yet, the limit is first raised by this factor, and then by the factor's square root.
const RAISE: f64 = 1.4;
/// While goodput grows by this factor per round, requests and idle connections left over from a higher limit are still
/// slowing down the origin. The search waits up to `RECOVERIES` rounds for this growth to end.
const RECOVERS: f64 = 1.1;
const RECOVERIES: u32 = 5;

impl Shrink {
    /// Returns whether the goodput at a lower limit is so much lower that a short round is enough. The previous limit
    /// is then measured again.
    pub(super) fn is_clearly_less(&self, goodput: f64) -> bool {
        self.doubted.is_none()
            && self.recoveries == 0
            && self.goodput.is_some_and(|most| goodput < most * CLEARLY_LESS)
    }

    /// Starts at the limit `good`. `before` is its goodput before a higher limit was tried.
    pub(super) fn from(good: usize, before: f64) -> Self {
        Shrink { good, goodput: None, before, recovered: 0.0, recoveries: 0, doubted: None }
    }

    /// Returns whether goodput at a lower limit may still rise. This is the case if goodput grows from round to round,
    /// or if the first round differs from `before`, the goodput at the previous limit.
    fn is_recovering(&self, before: f64, goodput: f64) -> bool {
        if self.recoveries == 0 {
            return !(before * SHRINK_KEEPS..before * RECOVERS).contains(&goodput);
        }
        self.recoveries < RECOVERIES && goodput > self.recovered * RECOVERS
    }
}

impl LimitSearch {
    pub(super) fn shrink(&mut self, mut shrink: Shrink, measured: Measured) -> Phase {
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
                // This may be a coincidence, so measure the higher limit again.
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

    /// Decides the next step after a lower limit achieved less and the previous limit was measured again.
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

    fn try_more(&mut self, raise: Raise) -> Phase {
        let more = ((raise.good as f64 * raise.by) as usize).min(self.most);
        if more == raise.good {
            return self.settle_at(raise.good);
        }
        self.set(more);
        Phase::Raise(raise)
    }

    pub(super) fn raise(&mut self, raise: Raise, measured: Measured) -> Phase {
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
}
