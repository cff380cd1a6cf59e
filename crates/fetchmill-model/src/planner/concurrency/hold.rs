//! Holds a limit, tries other limits in between, and detects changes.

use super::limit_search::{
    CAREFUL, CROWDED, Climb, FREE, Hold, LimitSearch, ListingState, Phase, QUEUED, Replaced, STEP_GAIN,
    Trial, TrialPlan,
};
use super::round::Measured;
use crate::planner::millis::Millis;

/// A round is odd if its values differ from the held ones by more than this factor. `CHANGED_ROUNDS` consecutive odd
/// rounds that last at least `CHANGED_FOR` count as a change. Fetching a listing page can also saturate a narrow link,
/// but not for that long.
const CHANGE: f64 = 1.5;
const CHANGED_ROUNDS: u32 = 2;
const CHANGED_FOR: Millis = 700;
/// Weight of a new round in the held values.
const HELD_WEIGHT: f64 = 0.3;
/// A higher limit is on probation for this number of rounds, which take at least 2 s. The probation is needed because
/// some of the new connections rest after a second and are replaced by others. The limit is abandoned if goodput falls
/// below `PROBATION_KEEPS` times the goodput at the lower limit. The next trial then starts after `PROBATION_CALM` calm
/// rounds.
const PROBATION_ROUNDS: u32 = 10;
const PROBATION_KEEPS: f64 = 0.95;
const PROBATION_CALM: u32 = 16;
/// Upper bound for the step of a trial. The step grows after each successful trial.
const STEP_MAX: f64 = 2.0;
/// Upper bound for the number of calm rounds before a trial. The number doubles after each failed trial.
const CALM_MAX: u32 = 32;
/// Upper bound for the number of calm rounds before a trial if other clients may be using the origin. It is lower, so
/// that changes in the share of these clients are detected sooner.
const SHARED_CALM_MAX: u32 = 8;
/// A lower limit is kept if goodput falls by at most this fraction of the step.
const STEP_LOSS: f64 = 0.25;
/// A lower limit is kept if goodput falls by at most this fraction of the step while other clients may be using the
/// origin. A job that accounts for three fifths of the goodput loses this much.
const SHARED_LOSS: f64 = 0.4;

fn differs(now: f64, then: f64) -> bool {
    now > then * CHANGE || now < then / CHANGE
}

impl Hold {
    /// Holds a limit that has replaced `limit`, which is lower and achieved `goodput`.
    pub(super) fn on_probation(limit: usize, goodput: f64) -> Self {
        let replaced = Some(Replaced { limit, goodput, rounds: PROBATION_ROUNDS });
        Hold { replaced, ..Hold::default() }
    }

    /// Records the goodput of a round. Returns the lower limit if it was better.
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

impl LimitSearch {
    pub(super) fn hold(&mut self, mut hold: Hold, measured: Measured) -> Phase {
        let Some(held) = &mut hold.held else {
            return Phase::Hold(Hold { held: Some(measured), ..hold });
        };
        if differs(measured.latency, held.latency) || differs(measured.goodput, held.goodput) {
            let held = *held;
            return self.hold_while_odd(hold, held, measured);
        }
        held.latency += (measured.latency - held.latency) * HELD_WEIGHT;
        held.goodput += (measured.goodput - held.goodput) * HELD_WEIGHT;
        let held @ Measured { goodput, latency, .. } = *held;
        self.floor = self.floor.min(latency);
        if self.climbed_beside_pages && self.listing == ListingState::Ahead {
            self.climbed_beside_pages = false;
            // If the limit is already in the thousands, pages did not end the climb.
            if self.limit <= CAREFUL && latency <= self.floor * QUEUED {
                return self.climb(Climb::default(), held);
            }
        }
        (hold.odd, hold.odd_for, hold.calm) = (0, 0, hold.calm + 1);
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

    /// Handles an odd round, which can be a coincidence or a change.
    fn hold_while_odd(&mut self, mut hold: Hold, held: Measured, measured: Measured) -> Phase {
        (hold.odd, hold.odd_for, hold.calm) = (hold.odd + 1, hold.odd_for + measured.took, 0);
        if hold.odd < CHANGED_ROUNDS || hold.odd_for < CHANGED_FOR {
            return Phase::Hold(hold);
        }
        self.climb_again(measured.latency * CHANGE < held.latency, measured)
    }

    /// Climbs again because the origin or the network has changed. If replies have become faster, the climb restarts
    /// from the first limit, because a lower limit may be enough.
    fn climb_again(&mut self, is_faster: bool, measured: Measured) -> Phase {
        self.floor = measured.latency;
        self.is_shared = !is_faster;
        if is_faster && self.limit > self.bounds.first {
            self.set(self.bounds.first);
            return Phase::Climb(Climb::default());
        }
        self.climb(Climb::default(), measured)
    }

    /// Returns the next limit to try, or `None` if no other limit can be better.
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

    pub(super) fn try_other(&mut self, mut hold: Hold, mut trial: Trial, measured: Measured) -> Phase {
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
        // Both rounds must be better, to rule out chance.
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
            // The lower limit reduced goodput proportionally, so the latency is not caused by a queue of our own
            // requests.
            self.floor = held.latency;
        }
        let calm_max = if self.is_shared { SHARED_CALM_MAX } else { CALM_MAX };
        let calm = (self.trials.calm * 2).min(calm_max);
        self.trials = TrialPlan { is_up: !self.trials.is_up, step: self.first_step(), calm };
    }
}
