//! `parquet`: rows in files that have no valid prefix. A shard gives its receipt only when it is complete: at its
//! size, after `--seal-after`, or at the end of the job; an open one is dropped on resume and its targets are fetched
//! again. A slow job would leave a small file every 15 seconds, so small ones are merged: the transaction that seals
//! the merged shard names those that it replaces, and they are removed behind it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::merging::{ShardSize, Small};
use super::object::{note, read_object, release};
use super::shard::ShardFile;
use super::{Block, Depot, Durable, Refused, Shelf, Sink, Stage};
use crate::error::{Error, Result};
use crate::kept::Columns;
use crate::limits;
use crate::manifest::ManifestWriter;
use crate::object::Object;
use crate::outcome::{Runs, SealedShard, ShardNumber};
use crate::pack::parquet::{ParquetEncoder, ParquetShard, ShardError, merge};
use crate::target::Sequence;

/// The size of what is encoded is asked for once for so many rows: it is summed up over all columns.
const ROWS_BETWEEN_LOOKS: usize = 64;

/// What a Parquet sink must know of its shards.
#[derive(Debug, Clone)]
pub struct ParquetSizes {
    /// Bytes of a shard.
    pub shard_bytes: u64,
    /// Age at which one is sealed.
    pub seal_after: Duration,
    /// How many sinks share the memory.
    pub workers: usize,
    /// What objects have besides the standard columns.
    pub columns: Columns,
}

/// See the module.
#[derive(Debug)]
pub struct ParquetSink {
    shelf: Shelf,
    stage: Arc<Stage>,
    sizes: ParquetSizes,
    worker: u32,
    /// None: the destination is a folder.
    depot: Option<Arc<Depot>>,
    open: Option<Open>,
    /// Sealed by the last checkpoint; its receipt is on its way to the journal.
    sealed: Option<SealedShard>,
    small: Small,
    /// Replaced shards whose files are gone.
    removed: Vec<ShardNumber>,
    /// In the open shard.
    sequences: Vec<Sequence>,
    large: Vec<u8>,
}

impl ParquetSink {
    /// Writes shards, and merges small ones; `small` are those of earlier runs.
    pub fn new(
        shelf: Shelf,
        stage: Arc<Stage>,
        sizes: ParquetSizes,
        worker: u32,
        small: Vec<ShardSize>,
    ) -> Self {
        ParquetSink {
            shelf,
            stage,
            worker,
            depot: None,
            open: None,
            sealed: None,
            small: Small::new(sizes.shard_bytes, limits::shard_rows_max(sizes.workers), small),
            sizes,
            removed: Vec::new(),
            sequences: Vec::new(),
            large: Vec::new(),
        }
    }

    /// The same, when the destination is a bucket: what is there is never merged, so small shards wait for each other on
    /// the local disk, of which they get less than a shard, and the job leaves one of them at most.
    #[must_use]
    pub fn for_upload(self, depot: Option<Arc<Depot>>) -> Self {
        let small = if depot.is_some() { self.small.gather() } else { self.small };
        ParquetSink { depot, small, ..self }
    }

    fn wait_for_room(&self) {
        if let Some(depot) = &self.depot {
            depot.wait_for_room(self.worker);
        }
    }

    fn is_due(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.since.elapsed() >= self.sizes.seal_after)
    }

    fn seal(&mut self) -> Result<Durable> {
        let Some(open) = self.open.take() else { return Ok(Durable::default()) };
        let settled = Runs::from_unsorted(&mut self.sequences);
        self.sequences.clear();
        let sealed = open.seal(Vec::new())?;
        self.sealed = Some(sealed.clone());
        Ok(Durable { settled, bytes: sealed.bytes, sealed: Some(sealed), ..Durable::default() })
    }

    /// Writes the objects of small shards into one.
    fn merge(&mut self, numbers: Vec<ShardNumber>) -> Result<Durable> {
        self.wait_for_room();
        let mut open = Open::create(&self.shelf, self.worker, self.sizes.workers, &self.sizes.columns)?;
        for number in &numbers {
            open.copy(&self.shelf.shard_path(*number))?;
        }
        let sealed = open.seal(numbers)?;
        self.sealed = Some(sealed.clone());
        Ok(Durable { sealed: Some(sealed), ..Durable::default() })
    }
}

impl Sink for ParquetSink {
    fn write(&mut self, block: &Block, from: usize) -> Result<usize> {
        for (position, entry) in block.fetched(from) {
            if position % ROWS_BETWEEN_LOOKS == 0 && self.is_full() {
                return Ok(position);
            }
            if self.open.is_none() {
                self.wait_for_room();
            }
            let open = match &mut self.open {
                Some(open) => open,
                None => self.open.insert(Open::create(
                    &self.shelf,
                    self.worker,
                    self.sizes.workers,
                    &self.sizes.columns,
                )?),
            };
            open.push(&read_object(block, entry, &self.stage, &mut self.large)?)?;
            self.sequences.push(entry.sequence);
            release(&mut self.large);
        }
        Ok(block.entries().len())
    }

    fn checkpoint(&mut self, is_last: bool) -> Result<Durable> {
        let removed = std::mem::take(&mut self.removed);
        let durable = if self.open.is_some() && (is_last || self.is_full() || self.is_due()) {
            self.seal()?
        } else if let Some(numbers) = self.small.next_merge(is_last) {
            self.merge(numbers)?
        } else {
            Durable::default()
        };
        Ok(Durable { removed, ..durable })
    }

    fn committed(&mut self, number: Option<ShardNumber>) -> Result<Vec<Refused>> {
        if let (Some(sealed), Some(number)) = (self.sealed.take(), number) {
            self.shelf.publish(&sealed.data.path, &sealed.manifest.path, number)?;
            self.shelf.remove(&sealed.replaces)?;
            self.depot.iter().for_each(|depot| depot.forget(&sealed.replaces));
            self.removed.extend(sealed.replaces);
            let size = ShardSize { number, bytes: sealed.data.end, rows: sealed.objects };
            let is_small = self.small.add(size);
            if let Some(depot) = &self.depot {
                depot.add(number, self.worker, !is_small);
            }
        }
        Ok(Vec::new())
    }

    fn has_unsettled(&self) -> bool {
        self.open.is_some() || self.small.is_due(false)
    }

    fn is_open(&self) -> bool {
        self.has_unsettled() || self.small.is_due(true) || !self.removed.is_empty()
    }

    fn is_full(&self) -> bool {
        self.open.as_ref().is_some_and(|open| {
            open.encoder.bytes() as u64 >= self.sizes.shard_bytes
                || open.encoder.rows() >= limits::shard_rows_max(self.sizes.workers)
        })
    }
}

/// A shard that is being written.
#[derive(Debug)]
pub(super) struct Open {
    encoder: ParquetEncoder<ShardFile>,
    manifest: ManifestWriter,
    path: PathBuf,
    bytes: u64,
    since: Instant,
}

impl Open {
    pub(super) fn create(shelf: &Shelf, worker: u32, workers: usize, columns: &Columns) -> Result<Self> {
        let (data, manifest) = super::shard_names(worker);
        let path = shelf.open_path().join(&data);
        let file = ShardFile::create(shelf, data)?;
        let row_group_bytes = limits::ROW_GROUPS_BYTES / workers.max(1);
        let encoder = ParquetEncoder::new(file, row_group_bytes, columns)
            .map_err(|error| Error::storage("write", &path, error))?;
        let manifest = ManifestWriter::new(&shelf.open_path(), manifest, shelf.is_durable());
        Ok(Open { encoder, manifest, path, bytes: 0, since: Instant::now() })
    }

    pub(super) fn push(&mut self, object: &Object<'_>) -> Result<()> {
        note(&mut self.manifest, object, self.encoder.rows())?;
        self.bytes += object.body.len() as u64;
        self.encoder.push(object).map_err(|error| Error::storage("write", &self.path, error))
    }

    fn copy(&mut self, from: &Path) -> Result<()> {
        let file = File::open(from).map_err(|error| Error::storage("read", from, error))?;
        let shard = ParquetShard::open(file).map_err(|error| damaged(from, &error))?;
        let Open { encoder, manifest, bytes, path, .. } = self;
        let mut failed = None;
        let mut each = |object: &Object<'_>, row: u64| {
            *bytes += object.body.len() as u64;
            note(manifest, object, row).map_err(|error| {
                failed = Some(error);
                ShardError::Io(io::ErrorKind::Other.into())
            })
        };
        let merged = merge(&[shard], encoder, &mut each);
        match (merged, failed) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(error)) => Err(error),
            (Err(ShardError::Io(error)), None) => Err(Error::storage("write", &*path, error)),
            (Err(error), None) => Err(damaged(from, &error)),
        }
    }

    pub(super) fn seal(self, replaces: Vec<ShardNumber>) -> Result<SealedShard> {
        let objects = self.encoder.rows();
        let mut file = self.encoder.finish().map_err(|error| Error::storage("write", &self.path, error))?;
        let data = file.checkpoint()?;
        Ok(SealedShard { data, manifest: self.manifest.seal()?, objects, bytes: self.bytes, replaces })
    }
}

fn damaged(path: &Path, error: &ShardError) -> Error {
    Error::Journal(format!(
        "{} cannot be merged: {error}; look with `fetchmill verify` and mend it with `fetchmill verify --repair`",
        path.display()
    ))
}
