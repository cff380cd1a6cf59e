//! The current batch of a worker.

use std::ops::Range;
use std::sync::Arc;

use super::current::CurrentTarget;
use fetchmill_model::target::{Batch, Page, Sequence, WaitingTarget};

/// Targets of a batch that have not been taken yet.
#[derive(Debug, Default)]
pub(crate) enum TargetQueue {
    #[default]
    Empty,
    Page(Arc<Page>, Range<usize>),
    Picked(Arc<Page>, std::vec::IntoIter<u32>),
    Retries(std::vec::IntoIter<WaitingTarget>),
}

impl TargetQueue {
    pub(crate) fn set(&mut self, batch: Batch) {
        *self = match batch {
            Batch::Page(page, range) => TargetQueue::Page(page, range),
            Batch::Picked(page, positions) => TargetQueue::Picked(page, positions.into_iter()),
            Batch::Retries(targets) => TargetQueue::Retries(targets.into_iter()),
        };
    }

    pub(crate) fn take(&mut self, target: &mut CurrentTarget) -> bool {
        match self {
            TargetQueue::Page(page, range) => {
                if let Some(position) = range.next() {
                    target.start_first(page.first + position as Sequence, page.names.get(position));
                    return true;
                }
            }
            TargetQueue::Picked(page, positions) => {
                if let Some(position) = positions.next() {
                    target.start_first(
                        page.first + Sequence::from(position),
                        page.names.get(position as usize),
                    );
                    return true;
                }
            }
            TargetQueue::Retries(targets) => {
                if let Some(waiting) = targets.next() {
                    target.start_again(&waiting);
                    return true;
                }
            }
            TargetQueue::Empty => return false,
        }
        // A finished batch must not keep its page in memory.
        *self = TargetQueue::Empty;
        false
    }

    /// Returns the number and entry of the next target if this is its first attempt.
    pub(crate) fn next_first(&self) -> Option<(Sequence, &[u8])> {
        let (page, position) = match self {
            TargetQueue::Page(page, range) => (page, Some(range.start).filter(|_| !range.is_empty())?),
            TargetQueue::Picked(page, positions) => (page, *positions.as_slice().first()? as usize),
            TargetQueue::Retries(targets) => {
                let next = targets.as_slice().first()?;
                let is_first = next.attempts == 0 && next.throttled_since == 0;
                return is_first.then_some((next.sequence, &next.name));
            }
            TargetQueue::Empty => return None,
        };
        Some((page.first + position as Sequence, page.names.get(position)))
    }

    /// Skips the next target, which was already taken in another way.
    pub(crate) fn skip(&mut self) {
        match self {
            TargetQueue::Page(_, range) => drop(range.next()),
            TargetQueue::Picked(_, positions) => drop(positions.next()),
            TargetQueue::Retries(targets) => drop(targets.next()),
            TargetQueue::Empty => {}
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            TargetQueue::Empty => 0,
            TargetQueue::Page(_, range) => range.len(),
            TargetQueue::Picked(_, positions) => positions.len(),
            TargetQueue::Retries(targets) => targets.len(),
        }
    }

    /// Returns the last target if exactly one is left.
    pub(crate) fn only(&self) -> Option<Sequence> {
        match self {
            TargetQueue::Page(page, range) if range.len() == 1 => Some(page.first + range.start as Sequence),
            TargetQueue::Retries(targets) if targets.len() == 1 => Some(targets.as_slice()[0].sequence),
            _ => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the targets that were not started.
    pub(crate) fn give_back(&mut self) -> Option<Batch> {
        if self.is_empty() {
            return None;
        }
        match std::mem::take(self) {
            TargetQueue::Empty => None,
            TargetQueue::Page(page, range) => Some(Batch::Page(page, range)),
            TargetQueue::Picked(page, positions) => Some(Batch::Picked(page, positions.collect())),
            TargetQueue::Retries(targets) => Some(Batch::Retries(targets.collect())),
        }
    }
}
