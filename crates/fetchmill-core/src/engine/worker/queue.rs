//! The batch that a worker is at, and the target that a connection is at.

use std::ops::Range;
use std::sync::Arc;

use crate::planner::origin::Millis;
use crate::target::{Batch, Page, Sequence, Waiting};

/// The target of a connection. Its memory is used for one after the other.
#[derive(Debug, Default)]
pub(super) struct Target {
    pub(super) sequence: Sequence,
    pub(super) name: Vec<u8>,
    /// Attempts that counted before this one.
    pub(super) attempts: u32,
    pub(super) throttled_since: Millis,
    /// A connection that the server had closed was forgiven once.
    pub(super) was_forgiven: bool,
}

/// What is left of a batch.
#[derive(Debug, Default)]
pub(super) enum Queue {
    #[default]
    Empty,
    Page(Arc<Page>, Range<usize>),
    Retries(std::vec::IntoIter<Waiting>),
}

impl Queue {
    pub(super) fn set(&mut self, batch: Batch) {
        *self = match batch {
            Batch::Page(page, range) => Queue::Page(page, range),
            Batch::Retries(targets) => Queue::Retries(targets.into_iter()),
        };
    }

    pub(super) fn take(&mut self, target: &mut Target) -> bool {
        match self {
            Queue::Page(page, range) => {
                if let Some(position) = range.next() {
                    target.sequence = page.first + position as u64;
                    target.name.clear();
                    target.name.extend_from_slice(page.names.get(position));
                    (target.attempts, target.throttled_since, target.was_forgiven) = (0, 0, false);
                    return true;
                }
            }
            Queue::Retries(targets) => {
                if let Some(waiting) = targets.next() {
                    target.sequence = waiting.sequence;
                    target.name.clear();
                    target.name.extend_from_slice(&waiting.name);
                    target.attempts = waiting.attempts;
                    target.throttled_since = waiting.throttled_since;
                    target.was_forgiven = false;
                    return true;
                }
            }
            Queue::Empty => return false,
        }
        // A batch that is used up must not hold its page.
        *self = Queue::Empty;
        false
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Queue::Empty => 0,
            Queue::Page(_, range) => range.len(),
            Queue::Retries(targets) => targets.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was not started.
    pub(super) fn give_back(&mut self) -> Option<Batch> {
        if self.is_empty() {
            return None;
        }
        match std::mem::take(self) {
            Queue::Empty => None,
            Queue::Page(page, range) => Some(Batch::Page(page, range)),
            Queue::Retries(targets) => Some(Batch::Retries(targets.collect())),
        }
    }
}
