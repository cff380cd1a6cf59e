//! Targets for other parts of one object that the first target's request also covers (`--coalesce`).

use std::sync::Arc;

use crate::request::custom_request::CustomRequest;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::target::{Sequence, TargetList, WaitingTarget};

/// Coalesced targets. See the [module documentation](self). Memory use: the entries of these targets, whose number is
/// limited.
#[derive(Debug, Default)]
pub(crate) struct JoinedTargets {
    /// The first target's own request. `None` if nothing is coalesced.
    pub(super) own: Option<Arc<CustomRequest>>,
    /// Other targets in list order. If `own` is `None`, they wait for separate requests.
    pub(super) others: TargetList,
}

impl JoinedTargets {
    pub(super) fn clear(&mut self) {
        self.own = None;
        self.others.clear();
    }

    /// Adds a target that has not been attempted yet.
    pub(crate) fn push(&mut self, sequence: Sequence, entry: &[u8]) {
        self.others.push(sequence, entry, 0, 0);
    }

    /// Returns the number of targets besides the first.
    pub(crate) fn len(&self) -> usize {
        self.others.len()
    }

    /// Returns the number of bytes that these targets use in memory.
    pub(crate) fn memory(&self) -> usize {
        self.others.memory()
    }

    /// Takes the unfinished targets, which are requested separately.
    pub(crate) fn take_alone(&mut self) -> Vec<WaitingTarget> {
        let alone = self.others.waiting(FailureKind::Throttled, 0).collect();
        self.others.clear();
        alone
    }
}
