//! State that a job and its thread share, and the report at the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::skipped::SkippedByReason;
use crate::control::Control;
use crate::control::telemetry::LimitedBy;
use crate::request::stop_rules::{Standing, StopReason, StopRules};
use fetchmill_model::outcome::opt_out_rule::OptOutCounts;
use fetchmill_model::outcome::{KindCounts, StatusCounts, Tally};
use fetchmill_store::journal::Doubtful;
use fetchmill_store::results::Summary;

/// See the module.
#[derive(Debug)]
pub(crate) struct JobState {
    pub(crate) control: Arc<Control>,
    /// Counts before this run.
    pub(crate) before: Tally,
    pub(crate) kinds_before: KindCounts,
    pub(crate) is_resumed: bool,
    pub(crate) rules: StopRules,
}

impl JobState {
    /// Returns the current state. The counts cover the whole job, and include outcomes that are not durable yet.
    pub(crate) fn standing(&self) -> Standing {
        let sum = self.control.sum();
        Standing {
            bytes: self.control.body_meter.as_ref().map_or(0, |meter| meter.received()),
            tally: plus(self.before, sum.tally),
            is_listing_done: self.control.is_listing_done.load(Ordering::Relaxed),
            elapsed: self.control.clock.elapsed(),
            is_at_end: self.rules.first.is_some() && self.control.plan.lock().is_at_end(),
        }
    }
}

/// Returns the sum of two counts.
pub(crate) fn plus(mut one: Tally, other: Tally) -> Tally {
    one.add(&other);
    one
}

/// The reason why a run stopped before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// The user asked the run to stop.
    Asked,
    /// A rule stopped the run.
    Rule(StopReason),
}

impl Interruption {
    /// Returns the rule that stopped the run, if there was one.
    pub fn rule(self) -> Option<StopReason> {
        match self {
            Interruption::Asked => None,
            Interruption::Rule(reason) => Some(reason),
        }
    }
}

/// A job that has ended.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct JobReport {
    /// Durable counts.
    pub tally: Tally,
    /// Failed targets by kind.
    pub kinds: KindCounts,
    /// Numbers of targets that failed because of their status, for each status.
    pub statuses: StatusCounts,
    /// Whether requests of this run may have had credentials.
    pub gave_credentials: bool,
    /// See [`Doubtful`].
    pub doubtful: Doubtful,
    /// Duration of this run.
    pub elapsed: Duration,
    /// Requests of this run.
    pub attempts: u64,
    /// When the listing was complete, ISO 8601 UTC.
    pub listed_at: Option<String>,
    /// Whether there was nothing left to do.
    pub was_finished: bool,
    /// The reason why the run stopped before the end.
    pub interruption: Option<Interruption>,
    /// Whether the job is finished, and at most the allowed number of targets has failed
    /// ([`crate::JobRequest::max_failed`]).
    pub is_tolerated: bool,
    /// Whether an earlier run had begun the job.
    pub is_resumed: bool,
    /// Cause that limited this run longest, and its part of the run's time. `None` if the run ended before the first
    /// measurement.
    pub limited_by: Option<(LimitedBy, f64)>,
    /// Results of a check.
    pub summary: Option<Summary>,
    /// Notices for the user.
    pub notices: Vec<String>,
    /// Skipped targets by reason.
    pub skipped: SkippedByReason,
    /// Targets that opted out, by rule and host.
    pub opt_outs: OptOutCounts,
    /// Whether the job has no object for an unintended reason.
    pub found_nothing: bool,
}
