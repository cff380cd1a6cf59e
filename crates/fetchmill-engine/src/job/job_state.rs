//! What a job and the thread that runs it both have, and what it has done at its end.

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
    /// What was settled before this run.
    pub(crate) before: Tally,
    pub(crate) kinds_before: KindCounts,
    pub(crate) is_resumed: bool,
    pub(crate) rules: StopRules,
}

impl JobState {
    /// How it stands now: the tally is that of the whole job, with what is not durable yet.
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

/// What two runs have done.
pub(crate) fn plus(mut one: Tally, other: Tally) -> Tally {
    one.add(&other);
    one
}

/// What stops a run before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// Somebody has asked for it.
    Asked,
    /// A rule.
    Rule(StopReason),
}

impl Interruption {
    /// The rule, if it was one.
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
    /// The ledger: what is durable.
    pub tally: Tally,
    /// Failed targets by kind.
    pub kinds: KindCounts,
    /// Those that failed because of their status, by that.
    pub statuses: StatusCounts,
    /// Whether requests of this run may have had credentials.
    pub gave_credentials: bool,
    /// See [`Doubtful`].
    pub doubtful: Doubtful,
    /// Of this run.
    pub elapsed: Duration,
    /// Requests of this run.
    pub attempts: u64,
    /// When the listing was complete, ISO 8601 UTC.
    pub listed_at: Option<String>,
    /// There was nothing left to do.
    pub was_finished: bool,
    /// What has stopped it before its end.
    pub interruption: Option<Interruption>,
    /// It is finished, and no more targets have failed than may ([`crate::JobRequest::max_failed`]).
    pub is_tolerated: bool,
    /// An earlier run had begun it.
    pub is_resumed: bool,
    /// What has held this run back for longest, and for what part of its time; none when it was over before that was
    /// measured.
    pub limited_by: Option<(LimitedBy, f64)>,
    /// What a check has found.
    pub summary: Option<Summary>,
    /// What a user should know.
    pub notices: Vec<String>,
    /// What was skipped, by reason.
    pub skipped: SkippedByReason,
    /// Those that opted out, by rule and host.
    pub opt_outs: OptOutCounts,
    /// Whether the job has no object, for a reason that nobody asked for.
    pub found_nothing: bool,
}
