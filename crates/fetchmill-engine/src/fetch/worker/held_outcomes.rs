//! The connection of a task with the outcomes that it holds.

use crate::control::counters::Delta;
use fetchmill_model::target::TargetList;
use fetchmill_net::certain::{CertainConnection, HeldReplies};
use fetchmill_store::sink::Block;

/// A task's connection with what it has brought and is not certain yet.
pub(super) type WorkerConnection = CertainConnection<HeldOutcomes>;

/// Outcomes that wait until it is certain whose replies they are. Memory: a share of `HELD_BYTES_MAX`, and one body more.
#[derive(Default)]
pub(super) struct HeldOutcomes {
    pub(super) block: Block,
    pub(super) delta: Delta,
    pub(super) settled: usize,
    pub(super) targets: TargetList,
    /// What it has of the worker's memory for bodies.
    pub(super) bytes: usize,
}

impl HeldReplies for HeldOutcomes {
    fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}
