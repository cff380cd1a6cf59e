//! A round: the workers' measurements at one limit.

use serde::{Deserialize, Serialize};

use crate::planner::millis::Millis;

/// A round counts if at most this share of its reports was starved. The average number of requests in flight must also
/// be at least `USED` times the limit.
const STARVED: f64 = 0.25;
const USED: f64 = 0.6;
/// A reply counts as one unit, plus one unit for this number of body bytes.
const UNIT_BYTES: f64 = 16.0 * 1024.0;

/// Measurements of a worker since its last report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Number of complete replies that show no sign of trouble.
    pub replies: u32,
    /// Total size of the replies' bodies in bytes.
    pub bytes: u64,
    /// Total time from each request to the end of its reply.
    pub latency_micros: u64,
    /// Number of targets in flight now.
    pub in_flight: u32,
    /// Number of targets in flight whose request has been sent.
    pub exchanging: u32,
    /// Whether anything other than the limit kept the worker from making more requests.
    pub is_starved: bool,
}

/// Measurements of a round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    /// Goodput in units/s.
    pub(super) goodput: f64,
    /// Mean latency in microseconds.
    pub(super) latency: f64,
    /// Length of the round.
    pub(super) took: Millis,
}

/// Sums of the reports at one limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Round {
    /// Time at which the limit was set. At `ready`, all workers knew the limit and the connections were open. At
    /// `begun`, counting began.
    pub(super) since: Millis,
    pub(super) ready: Option<Millis>,
    pub(super) begun: Option<Millis>,
    pub(super) reports: u32,
    pub(super) starved: u32,
    /// Number of starved reports received after all listed targets had been handed out.
    pub(super) behind: u32,
    pub(super) in_flight: f64,
    pub(super) replies: f64,
    pub(super) bytes: f64,
    pub(super) latency_micros: f64,
}

impl Round {
    pub(super) fn since(now: Millis) -> Self {
        Round { since: now, ..Round::default() }
    }

    pub(super) fn add(&mut self, load: Load, in_flight: usize) {
        self.reports += 1;
        self.starved += u32::from(load.is_starved);
        self.in_flight += in_flight as f64;
        self.replies += f64::from(load.replies);
        self.bytes += load.bytes as f64;
        self.latency_micros += load.latency_micros as f64;
    }

    /// Returns whether the listing was behind in more than the share [`STARVED`] of the reports.
    pub(super) fn is_behind(&self) -> bool {
        f64::from(self.behind) > STARVED * f64::from(self.reports)
    }

    /// Returns whether only the limit held the job back.
    pub(super) fn is_telling(&self, limit: usize) -> bool {
        let reports = f64::from(self.reports.max(1));
        f64::from(self.starved) <= STARVED * reports && self.in_flight >= USED * reports * limit as f64
    }
}

/// A worker's last report, and the worker's work in this round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WorkerState {
    pub(super) in_flight: usize,
    pub(super) exchanging: usize,
    pub(super) said_at: Millis,
    pub(super) counted_from: Millis,
    pub(super) units: f64,
}

impl WorkerState {
    pub(super) fn note(&mut self, load: Load, now: Millis) {
        (self.in_flight, self.exchanging) = (load.in_flight as usize, load.exchanging as usize);
        self.units += f64::from(load.replies) + load.bytes as f64 / UNIT_BYTES;
        self.said_at = now;
    }

    pub(super) fn count_anew(&mut self) {
        (self.counted_from, self.units) = (self.said_at, 0.0);
    }

    /// Returns the goodput in units/s.
    pub(super) fn goodput(&self) -> f64 {
        self.units * 1000.0 / self.said_at.saturating_sub(self.counted_from).max(1) as f64
    }
}
