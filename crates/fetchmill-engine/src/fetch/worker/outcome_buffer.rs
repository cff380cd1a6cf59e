//! The outcomes that a worker sends to its sink with the next block.

use std::cell::{Cell, RefCell};

use super::counted_outcomes::CountedOutcomes;
use crate::control::counters::Counters;
use fetchmill_model::object::Facts;
use fetchmill_model::outcome::Outcome;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::row::CheckRow;
use fetchmill_model::target::Sequence;
use fetchmill_store::sink::{Block, EntryDescription, FetchedBody};

/// Outcomes on their way to the sink, and the rate of finished targets.
#[derive(Debug, Default)]
pub(super) struct OutcomeBuffer {
    next: RefCell<CountedOutcomes>,
    /// The row that is being written.
    line: RefCell<Vec<u8>>,
    /// Targets finished since the last tick.
    finished: Cell<u64>,
    /// Targets finished in a second, as a moving mean.
    rate: Cell<f64>,
}

impl OutcomeBuffer {
    pub(super) fn push_fetched(
        &self,
        sequence: Sequence,
        attempts: u32,
        name: &[u8],
        body: FetchedBody<'_>,
        facts: &Facts<'_>,
    ) {
        self.next.borrow_mut().push_fetched(sequence, attempts, name, body, facts);
        self.finish();
    }

    pub(super) fn push_other(
        &self,
        sequence: Sequence,
        outcome: Outcome,
        status: u16,
        attempts: u32,
        target: &EntryDescription<'_>,
    ) {
        self.next.borrow_mut().push_other(sequence, outcome, status, attempts, target);
        self.finish();
    }

    /// Adds the row of a check. `bytes` is the part of its body that counts as fetched.
    pub(super) fn push_row(&self, sequence: Sequence, outcome: Outcome, bytes: u64, row: &CheckRow<'_>) {
        let mut line = self.line.borrow_mut();
        line.clear();
        row.write_line(&mut line);
        self.next.borrow_mut().push_row(sequence, outcome, bytes, row, &line);
        self.finish();
    }

    /// Adds the host whose robots.txt forbids the last target.
    pub(super) fn note_forbidding_host(&self, host: &str) {
        self.next.borrow_mut().note_forbidding_host(host);
    }

    fn finish(&self) {
        self.finished.set(self.finished.get() + 1);
    }

    pub(super) fn note_attempts(&self, attempts: u64) {
        self.next.borrow_mut().note_attempts(attempts);
    }

    /// Adds received bytes of fetched bodies.
    pub(super) fn note_received(&self, bytes: u64) {
        self.next.borrow_mut().note_received(bytes);
    }

    /// Swaps the outcomes for the next block with other outcomes.
    pub(super) fn swap(&self, other: &mut CountedOutcomes) {
        std::mem::swap(&mut *self.next.borrow_mut(), other);
    }

    /// Adds other outcomes to those for the next block.
    pub(super) fn append(&self, other: &mut CountedOutcomes) {
        self.next.borrow_mut().append(other);
    }

    /// Whether the block should go to the sink.
    pub(super) fn is_full(&self) -> bool {
        self.next.borrow().is_full()
    }

    /// Whether there are no outcomes for the sink.
    pub(super) fn is_empty(&self) -> bool {
        self.next.borrow().is_empty()
    }

    /// Returns the number of finished targets that are not yet reported to the planner.
    pub(super) fn settled(&self) -> usize {
        self.next.borrow().settled()
    }

    /// Like [`OutcomeBuffer::settled`], and counts these targets as reported.
    pub(super) fn take_settled(&self) -> usize {
        self.next.borrow_mut().take_settled()
    }

    /// Returns the block for the sink and puts an `empty` one in its place. The block's counts become visible.
    pub(super) fn take_block(&self, empty: Block, counters: &Counters) -> Block {
        let mut next = self.next.borrow_mut();
        next.publish_counts(counters);
        next.take_block(empty)
    }

    /// Publishes the counts of attempts that are not in any block.
    pub(super) fn publish_counts(&self, counters: &Counters) {
        self.next.borrow_mut().publish_counts(counters);
    }

    /// Updates the rate at a tick that came `elapsed` after the last one.
    pub(super) fn tick(&self, elapsed: Millis) {
        let rate = self.finished.replace(0) as f64 * 1000.0 / elapsed as f64;
        self.rate.set(self.rate.get() * 0.8 + rate * 0.2);
    }

    /// Returns the number of targets finished in a second.
    pub(super) fn rate(&self) -> f64 {
        self.rate.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(outcomes: &OutcomeBuffer, count: u64) {
        for sequence in 0..count {
            outcomes.push_other(sequence, Outcome::Absent, 404, 1, &EntryDescription::named(b"a"));
        }
    }

    #[test]
    fn swapped_outcomes_are_reported_after_they_are_appended() {
        let outcomes = OutcomeBuffer::default();
        let mut held = CountedOutcomes::default();
        push(&outcomes, 1);

        outcomes.swap(&mut held);
        push(&outcomes, 2);
        outcomes.swap(&mut held);
        assert_eq!((outcomes.settled(), held.settled()), (1, 2));

        outcomes.append(&mut held);
        assert_eq!((outcomes.take_settled(), outcomes.settled(), held.settled()), (3, 0, 0));
        assert_eq!(outcomes.take_block(Block::default(), &Counters::default()).entries().len(), 3);
        assert!(outcomes.is_empty());
    }

    #[test]
    fn the_rate_follows_what_is_finished() {
        let outcomes = OutcomeBuffer::default();
        for _ in 0..50 {
            push(&outcomes, 5);
            outcomes.tick(50);
        }
        assert!((99.0..=100.0).contains(&outcomes.rate()), "{}", outcomes.rate());

        outcomes.tick(50);
        assert!((79.0..=80.0).contains(&outcomes.rate()), "{}", outcomes.rate());
    }
}
