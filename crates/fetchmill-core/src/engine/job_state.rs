//! What a job and the thread that runs it both have, and what it has done at its end.

use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use crate::journal::Doubtful;
use crate::outcome::{KindCounts, Tally};
use crate::results::Summary;

/// See the module.
#[derive(Debug)]
pub(super) struct JobState {
    pub(super) control: Arc<Control>,
    /// What was settled before this run.
    pub(super) before: Tally,
    pub(super) kinds_before: KindCounts,
    pub(super) is_resumed: bool,
}

/// A job that has ended.
#[derive(Debug, Clone)]
pub struct JobReport {
    /// The ledger: what is durable.
    pub tally: Tally,
    /// Failed targets by kind.
    pub kinds: KindCounts,
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
    /// It was stopped before its end.
    pub is_interrupted: bool,
    /// An earlier run had begun it.
    pub is_resumed: bool,
    /// What a check has found.
    pub summary: Option<Summary>,
    /// What a user should know.
    pub notices: Vec<String>,
}
