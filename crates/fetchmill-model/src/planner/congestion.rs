//! The pace of an origin that throttles: additive increase, multiplicative decrease.
//!
//! Clock-free: time is an argument. There is no pace until a request is refused. The first refusals set the pace to the
//! rate at which the origin succeeded meanwhile, because an origin that refuses requests above a rate delivers that
//! rate. From there the pace grows back to the last refused rate in some seconds, slowly near it and faster beyond,
//! like CUBIC's window (RFC 9438). Far above it the pace is removed. Refusals that come at every pace do not indicate a
//! rate, and are tolerated (docs/internals/decisions/0018).

use std::collections::VecDeque;

use super::millis::Millis;
use crate::limits;

/// What was seen is kept in slots of this length, ...
const SLOT: Millis = 50;
/// ... for this long, ...
const KEPT: Millis = 4000;
/// ... and looked at for this long, or longer at a slow pace.
const LATELY: Millis = 1000;
/// Replies to requests that were sent before a cut come this long after it: a report's interval and a round trip.
const STALE: Millis = 150;
/// An origin that was not yet held back is measured for this long at least.
const FIRST_MEASURED: Millis = 100;
/// After a cut what it gives is measured for this long at least.
const MEASURED: Millis = 300;
/// Replies that a measurement should have, and those that say what share is refused.
const MEASURED_REPLIES: f64 = 20.0;
const SHARE_REPLIES: f64 = 100.0;
/// A cut leaves this part of what the origin gives; without any success half of the pace.
const CUT: f64 = 0.95;
const BLIND_CUT: f64 = 0.5;
/// Refusals up to this share hold the pace where it is; a larger one cuts it.
const HELD_SHARE: f64 = 0.01;
/// How the pace grows: in t seconds from its plateau to 1 + t³ times as much of this. 5 % are 3 seconds.
const GROWTH: f64 = 0.05 / 27.0;
/// How many times as fast the first pace is after a second.
const GUESS_GROWTH: f64 = 2.0;
/// So many times the plateau is far above: it grows as a guess does, ...
const FAR_ABOVE: f64 = 4.0;
/// ... and goes away once no more than this part of it is asked for.
const UNUSED: f64 = 0.5;
/// What is given is as it was if it is at least this part of it; otherwise one of both was measured in a bad moment.
const CONFIRMED: f64 = 0.7;
/// So many cuts in a row that changed nothing: refusals do not come from the pace.
const USELESS_CUTS: u32 = 3;
/// Behind them so many are to have been refused: fewer may be chance.
const USELESS_REFUSED: f64 = 10.0;
/// Cuts that leave this part of the refused share, and no more than its inverse, have changed nothing, ...
const UNCHANGED: f64 = 0.6;
/// ... if they left this part of what was asked for, or less: otherwise it was hardly cut.
const LOWERED: f64 = 0.9;
/// For how long refusals are then put up with; twice as long each time, up to the second.
const PUT_UP_FIRST: Millis = 10_000;
const PUT_UP_MAX: Millis = 300_000;
/// Up to this share.
const PUT_UP_SHARE: f64 = 0.5;
/// A time without reports counts no longer than this.
const STEP_MAX: Millis = 1000;

/// Replies of a short time.
#[derive(Debug, Clone, Copy, Default)]
struct TimeSlot {
    number: u64,
    successes: u32,
    refused: u32,
}

/// What came in some time.
#[derive(Debug, Clone, Copy, Default)]
struct ReplyCounts {
    millis: Millis,
    successes: f64,
    refused: f64,
}

impl ReplyCounts {
    fn replies(&self) -> f64 {
        self.successes + self.refused
    }

    fn share(&self) -> f64 {
        self.refused / self.replies().max(1.0)
    }

    fn add(&mut self, other: ReplyCounts) {
        self.millis += other.millis;
        self.successes += other.successes;
        self.refused += other.refused;
    }

    fn per_second(&self, replies: f64) -> f64 {
        replies * 1000.0 / self.millis.max(SLOT) as f64
    }
}

/// A pace in force.
#[derive(Debug, Clone, Copy)]
struct ActivePace {
    /// Requests a second.
    rate: f64,
    /// What was refused last, as far as is known: growth is slowest there.
    plateau: f64,
    /// Seconds of growth from the plateau; below 0 before it.
    grown: f64,
    /// The first pace was measured in a hurry: it grows fast until something is refused again.
    is_guess: bool,
}

impl ActivePace {
    /// Holds at a rate below its plateau.
    fn below(plateau: f64, rate: f64) -> Self {
        let rate = rate.max(limits::PACE_MIN);
        let plateau = plateau.max(rate);
        ActivePace { rate, plateau, grown: -((1.0 - rate / plateau) / GROWTH).cbrt(), is_guess: false }
    }

    fn grow(&mut self, seconds: f64) {
        if self.is_guess {
            self.rate *= GUESS_GROWTH.powf(seconds);
            return;
        }
        self.grown += seconds;
        self.rate = self.plateau * (1.0 + GROWTH * self.grown.powi(3));
    }

    fn is_far_above(&self) -> bool {
        self.rate >= self.plateau * FAR_ABOVE
    }
}

/// Cuts that follow each other.
#[derive(Debug, Clone, Copy, Default)]
struct CutSeries {
    /// What was asked for before the first.
    before: f64,
    /// What was refused before the first.
    share: f64,
    /// What came between the first and the last, ...
    since: ReplyCounts,
    /// ... and how many cuts have changed nothing. Of all replies together: those of one cut are few at a slow pace.
    useless: u32,
}

/// Refusals that come whatever the pace is.
#[derive(Debug, Clone, Copy)]
struct UnrelatedRefusals {
    share: f64,
    until: Millis,
    /// For how long the next time.
    next: Millis,
}

impl UnrelatedRefusals {
    /// The share of these replies that may be refused: twice the standard deviation more than what was put up with.
    fn allowed(&self, replies: &ReplyCounts, now: Millis) -> f64 {
        if now >= self.until {
            return 0.0;
        }
        let variance = self.share * (1.0 - self.share) / replies.replies().max(1.0);
        self.share + 2.0 * variance.sqrt()
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Congestion {
    slots: VecDeque<TimeSlot>,
    held: Option<ActivePace>,
    /// When what is measured begins: the first reply, or a cut and what is stale after it.
    since: Option<Millis>,
    seen_at: Millis,
    series: CutSeries,
    put_up: UnrelatedRefusals,
}

impl Default for Congestion {
    fn default() -> Self {
        Congestion {
            slots: VecDeque::new(),
            held: None,
            since: None,
            seen_at: 0,
            series: CutSeries::default(),
            put_up: UnrelatedRefusals { share: 0.0, until: 0, next: PUT_UP_FIRST },
        }
    }
}

impl Congestion {
    /// Requests a second, while there is a pace.
    pub fn rate(&self) -> Option<f64> {
        self.held.map(|held| held.rate)
    }

    /// Begins with the pace that an earlier run had found: it grows from there, and goes away where it is not needed.
    pub fn resume(&mut self, rate: f64) {
        self.held = Some(ActivePace::below(rate, rate * CUT));
    }

    /// Takes note of complete replies, and of those of them that were refusals.
    pub fn observe(&mut self, successes: u32, refused: u32, now: Millis) {
        if successes == 0 && refused == 0 {
            return;
        }
        self.note(successes, refused, now);
        let step = now.saturating_sub(self.seen_at).min(STEP_MAX);
        self.seen_at = now;
        let lately = self.measured(now.saturating_sub(self.window(SHARE_REPLIES)), now);
        let allowed = self.put_up.allowed(&lately, now);
        if lately.refused >= 2.0 && lately.share() > allowed + HELD_SHARE {
            if self.has_measured(now) {
                self.cut(now);
            }
        } else if lately.refused > 0.0 && lately.share() > allowed {
            self.hold();
        } else {
            self.grow(step, lately);
        }
    }

    /// What was seen says nothing any more: the origin has rested.
    pub fn forget(&mut self, now: Millis) {
        self.slots.clear();
        self.since = Some(now);
        self.series = CutSeries::default();
        if let Some(held) = &mut self.held {
            *held = ActivePace::below(held.plateau, held.plateau * CUT);
        }
    }

    fn note(&mut self, successes: u32, refused: u32, now: Millis) {
        self.since.get_or_insert(now);
        let number = now / SLOT;
        if self.slots.back().is_none_or(|last| last.number < number) {
            self.slots.push_back(TimeSlot { number, ..TimeSlot::default() });
        }
        if let Some(last) = self.slots.back_mut() {
            last.successes = last.successes.saturating_add(successes);
            last.refused = last.refused.saturating_add(refused);
        }
        while self.slots.front().is_some_and(|first| first.number + KEPT / SLOT < number) {
            self.slots.pop_front();
        }
    }

    /// A second, or longer at a pace at which so many replies take longer.
    fn window(&self, replies: f64) -> Millis {
        self.time_of(replies).clamp(LATELY, KEPT)
    }

    /// What came since then, or since what is measured begins.
    fn measured(&self, from: Millis, now: Millis) -> ReplyCounts {
        let from = from.max(self.since.unwrap_or(now)).min(now);
        let mut measured = ReplyCounts { millis: now - from / SLOT * SLOT, ..ReplyCounts::default() };
        for slot in self.slots.iter().filter(|slot| slot.number >= from / SLOT) {
            measured.successes += f64::from(slot.successes);
            measured.refused += f64::from(slot.refused);
        }
        measured
    }

    /// How long so many replies take at this pace.
    fn time_of(&self, replies: f64) -> Millis {
        self.held.map_or(0, |held| (replies * 1000.0 / held.rate) as Millis)
    }

    /// How long a measurement takes.
    fn enough(&self) -> Millis {
        match self.held {
            None => FIRST_MEASURED,
            Some(_) => self.time_of(MEASURED_REPLIES).clamp(MEASURED, KEPT / 2),
        }
    }

    fn has_measured(&self, now: Millis) -> bool {
        self.since.is_some_and(|since| now >= since + self.enough())
    }

    /// From when on what is given is counted. Without a pace, from when refusals began: nothing was refused before
    /// because less was asked for.
    fn counted_from(&self, now: Millis) -> Millis {
        let from = now.saturating_sub(self.window(MEASURED_REPLIES));
        if self.held.is_some() {
            return from;
        }
        let mut refusing = self.slots.iter().filter(|slot| slot.refused > 0).map(|slot| slot.number * SLOT);
        let began = refusing.find(|began| *began >= from).unwrap_or(now);
        began.min(now.saturating_sub(self.enough()))
    }

    fn cut(&mut self, now: Millis) {
        let measured = self.measured(self.counted_from(now), now);
        let given = measured.per_second(measured.successes);
        let asked = measured.per_second(measured.replies());
        let before = self.rate().unwrap_or(asked);
        if self.is_useless(measured, before) {
            return self.accept_refusals(now);
        }
        let is_guess = self.held.is_none_or(|held| given < held.plateau * CONFIRMED);
        self.held = Some(if measured.successes > 0.0 {
            let given = given.min(before);
            ActivePace { is_guess, ..ActivePace::below(given, given * CUT) }
        } else {
            let plateau = self.held.map_or(before, |held| held.plateau);
            ActivePace::below(plateau, before * BLIND_CUT)
        });
        self.since = Some(now + STALE);
    }

    /// Whether this would be one more cut that changes nothing.
    fn is_useless(&mut self, measured: ReplyCounts, before: f64) -> bool {
        let series = &mut self.series;
        series.since.add(measured);
        // Of one cut if they are many, otherwise of all: those of one may be few.
        let expected = measured.replies() * series.share;
        let seen = if expected >= USELESS_REFUSED { measured } else { series.since };
        if !(UNCHANGED..=1.0 / UNCHANGED).contains(&(seen.share() / series.share)) {
            *series = CutSeries { before, share: measured.share(), ..CutSeries::default() };
        } else if measured.share() >= series.share * UNCHANGED {
            series.useless += 1;
        }
        series.useless >= USELESS_CUTS
            && series.since.refused >= USELESS_REFUSED
            && before <= series.before * LOWERED
    }

    fn accept_refusals(&mut self, now: Millis) {
        let UnrelatedRefusals { next, .. } = self.put_up;
        let CutSeries { before, since, .. } = std::mem::take(&mut self.series);
        self.put_up = UnrelatedRefusals {
            share: (since.share() * 1.25 + HELD_SHARE).min(PUT_UP_SHARE),
            until: now + next,
            next: (next * 2).min(PUT_UP_MAX),
        };
        // What gives most is not known: as little was asked for as refusals, or a busy machine, had left.
        self.held = Some(ActivePace { is_guess: true, ..ActivePace::below(before, before) });
        self.since = Some(now + STALE);
    }

    /// A few are refused: this is what the origin gives.
    fn hold(&mut self) {
        if let Some(held) = &mut self.held {
            *held = ActivePace::below(held.rate, held.rate);
        }
    }

    fn grow(&mut self, step: Millis, lately: ReplyCounts) {
        let Some(held) = &mut self.held else { return };
        held.grow(step as f64 / 1000.0);
        // Of a few replies none is refused by chance.
        if held.grown >= 0.0 && lately.replies() >= MEASURED_REPLIES {
            self.series = CutSeries::default();
        }
        if held.is_far_above() {
            held.is_guess = true;
            if lately.per_second(lately.replies()) < held.rate * UNUSED {
                self.held = None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
