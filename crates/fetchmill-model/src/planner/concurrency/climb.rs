//! It climbs: higher limits, one after the other.

use super::limit_search::{CAREFUL, Climb, HARM, LimitSearch, ListingState, Phase, QUEUED, Shrink};
use super::round::Measured;

/// A limit twice as high is worth it when it gives so much more, or while latency shows no queue; ...
const GROWTH: f64 = 1.1;
/// ... and so much more where it is high: what is chance in waves of replies looked like a tenth.
const CAREFUL_GROWTH: f64 = 1.25;
/// ... and so much more behind a change for the worse, which others may have made who ask the same origin: twice as much for half of
/// what it gives would bring 4 / 3, and they would want it back. A listing that reads ahead is such another.
const SHARED_GROWTH: f64 = 1.5;
/// A limit that gives so much more than the one before it waits in no queue.
const PAID: f64 = 1.2;
/// Limits one after the other that were not worth it, before it stops to climb.
const STRIKES: u32 = 2;
/// Rounds of a climb in which a limit that was not worth it does not count, while the listing reads ahead for the first time:
/// its pages may be what fills a narrow link.
const READ_AHEAD_ROUNDS: u32 = 20;
/// Where it begins to shrink: the lowest limit that gave this part of the most.
const NEARLY: f64 = 0.95;

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

impl LimitSearch {
    /// What a round at one limit of a climb means.
    pub(super) fn climb(&mut self, mut climb: Climb, measured: Measured) -> Phase {
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
        } else if self.limit > CAREFUL {
            (CAREFUL_GROWTH, NEARLY)
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
            return Phase::Shrink(Shrink::from(good, best));
        }
        // Goodput is behind by a latency: one that was not worth it is looked at again before a higher one is tried.
        if is_worth_it {
            self.set(self.limit * 2);
        }
        Phase::Climb(climb)
    }
}
