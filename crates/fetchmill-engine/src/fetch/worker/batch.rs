//! Batches of targets that a worker gets from the planner, and blocks of outcomes that it sends to the sink.

use std::sync::atomic::Ordering;

use super::state::Worker;
use fetchmill_model::limits;
use fetchmill_model::planner::NextWork;
use fetchmill_model::planner::origin::Millis;
use fetchmill_store::sink::Block;

impl Worker {
    /// Reports to the planner, and requests a batch if `max` is above 0. See [`Control::turn`].
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

    /// Returns whether this worker has nothing to do and the planner has nothing for it.
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

    /// Returns whether the job has no targets left for this worker, apart from those in flight.
    pub(super) fn has_no_targets(&self) -> bool {
        self.supply.is_dry()
            && self.supply.is_empty()
            && self.control().is_listing_done.load(Ordering::Relaxed)
    }

    /// Wakes connections for up to `targets` targets, but not for more than can be in flight.
    pub(super) fn wake_for(&self, targets: usize) {
        self.idle_connections.wake(targets.min(self.in_flight.room()));
    }

    /// Returns the batch size: the number of targets that this worker finishes per second, but at least one per
    /// connection.
    fn batch_size(&self) -> usize {
        let for_each = self.control().coalescing.gap_max().map_or(1, |_| limits::JOINED_TARGETS_MAX);
        let least = (self.setup.pool.connections.min(64) * for_each).min(limits::BATCH_TARGETS_MAX);
        (self.outcomes.rate() as usize).clamp(least, limits::BATCH_TARGETS_MAX)
    }

    /// Sends the block to the sink. While the sink is congested, only a full block is passed on, and the sink receives
    /// it later.
    pub(super) async fn send_block(&self, is_last: bool) {
        if self.sink.is_congested() {
            if self.outcomes.is_full() {
                self.sink.send_later(self.take_block());
            }
            return;
        }
        if !self.outcomes.is_empty() && self.sink.send(self.take_block(), is_last).await {
            self.idle_connections.wake_all();
        }
    }

    /// Wakes the connections that wait for memory, if memory is available.
    pub(super) fn look_for_memory(&self) {
        if self.sink.found_memory(self.load.heads_to_come()) {
            self.idle_connections.wake_all();
        }
    }

    /// Takes the block that the sink gets next.
    fn take_block(&self) -> Block {
        self.outcomes.take_block(self.sink.take_empty(), &self.control().counters[self.setup.index])
    }
}
