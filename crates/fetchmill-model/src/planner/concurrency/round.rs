//! A round: what workers have seen at one limit.

use serde::{Deserialize, Serialize};

use crate::planner::millis::Millis;

/// Reports of a round in which the job was held back by something else; in flight on average at least this part.
const STARVED: f64 = 0.25;
const USED: f64 = 0.6;
/// A reply counts as one, and as one more for each so many bytes of its body.
const UNIT_BYTES: f64 = 16.0 * 1024.0;

/// What a worker saw since it last said so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Complete replies that are no sign of trouble.
    pub replies: u32,
    /// Of their bodies.
    pub bytes: u64,
    /// From their requests to their ends, together.
    pub latency_micros: u64,
    /// Targets in flight now, ...
    pub in_flight: u32,
    /// ... and those of them whose request is out.
    pub exchanging: u32,
    /// Something else than the limit kept it from more.
    pub is_starved: bool,
}

/// What a round showed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    /// Units a second.
    pub(super) goodput: f64,
    /// Microseconds.
    pub(super) latency: f64,
    /// Its length.
    pub(super) took: Millis,
}

/// Reports at one limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Round {
    /// When the limit was set, when everybody had heard of it and its connections were there, and what is counted from.
    pub(super) since: Millis,
    pub(super) ready: Option<Millis>,
    pub(super) begun: Option<Millis>,
    pub(super) reports: u32,
    pub(super) starved: u32,
    /// Of those that were starved, when all that was listed had been handed out.
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

    /// Whether the listing often was behind.
    pub(super) fn is_behind(&self) -> bool {
        f64::from(self.behind) > STARVED * f64::from(self.reports)
    }

    /// Whether the limit, and nothing else, was what held the job back.
    pub(super) fn is_telling(&self, limit: usize) -> bool {
        let reports = f64::from(self.reports.max(1));
        f64::from(self.starved) <= STARVED * reports && self.in_flight >= USED * reports * limit as f64
    }
}

/// What a worker has, as it last said, and what it has done in this round.
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

    /// Units a second.
    pub(super) fn goodput(&self) -> f64 {
        self.units * 1000.0 / self.said_at.saturating_sub(self.counted_from).max(1) as f64
    }
}
