//! The thread that uploads sealed shards, when the destination is a bucket: one after the other, its data, then its
//! manifest. The journal says that an upload has begun before the store hears of it, and that it is done before the
//! file is removed. What has begun and is not done is looked at again by the next run: an object that is there has the
//! same bytes or is somebody else's.
//!
//! It never holds up a thread that fetches: a writer waits for it before it begins a third shard
//! ([`crate::sink::UploadQueue`]).

mod shard;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::engine::control::Control;
use crate::engine::journal_link::JournalRequest;
use crate::engine::s3::Access;
use crate::engine::stop::Stop;
use crate::engine::threads::{network_runtime, spawn};
use crate::error::{Error, Result};
use crate::journal;
use crate::outcome::ShardNumber;
use crate::s3::UploadDestination;
use crate::sink::{NextShard, ShardFolder, UploadQueue};
use crate::transport::PoolSettings;
use store::{UploadClient, UploadEnd};

/// See the module.
#[derive(Debug)]
pub(in crate::engine) struct Uploader {
    pub(in crate::engine) access: Arc<Access>,
    pub(in crate::engine) pool: PoolSettings,
    pub(in crate::engine) upload: UploadDestination,
    pub(in crate::engine) shard_folder: ShardFolder,
    pub(in crate::engine) upload_queue: Arc<UploadQueue>,
    /// Shards whose upload an earlier run has begun.
    pub(in crate::engine) begun: BTreeSet<ShardNumber>,
    pub(in crate::engine) give_up_after: Duration,
}

/// However the thread ends, no writer waits for it.
struct CloseGuard(Arc<UploadQueue>);

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Uploader {
    /// Makes sure that there is nothing below the prefix.
    pub(in crate::engine) fn claim(&self, control: &Arc<Control>) -> Result<()> {
        let store = self.store(control)?;
        match network_runtime()?.block_on(store.claim()) {
            Ok(()) => Ok(()),
            Err(UploadEnd::Failed(error)) => Err(error),
            // The caller sees it by the signal.
            Err(UploadEnd::Stopped) => {
                Err(Error::Temporary("stopped before the destination was looked at".into()))
            }
        }
    }

    /// Uploads until the job has ended.
    pub(in crate::engine) fn start(self, control: &Arc<Control>) -> Result<JoinHandle<Option<()>>> {
        let for_thread = Arc::clone(control);
        spawn("fetchmill-upload", &control.stop, move || {
            let _closing = CloseGuard(Arc::clone(&self.upload_queue));
            match self.run(&for_thread) {
                Ok(()) | Err(UploadEnd::Stopped) => Ok(()),
                Err(UploadEnd::Failed(error)) => Err(error),
            }
        })
    }

    fn store(&self, control: &Arc<Control>) -> Result<UploadClient> {
        UploadClient::new(
            &self.access,
            &self.pool,
            self.upload.clone(),
            (control.clock, Arc::clone(&control.stop)),
            self.give_up_after,
        )
    }

    fn run(&self, control: &Arc<Control>) -> std::result::Result<(), UploadEnd> {
        let runtime = network_runtime()?;
        let store = self.store(control)?;
        while control.stop.get() == Stop::No {
            match self.upload_queue.next() {
                NextShard::Done => return Ok(()),
                NextShard::Later => {}
                NextShard::Shard(number) => {
                    note(control, number, journal::UploadState::Begun)?;
                    let was_begun = self.begun.contains(&number);
                    runtime.block_on(store.put_shard(&self.shard_folder, number, was_begun))?;
                    note(control, number, journal::UploadState::Done)?;
                    self.shard_folder.remove(&[number])?;
                    self.upload_queue.uploaded(number);
                }
            }
        }
        Err(UploadEnd::Stopped)
    }
}

/// Has the journal note how far an upload is, durably.
fn note(control: &Control, number: ShardNumber, upload: journal::UploadState) -> Result<()> {
    control.journal.commit(|acknowledge| JournalRequest::Upload(number, upload, acknowledge)).map(drop)
}
