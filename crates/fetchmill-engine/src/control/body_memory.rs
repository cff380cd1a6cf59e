//! The memory budget of one worker and its writer, for bodies on their way from a connection to the sink.
//!
//! Each holder of bodies reserves memory for them and releases it afterwards. A connection holds bytes during a
//! transfer. A full block holds them until its sink has stored it. Holders never wait for room, because a waiting
//! holder would keep its own bytes reserved. If the budget is used up, the next body goes to a staging file. New
//! requests wait while blocks are queued.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fetchmill_model::limits::BODIES_BYTES_MAX;

/// Memory budget for bodies. See the [module documentation](self). A small body (`BODY_FREE_BYTES`) is not counted
/// during its transfer, so objects of the usual size need no counting. A block counts all its bodies.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    used: AtomicUsize,
    bytes_max: usize,
}

impl BodyMemory {
    /// Creates the budget for one of `workers` workers.
    pub(crate) fn of_workers(workers: usize) -> Arc<Self> {
        Self::new(BODIES_BYTES_MAX / workers.max(1))
    }

    fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(BodyMemory { used: AtomicUsize::new(0), bytes_max })
    }

    /// Reserves bytes, even beyond the budget.
    pub(crate) fn reserve(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases reserved bytes. Returns whether this made room in a budget that was used up.
    pub(crate) fn release(&self, bytes: usize) -> bool {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        before >= self.bytes_max && before.saturating_sub(bytes) < self.bytes_max
    }

    /// Returns whether the budget has room for `more` bytes.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(more) <= self.bytes_max
    }

    /// Returns whether further bodies should not be kept in memory.
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
        // Bytes that cannot be refused are counted as well.
        memory.reserve(60);
        assert!(memory.is_used_up() && !memory.has_room(0));
        assert!(memory.release(60), "the budget should have room");
        assert!(memory.has_room(40));
        assert!(!memory.release(60), "there was");
    }
}
