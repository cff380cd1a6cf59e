//! The budget of bytes for bodies on their way from a connection to the sink, of one worker with its writer.
//!
//! What holds bodies reserves their bytes and releases them when it has none any more: a connection while it receives,
//! and a block from when it is full until its sink has stored it. Nothing waits for room here, since what waits would
//! hold some: when the budget is used up, the next body goes to a staging file. New requests wait while blocks queue up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fetchmill_model::limits::BODIES_BYTES_MAX;

/// See the module. Small bodies (`BODY_FREE_BYTES`) are not counted while a connection receives them, so that an object
/// of usual size costs nothing here: a block counts its own once.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    used: AtomicUsize,
    bytes_max: usize,
}

impl BodyMemory {
    /// The share of one of so many workers.
    pub(crate) fn of_workers(workers: usize) -> Arc<Self> {
        Self::new(BODIES_BYTES_MAX / workers.max(1))
    }

    fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(BodyMemory { used: AtomicUsize::new(0), bytes_max })
    }

    /// Counts bytes, whether there is room for them or not.
    pub(crate) fn reserve(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives back what was reserved; whether the budget was used up and is not any more.
    pub(crate) fn release(&self, bytes: usize) -> bool {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        before >= self.bytes_max && before.saturating_sub(bytes) < self.bytes_max
    }

    /// Whether so many bytes more are within the budget.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(more) <= self.bytes_max
    }

    /// Whether nothing more should be taken into memory.
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
        // What can't be refused is counted all the same.
        memory.reserve(60);
        assert!(memory.is_used_up() && !memory.has_room(0));
        assert!(memory.release(60), "there is room again");
        assert!(memory.has_room(40));
        assert!(!memory.release(60), "there was");
    }
}
