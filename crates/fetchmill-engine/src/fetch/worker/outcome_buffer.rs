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

/// Outcomes for the sink, and the rate at which targets are finished.
#[derive(Debug, Default)]
pub(super) struct OutcomeBuffer {
    next: RefCell<CountedOutcomes>,
    /// Row that is being written.
    line: RefCell<Vec<u8>>,
    /// Number of targets finished since the last tick.
    finished: Cell<u64>,
    /// Number of targets finished per second, as a moving average.
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

    /// Adds a row of a check. `bytes` is the number of body bytes that count as fetched.
    pub(super) fn push_row(&self, sequence: Sequence, outcome: Outcome, bytes: u64, row: &CheckRow<'_>) {
        let mut line = self.line.borrow_mut();
        line.clear();
        row.write_line(&mut line);
        self.next.borrow_mut().push_row(sequence, outcome, bytes, row, &line);
        self.finish();
    }

    /// Adds the host whose robots.txt forbids the target that was added last.
    pub(super) fn note_forbidding_host(&self, host: &str) {
        self.next.borrow_mut().note_forbidding_host(host);
    }

    fn finish(&self) {
        self.finished.set(self.finished.get() + 1);
    }

    pub(super) fn note_attempts(&self, attempts: u64) {
        self.next.borrow_mut().note_attempts(attempts);
    }

    /// Adds received body bytes.
    pub(super) fn note_received(&self, bytes: u64) {
        self.next.borrow_mut().note_received(bytes);
    }

    /// Swaps the outcomes of the next block with `other`.
    pub(super) fn swap(&self, other: &mut CountedOutcomes) {
        std::mem::swap(&mut *self.next.borrow_mut(), other);
    }

    /// Appends `other` to the outcomes of the next block.
    pub(super) fn append(&self, other: &mut CountedOutcomes) {
        self.next.borrow_mut().append(other);
    }

    /// Returns whether the block is ready for the sink.
    pub(super) fn is_full(&self) -> bool {
        self.next.borrow().is_full()
    }

    /// Returns whether there are no outcomes.
    pub(super) fn is_empty(&self) -> bool {
        self.next.borrow().is_empty()
    }

    /// Returns the number of finished targets that have not been reported to the planner yet.
    pub(super) fn settled(&self) -> usize {
        self.next.borrow().settled()
    }

    /// Returns the result of [`OutcomeBuffer::settled`], and marks these targets as reported.
    pub(super) fn take_settled(&self) -> usize {
        self.next.borrow_mut().take_settled()
    }

    /// Returns the block for the sink and replaces it with `empty`. Publishes the block's counts.
    pub(super) fn take_block(&self, empty: Block, counters: &Counters) -> Block {
        let mut next = self.next.borrow_mut();
        next.publish_counts(counters);
        next.take_block(empty)
    }

    /// Publishes the counts of attempts that are not part of any block.
    pub(super) fn publish_counts(&self, counters: &Counters) {
        self.next.borrow_mut().publish_counts(counters);
    }

    /// Updates the rate at a tick that comes `elapsed` after the previous one.
    pub(super) fn tick(&self, elapsed: Millis) {
        let rate = self.finished.replace(0) as f64 * 1000.0 / elapsed as f64;
        self.rate.set(self.rate.get() * 0.8 + rate * 0.2);
    }

    /// Returns the number of targets finished per second.
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
