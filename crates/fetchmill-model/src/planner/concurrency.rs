//! Finds the number of simultaneous requests that maximises an origin's goodput, and no more.
//!
//! Clock-free: time is an argument. A round is a period at one limit, in which goodput and mean latency are measured.
//! All decisions are based on rounds.
//! - Climb: the limit doubles each round while goodput grows with it or latency does not. (TCP's slow start and BBR's
//!   startup work like this.)
//! - Shrink: the limit falls by 29 % at a time while that costs no goodput. Requests that only wait in a queue gain
//!   nothing.
//! - Hold: at intervals, a trial alternates a slightly higher or lower limit with the held one, and the better one is
//!   kept. If the held limit no longer gives the same goodput, the search climbs again from there. Other clients may be
//!   the reason. So a doubled limit must then increase goodput, and an increase that costs others more than it gains is
//!   undone.
//!
//! Rounds in which something else limited the job (no targets, a full sink, a pace) decide nothing, with one exception.
//! If there are no targets and requests wait in a queue, the listing's pages wait in it too, and the limit is lowered
//! (`docs/internals/decisions/0029`).

mod climb;
mod hold;
mod limit_search;
mod round;
mod shrink;

use super::millis::Millis;
use limit_search::{CAREFUL, CROWDED, Climb, Hold, LimitSearch, Phase};
pub use limit_search::{ConcurrencyBounds, ListingState};
pub use round::Load;
use round::{Measured, Round, WorkerState};

/// Minimum duration of a round, and of a round that is compared with only a few others.
const ROUND_MIN: Millis = 200;
const COMPARED_MIN: Millis = 400;
/// Minimum replies of a round.
const ROUND_REPLIES: f64 = 16.0;
/// Minimum replies of a trial's round, unless they would take longer than `TRIAL_MAX`.
const TRIAL_REPLIES: f64 = 400.0;
const TRIAL_MAX: Millis = 3_000;
/// Time, and multiple of the latency, after which a round ends without a result.
const ROUND_MAX: Millis = 5_000;
const ROUND_MAX_LATENCIES: f64 = 6.0;
/// Multiple of the lowest latency from which latency indicates an overload.
const OVERLOADED: f64 = 8.0;
/// Share of requests whose connections may still be opening when a round begins.
const CONNECTING: f64 = 0.125;
/// Maximum wait for these connections, as a time and as a multiple of the latency. On a full link they may never open.
const CONNECTING_MAX: Millis = 1_000;
const CONNECTING_LATENCIES: f64 = 4.0;
/// Goodput follows a change of the limit after one latency and the time that the last connections take to open. Up to
/// `CAREFUL` requests, a climb does not wait for that. With more, it waits for this many latencies, but at most this
/// many milliseconds.
const CAREFUL_LATENCIES: f64 = 3.0;
const CAREFUL_LAG: f64 = 500.0;
/// Memory for requests in flight. A connection has room for its next body and holds some bodies until they are certain.
/// Half as many more connections rest. So each request counts as two and a half bodies and the connection itself.
/// Bodies above `COUNTED_BODY_MAX` have a separate budget (docs/internals/decisions/0024).
const MEMORY: f64 = 128.0 * 1024.0 * 1024.0;
const COUNTED_BODY_MAX: f64 = 16.0 * 1024.0;
const BODIES: f64 = 2.5;
const CONNECTION_BYTES: f64 = 6.0 * 1024.0;

/// See the module.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimit {
    search: LimitSearch,
    phase: Phase,
    round: Round,
    workers: Vec<WorkerState>,
    /// Mean latency of the last round in microseconds.
    latency: f64,
}

impl ConcurrencyLimit {
    /// Starts a search without measurements.
    pub fn new(bounds: ConcurrencyBounds, workers: usize) -> Self {
        ConcurrencyLimit {
            search: LimitSearch::new(bounds),
            phase: Phase::Climb(Climb::default()),
            round: Round::default(),
            workers: vec![WorkerState::default(); workers],
            latency: 0.0,
        }
    }

    /// Maximum number of requests in flight.
    pub fn limit(&self) -> usize {
        self.search.limit
    }

    /// Lowers the upper bound.
    pub fn lower_most(&mut self, most: usize) {
        let ConcurrencyBounds { least, most: before, .. } = self.search.bounds;
        self.search.bounds.most = before.min(most).max(least);
        self.search.bound(self.search.bounds.most);
    }

    /// Returns whether only the upper bound keeps the limit from being higher.
    pub fn is_at_most(&self) -> bool {
        self.search.held.min(self.search.limit) >= self.search.most
    }

    /// Returns whether the search has not settled yet.
    pub fn is_trying(&self) -> bool {
        matches!(self.phase, Phase::Climb(_) | Phase::Shrink(_) | Phase::Raise(_))
    }

    /// Records the state of the listing.
    pub fn note_listing(&mut self, listing: ListingState) {
        self.search.listing = listing;
        self.search.climbed_beside_pages |= listing == ListingState::ReadsAhead;
    }

    /// Records a worker's report. `is_paced` says that the origin's pace limits the job.
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
        // Extrapolate from this worker to all workers.
        self.round.behind += u32::from(load.is_starved && self.search.listing == ListingState::Behind);
        self.round.add(load, load.in_flight as usize * self.workers.len());
        self.end_round(now);
    }

    /// Begins a round when all workers know the limit and have opened their connections. Except in a climb, it also
    /// waits until replies are to requests at this limit.
    fn begin_round(&mut self, now: Millis) {
        let waited = now.saturating_sub(self.round.since);
        let have_heard = self.workers.iter().all(|worker| worker.said_at > self.round.since);
        let in_flight: usize = self.workers.iter().map(|worker| worker.in_flight).sum();
        let exchanging: usize = self.workers.iter().map(|worker| worker.exchanging).sum();
        let connecting = in_flight.saturating_sub(exchanging) as f64;
        let is_late =
            waited as f64 >= (CONNECTING_MAX as f64).max(self.round_latency() * CONNECTING_LATENCIES);
        let is_connected = is_late || connecting <= CONNECTING * in_flight as f64 + 1.0;
        let have_ended = in_flight as f64 <= self.search.limit as f64 * (1.0 + CONNECTING) + 1.0;
        if !(have_heard && is_connected && have_ended) {
            if waited >= self.round_max() {
                self.count_from(now);
            }
            return;
        }
        let ready = *self.round.ready.get_or_insert(now);
        let (from, lag) = match self.phase {
            Phase::Climb(_) if self.search.limit <= CAREFUL => (now, 0.0),
            Phase::Climb(_) => (ready, (self.round_latency() * CAREFUL_LATENCIES).min(CAREFUL_LAG)),
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

    /// Returns the latency, in milliseconds, that sets the length of rounds. It is limited, so that rounds are not as
    /// long as the queue after an overload.
    fn round_latency(&self) -> f64 {
        self.latency.min(self.search.floor * OVERLOADED) / 1000.0
    }

    fn end_round(&mut self, now: Millis) {
        let Some(begun) = self.round.begun else { return };
        let took = now.saturating_sub(begun);
        // Replies come in waves, and a round of several latencies has whole waves.
        let (latencies, least, enough) = match self.phase {
            Phase::Climb(_) => (1.0, ROUND_MIN, ROUND_REPLIES),
            Phase::Hold(_) => (2.0, ROUND_MIN, ROUND_REPLIES),
            Phase::Shrink(_) | Phase::Raise(_) => (3.0, COMPARED_MIN, ROUND_REPLIES),
            Phase::Trial(..) => (3.0, COMPARED_MIN, TRIAL_REPLIES),
        };
        let least = least.max((latencies * self.round_latency()) as Millis);
        let short = ROUND_MIN.max(self.round_latency() as Millis);
        let enough = if took >= TRIAL_MAX { ROUND_REPLIES } else { enough };
        let is_over =
            (took >= least || took >= short && self.is_clearly_less()) && self.round.replies >= enough;
        let is_stuck = took >= least + self.round_max();
        if !is_over && !is_stuck {
            return;
        }
        let round = std::mem::replace(&mut self.round, Round::since(now));
        let measured = Measured {
            goodput: self.goodput(),
            latency: round.latency_micros / round.replies.max(1.0),
            took,
        };
        if is_over && round.is_behind() && measured.latency > self.search.floor * CROWDED {
            // The listing's pages wait in the queue of the job's own requests.
            self.phase = self.search.settle_at(self.search.below(self.search.limit));
            return;
        }
        if !is_over || !round.is_telling(self.search.limit) {
            return;
        }
        self.latency = measured.latency;
        let body = (round.bytes / round.replies.max(1.0)).min(COUNTED_BODY_MAX);
        self.search.bound((MEMORY / (body * BODIES + CONNECTION_BYTES)) as usize);
        self.decide(measured);
        if matches!(self.phase, Phase::Hold(_)) && self.search.limit == self.search.held {
            // Nothing has changed, so the next round continues from here.
            self.count_from(now);
        }
    }

    /// Returns the units/s of this round.
    fn goodput(&self) -> f64 {
        self.workers.iter().map(WorkerState::goodput).sum()
    }

    fn is_clearly_less(&self) -> bool {
        matches!(&self.phase, Phase::Shrink(shrink) if shrink.is_clearly_less(self.goodput()))
    }

    fn decide(&mut self, measured: Measured) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Hold(Hold::default())) {
            Phase::Climb(climb) => self.search.climb(climb, measured),
            Phase::Shrink(shrink) => self.search.shrink(shrink, measured),
            Phase::Raise(raise) => self.search.raise(raise, measured),
            Phase::Hold(hold) => self.search.hold(hold, measured),
            Phase::Trial(hold, trial) => self.search.try_other(hold, trial, measured),
        };
    }
}

#[cfg(test)]
mod tests;
