//! The queue of blocks from a worker to its sink. It slows the worker down when the sink cannot keep up.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender};

use crate::control::body_memory::BodyMemory;
use fetchmill_store::sink::Block;

/// Blocks on their way to the sink. Memory use: the channel, plus one block per task while another block is waiting.
pub(crate) struct SinkQueue {
    blocks: Sender<Block>,
    /// Empty blocks that the sink has returned.
    empty: RefCell<Receiver<Block>>,
    /// Full blocks that arrived while another block was waiting for the sink.
    backlog: RefCell<VecDeque<Block>>,
    /// Whether a block is waiting for the sink. While one is waiting, no targets are taken.
    is_congested: Cell<bool>,
    /// Whether a connection took no target because the memory for bodies was used up.
    waits_for_memory: Cell<bool>,
    memory: Arc<BodyMemory>,
}

impl SinkQueue {
    pub(crate) fn new(blocks: Sender<Block>, empty: Receiver<Block>, memory: Arc<BodyMemory>) -> Self {
        SinkQueue {
            blocks,
            empty: RefCell::new(empty),
            backlog: RefCell::default(),
            is_congested: Cell::new(false),
            waits_for_memory: Cell::new(false),
            memory,
        }
    }

    /// Returns an empty block to fill.
    pub(super) fn take_empty(&self) -> Block {
        self.empty.borrow_mut().try_recv().unwrap_or_default()
    }

    /// Sends a block, and then the blocks that arrive while it waits for the sink. Returns whether it had to wait.
    pub(super) async fn send(&self, block: Block, is_last: bool) -> bool {
        self.memory.reserve(block.memory());
        match self.blocks.try_send(block) {
            Err(TrySendError::Full(block)) => {
                self.is_congested.set(!is_last);
                let mut next = Some(block);
                while let Some(block) = next {
                    let _ = self.blocks.send(block).await;
                    next = self.backlog.borrow_mut().pop_front();
                }
                self.is_congested.set(false);
                true
            }
            // If the sink has ended, the job has ended too.
            Ok(()) | Err(TrySendError::Closed(_)) => false,
        }
    }

    /// Queues a block after the one that is waiting.
    pub(super) fn send_later(&self, block: Block) {
        self.memory.reserve(block.memory());
        self.backlog.borrow_mut().push_back(block);
    }

    /// Returns whether a block is waiting for the sink.
    pub(super) fn is_congested(&self) -> bool {
        self.is_congested.get()
    }

    /// Clears the congestion flag, so that the last block is sent even if another one is waiting.
    pub(super) fn end_congestion(&self) {
        self.is_congested.set(false);
    }

    /// Returns whether the sink can take a block without waiting.
    pub(super) fn has_room(&self) -> bool {
        self.blocks.capacity() > 0
    }

    /// Returns whether there is memory for another body and for `heads` bytes of heads. If not, records that a
    /// connection is waiting for memory.
    pub(super) fn has_memory(&self, heads: usize) -> bool {
        let is_short = self.is_short_of_memory(heads);
        if is_short {
            self.waits_for_memory.set(true);
        }
        !is_short
    }

    /// Returns whether the memory that a connection was waiting for is available.
    pub(super) fn found_memory(&self, heads: usize) -> bool {
        let is_found = self.waits_for_memory.get() && !self.is_short_of_memory(heads);
        if is_found {
            self.waits_for_memory.set(false);
        }
        is_found
    }

    /// Returns whether no targets are taken because the sink cannot keep up.
    pub(super) fn holds_back(&self) -> bool {
        self.is_congested.get() || self.waits_for_memory.get()
    }

    /// Returns whether the memory for bodies is used up and the sink will free some of it. The sink can do so only
    /// while it has blocks. A body being received can keep its memory for a long time.
    fn is_short_of_memory(&self, heads: usize) -> bool {
        !self.memory.has_room(heads + 1) && self.blocks.capacity() < self.blocks.max_capacity()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;

    use super::*;
    use fetchmill_store::sink::EntryDescription;

    fn block(sequence: u64) -> Block {
        let mut block = Block::default();
        let outcome = fetchmill_model::outcome::Outcome::Absent;
        block.push_other(sequence, outcome, 404, 1, &EntryDescription::named(b"a"));
        block
    }

    /// Returns a queue and its sink, which accepts one block.
    fn queue() -> (SinkQueue, Receiver<Block>) {
        let (blocks, sink) = channel(1);
        let (_, empty) = channel(1);
        (SinkQueue::new(blocks, empty, BodyMemory::of_workers(1)), sink)
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test);
    }

    #[test]
    fn blocks_keep_their_order_while_the_sink_is_behind() {
        run(async {
            let (queue, mut sink) = queue();
            assert!(!queue.send(block(0), false).await);
            assert!(!queue.has_room() && !queue.is_congested());

            let receive = async {
                tokio::task::yield_now().await;
                assert!(queue.is_congested() && queue.holds_back());
                queue.send_later(block(2));
                queue.send_later(block(3));
                let mut received = Vec::new();
                while received.len() < 4 {
                    received.push(sink.recv().await.unwrap().entries()[0].sequence);
                }
                received
            };
            let (has_waited, received) = tokio::join!(queue.send(block(1), false), receive);

            assert!(has_waited && !queue.is_congested());
            assert_eq!(received, [0, 1, 2, 3]);
        });
    }

    #[test]
    fn memory_is_waited_for_only_while_the_sink_has_some() {
        run(async {
            let (queue, mut sink) = queue();
            let memory = Arc::clone(&queue.memory);
            memory.reserve(usize::MAX / 4);
            assert!(queue.has_memory(0), "no block would release memory");
            queue.send(block(0), false).await;

            assert!(!queue.has_memory(0));

            assert!(queue.holds_back() && !queue.found_memory(0));
            sink.recv().await.unwrap();
            assert!(queue.found_memory(0));
            assert!(!queue.holds_back() && !queue.found_memory(0));
        });
    }

    #[test]
    fn a_closed_sink_is_not_waited_for() {
        run(async {
            let (queue, sink) = queue();
            drop(sink);

            assert!(!queue.send(block(0), false).await);
        });
    }
}
