//! The climb, which tries one higher limit after another.

use super::limit_search::{CAREFUL, Climb, HARM, LimitSearch, ListingState, Phase, QUEUED, Shrink};
use super::round::Measured;

/// Growth of goodput that makes a doubled limit worthwhile. No growth is needed while latency does not indicate a
/// queue.
const GROWTH: f64 = 1.1;
/// Required growth above [`CAREFUL`]. It is higher because replies come in waves, which can look like 10 % growth by
/// chance.
const CAREFUL_GROWTH: f64 = 1.25;
/// Required growth after latency or goodput has worsened, possibly because of other clients. If a job that uses half of
/// the origin doubled its requests, its goodput would grow by a factor of 4 / 3. Other clients would then do the same
/// and take the gain back. A listing that reads ahead counts as another client.
const SHARED_GROWTH: f64 = 1.5;
/// If goodput exceeds the goodput at the previous limit by this factor, no requests wait in a queue.
const PAID: f64 = 1.2;
/// A climb ends after this number of consecutive rounds without enough growth.
const STRIKES: u32 = 2;
/// Number of rounds without enough growth that do not count while the listing reads ahead for the first time. The
/// listing's pages can fill a narrow link.
const READ_AHEAD_ROUNDS: u32 = 20;
/// Shrinking begins at the lowest limit that achieved at least this fraction of the maximum goodput.
const NEARLY: f64 = 0.95;

impl Climb {
    fn best(&self) -> f64 {
        self.levels.iter().map(|(_, goodput)| *goodput).fold(0.0, f64::max)
    }

    /// Returns the first goodput measured at a limit. Goodput lags by one latency, so this value still belongs to the
    /// previous limit.
    fn at_first(&self, limit: usize) -> f64 {
        self.levels.iter().find(|(level, _)| *level == limit).map_or(f64::INFINITY, |(_, goodput)| *goodput)
    }

    /// Returns the lowest limit that achieved at least the fraction `part` of the maximum goodput.
    fn lowest_good(&self, part: f64) -> Option<usize> {
        let enough = self.best() * part;
        self.levels.iter().find(|(_, goodput)| *goodput >= enough).map(|(limit, _)| *limit)
    }
}

impl LimitSearch {
    /// Decides the next step after a round of the climb.
    pub(super) fn climb(&mut self, mut climb: Climb, measured: Measured) -> Phase {
        let best = climb.best();
        let has_queue = measured.latency > self.floor * QUEUED;
        // At the highest limit, two rounds without growth end the climb.
        let is_at_most = self.limit >= self.most;
        let is_harm = measured.goodput < best * HARM;
        let may_grow = !has_queue && !is_at_most && !is_harm;
        let reads_ahead = self.listing == ListingState::ReadsAhead;
        // If goodput grows too little at a limit, the previous limit achieved at least the fraction `part`.
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
        // Goodput lags by one latency, so a limit without enough growth is measured again before a higher one is tried.
        if is_worth_it {
            self.set(self.limit * 2);
        }
        Phase::Climb(climb)
    }
}
