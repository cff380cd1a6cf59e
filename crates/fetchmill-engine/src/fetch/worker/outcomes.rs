//! What becomes of a target: its outcome goes into the block, another attempt to the planner.

use super::state::Worker;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::limits;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::Retry;
use fetchmill_model::planner::origin::Millis;

/// What is said of a target that a redirect led to a host that could not be asked at once.
const LEFT: &str = "the request was made, and the host that its redirect leads to could not be asked at once";

impl Worker {
    /// `made` is 1 when an attempt was made that is not counted in the target.
    pub(super) fn settle_other(
        &self,
        target: &CurrentTarget,
        outcome: Outcome,
        status: u16,
        made: u32,
        detail: Option<&str>,
    ) {
        let attempts = target.state.attempts + made;
        if self.has_rows() {
            self.push_row(target, outcome, 0, attempts, detail);
        } else {
            let mut described = target.described(self.setup.naming, outcome);
            let own = self.setup.rules.detail_of(outcome);
            described.detail = described.detail.or(own.as_deref().or(detail).map(str::as_bytes));
            self.outcomes.push_other(target.sequence, outcome, status, attempts, &described);
        }
        // A complete reply of whatever status is a sign of life; a name without a request is none.
        if status != 0 && !is_trouble(outcome) {
            self.report.note_success();
        }
    }

    /// Puts a target aside for its second look.
    pub(super) fn look_again_later(&self, target: &mut CurrentTarget, kind: FailureKind) {
        let later = self.clock.now() + limits::SECOND_LOOK_AFTER.as_millis() as Millis;
        target.state.throttled_since = later;
        let again = target.again(kind, None);
        self.report.plan_again(Retry { not_before: Some(later), ..again });
    }

    /// An attempt failed, behind so many that counted.
    pub(super) fn observe(&self, kind: FailureKind, attempts: u32, retry_after: Option<Millis>) {
        if self.has_rows() || self.control().origins.are_many() {
            return;
        }
        self.report.note_failure(kind, attempts, retry_after);
    }

    /// A target whose request must not be made twice, and was made, cannot wait for another attempt: it has failed.
    pub(super) fn fail_left(&self, target: &CurrentTarget) {
        if !target.may_start_again() {
            let kind = target.last_kind.unwrap_or(FailureKind::Worker);
            self.settle_other(target, Outcome::Failed(kind), 0, 1, Some(LEFT));
        }
    }

    /// Puts a target aside, on disk when that is for long. It has had no attempt more. One that a redirect has led on would
    /// be asked for from the start then: if it must not be, it has failed.
    pub(super) fn defer(&self, target: &CurrentTarget, not_before: Millis, now: Millis) {
        if !target.may_start_again() {
            return self.fail_left(target);
        }
        let not_before = not_before.max(now + limits::DEFERRED_FOR.as_millis() as Millis);
        self.report.plan_again(target.aside(not_before));
    }
}

fn is_trouble(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Failed(kind) if kind.is_retryable())
}
