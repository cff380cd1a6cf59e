//! The thread that finishes a writer's commit windows, one at a time. It waits for the sync and the journal while the
//! writer fills the next window.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use tokio::sync::mpsc::{Receiver, channel, error::TryRecvError};

use crate::control::Control;
use crate::control::threads::spawn;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{Receipt, ShardNumber};
use fetchmill_store::sink::FileSystemSync;

/// Handle of the thread. See the [module documentation](self). Dropping it ends the thread after the current window.
pub(crate) struct SyncThread {
    windows: SyncSender<(FileSystemSync, Option<Receipt>)>,
    ended: Receiver<Result<Option<ShardNumber>>>,
    is_busy: bool,
}

impl SyncThread {
    pub(crate) fn start(control: &Arc<Control>) -> Result<Self> {
        let (windows, to_end) = sync_channel::<(FileSystemSync, Option<Receipt>)>(1);
        let (ends, ended) = channel(1);
        let (stop, control) = (Arc::clone(&control.stop), Arc::clone(control));
        spawn("fetchmill-sync", &stop, move || {
            for (sync, receipt) in to_end {
                let journal = || receipt.map_or(Ok(None), |receipt| control.journal.commit_receipt(receipt));
                // The writer receives the error, which ends the job and this thread.
                if ends.blocking_send(sync.run().and_then(|()| journal())).is_err() {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(SyncThread { windows, ended, is_busy: false })
    }

    /// Returns whether the thread has a window whose result has not been taken yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Starts finishing a window. The thread must be idle.
    pub(crate) fn begin(&mut self, sync: FileSystemSync, receipt: Option<Receipt>) -> Result<()> {
        self.is_busy = true;
        self.windows.send((sync, receipt)).map_err(|_| gone())
    }

    /// Returns the result if the window is finished: the number of the shard that was sealed, if any.
    pub(crate) fn poll(&mut self) -> Option<Result<Option<ShardNumber>>> {
        match self.ended.try_recv() {
            Ok(number) => Some(self.idle(number)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(gone())),
        }
    }

    /// Waits for the result asynchronously.
    pub(crate) async fn end(&mut self) -> Result<Option<ShardNumber>> {
        let number = self.ended.recv().await.ok_or_else(gone)?;
        self.idle(number)
    }

    /// Blocks until the result is available.
    pub(crate) fn wait(&mut self) -> Result<Option<ShardNumber>> {
        let number = self.ended.blocking_recv().ok_or_else(gone)?;
        self.idle(number)
    }

    fn idle(&mut self, number: Result<Option<ShardNumber>>) -> Result<Option<ShardNumber>> {
        self.is_busy = false;
        number
    }
}

/// Returns the error for a thread that panicked. The job already has the actual error.
fn gone() -> Error {
    Error::Internal("the sync thread has ended".into())
}
