//! Blocks of outcomes, together with their counts.

use crate::control::counters::{Counters, Delta};
use fetchmill_model::object::Facts;
use fetchmill_model::outcome::Outcome;
use fetchmill_model::row::CheckRow;
use fetchmill_model::target::Sequence;
use fetchmill_store::sink::{Block, BlockBody, EntryDescription, FetchedBody};

/// A block of outcomes, and the counts to publish with it.
#[derive(Debug, Default)]
pub(super) struct CountedOutcomes {
    block: Block,
    delta: Delta,
    /// Number of finished targets that have not been reported to the planner yet.
    settled: usize,
}

impl CountedOutcomes {
    pub(super) fn push_fetched(
        &mut self,
        sequence: Sequence,
        attempts: u32,
        name: &[u8],
        body: FetchedBody<'_>,
        facts: &Facts<'_>,
    ) {
        self.count(Outcome::Fetched, body.length());
        self.block.push_fetched(sequence, attempts, name, body, facts);
    }

    pub(super) fn push_other(
        &mut self,
        sequence: Sequence,
        outcome: Outcome,
        status: u16,
        attempts: u32,
        target: &EntryDescription<'_>,
    ) {
        self.count(outcome, 0);
        self.block.push_other(sequence, outcome, status, attempts, target);
    }

    /// Adds a row of a check, formatted as `line`. `bytes` is the number of body bytes that count as fetched.
    pub(super) fn push_row(
        &mut self,
        sequence: Sequence,
        outcome: Outcome,
        bytes: u64,
        row: &CheckRow<'_>,
        line: &[u8],
    ) {
        self.count(outcome, bytes);
        let status = row.status.unwrap_or_default();
        self.block.push_row(sequence, outcome, status, row.attempts, row.body_bytes, line);
    }

    /// Adds the host whose robots.txt forbids the target that was added last.
    pub(super) fn note_forbidding_host(&mut self, host: &str) {
        self.block.note_forbidding_host(host);
    }

    fn count(&mut self, outcome: Outcome, bytes: u64) {
        self.delta.count(outcome, bytes);
        self.settled += 1;
    }

    pub(super) fn note_attempts(&mut self, attempts: u64) {
        self.delta.attempts += attempts;
    }

    /// Adds received body bytes.
    pub(super) fn note_received(&mut self, bytes: u64) {
        self.delta.received += bytes;
    }

    /// Moves the contents of `other` to the end of this block.
    pub(super) fn append(&mut self, other: &mut CountedOutcomes) {
        self.block.append_block(&mut other.block);
        self.delta.append(&mut other.delta);
        self.settled += other.take_settled();
    }

    /// Returns whether the block is ready for the sink.
    pub(super) fn is_full(&self) -> bool {
        self.block.is_full()
    }

    /// Returns whether the block has no outcomes.
    pub(super) fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// Returns the number of bytes that the block uses in memory.
    pub(super) fn memory(&self) -> usize {
        self.block.memory()
    }

    /// Returns the number of finished targets that have not been reported to the planner yet.
    pub(super) fn settled(&self) -> usize {
        self.settled
    }

    /// Returns the result of [`CountedOutcomes::settled`], and marks these targets as reported.
    pub(super) fn take_settled(&mut self) -> usize {
        std::mem::take(&mut self.settled)
    }

    /// Returns the targets whose bodies are in staging files.
    pub(super) fn spilled(&self) -> impl Iterator<Item = Sequence> {
        let entries = self.block.entries().iter();
        entries.filter(|entry| matches!(entry.body, BlockBody::Spilled(_))).map(|entry| entry.sequence)
    }

    /// Returns the block and replaces it with `empty`.
    pub(super) fn take_block(&mut self, empty: Block) -> Block {
        std::mem::replace(&mut self.block, empty)
    }

    /// Adds the counts to the thread's counters.
    pub(super) fn publish_counts(&mut self, counters: &Counters) {
        counters.add(&mut self.delta);
    }

    /// Removes everything and keeps the allocated memory.
    pub(super) fn clear(&mut self) {
        self.block.clear();
        (self.delta, self.settled) = (Delta::default(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::counters::sum;
    use fetchmill_model::outcome::FailureKind;

    fn outcomes() -> CountedOutcomes {
        let mut outcomes = CountedOutcomes::default();
        outcomes.push_fetched(1, 1, b"a", FetchedBody::Bytes(b"body"), &Facts::default());
        outcomes.push_fetched(2, 1, b"b", FetchedBody::Spilled(10), &Facts::default());
        let failed = Outcome::Failed(FailureKind::Refused);
        outcomes.push_other(3, failed, 0, 2, &EntryDescription::named(b"c"));
        outcomes.note_attempts(4);
        outcomes.note_received(14);
        outcomes
    }

    #[test]
    fn what_is_pushed_is_counted() {
        let mut outcomes = outcomes();
        assert_eq!(outcomes.settled(), 3);
        assert_eq!(outcomes.spilled().collect::<Vec<_>>(), [2]);

        let counters = Counters::default();
        outcomes.publish_counts(&counters);

        let sum = sum(std::iter::once(&counters));
        assert_eq!((sum.tally.fetched, sum.tally.failed, sum.tally.bytes), (2, 1, 14));
        assert_eq!((sum.attempts, sum.received), (4, 14));
        assert_eq!(outcomes.settled(), 3, "the planner gets a report of its own");
    }

    #[test]
    fn appended_outcomes_are_moved_with_their_counts() {
        let (mut all, mut more) = (outcomes(), outcomes());

        all.append(&mut more);

        assert!(more.is_empty() && more.settled() == 0);
        assert_eq!((all.take_settled(), all.settled()), (6, 0));
        let counters = Counters::default();
        more.publish_counts(&counters);
        assert_eq!(sum(std::iter::once(&counters)).attempts, 0);
        all.publish_counts(&counters);
        assert_eq!(sum(std::iter::once(&counters)).attempts, 8);
        assert_eq!(all.take_block(Block::default()).entries().len(), 6);
    }

    #[test]
    fn cleared_outcomes_count_nothing() {
        let mut outcomes = outcomes();

        outcomes.clear();

        assert!(outcomes.is_empty() && outcomes.settled() == 0 && outcomes.memory() == 0);
        let counters = Counters::default();
        outcomes.publish_counts(&counters);
        assert_eq!(sum(std::iter::once(&counters)).tally.fetched, 0);
    }
}
