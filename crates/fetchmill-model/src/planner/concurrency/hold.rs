//! It holds a limit, tries others in turns with it, and sees changes.

use super::limit_search::{
    CAREFUL, CROWDED, Climb, FREE, Hold, LimitSearch, ListingState, Phase, QUEUED, Replaced, STEP_GAIN,
    Trial, TrialPlan,
};
use super::round::Measured;
use crate::planner::millis::Millis;

/// A round that differs by more than this from what is held is odd; so many in a row, over so long, are a change: a page of the
/// listing may fill a narrow link for less.
const CHANGE: f64 = 1.5;
const CHANGED_ROUNDS: u32 = 2;
const CHANGED_FOR: Millis = 700;
/// Weight of a round in what is held.
const HELD_WEIGHT: f64 = 0.3;
/// A higher limit is on probation for so many rounds, which are 2 s or more: a second behind new connections some of them
/// rest, and others take their place. It is given up when it gives less than this part of what the lower one gave, and
/// the next one is tried after so many calm rounds.
const PROBATION_ROUNDS: u32 = 10;
const PROBATION_KEEPS: f64 = 0.95;
const PROBATION_CALM: u32 = 16;
/// A trial's step is twice as large after one that was worth it, up to this.
const STEP_MAX: f64 = 2.0;
/// Calm rounds before a trial are twice as many after each that was not worth it, up to this.
const CALM_MAX: u32 = 32;
/// The same where others may ask the origin: what they give back, or take, is found sooner.
const SHARED_CALM_MAX: u32 = 8;
/// The part of a step that goodput may fall by when a lower limit is kept.
const STEP_LOSS: f64 = 0.25;
/// Whoever has three fifths of what an origin gives loses this part.
const SHARED_LOSS: f64 = 0.4;

fn differs(now: f64, then: f64) -> bool {
    now > then * CHANGE || now < then / CHANGE
}

impl Hold {
    /// A limit that has replaced a lower one, which gave so much.
    pub(super) fn on_probation(limit: usize, goodput: f64) -> Self {
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
            // Where there are thousands already, pages were not what ended it.
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

    /// A round was odd: by chance, or something has changed.
    fn hold_while_odd(&mut self, mut hold: Hold, held: Measured, measured: Measured) -> Phase {
        (hold.odd, hold.odd_for, hold.calm) = (hold.odd + 1, hold.odd_for + measured.took, 0);
        if hold.odd < CHANGED_ROUNDS || hold.odd_for < CHANGED_FOR {
            return Phase::Hold(hold);
        }
        self.climb_again(measured.latency * CHANGE < held.latency, measured)
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
}
