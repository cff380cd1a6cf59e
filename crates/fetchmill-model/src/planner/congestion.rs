//! The pace for an origin that throttles: cubic increase, multiplicative decrease.
//!
//! This module has no clock: time is an argument. There is no pace until a request is refused. The first refusals set
//! the pace to the rate of successes at that time. An origin that refuses requests above a certain rate still serves
//! that rate. From there the pace returns to the last refused rate within a few seconds. It grows slowly near that rate
//! and faster beyond it, like CUBIC's window (RFC 9438). Far above that rate the pace is removed. Refusals that occur
//! at every pace do not indicate a rate limit and are tolerated (docs/internals/decisions/0018).

use std::collections::VecDeque;

use super::millis::Millis;
use crate::limits;

/// Length of the slots in which replies are counted.
const SLOT: Millis = 50;
/// Time for which the slots are kept.
const KEPT: Millis = 4000;
/// Time that a measurement covers. At a slow pace, a measurement takes longer.
const LATELY: Millis = 1000;
/// Time after a cut during which replies to earlier requests still arrive: one report interval plus one round trip.
const STALE: Millis = 150;
/// Minimum time of the first measurement, without a pace.
const FIRST_MEASURED: Millis = 100;
/// Minimum time of a measurement after a cut.
const MEASURED: Millis = 300;
/// Minimum number of replies needed to measure the rate. `SHARE_REPLIES` replies are needed to measure the refused
/// share.
const MEASURED_REPLIES: f64 = 20.0;
const SHARE_REPLIES: f64 = 100.0;
/// A cut sets the pace to this fraction of the rate of successes. Without any success, it multiplies the pace by
/// `BLIND_CUT`.
const CUT: f64 = 0.95;
const BLIND_CUT: f64 = 0.5;
/// A refused share up to this value leaves the pace unchanged. A larger share causes a cut.
const HELD_SHARE: f64 = 0.01;
/// Growth of the pace: t seconds after its plateau, the pace is 1 + t³ x `GROWTH` times the plateau. Growing by 5 %
/// takes 3 seconds.
const GROWTH: f64 = 0.05 / 27.0;
/// Factor by which the first pace grows in a second.
const GUESS_GROWTH: f64 = 2.0;
/// Above this multiple of the plateau, the pace grows like the first pace.
const FAR_ABOVE: f64 = 4.0;
/// If the pace is above `FAR_ABOVE` times the plateau and less than this fraction of the pace is used, the pace is
/// removed.
const UNUSED: f64 = 0.5;
/// A measured rate confirms the previous one if it is at least this fraction of the previous rate. Otherwise one of the
/// two was measured at a bad moment.
const CONFIRMED: f64 = 0.7;
/// After this number of consecutive useless cuts, refusals are assumed not to depend on the pace.
const USELESS_CUTS: u32 = 3;
/// Minimum number of refusals during useless cuts. A smaller number may be a coincidence.
const USELESS_REFUSED: f64 = 10.0;
/// A cut is useless if it changes the refused share by a factor between `UNCHANGED` and `1 / UNCHANGED`.
const UNCHANGED: f64 = 0.6;
/// Cuts count as useless only if the request rate also fell to this fraction or less. If it did not, the cuts had
/// little effect.
const LOWERED: f64 = 0.9;
/// Time for which refusals are tolerated after the first useless cuts. The time doubles with each further series of
/// useless cuts, up to `PUT_UP_MAX`.
const PUT_UP_FIRST: Millis = 10_000;
const PUT_UP_MAX: Millis = 300_000;
/// Largest refused share that is tolerated.
const PUT_UP_SHARE: f64 = 0.5;
/// Maximum time that is counted between two reports.
const STEP_MAX: Millis = 1000;

/// Replies in one slot.
#[derive(Debug, Clone, Copy, Default)]
struct TimeSlot {
    number: u64,
    successes: u32,
    refused: u32,
}

/// Numbers of replies in a period.
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

/// The pace currently in force.
#[derive(Debug, Clone, Copy)]
struct ActivePace {
    /// Requests/s.
    rate: f64,
    /// Rate at which requests were last refused, as far as known. The pace grows most slowly near this rate.
    plateau: f64,
    /// Seconds of growth since the plateau was reached. Negative before that.
    grown: f64,
    /// Whether this is a first pace, which was measured in a short time. Such a pace grows fast until a request is
    /// refused again.
    is_guess: bool,
}

impl ActivePace {
    /// Creates a pace with a rate below its plateau.
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

/// A series of consecutive cuts.
#[derive(Debug, Clone, Copy, Default)]
struct CutSeries {
    /// Requests/s before the first cut.
    before: f64,
    /// Refused share before the first cut.
    share: f64,
    /// Replies between the first and the last cut.
    since: ReplyCounts,
    /// Number of cuts without effect. All replies of a series are judged together, because at a slow pace a single cut
    /// covers only a few replies.
    useless: u32,
}

/// Refusals that do not depend on the pace.
#[derive(Debug, Clone, Copy)]
struct UnrelatedRefusals {
    share: f64,
    until: Millis,
    /// Duration of the next tolerance period.
    next: Millis,
}

impl UnrelatedRefusals {
    /// Returns how large a share of these replies may be refused: the tolerated share plus two standard deviations.
    fn allowed(&self, replies: &ReplyCounts, now: Millis) -> f64 {
        if now >= self.until {
            return 0.0;
        }
        let variance = self.share * (1.0 - self.share) / replies.replies().max(1.0);
        self.share + 2.0 * variance.sqrt()
    }
}

/// The pace of an origin, and the measurements that set it. See the module.
#[derive(Debug, Clone)]
pub struct Congestion {
    slots: VecDeque<TimeSlot>,
    held: Option<ActivePace>,
    /// Start of the measurement: the first reply or, after a cut, the time when stale replies no longer arrive.
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
    /// Returns the pace in requests/s, if there is one.
    pub fn rate(&self) -> Option<f64> {
        self.held.map(|held| held.rate)
    }

    /// Sets the initial pace to the pace of an earlier run. The pace grows from there and is removed if it turns out to
    /// be unnecessary.
    pub fn resume(&mut self, rate: f64) {
        self.held = Some(ActivePace::below(rate, rate * CUT));
    }

    /// Records these numbers of successes and refusals.
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

    /// Discards the measurements after the origin has rested.
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

    /// Returns the duration of a measurement: a second, or longer if this number of replies takes longer at the pace.
    fn window(&self, replies: f64) -> Millis {
        self.time_of(replies).clamp(LATELY, KEPT)
    }

    /// Counts the replies since `from`, or since the measurement began.
    fn measured(&self, from: Millis, now: Millis) -> ReplyCounts {
        let from = from.max(self.since.unwrap_or(now)).min(now);
        let mut measured = ReplyCounts { millis: now - from / SLOT * SLOT, ..ReplyCounts::default() };
        for slot in self.slots.iter().filter(|slot| slot.number >= from / SLOT) {
            measured.successes += f64::from(slot.successes);
            measured.refused += f64::from(slot.refused);
        }
        measured
    }

    /// Returns how long this number of replies takes at the pace.
    fn time_of(&self, replies: f64) -> Millis {
        self.held.map_or(0, |held| (replies * 1000.0 / held.rate) as Millis)
    }

    /// Returns the minimum duration of a measurement.
    fn enough(&self) -> Millis {
        match self.held {
            None => FIRST_MEASURED,
            Some(_) => self.time_of(MEASURED_REPLIES).clamp(MEASURED, KEPT / 2),
        }
    }

    fn has_measured(&self, now: Millis) -> bool {
        self.since.is_some_and(|since| now >= since + self.enough())
    }

    /// Returns the time from which the rate is measured. Without a pace, this is the first refusal, because fewer
    /// requests were sent before the refusal.
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

    /// Counts this cut. Returns whether enough cuts were useless, so that refusals must be tolerated.
    fn is_useless(&mut self, measured: ReplyCounts, before: f64) -> bool {
        let series = &mut self.series;
        series.since.add(measured);
        // Judge a single cut if it covers many replies, and all cuts together otherwise.
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
        // The best rate is unknown, because refusals or a busy machine allowed only a few requests.
        self.held = Some(ActivePace { is_guess: true, ..ActivePace::below(before, before) });
        self.since = Some(now + STALE);
    }

    /// Keeps the pace unchanged. If there are only a few refusals, the pace matches the origin's rate.
    fn hold(&mut self) {
        if let Some(held) = &mut self.held {
            *held = ActivePace::below(held.rate, held.rate);
        }
    }

    fn grow(&mut self, step: Millis, lately: ReplyCounts) {
        let Some(held) = &mut self.held else { return };
        held.grow(step as f64 / 1000.0);
        // With only a few replies, the absence of refusals may be a coincidence.
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
