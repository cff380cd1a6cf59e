//! Creates the sink for a format.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::merging::ShardSize;
use super::{
    FilesSink, Format, FullShard, HashColumn, NullSink, PackSink, ParquetSink, ParquetSizes, ShardFolder,
    Sink, Stage, UploadQueue, Validators,
};
use crate::manifest::ManifestWriter;
use crate::pack::{Encoder, ItemEncoder, JsonlEncoder, Sidecars, TarEncoder, WarcEncoder, WarcOrigin};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Settings for the files that describe targets without an object. These files are stored next to the job's shards.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct UnfetchedSetup {
    /// Whether to list targets without an object, as rows or in the failures file.
    pub tells_failures: bool,
    /// Whether to also store the replies that arrived in place of objects.
    pub keeps_replies: bool,
    /// Whether to create indexes for the files that contain these replies.
    pub is_indexed: bool,
}

/// Setup that all sinks of a job share.
#[derive(Debug, Clone)]
pub struct SinkSetup {
    /// Format of the stored objects.
    pub format: Format,
    /// Destination of the objects.
    pub dest: PathBuf,
    /// Folder for the manifests of the `files` format.
    pub manifests: PathBuf,
    /// Whether the output must survive a power cut rather than just a kill.
    pub is_durable: bool,
    /// Shard size in bytes.
    pub shard_bytes: u64,
    /// See [`fetchmill_model::limits::SEAL_AFTER`].
    pub seal_after: Duration,
    /// Whether files in the `files` format get the modification time that the server sent.
    pub server_times: bool,
    /// Number of sinks. They share the memory budget.
    pub workers: usize,
    /// Columns that objects have besides the standard ones.
    pub columns: ExtraColumns,
    /// Sidecars of tar members.
    pub sidecars: Sidecars,
    /// Whether the last column is the hash of each body.
    pub is_hashed: bool,
    /// Place where shards store the `ETag` and `Last-Modified` of objects.
    pub validators: Validators,
    /// Settings for the files that describe targets without an object.
    pub unfetched: UnfetchedSetup,
    /// Origin of the requests, for WARC.
    pub origin: Option<WarcOrigin>,
    /// Queue of shards to upload. `None` if the destination is a folder.
    pub upload_queue: Option<Arc<UploadQueue>>,
}

impl SinkSetup {
    /// Returns the shard folder. `None` if the format has no shards.
    pub fn shard_folder(&self) -> Option<ShardFolder> {
        self.format.extension().map(|extension| ShardFolder::new(&self.dest, extension, self.is_durable))
    }

    /// Returns the size of a full shard.
    pub fn full_shard(&self) -> FullShard {
        FullShard { bytes: self.shard_bytes, rows: fetchmill_model::limits::shard_rows_max(self.workers) }
    }

    /// Opens the sink of a worker. `stage` is the worker's stage, and `small` lists shards of earlier runs that the
    /// sink may merge.
    pub fn open(&self, worker: u32, stage: &Arc<Stage>, small: Vec<ShardSize>) -> Result<Box<dyn Sink>> {
        let Some(place) = self.shard_folder() else {
            return self.open_without_shards(worker, stage);
        };
        place.prepare()?;
        let hash = self.is_hashed.then(|| HashColumn::last_of(&self.columns));
        if self.format == Format::Parquet {
            let sizes = ParquetSizes {
                shard_bytes: self.shard_bytes,
                seal_after: self.seal_after,
                workers: self.workers,
                columns: self.columns.clone(),
                validators: self.validators,
            };
            let sink = ParquetSink::new(place, Arc::clone(stage), sizes, worker, small);
            return Ok(Box::new(sink.with_hash(hash).for_upload(self.upload_queue.clone())));
        }
        let encoder: Box<dyn Encoder> = if self.format == Format::Tar {
            Box::new(TarEncoder::new().with_sidecars(self.sidecars.clone()))
        } else {
            new_encoder(self.format, &self.columns, self.origin.clone())?
        };
        let stage = Arc::clone(stage);
        let sink = PackSink::new(place, stage, encoder, self.shard_bytes, worker, self.workers)
            .with_hash(hash)
            .with_validators(self.validators);
        Ok(Box::new(sink.for_upload(self.upload_queue.clone())))
    }

    fn open_without_shards(&self, worker: u32, stage: &Arc<Stage>) -> Result<Box<dyn Sink>> {
        if self.format == Format::Null {
            return Ok(Box::new(NullSink::default()));
        }
        let (_, name) = super::shard_names(worker);
        let manifest = ManifestWriter::new_unsealed(&self.manifests, name);
        let sink = FilesSink::open(&self.dest, Arc::clone(stage), manifest, self.is_durable)?;
        Ok(Box::new(sink.with_server_times(self.server_times)))
    }
}

/// Creates the encoder for a format that appends records.
pub fn new_encoder(
    format: Format,
    columns: &ExtraColumns,
    origin: Option<WarcOrigin>,
) -> Result<Box<dyn Encoder>> {
    match format {
        Format::Tar => Ok(Box::new(TarEncoder::new())),
        Format::Jsonl if columns.has_items() => Ok(Box::new(ItemEncoder)),
        Format::Jsonl => Ok(Box::new(JsonlEncoder::new(columns))),
        Format::Warc => Ok(Box::new(new_warc_encoder(origin)?)),
        Format::Files | Format::Null | Format::Parquet => {
            Err(Error::Internal(format!("{} has no records", format.name())))
        }
    }
}

pub(super) fn new_warc_encoder(origin: Option<WarcOrigin>) -> Result<WarcEncoder> {
    let origin = origin.map_or_else(|| WarcOrigin::of_list(&[]), Ok)?;
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // A number that no other encoder for this origin uses, not even in another process.
    let key = u64::from(std::process::id()) ^ (since.as_nanos() as u64);
    Ok(WarcEncoder::new(&origin, since.as_micros() as u64, key))
}
