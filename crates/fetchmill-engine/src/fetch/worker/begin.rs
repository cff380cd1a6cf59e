//! Requests that must not be made twice: the journal knows of them before they are made, so that a run that is killed is
//! not followed by one that makes them again. Once a batch, and only for batches that have any.

use super::state::Worker;
use crate::attempt::Failure;
use crate::control::journal_link::CommitRequest;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::outcome::{FailureKind, Outcome, Runs};
use fetchmill_model::target::{Batch, Sequence, TargetList};
use fetchmill_model::verdict::Rules;

/// What is said of a target that is not asked for again.
const INTERRUPTED: &str = "the run that had it was killed: whether its request was made is not known; \
                           --retry-failed=worker makes it again";

impl Worker {
    /// Takes a batch; whether it can be begun at once.
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

    /// Whether a target must not be asked for, since a run before has perhaps done that; then it has its outcome.
    pub(super) fn was_interrupted(&self, target: &CurrentTarget) -> bool {
        let is_interrupted = target.is_once()
            && !target.effects.was_sent()
            && self.setup.interrupted.contains(target.sequence);
        if is_interrupted {
            self.settle_other(target, Outcome::Failed(FailureKind::Worker), 0, 1, Some(INTERRUPTED));
        }
        is_interrupted
    }

    /// What holds for the attempts at a target. Another one begins where the list says, behind no redirect.
    pub(super) fn rules(&self, target: &CurrentTarget) -> Rules {
        Rules { may_repeat: target.may_start_again(), ..self.setup.rules }
    }

    /// The worker ends: what waits for the host that a redirect has led it to cannot be pending, since its request was made.
    pub(super) fn fail_all_left(&self) {
        for target in self.waiters.take_all() {
            self.fail_left(&target);
        }
    }

    /// Whose reply it is cannot be known: a target that must not be asked for twice has failed, with its outcome in what
    /// goes to the sink next.
    pub(super) fn fail_uncertain(&self, target: &CurrentTarget, failure: &Failure) {
        self.settle_other(target, Outcome::Failed(failure.kind), 0, 1, Some(&failure.reason));
    }

    /// The same of those among a connection's whose requests must not be made twice.
    pub(super) fn fail_uncertain_of(&self, targets: &TargetList) {
        for waiting in targets.waiting(FailureKind::Framing, 0) {
            if self.setup.requests.is_once(&waiting.name) {
                let mut target = CurrentTarget::default();
                target.start_again(&waiting);
                // Its name was checked before it was asked for.
                let _ = self.origin_key(&mut target);
                self.fail_uncertain(&target, &Failure::surplus());
            }
        }
    }
}
