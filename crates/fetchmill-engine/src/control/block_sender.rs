//! Sends a dispatcher's outcomes to its sink, in blocks. Bodies that are too large for the block are sent through
//! files.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc::{Receiver, Sender};

use super::body_memory::BodyMemory;
use fetchmill_model::error::Result;
use fetchmill_model::limits::{BODY_FREE_BYTES, BODY_MEMORY_BYTES_MAX};
use fetchmill_model::target::Sequence;
use fetchmill_store::sink::{Block, FetchedBody, Properties, Stage};

/// Sender of a dispatcher's blocks. If the job is aborted, the sender is dropped so that the writer does not wait for
/// the engine forever.
pub(crate) type SharedSender = Arc<Mutex<Option<Sender<Block>>>>;

/// Sender of outcomes. See the [module documentation](self).
pub(crate) struct BlockSender {
    pub(crate) block: Block,
    pub(crate) sent_at: Instant,
    pub(crate) properties: Properties,
    memory: Arc<BodyMemory>,
    /// `None` if bodies are not kept.
    stage: Option<Arc<Stage>>,
    sender: SharedSender,
    empty: Receiver<Block>,
}

impl BlockSender {
    pub(crate) fn new(
        properties: Properties,
        memory: Arc<BodyMemory>,
        stage: Option<Arc<Stage>>,
        blocks: Sender<Block>,
        empty: Receiver<Block>,
    ) -> Self {
        let sender = Arc::new(Mutex::new(Some(blocks)));
        let block = Block::default();
        BlockSender { block, sent_at: Instant::now(), properties, memory, stage, sender, empty }
    }

    pub(crate) fn shared_sender(&self) -> SharedSender {
        Arc::clone(&self.sender)
    }

    /// Prepares a body for the block. If there is no room in memory, writes the body to a staging file.
    pub(crate) fn hold<'b>(&self, sequence: Sequence, body: &'b [u8]) -> Result<FetchedBody<'b>> {
        match &self.stage {
            Some(stage) if self.must_spill(body.len()) => {
                let mut file = stage.create(sequence)?;
                stage.append(sequence, &mut file, body)?;
                Ok(FetchedBody::Spilled(body.len() as u64))
            }
            _ => Ok(FetchedBody::Bytes(body)),
        }
    }

    fn must_spill(&self, length: usize) -> bool {
        length > BODY_MEMORY_BYTES_MAX || (length > BODY_FREE_BYTES && !self.memory.has_room(length))
    }

    /// Sends the block. Blocks while the sink cannot keep up.
    pub(crate) fn send(&mut self) {
        self.sent_at = Instant::now();
        if self.block.is_empty() {
            return;
        }
        let fresh = self.empty.try_recv().unwrap_or_default();
        let block = std::mem::replace(&mut self.block, fresh);
        self.memory.reserve(block.memory());
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sender) = sender {
            // A sink ends only when the job ends.
            let _ = sender.blocking_send(block);
        }
    }

    /// Stops sending.
    pub(crate) fn close(&mut self) {
        close(&self.sender);
    }
}

/// Drops a dispatcher's sender.
pub(crate) fn close(sender: &SharedSender) {
    sender.lock().unwrap_or_else(PoisonError::into_inner).take();
}
