//! The outcomes of a window that the sink does not store, and the receipt of the window.

use fetchmill_model::outcome::same_bodies::SameBodies;
use fetchmill_model::outcome::skips::Skips;
use fetchmill_model::outcome::{
    FailureKind, KindCounts, Outcome, Receipt, Runs, ShardEnd, StatusCounts, Tally,
};
use fetchmill_model::target::Sequence;
use fetchmill_store::sink::{Block, BlockBody, CheckpointResult};

/// Outcomes that no sink stores: those of unsuccessful targets, and all outcomes of a check. The size of a window
/// limits their number.
#[derive(Debug, Default)]
pub(crate) struct WindowOutcomes {
    others: Vec<Sequence>,
    tally: Tally,
    kinds: KindCounts,
    statuses: StatusCounts,
    skips: Skips,
    /// Bodies of fetched objects, before a transform.
    same_bodies: SameBodies,
}

impl WindowOutcomes {
    /// Adds an outcome, with the status of the last reply, or 0 if there was none. A skipped target is listed under
    /// `name`, or only counted if `name` is `None`.
    pub(crate) fn add(&mut self, sequence: Sequence, outcome: Outcome, status: u16, name: Option<&[u8]>) {
        self.others.push(sequence);
        self.tally.count(outcome);
        match outcome {
            Outcome::Failed(kind) => {
                self.kinds.add(kind, 1);
                self.statuses.note(outcome, status);
            }
            Outcome::Skipped(reason) => match name {
                Some(name) => self.skips.add(reason, name),
                None => self.skips.add_unnamed(reason),
            },
            Outcome::Fetched | Outcome::Absent => {}
        }
    }

    /// Adds the host whose robots.txt forbids the target that was added last.
    pub(crate) fn add_forbidding_host(&mut self, host: &str) {
        self.skips.add_host(host);
    }

    /// Adds a target that failed without a reply.
    pub(crate) fn add_failed(&mut self, sequence: Sequence, kind: FailureKind) {
        self.add(sequence, Outcome::Failed(kind), 0, None);
    }

    /// Compares the objects of a block with earlier objects.
    pub(crate) fn compare_bodies(&mut self, block: &Block) {
        for (_, entry) in block.fetched(0) {
            let is_inside = matches!(entry.body, BlockBody::Inside(_));
            self.same_bodies.note(is_inside.then(|| block.body(entry)));
        }
    }

    /// Adds an outcome of a check and its number of body bytes.
    pub(crate) fn add_row(&mut self, sequence: Sequence, outcome: Outcome, bytes: u64) {
        // The results file provides the counts of answers in a check.
        self.add(sequence, outcome, 0, None);
        self.tally.bytes += bytes;
    }

    /// Returns whether there are no outcomes.
    pub(crate) fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// Returns the receipt for these outcomes and the checkpoint of the sink, or `None` if the receipt would be empty.
    pub(crate) fn receipt(
        &mut self,
        worker: u32,
        durable: CheckpointResult,
        failures: Option<ShardEnd>,
    ) -> Option<Receipt> {
        if durable.is_empty() && self.is_empty() {
            return None;
        }
        let mut tally = std::mem::take(&mut self.tally);
        tally.fetched += durable.settled.count();
        tally.bytes += durable.bytes;
        let mut settled: Vec<Sequence> = durable.settled.numbers().collect();
        settled.append(&mut self.others);
        Some(Receipt {
            worker,
            settled: Runs::from_unsorted(&mut settled),
            tally,
            kinds: std::mem::take(&mut self.kinds),
            skips: std::mem::take(&mut self.skips),
            statuses: std::mem::take(&mut self.statuses),
            staged: durable.staged,
            failures,
            open: durable.open,
            sealed: durable.sealed,
            removed: durable.removed,
            manifest: durable.manifest,
            same_bodies: std::mem::take(&mut self.same_bodies),
        })
    }
}
