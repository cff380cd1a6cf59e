//! Sinks: what stores outcomes, and the proof that they are durable.
//!
//! A sink lives on a thread of its own beside a worker's and takes whole blocks. Its life is a repetition of
//! [`Sink::write`] (some blocks: no sync), [`Sink::checkpoint`] (sync: what is durable now) and [`Sink::committed`]
//! (the receipt of that checkpoint is in the journal). Bytes durable, then receipt, then journal. A checkpoint may leave
//! its sync to others ([`FileSystemSync`]): then more is written meanwhile, and the receipt waits for the sync.

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

/// What of a reply is stored: each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredParts {
    /// Only that it came.
    Outcomes,
    /// Its body.
    Bodies,
    /// What its head says of the object.
    Facts,
    /// Its head as it was sent.
    Heads,
    /// The same, and replies that are no objects.
    Replies,
}

/// What an engine must know of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// What is stored; the rest need not be kept.
    pub keeps: StoredParts,
    /// Names become paths: one that cannot is failed(name) without a request.
    pub names_are_paths: bool,
}

/// A sync that makes durable all that a checkpoint says, and whatever else lies on its file system.
#[derive(Debug)]
#[must_use = "nothing is durable before it has run"]
pub struct FileSystemSync(Arc<Stage>);

impl FileSystemSync {
    /// Waits for the disk. What is written meanwhile may or may not be durable then.
    pub fn run(self) -> Result<()> {
        let FileSystemSync(stage) = self;
        durable::sync_file_system(stage.folder())
            .map_err(|error| Error::storage("sync the file system of", stage.path(), error))
    }
}

/// What a checkpoint has made durable.
#[derive(Debug, Default)]
pub struct CheckpointResult {
    /// Objects that are stored for good.
    pub settled: Runs,
    /// How many bytes they have.
    pub bytes: u64,
    /// Objects that are safe but not yet in their place; a later checkpoint settles them.
    pub staged: Runs,
    /// See [`fetchmill_model::outcome::Receipt::open`].
    pub open: Option<OpenShard>,
    /// See [`fetchmill_model::outcome::Receipt::sealed`].
    pub sealed: Option<SealedShard>,
    /// See [`fetchmill_model::outcome::Receipt::removed`].
    pub removed: Vec<ShardNumber>,
    /// See [`fetchmill_model::outcome::Receipt::manifest`].
    pub manifest: Option<ShardEnd>,
    /// What must have run before any of it is true: then a receipt may be sent. Until [`Sink::committed`] only
    /// [`Sink::write`] may be called.
    pub sync: Option<FileSystemSync>,
}

impl CheckpointResult {
    /// Whether a receipt of it would say nothing.
    pub fn is_empty(&self) -> bool {
        let CheckpointResult { settled, staged, open, sealed, removed, manifest, bytes: _, sync: _ } = self;
        let is_settled = settled.is_empty() && staged.is_empty();
        is_settled && open.is_none() && sealed.is_none() && removed.is_empty() && manifest.is_none()
    }
}

/// An object that could not be put in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedObject {
    /// Which target.
    pub sequence: Sequence,
    /// Its name.
    pub name: Box<[u8]>,
    /// See [`fetchmill_model::object::Facts::url`].
    pub url: Option<Box<[u8]>>,
    /// See [`EntryDescription::request`].
    pub request: Option<Box<[u8]>>,
    /// Why.
    pub kind: FailureKind,
}

/// Stores fetched objects. All calls come from one thread, in the order that the module tells. An error stops the
/// job: what has no receipt in the journal is fetched again by the next run.
pub trait Sink: Send {
    /// Stores the fetched objects of a block from an entry on, and returns where it stopped: before the end only when
    /// [`Sink::is_full`]. No sync. Called some thousand times a second at most.
    fn write(&mut self, block: &Block, from: usize) -> Result<usize>;

    /// Makes durable what was written, as far as the format allows, or tells what does. Called once a commit window, and with `is_last`
    /// while [`Sink::is_open`] at the end: then everything is settled and sealed.
    fn checkpoint(&mut self, is_last: bool) -> Result<CheckpointResult>;

    /// The receipt of the last checkpoint is in the journal, which gave a sealed shard its number: what was staged
    /// or sealed may be put in its place. Objects that cannot be are returned; the next receipt must settle them as
    /// failed.
    fn committed(&mut self, number: Option<ShardNumber>) -> Result<Vec<RefusedObject>>;

    /// Whether something is written that no checkpoint has settled: another one must come.
    fn has_unsettled(&self) -> bool;

    /// Whether a checkpoint at the end of the job has still something to do.
    fn is_open(&self) -> bool {
        self.has_unsettled()
    }

    /// Whether a checkpoint should come now, before the window's end.
    fn is_full(&self) -> bool {
        false
    }
}

/// Names for an open shard and its manifest that no other has: the process and the time are in them.
fn shard_names(worker: u32) -> (FileName, FileName) {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!("{worker}-{}-{}", std::process::id(), since.as_nanos());
    (FileName::of_own(&format!("{name}.shard")), FileName::of_own(&format!("{name}.manifest")))
}
