//! `parquet`: rows in files that are valid only as a whole. A checkpoint ends the row group, appends the metadata for a
//! footer, and syncs the shard and its manifest. A resumed job truncates both to this point and appends the footer. As
//! a result, only the objects of one window are fetched again after a crash, as with other packs.
//!
//! The row group of a window may be small. For this reason, a shard is not sealed after every window. It is sealed when
//! it is full, after `--seal-after`, when it has too many row groups, or at the end of the job. Small shards are
//! merged, which rewrites their rows into large row groups. The transaction that seals the merged shard lists the
//! shards that it replaces. The replaced shards are removed after that.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::merging::{ShardSize, SmallShards};
use super::object::{HashColumn, SinkObject, Validators, note};
use super::shard::ShardFile;
use super::{Block, CheckpointResult, RefusedObject, ShardFolder, Sink, Stage, UploadQueue};
use crate::manifest::ManifestWriter;
use crate::pack::parquet::{ParquetEncoder, ParquetShard, ShardError, merge, schema};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::object::Object;
use fetchmill_model::outcome::{OpenShard, Runs, SealedShard, ShardNumber};
use fetchmill_model::target::Sequence;
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Number of rows between two checks of the encoded size, which has to be summed over all columns.
const ROWS_BETWEEN_LOOKS: usize = 64;

/// Shard settings of a Parquet sink.
#[derive(Debug, Clone)]
pub struct ParquetSizes {
    /// Shard size in bytes.
    pub shard_bytes: u64,
    /// Age at which a shard is sealed.
    pub seal_after: Duration,
    /// Number of sinks that share the memory budget.
    pub workers: usize,
    /// Columns that objects have besides the standard ones.
    pub columns: ExtraColumns,
    /// Place where shards store the `ETag` and `Last-Modified` of objects.
    pub validators: Validators,
}

impl ParquetSizes {
    fn rows(&self) -> ShardRows<'_> {
        ShardRows { workers: self.workers, columns: &self.columns, validators: self.validators }
    }
}

/// Properties of a shard's rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShardRows<'s> {
    /// Number of sinks that share the memory budget.
    pub(super) workers: usize,
    pub(super) columns: &'s ExtraColumns,
    pub(super) validators: Validators,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct ParquetSink {
    shard_folder: ShardFolder,
    stage: Arc<Stage>,
    sizes: ParquetSizes,
    worker: u32,
    /// Upload queue. `None` if the destination is a folder.
    upload_queue: Option<Arc<UploadQueue>>,
    open: Option<OpenParquet>,
    /// Shard that the last checkpoint sealed. Its commit record is on its way to the journal.
    sealed: Option<SealedShard>,
    small: SmallShards,
    /// Replaced shards whose files have been removed.
    removed: Vec<ShardNumber>,
    /// Objects added to the open shard since the last checkpoint.
    sequences: Vec<Sequence>,
    bytes: u64,
    hash: Option<HashColumn>,
}

impl ParquetSink {
    /// Creates a sink that also merges small shards. `small` lists the small shards of earlier runs.
    pub fn new(
        shard_folder: ShardFolder,
        stage: Arc<Stage>,
        sizes: ParquetSizes,
        worker: u32,
        small: Vec<ShardSize>,
    ) -> Self {
        ParquetSink {
            shard_folder,
            stage,
            worker,
            upload_queue: None,
            open: None,
            sealed: None,
            small: SmallShards::new(sizes.shard_bytes, limits::shard_rows_max(sizes.workers), small),
            sizes,
            removed: Vec::new(),
            sequences: Vec::new(),
            bytes: 0,
            hash: None,
        }
    }

    /// Sets the upload queue, for a destination that is a bucket. Uploaded shards are never merged, so small shards
    /// wait on the local disk until they can be merged. Together they take up less than one shard, and at most one of
    /// them is left at the end of the job.
    #[must_use]
    pub fn for_upload(self, upload_queue: Option<Arc<UploadQueue>>) -> Self {
        let small = if upload_queue.is_some() { self.small.gather() } else { self.small };
        ParquetSink { upload_queue, small, ..self }
    }

    /// Sets the column for body hashes.
    #[must_use]
    pub fn with_hash(self, hash: Option<HashColumn>) -> Self {
        ParquetSink { hash, ..self }
    }

    fn wait_for_room(&self) {
        if let Some(upload_queue) = &self.upload_queue {
            upload_queue.wait_for_room(self.worker);
        }
    }

    fn is_due(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.since.elapsed() >= self.sizes.seal_after)
    }

    /// Takes the objects that the next commit record finishes.
    fn take_settled(&mut self) -> CheckpointResult {
        let settled = Runs::from_unsorted(&mut self.sequences);
        self.sequences.clear();
        CheckpointResult { settled, bytes: std::mem::take(&mut self.bytes), ..CheckpointResult::default() }
    }

    fn seal(&mut self) -> Result<Option<SealedShard>> {
        let Some(open) = self.open.take() else { return Ok(None) };
        let sealed = open.seal(Vec::new())?;
        self.sealed = Some(sealed.clone());
        Ok(Some(sealed))
    }

    /// Makes durable the rows that were added to the open shard since the last call.
    fn commit(&mut self) -> Result<Option<OpenShard>> {
        match &mut self.open {
            Some(open) if !self.sequences.is_empty() => open.commit(),
            _ => Ok(None),
        }
    }

    /// Writes the objects of small shards into one shard.
    fn merge(&mut self, numbers: Vec<ShardNumber>) -> Result<SealedShard> {
        self.wait_for_room();
        let mut open = OpenParquet::create(&self.shard_folder, self.worker, &self.sizes.rows())?;
        for number in &numbers {
            open.copy(&self.shard_folder.shard_path(*number))?;
        }
        let sealed = open.seal(numbers)?;
        self.sealed = Some(sealed.clone());
        Ok(sealed)
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
                None => self.open.insert(OpenParquet::create(
                    &self.shard_folder,
                    self.worker,
                    &self.sizes.rows(),
                )?),
            };
            open.push_entry(SinkObject::of(block, entry, &self.stage, self.hash.as_mut())?)?;
            self.sequences.push(entry.sequence);
            self.bytes += entry.body.len();
        }
        Ok(block.entries().len())
    }

    fn checkpoint(&mut self, is_last: bool) -> Result<CheckpointResult> {
        let removed = std::mem::take(&mut self.removed);
        if self.open.is_some() && (is_last || self.is_full() || self.is_due()) {
            let sealed = self.seal()?;
            return Ok(CheckpointResult { sealed, removed, ..self.take_settled() });
        }
        let open = self.commit()?;
        let sealed = self.small.next_merge(is_last).map(|numbers| self.merge(numbers)).transpose()?;
        Ok(CheckpointResult { open, sealed, removed, ..self.take_settled() })
    }

    fn committed(&mut self, number: Option<ShardNumber>) -> Result<Vec<RefusedObject>> {
        if let (Some(sealed), Some(number)) = (self.sealed.take(), number) {
            self.shard_folder.publish(&sealed.data.path, &sealed.manifest.path, number)?;
            self.shard_folder.remove(&sealed.replaces)?;
            self.upload_queue.iter().for_each(|upload_queue| upload_queue.forget(&sealed.replaces));
            self.removed.extend(sealed.replaces);
            let size = ShardSize { number, bytes: sealed.data.end, rows: sealed.objects };
            let is_small = self.small.add(size);
            if let Some(upload_queue) = &self.upload_queue {
                upload_queue.add(number, self.worker, !is_small);
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
                || open.encoder.row_groups() >= open.row_groups_max
        })
    }
}

/// A shard that is being written.
#[derive(Debug)]
pub(super) struct OpenParquet {
    encoder: ParquetEncoder<ShardFile>,
    manifest: ManifestWriter,
    path: PathBuf,
    bytes: u64,
    since: Instant,
    row_groups_max: usize,
    validators: Validators,
}

impl OpenParquet {
    pub(super) fn create(shard_folder: &ShardFolder, worker: u32, rows: &ShardRows<'_>) -> Result<Self> {
        let ShardRows { workers, columns, validators } = *rows;
        let (data, manifest) = super::shard_names(worker);
        let path = shard_folder.open_path().join(&data);
        let file = ShardFile::create(shard_folder, data)?;
        let row_group_bytes = limits::ROW_GROUPS_BYTES / workers.max(1);
        let encoder = ParquetEncoder::new(file, row_group_bytes, columns, shard_folder.make_scratch())
            .map_err(|error| Error::storage("write", &path, error))?;
        let manifest = ManifestWriter::new(&shard_folder.open_path(), manifest, shard_folder.is_durable());
        let row_groups_max = limits::row_groups_max(workers, schema(columns).fields().len());
        Ok(OpenParquet {
            encoder,
            manifest,
            path,
            bytes: 0,
            since: Instant::now(),
            row_groups_max,
            validators,
        })
    }

    fn push_entry(&mut self, entry: SinkObject<'_>) -> Result<()> {
        let SinkObject { object, body: Some(body) } = entry else { return self.push(&entry.object) };
        self.note(&object, body.length())?;
        let copied = self.encoder.push_file(&object, &body);
        copied.map_err(|error| Error::storage("copy a staged body into", &self.path, error))
    }

    pub(super) fn push(&mut self, object: &Object<'_>) -> Result<()> {
        self.note(object, object.body.len() as u64)?;
        self.encoder.push(object).map_err(|error| Error::storage("write", &self.path, error))
    }

    fn note(&mut self, object: &Object<'_>, length: u64) -> Result<()> {
        self.bytes += length;
        note(&mut self.manifest, object, length, self.encoder.rows(), self.validators)
    }

    /// Ends the row group and syncs. From then on, the rows written so far are part of the shard. Returns `None` if
    /// there are none.
    fn commit(&mut self) -> Result<Option<OpenShard>> {
        let file = self.encoder.commit().map_err(|error| Error::storage("write", &self.path, error))?;
        let data = file.checkpoint()?;
        Ok(self.manifest.checkpoint()?.map(|manifest| OpenShard { data, manifest }))
    }

    fn copy(&mut self, from: &Path) -> Result<()> {
        let file = File::open(from).map_err(|error| Error::storage("read", from, error))?;
        let shard = ParquetShard::open(file).map_err(|error| damaged(from, &error))?;
        let OpenParquet { encoder, manifest, bytes, path, validators, .. } = self;
        let mut failed = None;
        let mut each = |object: &Object<'_>, row: u64| {
            let length = object.body.len() as u64;
            *bytes += length;
            note(manifest, object, length, row, *validators).map_err(|error| {
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
        "cannot merge {}: {error}; check with `fetchmill verify` and repair with `fetchmill verify --repair`",
        path.display()
    ))
}
