//! The thread that uploads sealed shards to a destination bucket. It uploads one shard at a time, the data before the
//! manifest. The journal records the start of an upload before its first request, and its end before the file is
//! removed. The next run rechecks unfinished uploads. An object that already exists must have the same bytes, because
//! any other object does not belong to the job.
//!
//! The failures file is the last object of a job, and is uploaded after the thread has ended. No other object is ever
//! deleted. The failures file is deleted before a retry run, if the job created it.
//!
//! Uploads never block a fetching thread. A writer waits for uploads before it starts a third shard
//! ([`fetchmill_store::sink::UploadQueue`]).

mod bucket;
mod shard;
mod store;

pub use bucket::{Bucket, BucketObject, BucketPage, StoredKey};

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::access::s3::Access;
use crate::control::Control;
use crate::control::journal_link::CommitRequest;
use crate::control::stop::Stop;
use crate::control::threads::spawn;
use crate::event_queues::network_runtime;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::outcome::{ShardEnd, ShardNumber};
use fetchmill_model::s3::UploadDestination;
use fetchmill_net::PoolSettings;
use fetchmill_store::durable;
use fetchmill_store::journal;
use fetchmill_store::sink::{NextShard, ShardFolder, UploadQueue};
use store::{UploadClient, UploadEnd};

/// Uploader of shards. See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct Uploader {
    pub(crate) access: Arc<Access>,
    pub(crate) pool: PoolSettings,
    pub(crate) upload: UploadDestination,
    pub(crate) shard_folder: ShardFolder,
    pub(crate) upload_queue: Arc<UploadQueue>,
    /// Shards whose upload was started by an earlier run.
    pub(crate) begun: BTreeSet<ShardNumber>,
    pub(crate) give_up_after: Duration,
}

/// Guard that releases all waiting writers when the thread ends for any reason.
struct CloseGuard(Arc<UploadQueue>);

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Uploader {
    /// Checks that the prefix contains no objects.
    pub(crate) fn claim(&self, control: &Arc<Control>) -> Result<()> {
        let store = self.store(control)?;
        match network_runtime()?.block_on(store.claim()) {
            Ok(()) => Ok(()),
            Err(UploadEnd::Failed(error)) => Err(error),
            // The stop signal contains the reason.
            Err(UploadEnd::Stopped) => {
                Err(Error::Temporary("stopped before the destination was checked".into()))
            }
        }
    }

    /// Deletes the failures file if an earlier run uploaded it.
    pub(crate) fn withdraw_failures(&self, control: &Arc<Control>, file: &ShardEnd) -> Result<()> {
        let store = self.store(control)?;
        match network_runtime()?.block_on(store.withdraw(&self.failures_key(), file)) {
            Ok(()) => Ok(()),
            Err(UploadEnd::Failed(error)) => Err(error),
            // The stop signal contains the reason.
            Err(UploadEnd::Stopped) => {
                Err(Error::Temporary("stopped before the failures file was removed".into()))
            }
        }
    }

    /// Uploads the failures file and then removes it locally. `was_begun` means that an earlier run might have uploaded
    /// the same file. Returns `false` if the upload was stopped.
    pub(crate) fn put_failures(&self, control: &Arc<Control>, path: &Path, was_begun: bool) -> Result<bool> {
        let store = self.store(control)?;
        match network_runtime()?.block_on(store.put_file(path, &self.failures_key(), was_begun)) {
            Ok(()) => {}
            Err(UploadEnd::Failed(error)) => return Err(error),
            Err(UploadEnd::Stopped) => return Ok(false),
        }
        durable::remove_path(path).map_err(|error| Error::storage("remove", path, error))?;
        self.shard_folder.sync_sealed()?;
        Ok(true)
    }

    fn failures_key(&self) -> String {
        self.upload.shard_key(ShardFolder::FAILURES)
    }

    /// Starts the thread, which uploads shards until the job ends.
    pub(crate) fn start(self, control: &Arc<Control>) -> Result<JoinHandle<Option<()>>> {
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
            limits::PAGE_TIMEOUT,
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

/// Records the progress of an upload in the journal and waits until it is durable.
fn note(control: &Control, number: ShardNumber, upload: journal::UploadState) -> Result<()> {
    control.journal.commit(CommitRequest::Upload(number, upload)).map(drop)
}
