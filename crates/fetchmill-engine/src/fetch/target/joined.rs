//! Targets whose parts of one object are requested together, by the request of the first one (`--coalesce`).

use std::sync::Arc;

use crate::request::custom_request::CustomRequest;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::target::{Sequence, TargetList, WaitingTarget};

/// See the module. Memory: the entries of as many targets as the joining code allows.
#[derive(Debug, Default)]
pub(crate) struct JoinedTargets {
    /// The first target's own request. `None` means that nothing is joined.
    pub(super) own: Option<Arc<CustomRequest>>,
    /// The other targets, in the order of their list. If `own` is `None`, they wait to be requested alone.
    pub(super) others: TargetList,
}

impl JoinedTargets {
    pub(super) fn clear(&mut self) {
        self.own = None;
        self.others.clear();
    }

    /// Adds a target that had no attempt.
    pub(crate) fn push(&mut self, sequence: Sequence, entry: &[u8]) {
        self.others.push(sequence, entry, 0, 0);
    }

    /// Returns the number of targets besides the first one.
    pub(crate) fn len(&self) -> usize {
        self.others.len()
    }

    /// Returns the bytes of these targets in memory.
    pub(crate) fn memory(&self) -> usize {
        self.others.memory()
    }

    /// Takes the targets without an outcome, which are to be requested alone.
    pub(crate) fn take_alone(&mut self) -> Vec<WaitingTarget> {
        let alone = self.others.waiting(FailureKind::Throttled, 0).collect();
        self.others.clear();
        alone
    }
}
