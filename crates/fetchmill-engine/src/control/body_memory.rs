//! The memory budget for bodies on their way from a connection to the sink, for one worker with its writer.
//!
//! A holder of bodies reserves their bytes, and releases them when it no longer holds them. A connection holds bytes
//! while it receives. A block holds them from when it is full until its sink has stored it. No holder waits for room
//! here, because a waiting holder would keep its own bytes reserved. If the budget is used up, the next body goes to a
//! staging file. New requests wait while blocks queue up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fetchmill_model::limits::BODIES_BYTES_MAX;

/// See the module. A small body (`BODY_FREE_BYTES`) is not counted while a connection receives it, so an object of
/// usual size costs nothing here. A block counts all its bodies together.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    used: AtomicUsize,
    bytes_max: usize,
}

impl BodyMemory {
    /// Makes the budget of one of `workers` workers.
    pub(crate) fn of_workers(workers: usize) -> Arc<Self> {
        Self::new(BODIES_BYTES_MAX / workers.max(1))
    }

    fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(BodyMemory { used: AtomicUsize::new(0), bytes_max })
    }

    /// Reserves bytes, even if there is no room for them.
    pub(crate) fn reserve(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases reserved bytes. Returns whether this gives the used-up budget room again.
    pub(crate) fn release(&self, bytes: usize) -> bool {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        before >= self.bytes_max && before.saturating_sub(bytes) < self.bytes_max
    }

    /// Whether `more` bytes are within the budget.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(more) <= self.bytes_max
    }

    /// Whether no more bodies should be kept in memory.
    pub(crate) fn is_used_up(&self) -> bool {
        !self.has_room(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_missing_until_it_is_released() {
        let memory = BodyMemory::new(100);

        memory.reserve(60);
        assert!(memory.has_room(40) && !memory.has_room(41) && !memory.is_used_up());
        // Bytes that cannot be refused are still counted.
        memory.reserve(60);
        assert!(memory.is_used_up() && !memory.has_room(0));
        assert!(memory.release(60), "there is room again");
        assert!(memory.has_room(40));
        assert!(!memory.release(60), "there was");
    }
}
