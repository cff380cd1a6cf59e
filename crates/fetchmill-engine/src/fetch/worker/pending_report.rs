//! The next report of a worker to the planner.

use std::cell::RefCell;

use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::concurrency::Load;
use fetchmill_model::planner::origin::{Millis, Observations};
use fetchmill_model::planner::{Retry, WorkerReport};

/// The next report, without the number of finished targets, which is kept with the outcomes.
#[derive(Debug, Default)]
pub(super) struct PendingReport {
    report: RefCell<WorkerReport>,
}

impl PendingReport {
    /// Records a complete reply that indicates no trouble.
    pub(super) fn note_success(&self) {
        self.report.borrow_mut().observed.successes += 1;
    }

    /// Records a fetched target. Each report contains one `entry`. To check the origin, the planner can request that
    /// entry again.
    pub(super) fn note_fetched(&self, entry: &[u8]) {
        let mut report = self.report.borrow_mut();
        report.observed.successes += 1;
        if report.fetched.is_none() {
            report.fetched = Some(entry.into());
        }
    }

    /// Records a failed attempt after `attempts` counted attempts.
    pub(super) fn note_failure(&self, kind: FailureKind, attempts: u32, retry_after: Option<Millis>) {
        self.report.borrow_mut().observed.note_failure(kind, attempts, retry_after);
    }

    /// Records that the target that checks the origin has returned.
    pub(super) fn note_probe(&self) {
        self.report.borrow_mut().observed.probes += 1;
    }

    pub(super) fn set_load(&self, load: Load) {
        self.report.borrow_mut().load = Some(load);
    }

    /// Returns a target to the planner.
    pub(super) fn plan_again(&self, retry: Retry) {
        self.report.borrow_mut().retries.push(retry);
    }

    pub(super) fn plan_all_again(&self, retries: impl Iterator<Item = Retry>) {
        self.report.borrow_mut().retries.extend(retries);
    }

    /// Returns the number of targets that the next report returns to the planner.
    pub(super) fn retries(&self) -> usize {
        self.report.borrow().retries.len()
    }

    /// Returns whether the report contains nothing urgent. A fetched entry by itself is not urgent.
    pub(super) fn is_empty(&self) -> bool {
        let report = self.report.borrow();
        report.load.is_none() && report.retries.is_empty() && report.observed == Observations::default()
    }

    /// Adds the number of finished targets, takes the report, and starts the next one.
    pub(super) fn take(&self, settled: usize) -> WorkerReport {
        WorkerReport { settled, ..self.report.take() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_keeps_the_first_fetched_entry_only() {
        let report = PendingReport::default();
        assert!(report.is_empty());

        report.note_fetched(b"a");
        report.note_fetched(b"b");
        report.note_success();

        assert!(!report.is_empty());
        let taken = report.take(2);
        assert_eq!((taken.settled, taken.observed.successes), (2, 3));
        assert_eq!(taken.fetched.as_deref(), Some(&b"a"[..]));
        assert!(report.is_empty(), "a new report has begun");
    }
}
