//! Sinks store outcomes and report which of them are durable.
//!
//! A sink runs on its own thread, next to its worker's thread, and receives whole blocks. It repeats three steps:
//! 1. [`Sink::write`] writes some blocks without a sync.
//! 2. [`Sink::checkpoint`] syncs and returns what is durable now.
//! 3. [`Sink::committed`] is called once the commit record of this checkpoint is in the journal.
//!
//! The order is: durable bytes, commit record, journal. A checkpoint may leave the sync to its caller
//! ([`FileSystemSync`]). During such a sync, more blocks are written, and the commit record waits.

mod block;
mod cdxj;
pub mod failures;
mod files;
mod format;
mod merging;
mod null;
mod object;
mod open;
mod pack;
mod parquet;
mod rewrite;
mod shard;
mod shard_folder;
mod sorted_lines;
mod stage;
mod unfetched;
mod upload_queue;

pub use block::{Block, BlockBody, BlockEntry, EntryDescription, FetchedBody};
pub use cdxj::CdxjWriter;
pub use files::{DestinationFolder, FilesSink, RenameResult};
pub use format::Format;
pub use merging::{FullShard, ShardSize, SmallShards};
pub use null::NullSink;
pub use object::{HashColumn, Validators};
pub use open::{SinkSetup, UnfetchedSetup, new_encoder};
pub use pack::PackSink;
pub use parquet::{ParquetSink, ParquetSizes};
pub use rewrite::Rewrite;
pub use shard_folder::ShardFolder;
pub use stage::Stage;
pub use unfetched::{UnfetchedFiles, UnfetchedWriter};
pub use upload_queue::{NextShard, UploadQueue};

use std::sync::Arc;

use crate::durable;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{FailureKind, OpenShard, Runs, SealedShard, ShardEnd, ShardNumber};
use fetchmill_model::target::Sequence;
use fetchmill_model::text::file_name::FileName;

/// Parts of a reply that are stored. Each level includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredParts {
    /// Only the outcome.
    Outcomes,
    /// The body.
    Bodies,
    /// The facts about the object that are in the head.
    Facts,
    /// The head, unchanged.
    Heads,
    /// The head, unchanged, and replies that are not objects.
    Replies,
}

/// Properties of a sink that engines need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// Parts that are stored. Engines do not need to keep the other parts.
    pub keeps: StoredParts,
    /// Whether names become paths. If they do, a target whose name is not a valid path fails with the kind `name`,
    /// without a request.
    pub names_are_paths: bool,
}

/// A sync that makes the data of a checkpoint durable, along with everything else on its file system.
#[derive(Debug)]
#[must_use = "nothing is durable before it has run"]
pub struct FileSystemSync(Arc<Stage>);

impl FileSystemSync {
    /// Waits for the disk. Data that is written during the sync may or may not be durable afterwards.
    pub fn run(self) -> Result<()> {
        let FileSystemSync(stage) = self;
        durable::sync_file_system(stage.folder())
            .map_err(|error| Error::storage("sync the file system of", stage.path(), error))
    }
}

/// The data that a checkpoint has made durable.
#[derive(Debug, Default)]
pub struct CheckpointResult {
    /// Objects that are stored for good.
    pub settled: Runs,
    /// Total size of these objects in bytes.
    pub bytes: u64,
    /// Objects that are durable but not in place yet. A later checkpoint finishes them.
    pub staged: Runs,
    /// See [`fetchmill_model::outcome::Receipt::open`].
    pub open: Option<OpenShard>,
    /// See [`fetchmill_model::outcome::Receipt::sealed`].
    pub sealed: Option<SealedShard>,
    /// See [`fetchmill_model::outcome::Receipt::removed`].
    pub removed: Vec<ShardNumber>,
    /// See [`fetchmill_model::outcome::Receipt::manifest`].
    pub manifest: Option<ShardEnd>,
    /// Sync to run before the result is valid and the commit record may be sent. Until [`Sink::committed`] is called,
    /// only [`Sink::write`] may be called.
    pub sync: Option<FileSystemSync>,
}

impl CheckpointResult {
    /// Returns whether the commit record of this result would be empty.
    pub fn is_empty(&self) -> bool {
        let CheckpointResult { settled, staged, open, sealed, removed, manifest, bytes: _, sync: _ } = self;
        let is_settled = settled.is_empty() && staged.is_empty();
        is_settled && open.is_none() && sealed.is_none() && removed.is_empty() && manifest.is_none()
    }
}

/// An object that could not be moved into place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedObject {
    /// Sequence number of the target.
    pub sequence: Sequence,
    /// Name of the object.
    pub name: Box<[u8]>,
    /// See [`fetchmill_model::object::Facts::url`].
    pub url: Option<Box<[u8]>>,
    /// See [`EntryDescription::request`].
    pub request: Option<Box<[u8]>>,
    /// Reason for the failure.
    pub kind: FailureKind,
}

/// Stores fetched objects. All calls come from one thread, in the order that the module documentation describes. An
/// error stops the job. The next run refetches all objects without a commit record in the journal.
pub trait Sink: Send {
    /// Stores the fetched objects of a block, starting at entry `from`, and returns where it stopped. Stops early only
    /// if [`Sink::is_full`]. Does not sync. Called up to a few thousand times per second.
    fn write(&mut self, block: &Block, from: usize) -> Result<usize>;

    /// Makes the written data durable, as far as the format allows, or returns a sync that does so. Called once per
    /// commit window. At the end of the job, also called with `is_last` until [`Sink::is_open`] returns `false`. After
    /// that, everything is finished and sealed.
    fn checkpoint(&mut self, is_last: bool) -> Result<CheckpointResult>;

    /// Records that the commit record of the last checkpoint is in the journal. `number` is the number of a sealed
    /// shard. Staged or sealed files may now be moved into place. Returns the objects for which this failed. The next
    /// commit record must report them as failed.
    fn committed(&mut self, number: Option<ShardNumber>) -> Result<Vec<RefusedObject>>;

    /// Returns whether any written data needs another checkpoint before it is finished.
    fn has_unsettled(&self) -> bool;

    /// Returns whether a checkpoint is needed at the end of the job.
    fn is_open(&self) -> bool {
        self.has_unsettled()
    }

    /// Returns whether a checkpoint is needed before the end of the window.
    fn is_full(&self) -> bool {
        false
    }
}

/// Returns unique names for an open shard and its manifest. They contain the process id and the time.
fn shard_names(worker: u32) -> (FileName, FileName) {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!("{worker}-{}-{}", std::process::id(), since.as_nanos());
    (FileName::of_own(&format!("{name}.shard")), FileName::of_own(&format!("{name}.manifest")))
}
