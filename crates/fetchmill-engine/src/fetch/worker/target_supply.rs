//! The supply of targets for a worker: a batch from the planner, or the time until which the planner has none.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, TryRecvError};

use crate::fetch::target::{CurrentTarget, TargetQueue};
use fetchmill_model::outcome::ShardNumber;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::target::{Batch, Sequence};

/// Batch of requests that must not be sent twice. It waits until the journal has recorded it.
struct BeginningBatch {
    batch: Batch,
    /// Signals that the journal has recorded the batch. The shard number is meaningless here.
    noted: Receiver<Option<ShardNumber>>,
}

/// Targets left in a worker's batch, and the time at which to ask the planner again.
#[derive(Default)]
pub(super) struct TargetSupply {
    queue: RefCell<TargetQueue>,
    beginning: RefCell<Option<BeginningBatch>>,
    /// Time until which the planner has no targets, unless it wakes the worker earlier. `None` if it might have some.
    dry_until: Cell<Option<Millis>>,
    is_done: Cell<bool>,
}

impl TargetSupply {
    /// Takes the next target of the batch. Returns `false` if the batch is empty.
    pub(super) fn take(&self, target: &mut CurrentTarget) -> bool {
        self.queue.borrow_mut().take(target)
    }

    /// Offers the next targets to `takes`. Stops at a target that `takes` rejects or that is not at its first attempt.
    pub(super) fn take_firsts(&self, mut takes: impl FnMut(Sequence, &[u8]) -> bool) {
        let mut queue = self.queue.borrow_mut();
        while let Some((sequence, entry)) = queue.next_first()
            && takes(sequence, entry)
        {
            queue.skip();
        }
    }

    /// Returns the number of targets left in the batch.
    pub(super) fn len(&self) -> usize {
        self.queue.borrow().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// Returns the last target of the batch if exactly one is left.
    pub(super) fn only(&self) -> Option<Sequence> {
        self.queue.borrow().only()
    }

    /// Returns the remaining targets of the batch to the planner.
    pub(super) fn give_back(&self) -> Option<Batch> {
        self.queue.borrow_mut().give_back()
    }

    /// Starts a batch.
    pub(super) fn begin(&self, batch: Batch) {
        self.queue.borrow_mut().set(batch);
    }

    /// Keeps a batch until `noted` signals that the journal has recorded it.
    pub(super) fn begin_when(&self, noted: Receiver<Option<ShardNumber>>, batch: Batch) {
        *self.beginning.borrow_mut() = Some(BeginningBatch { batch, noted });
        self.dry_until.set(Some(Millis::MAX));
    }

    /// Returns whether a batch is waiting for the journal.
    pub(super) fn is_beginning(&self) -> bool {
        self.beginning.borrow().is_some()
    }

    /// Starts the batch that waits for the journal, if it was recorded. Returns the number of its targets. If the
    /// journal has ended, the job is ending too, and the batch is dropped.
    pub(super) fn begin_noted(&self) -> usize {
        let mut beginning = self.beginning.borrow_mut();
        let is_noted = match beginning.as_ref().map(|beginning| beginning.noted.try_recv()) {
            Some(Ok(_)) => true,
            Some(Err(TryRecvError::Disconnected)) => {
                drop(beginning.take());
                false
            }
            Some(Err(TryRecvError::Empty)) | None => false,
        };
        let Some(begun) = beginning.take_if(|_| is_noted) else { return 0 };
        let count = begun.batch.len();
        self.begin(begun.batch);
        count
    }

    /// Records that the planner has no targets until `until`. If `is_asked` is false, no batch was requested and
    /// `until` does not include the origin's rest. In this case, the known time can only become earlier.
    pub(super) fn wait(&self, until: Millis, is_asked: bool) {
        let known = self.dry_until.get();
        self.dry_until.set(if is_asked { Some(until) } else { known.map(|known| known.min(until)) });
    }

    /// Returns whether the planner currently has no targets.
    pub(super) fn is_dry(&self) -> bool {
        self.dry_until.get().is_some()
    }

    /// Returns whether it is time to ask the planner again.
    pub(super) fn is_due(&self, now: Millis) -> bool {
        self.dry_until.get().is_some_and(|until| until <= now)
    }

    /// Records that the planner might have targets.
    pub(super) fn refill(&self) {
        self.dry_until.set(None);
    }

    /// Records that no more targets will be taken.
    pub(super) fn end(&self) {
        self.is_done.set(true);
    }

    /// Returns whether no more targets will be taken, because the planner has none left or the job is stopping.
    pub(super) fn is_done(&self) -> bool {
        self.is_done.get()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use fetchmill_model::outcome::FailureKind;
    use fetchmill_model::target::WaitingTarget;

    fn batch(attempts: &[u32]) -> Batch {
        let target = |(sequence, attempts): (usize, &u32)| WaitingTarget {
            sequence: sequence as Sequence,
            name: (*b"name").into(),
            attempts: *attempts,
            kind: FailureKind::Refused,
            not_before: 0,
            throttled_since: 0,
        };
        Batch::Retries(attempts.iter().enumerate().map(target).collect())
    }

    #[test]
    fn only_first_attempts_are_offered() {
        let supply = TargetSupply::default();
        supply.begin(batch(&[0, 0, 1, 0]));
        let mut offered = Vec::new();

        supply.take_firsts(|sequence, _| {
            offered.push(sequence);
            true
        });

        assert_eq!(offered, [0, 1]);
        assert_eq!(supply.len(), 2);
    }

    #[test]
    fn a_target_that_is_not_wanted_stays() {
        let supply = TargetSupply::default();
        supply.begin(batch(&[0, 0]));

        supply.take_firsts(|_, _| false);

        assert_eq!((supply.len(), supply.only()), (2, None));
    }

    #[test]
    fn a_batch_begins_when_the_journal_has_noted_it() {
        let supply = TargetSupply::default();
        let (journal, noted) = channel();
        supply.begin_when(noted, batch(&[0, 0]));
        assert!(supply.is_beginning() && supply.is_dry());
        assert_eq!((supply.begin_noted(), supply.len()), (0, 0));

        journal.send(None).unwrap();

        assert_eq!((supply.begin_noted(), supply.len()), (2, 2));
        assert!(!supply.is_beginning());
    }

    #[test]
    fn a_batch_is_dropped_with_the_journal() {
        let supply = TargetSupply::default();
        let (journal, noted) = channel();
        supply.begin_when(noted, batch(&[0]));

        drop(journal);

        assert_eq!((supply.begin_noted(), supply.len()), (0, 0));
        assert!(!supply.is_beginning());
    }

    #[test]
    fn a_planner_that_was_not_asked_makes_a_wait_only_shorter() {
        let supply = TargetSupply::default();
        supply.wait(5, false);
        assert!(!supply.is_dry(), "there was no earlier wait");

        supply.wait(10, true);
        supply.wait(20, false);
        assert!(!supply.is_due(9) && supply.is_due(10));

        supply.wait(5, false);
        assert!(supply.is_due(5));

        supply.wait(Millis::MAX, true);
        assert!(!supply.is_due(1_000));
        supply.refill();
        assert!(!supply.is_dry());
    }
}
