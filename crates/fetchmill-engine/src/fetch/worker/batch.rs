//! A worker's batches and blocks: targets come from the planner, outcomes go to the sink.

use tokio::sync::mpsc::error::TrySendError;

use super::state::Worker;
use fetchmill_model::limits;
use fetchmill_model::planner::NextWork;
use fetchmill_model::planner::origin::Millis;
use fetchmill_store::sink::Block;

impl Worker {
    /// Reports to the planner and, with a `max`, takes a batch; see [`Control::turn`].
    pub(super) fn turn(&self, max: usize) -> bool {
        let max = if self.supply.is_beginning() { 0 } else { max };
        let report = self.report.take(self.outcomes.take_settled());
        match self.control().turn(self.setup.index, report, max) {
            NextWork::Batch(batch) => return self.begin_batch(batch),
            NextWork::WaitUntil(until) => self.supply.wait(until, max > 0),
            NextWork::Wait => self.supply.wait(Millis::MAX, max > 0),
            NextWork::Done => {
                self.supply.end();
                self.idle_connections.wake_all();
            }
        }
        false
    }

    /// Whether nothing is there to do, and the planner has nothing either.
    pub(super) fn is_idle(&self) -> bool {
        if !self.supply.is_empty() || self.waiters.has_ready() {
            return false;
        }
        if self.supply.is_dry() || !self.turn(self.batch_size()) {
            return true;
        }
        self.wake_for(self.supply.len());
        false
    }

    /// Wakes connections for so many targets, as far as these may be in flight.
    pub(super) fn wake_for(&self, targets: usize) {
        self.idle_connections.wake(targets.min(self.in_flight.room()));
    }

    /// What this worker finishes in a second, and something for each connection.
    fn batch_size(&self) -> usize {
        let for_each = self.control().coalescing.gap_max().map_or(1, |_| limits::JOINED_TARGETS_MAX);
        let least = (self.setup.pool.connections.min(64) * for_each).min(limits::BATCH_TARGETS_MAX);
        (self.outcomes.rate() as usize).clamp(least, limits::BATCH_TARGETS_MAX)
    }

    /// Sends the block to the sink; waits while the sink is behind. Whether it had to wait.
    pub(super) async fn send_block(&self, is_last: bool) -> bool {
        if self.is_congested.get() {
            if self.outcomes.is_full() {
                let block = self.take_block();
                self.backlog.borrow_mut().push_back(block);
            }
            return false;
        }
        if self.outcomes.is_empty() {
            return false;
        }
        match self.setup.blocks.try_send(self.take_block()) {
            Err(TrySendError::Full(block)) => {
                self.is_congested.set(!is_last);
                let mut next = Some(block);
                while let Some(block) = next {
                    let _ = self.setup.blocks.send(block).await;
                    next = self.backlog.borrow_mut().pop_front();
                }
                self.is_congested.set(false);
                self.idle_connections.wake_all();
                true
            }
            // A sink that has ended has ended the job with it.
            Ok(()) | Err(TrySendError::Closed(_)) => false,
        }
    }

    /// Whether bodies have used up their memory and the sink will release some: what is only being received does not
    /// count, since a slow server could hold it for long.
    pub(super) fn is_short_of_memory(&self) -> bool {
        let is_used_up = !self.setup.body_memory.has_room(self.load.heads_to_come() + 1);
        is_used_up && self.setup.blocks.capacity() < self.setup.blocks.max_capacity()
    }

    /// Wakes the connections that found no memory, when there is some.
    pub(super) fn look_for_memory(&self) {
        if self.waits_for_memory.get() && !self.is_short_of_memory() {
            self.waits_for_memory.set(false);
            self.idle_connections.wake_all();
        }
    }

    /// What goes to the sink now; from here on its bytes count.
    fn take_block(&self) -> Block {
        let fresh = self.empty.borrow_mut().try_recv().unwrap_or_default();
        let block = self.outcomes.take_block(fresh, &self.control().counters[self.setup.index]);
        self.setup.body_memory.reserve(block.memory());
        block
    }
}
