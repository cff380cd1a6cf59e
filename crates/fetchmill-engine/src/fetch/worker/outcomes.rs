//! Ends an attempt: the block gets an outcome, or the planner gets a retry.

use super::state::Worker;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::limits;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::Retry;
use fetchmill_model::planner::origin::Millis;

/// Detail of a target whose redirect led to a host without a free slot.
const LEFT: &str = "the request was sent, but the host of its redirect had no free slot";

impl Worker {
    /// Finishes a target. `made` is 1 if an attempt was made that is not yet included in the target's count.
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
        // Any complete reply shows that the origin is alive, whatever the status. A target without a request shows
        // nothing.
        if status != 0 && !is_trouble(outcome) {
            self.report.note_success();
        }
    }

    /// Defers a target until it is rechecked.
    pub(super) fn look_again_later(&self, target: &mut CurrentTarget, kind: FailureKind) {
        let later = self.clock.now() + limits::SECOND_LOOK_AFTER.as_millis() as Millis;
        target.state.throttled_since = later;
        let again = target.again(kind, None);
        self.report.plan_again(Retry { not_before: Some(later), ..again });
    }

    /// Records a failed attempt after `attempts` counted attempts.
    pub(super) fn observe(&self, kind: FailureKind, attempts: u32, retry_after: Option<Millis>) {
        if self.has_rows() || self.control().origins.are_many() {
            return;
        }
        self.report.note_failure(kind, attempts, retry_after);
    }

    /// Fails a target that cannot be retried, because its request was sent and must not be repeated.
    pub(super) fn fail_left(&self, target: &CurrentTarget) {
        if !target.may_start_again() {
            let kind = target.last_kind.unwrap_or(FailureKind::Worker);
            self.settle_other(target, Outcome::Failed(kind), 0, 1, Some(LEFT));
        }
    }

    /// Defers a target without counting an attempt. After a redirect, the target starts over from its first URL. If it
    /// must not start over, it fails.
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
