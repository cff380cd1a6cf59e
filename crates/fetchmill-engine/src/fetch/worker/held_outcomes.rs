//! The connection of a task, and the outcomes that are held on it until they are certain.

use std::cell::RefCell;

use super::counted_outcomes::CountedOutcomes;
use super::outcome_buffer::OutcomeBuffer;
use crate::control::body_memory::BodyMemory;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::target::{Sequence, TargetList};
use fetchmill_model::verdict::AttemptState;
use fetchmill_net::certain::{CertainConnection, HeldReplies};

/// Connection of a task, with its uncertain outcomes.
pub(super) type WorkerConnection = CertainConnection<HeldOutcomes>;

/// Granularity at which held bytes are counted. Objects smaller than this are not counted.
const COUNTED_BYTES: usize = 4096;

/// Outcomes held until their replies are certain. Memory use: a share of `HELD_BYTES_MAX`, plus one body.
#[derive(Debug, Default)]
pub(super) struct HeldOutcomes {
    outcomes: CountedOutcomes,
    targets: TargetList,
    /// Bytes reserved in the worker's memory budget for bodies.
    reserved: usize,
}

impl HeldOutcomes {
    /// Runs `settle` and collects its outcomes here instead of in `next`, which is sent to the sink. `settle` must
    /// record each target that it finishes. It must never wait, so that no other task writes to `next` in the meantime.
    pub(super) fn collect<T>(
        &mut self,
        next: &OutcomeBuffer,
        memory: &BodyMemory,
        settle: impl FnOnce(&mut dyn FnMut(&CurrentTarget)) -> T,
    ) -> T {
        let mut settled = self.outcomes.settled();
        next.swap(&mut self.outcomes);
        let done = settle(&mut |target| {
            let before = std::mem::replace(&mut settled, next.settled());
            if settled > before {
                let AttemptState { attempts, throttled_since, .. } = target.state;
                self.targets.push(target.sequence, &target.entry, attempts, throttled_since);
            }
        });
        next.swap(&mut self.outcomes);
        self.reserve(memory);
        done
    }

    /// Moves the held outcomes to `next`, which is sent to the sink. If the replies `may_be_shifted`, their targets
    /// replace the ones in `last`, which contains the targets of the connection that became certain last.
    pub(super) fn commit(
        &mut self,
        next: &OutcomeBuffer,
        memory: &BodyMemory,
        last: Option<&RefCell<TargetList>>,
        may_be_shifted: bool,
    ) {
        self.release(memory);
        next.append(&mut self.outcomes);
        match last {
            Some(last) if may_be_shifted => std::mem::swap(&mut *last.borrow_mut(), &mut self.targets),
            Some(last) => last.borrow_mut().clear(),
            None => {}
        }
        self.targets.clear();
    }

    /// Discards the held outcomes.
    pub(super) fn clear(&mut self, memory: &BodyMemory) {
        self.release(memory);
        self.outcomes.clear();
        self.targets.clear();
    }

    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        self.outcomes.memory() + self.targets.memory()
    }

    /// Returns the targets with held outcomes.
    pub(super) fn targets(&self) -> &TargetList {
        &self.targets
    }

    /// Returns the targets whose bodies are in staging files.
    pub(super) fn spilled(&self) -> impl Iterator<Item = Sequence> {
        self.outcomes.spilled()
    }

    fn reserve(&mut self, memory: &BodyMemory) {
        let bytes = self.memory();
        if bytes - self.reserved >= COUNTED_BYTES {
            memory.reserve(bytes - self.reserved);
            self.reserved = bytes;
        }
    }

    fn release(&mut self, memory: &BodyMemory) {
        memory.release(std::mem::take(&mut self.reserved));
    }
}

impl HeldReplies for HeldOutcomes {
    fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::object::Facts;
    use fetchmill_store::sink::FetchedBody;

    /// Holds the outcome of one target, and records a second target that has no outcome.
    fn hold(held: &mut HeldOutcomes, next: &OutcomeBuffer, memory: &BodyMemory, body: FetchedBody<'_>) {
        let mut target = CurrentTarget::default();
        target.start_first(7, b"name");
        held.collect(next, memory, |note| {
            next.push_fetched(7, 1, b"name", body, &Facts::default());
            note(&target);
            note(&CurrentTarget::default());
        });
    }

    #[test]
    fn a_target_is_held_with_its_outcome() {
        let (next, memory) = (OutcomeBuffer::default(), BodyMemory::of_workers(1));
        let mut held = HeldOutcomes::default();
        assert!(held.is_empty());

        hold(&mut held, &next, &memory, FetchedBody::Spilled(10));
        hold(&mut held, &next, &memory, FetchedBody::Bytes(b"body"));

        assert_eq!((held.targets().len(), held.spilled().collect::<Vec<_>>()), (2, vec![7]));
        assert!(next.is_empty() && next.settled() == 0);
    }

    #[test]
    fn a_connection_remembers_committed_targets_if_they_may_be_shifted() {
        let (next, memory) = (OutcomeBuffer::default(), BodyMemory::of_workers(1));
        let (mut held, last) = (HeldOutcomes::default(), RefCell::new(TargetList::default()));

        for (may_be_shifted, remembered) in [(true, 1), (false, 0)] {
            hold(&mut held, &next, &memory, FetchedBody::Bytes(b"body"));
            held.commit(&next, &memory, Some(&last), may_be_shifted);

            assert!(held.is_empty() && held.memory() == 0);
            assert_eq!((next.take_settled(), last.borrow().len()), (1, remembered));
        }
    }

    #[test]
    fn memory_is_reserved_in_steps_until_it_is_cleared() {
        let (next, memory) = (OutcomeBuffer::default(), BodyMemory::of_workers(1));
        let mut held = HeldOutcomes::default();
        hold(&mut held, &next, &memory, FetchedBody::Bytes(b"body"));
        assert_eq!(held.reserved, 0);

        hold(&mut held, &next, &memory, FetchedBody::Bytes(&[0; COUNTED_BYTES]));
        assert_eq!(held.reserved, held.memory());

        held.clear(&memory);
        assert_eq!((held.reserved, held.memory(), held.is_empty()), (0, 0, true));
        assert_eq!(next.settled(), 0);
    }
}
