//! Targets whose parts of one object are asked for together, by the request of the first of them (`--coalesce`).

use std::sync::Arc;

use crate::request::custom_request::CustomRequest;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::target::{Sequence, TargetList, WaitingTarget};

/// See the module. Memory: as many entries as whoever joins them allows.
#[derive(Debug, Default)]
pub(crate) struct JoinedTargets {
    /// What the first one asks for by itself; none: nothing is asked for together.
    pub(super) own: Option<Arc<CustomRequest>>,
    /// The others, in the order of their list. Without `own` they are those that are to be asked for alone.
    pub(super) others: TargetList,
}

impl JoinedTargets {
    pub(super) fn clear(&mut self) {
        self.own = None;
        self.others.clear();
    }

    /// Another target, of a first attempt.
    pub(crate) fn push(&mut self, sequence: Sequence, entry: &[u8]) {
        self.others.push(sequence, entry, 0, 0);
    }

    /// How many there are besides the first one.
    pub(crate) fn len(&self) -> usize {
        self.others.len()
    }

    /// Bytes that they have in memory.
    pub(crate) fn memory(&self) -> usize {
        self.others.memory()
    }

    /// Those that nothing has become of, which are to be asked for alone.
    pub(crate) fn take_alone(&mut self) -> Vec<WaitingTarget> {
        let alone = self.others.waiting(FailureKind::Throttled, 0).collect();
        self.others.clear();
        alone
    }
}
