//! The state that a job and its thread share, and the final report.

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

/// Shared state of a job. See the [module documentation](self).
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
    /// Returns the current state. The counts include earlier runs and outcomes that are not durable yet.
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

/// Returns the sum of two tallies.
pub(crate) fn plus(mut one: Tally, other: Tally) -> Tally {
    one.add(&other);
    one
}

/// Reason why a run stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// The user stopped the run.
    Asked,
    /// A rule stopped the run.
    Rule(StopReason),
}

impl Interruption {
    /// Returns the rule that stopped the run, if any.
    pub fn rule(self) -> Option<StopReason> {
        match self {
            Interruption::Asked => None,
            Interruption::Rule(reason) => Some(reason),
        }
    }
}

/// Report of a job that has ended.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is independent of the others")]
pub struct JobReport {
    /// Counts of durable outcomes.
    pub tally: Tally,
    /// Number of failed targets by kind.
    pub kinds: KindCounts,
    /// Number of targets that failed because of their status, by status.
    pub statuses: StatusCounts,
    /// Whether requests of this run might have contained credentials.
    pub gave_credentials: bool,
    /// Targets whose replies might belong to other requests.
    pub doubtful: Doubtful,
    /// Duration of this run.
    pub elapsed: Duration,
    /// Number of requests in this run.
    pub attempts: u64,
    /// Time when the listing was completed, in ISO 8601 UTC.
    pub listed_at: Option<String>,
    /// Whether the job was already finished.
    pub was_finished: bool,
    /// Reason why the run stopped early.
    pub interruption: Option<Interruption>,
    /// Whether the job is finished and within its failure limit ([`crate::JobRequest::max_failed`]).
    pub is_tolerated: bool,
    /// Whether an earlier run started the job.
    pub is_resumed: bool,
    /// Cause that limited this run for the longest time, and its share of the run's time. `None` if nothing was
    /// measured.
    pub limited_by: Option<(LimitedBy, f64)>,
    /// Results of a check.
    pub summary: Option<Summary>,
    /// Notices for the user.
    pub notices: Vec<String>,
    /// Number of skipped targets by reason.
    pub skipped: SkippedByReason,
    /// Number of targets that opted out, by rule and host.
    pub opt_outs: OptOutCounts,
    /// Whether the job unexpectedly found no objects.
    pub found_nothing: bool,
}
