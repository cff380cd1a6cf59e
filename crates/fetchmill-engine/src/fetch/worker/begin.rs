//! Requests that must not be sent twice. The journal records them before they are sent, so that a run after a kill does
//! not repeat them. Each batch that contains such requests gets one record.

use super::state::Worker;
use crate::attempt::Failure;
use crate::control::journal_link::CommitRequest;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::outcome::{FailureKind, Outcome, Runs};
use fetchmill_model::target::{Batch, Sequence, TargetList};
use fetchmill_model::verdict::Rules;

/// Detail of a target that is not requested again.
const INTERRUPTED: &str = "the run was killed while working on this target, and the request might have been \
                           sent; --retry-failed=worker sends it again";

impl Worker {
    /// Accepts a batch. Returns whether the batch can start immediately.
    pub(super) fn begin_batch(&self, batch: Batch) -> bool {
        let mut once = self.once_in(&batch);
        if once.is_empty() {
            self.supply.begin(batch);
            return true;
        }
        let noted = self.control().journal.begin_commit(CommitRequest::Begin(Runs::from_unsorted(&mut once)));
        self.supply.begin_when(noted, batch);
        false
    }

    fn once_in(&self, batch: &Batch) -> Vec<Sequence> {
        if self.has_rows() || !self.setup.naming.has_url() {
            return Vec::new();
        }
        let requests = &self.setup.requests;
        let of_page = |page: &fetchmill_model::target::Page, position: usize| {
            requests.is_once(page.names.get(position)).then_some(page.first + position as Sequence)
        };
        match batch {
            Batch::Page(page, range) => {
                range.clone().filter_map(|position| of_page(page, position)).collect()
            }
            Batch::Picked(page, positions) => {
                positions.iter().filter_map(|position| of_page(page, *position as usize)).collect()
            }
            Batch::Retries(targets) => {
                let once = targets.iter().filter(|target| requests.is_once(&target.name));
                once.map(|target| target.sequence).collect()
            }
        }
    }

    /// Returns whether a target must not be requested because an earlier run might have requested it. If so, also
    /// finishes the target.
    pub(super) fn was_interrupted(&self, target: &CurrentTarget) -> bool {
        let is_interrupted = target.is_once()
            && !target.effects.was_sent()
            && self.setup.interrupted.contains(target.sequence);
        if is_interrupted {
            self.settle_other(target, Outcome::Failed(FailureKind::Worker), 0, 1, Some(INTERRUPTED));
        }
        is_interrupted
    }

    /// Returns the rules for attempts at a target. Each attempt starts at the listed URL, even after a redirect.
    pub(super) fn rules(&self, target: &CurrentTarget) -> Rules {
        Rules { may_repeat: target.may_start_again(), ..self.setup.rules }
    }

    /// Fails the waiting targets that cannot stay pending when the worker ends: their requests must not be repeated,
    /// and were sent before a redirect to another host.
    pub(super) fn fail_all_left(&self) {
        for target in self.waiters.take_all() {
            self.fail_left(&target);
        }
    }

    /// Fails a target that must not be requested twice and whose reply might belong to another request. The outcome is
    /// sent to the sink with the next block.
    pub(super) fn fail_uncertain(&self, target: &CurrentTarget, failure: &Failure) {
        self.settle_other(target, Outcome::Failed(failure.kind), 0, 1, Some(&failure.reason));
    }

    /// Fails those targets of a connection whose requests must not be repeated. Ignores all others.
    pub(super) fn fail_uncertain_of(&self, targets: &TargetList) {
        for waiting in targets.waiting(FailureKind::Framing, 0) {
            if self.setup.requests.is_once(&waiting.name) {
                let mut target = CurrentTarget::default();
                target.start_again(&waiting);
                // The name was checked before the request.
                let _ = self.origin_key(&mut target);
                self.fail_uncertain(&target, &Failure::surplus());
            }
        }
    }
}
