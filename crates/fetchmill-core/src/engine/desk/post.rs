//! A desk's way to its sink: the block that fills, and the bodies that are too large for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc::{Sender, UnboundedReceiver};

use crate::error::Result;
use crate::limits::BODY_MEMORY_BYTES_MAX;
use crate::sink::{Block, FetchedBody, Properties, Stage};
use crate::target::Sequence;

/// The sender of a desk's blocks. Who ends the job at once takes it away: the writer would wait for the desk for ever.
pub(in crate::engine) type Outlet = Arc<Mutex<Option<Sender<Block>>>>;

/// See the module.
pub(in crate::engine) struct Post {
    pub(super) block: Block,
    pub(super) sent_at: Instant,
    pub(super) properties: Properties,
    /// None when bodies are not kept.
    stage: Option<Arc<Stage>>,
    outlet: Outlet,
    empty: UnboundedReceiver<Block>,
}

impl Post {
    pub(in crate::engine) fn new(
        properties: Properties,
        stage: Option<Arc<Stage>>,
        blocks: Sender<Block>,
        empty: UnboundedReceiver<Block>,
    ) -> Self {
        let outlet = Arc::new(Mutex::new(Some(blocks)));
        Post { block: Block::default(), sent_at: Instant::now(), properties, stage, outlet, empty }
    }

    pub(in crate::engine) fn outlet(&self) -> Outlet {
        Arc::clone(&self.outlet)
    }

    /// A body as the block takes it: a large one goes into a staging file.
    pub(super) fn hold<'b>(&self, sequence: Sequence, body: &'b [u8]) -> Result<FetchedBody<'b>> {
        match &self.stage {
            Some(stage) if body.len() > BODY_MEMORY_BYTES_MAX => {
                let mut file = stage.create(sequence)?;
                stage.append(sequence, &mut file, body)?;
                Ok(FetchedBody::Spilled(body.len() as u64))
            }
            _ => Ok(FetchedBody::Bytes(body)),
        }
    }

    /// Sends what is in the block; waits while the sink is behind.
    pub(super) fn send(&mut self) {
        self.sent_at = Instant::now();
        if self.block.is_empty() {
            return;
        }
        let fresh = self.empty.try_recv().unwrap_or_default();
        let block = std::mem::replace(&mut self.block, fresh);
        let outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(outlet) = outlet {
            // A sink that has ended has ended the job with it.
            let _ = outlet.blocking_send(block);
        }
    }

    /// Nothing more will come.
    pub(super) fn close(&mut self) {
        close(&self.outlet);
    }
}

/// Takes a desk's way to its sink away.
pub(in crate::engine) fn close(outlet: &Outlet) {
    outlet.lock().unwrap_or_else(PoisonError::into_inner).take();
}
