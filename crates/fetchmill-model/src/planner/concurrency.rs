//! Finds the number of simultaneous requests that maximises an origin's goodput, and no more.
//!
//! The search has no clock: time is an argument. A round is a period at one limit in which goodput and mean latency are
//! measured. All decisions are based on rounds.
//! - Climb: the limit doubles each round while goodput grows or latency stays the same. TCP's slow start and BBR's
//!   startup work in the same way.
//! - Shrink: the limit is lowered by 29 % at a time until goodput falls. Requests that only wait in a queue gain
//!   nothing.
//! - Hold: at intervals, a trial alternates the held limit with a slightly higher or lower one, and the better of the
//!   two is kept. If goodput or latency at the held limit changes, the search climbs again. Other clients may have
//!   caused the change. A doubled limit must therefore increase goodput clearly, and a limit that costs other clients
//!   more than it gains is lowered again.
//!
//! Rounds in which something else limited the job (no targets, a full sink, a pace) are ignored, with one exception:
//! targets have run out while requests wait in a queue. The listing's pages then wait in the same queue, so the limit
//! is lowered (`docs/internals/decisions/0029`).

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

/// Minimum duration of a round. `COMPARED_MIN` applies to a round that is compared with only a few other rounds.
const ROUND_MIN: Millis = 200;
const COMPARED_MIN: Millis = 400;
/// Minimum number of replies in a round.
const ROUND_REPLIES: f64 = 16.0;
/// Minimum number of replies in a trial's round, unless they take longer than `TRIAL_MAX`.
const TRIAL_REPLIES: f64 = 400.0;
const TRIAL_MAX: Millis = 3_000;
/// Time after which a round ends without a result. If a multiple of the latency is longer, that multiple applies
/// instead.
const ROUND_MAX: Millis = 5_000;
const ROUND_MAX_LATENCIES: f64 = 6.0;
/// Latency at or above this multiple of the lowest latency indicates overload.
const OVERLOADED: f64 = 8.0;
/// Share of requests that may still be waiting for their connections to open when a round begins.
const CONNECTING: f64 = 0.125;
/// Maximum wait for connections to open before a round begins. If a multiple of the latency is longer, that multiple
/// applies instead. On a full link, the connections may never open.
const CONNECTING_MAX: Millis = 1_000;
const CONNECTING_LATENCIES: f64 = 4.0;
/// Goodput follows a change of the limit only after one latency, plus the time in which the last connections open. A
/// climb up to `CAREFUL` requests does not wait for this. Above `CAREFUL`, it waits for `CAREFUL_LATENCIES` latencies,
/// but at most `CAREFUL_LAG` milliseconds.
const CAREFUL_LATENCIES: f64 = 3.0;
const CAREFUL_LAG: f64 = 500.0;
/// Memory for requests in flight. A connection has room for its next body and keeps some bodies until they are certain.
/// For every two active connections, one connection rests. Each request therefore counts as two and a half bodies plus
/// the connection itself. Bodies above `COUNTED_BODY_MAX` have a separate budget (docs/internals/decisions/0024).
const MEMORY: f64 = 128.0 * 1024.0 * 1024.0;
const COUNTED_BODY_MAX: f64 = 16.0 * 1024.0;
const BODIES: f64 = 2.5;
const CONNECTION_BYTES: f64 = 6.0 * 1024.0;

/// The limit for an origin, and the search that sets it. See the module.
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
    /// Starts a search that has no measurements yet.
    pub fn new(bounds: ConcurrencyBounds, workers: usize) -> Self {
        ConcurrencyLimit {
            search: LimitSearch::new(bounds),
            phase: Phase::Climb(Climb::default()),
            round: Round::default(),
            workers: vec![WorkerState::default(); workers],
            latency: 0.0,
        }
    }

    /// Returns the maximum number of requests in flight.
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

    /// Records whether the listing has targets to hand out.
    pub fn note_listing(&mut self, listing: ListingState) {
        self.search.listing = listing;
        self.search.climbed_beside_pages |= listing == ListingState::ReadsAhead;
    }

    /// Records a worker's report. `is_paced` states whether the origin's pace limits the job.
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

    /// Begins a round once all workers know the limit and have opened their connections. Unless this is a climb up to
    /// `CAREFUL`, the round also waits until goodput follows the new limit.
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

    /// Returns the latency, in milliseconds, from which the length of a round is computed. The value is capped so that
    /// long queues after an overload do not make rounds just as long.
    fn round_latency(&self) -> f64 {
        self.latency.min(self.search.floor * OVERLOADED) / 1000.0
    }

    fn end_round(&mut self, now: Millis) {
        let Some(begun) = self.round.begun else { return };
        let took = now.saturating_sub(begun);
        // Replies come in waves, and a round that lasts several latencies contains whole waves.
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
