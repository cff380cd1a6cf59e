//! The thread that uploads sealed shards, when the destination is a bucket: one after the other, its data, then its
//! manifest. The journal says that an upload has begun before the store hears of it, and that it is done before the file
//! is removed. What has begun and is not done is looked at again by the next run: an object that is there has the same
//! bytes or is somebody else's.
//!
//! It never holds up a thread that fetches: a writer waits for it before it begins a third shard
//! ([`crate::sink::Depot`]).

mod shard;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use super::Access;
use crate::engine::control::{Control, Stop};
use crate::engine::recorder::{ToJournal, ended};
use crate::engine::threads::{spawn, waiting_runtime};
use crate::error::{Error, Result};
use crate::journal;
use crate::outcome::ShardNumber;
use crate::s3::Upload;
use crate::sink::{Depot, NextShard, Shelf};
use crate::transport::PoolSettings;
use store::{Ended, Store};

/// See the module.
#[derive(Debug)]
pub(in crate::engine) struct Uploader {
    pub(in crate::engine) access: Arc<Access>,
    pub(in crate::engine) pool: PoolSettings,
    pub(in crate::engine) upload: Upload,
    pub(in crate::engine) shelf: Shelf,
    pub(in crate::engine) depot: Arc<Depot>,
    /// Shards whose upload an earlier run has begun.
    pub(in crate::engine) begun: BTreeSet<ShardNumber>,
    pub(in crate::engine) give_up_after: Duration,
}

/// However the thread ends, no writer waits for it.
struct Closing(Arc<Depot>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Uploader {
    /// Makes sure that there is nothing below the prefix.
    pub(in crate::engine) fn claim(&self, control: &Arc<Control>) -> Result<()> {
        let store = self.store(control)?;
        match waiting_runtime()?.block_on(store.claim()) {
            Ok(()) => Ok(()),
            Err(Ended::Failed(error)) => Err(error),
            // The caller sees it by the signal.
            Err(Ended::Stopped) => {
                Err(Error::Temporary("stopped before the destination was looked at".into()))
            }
        }
    }

    /// Uploads until the job has ended.
    pub(in crate::engine) fn start(self, control: &Arc<Control>) -> Result<JoinHandle<Option<()>>> {
        let for_thread = Arc::clone(control);
        spawn("fetchmill-upload", control, move || {
            let _closing = Closing(Arc::clone(&self.depot));
            match self.run(&for_thread) {
                Ok(()) | Err(Ended::Stopped) => Ok(()),
                Err(Ended::Failed(error)) => Err(error),
            }
        })
    }

    fn store(&self, control: &Arc<Control>) -> Result<Store> {
        Store::new(&self.access, &self.pool, self.upload.clone(), Arc::clone(control), self.give_up_after)
    }

    fn run(&self, control: &Arc<Control>) -> std::result::Result<(), Ended> {
        let runtime = waiting_runtime()?;
        let store = self.store(control)?;
        while control.stop() == Stop::No {
            match self.depot.next() {
                NextShard::Done => return Ok(()),
                NextShard::Later => {}
                NextShard::Shard(number) => {
                    note(control, number, journal::Upload::Begun)?;
                    let was_begun = self.begun.contains(&number);
                    runtime.block_on(store.put_shard(&self.shelf, number, was_begun))?;
                    note(control, number, journal::Upload::Done)?;
                    self.shelf.remove(&[number])?;
                    self.depot.uploaded(number);
                }
            }
        }
        Err(Ended::Stopped)
    }
}

/// Has the journal note how far an upload is, durably.
fn note(control: &Control, number: ShardNumber, upload: journal::Upload) -> Result<()> {
    let (acknowledge, acknowledged) = sync_channel(1);
    control.journal(ToJournal::Upload(number, upload, acknowledge));
    acknowledged.recv().map(drop).map_err(|_| ended())
}
