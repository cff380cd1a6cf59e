//! `tar`, `warc` and `jsonl`: records that are appended to a shard. A checkpoint syncs the shard and its manifest and
//! returns their ends. A resumed job truncates both to these ends. As a result, only the objects of one window are
//! fetched again after a crash, regardless of the size of the shard.

use std::sync::Arc;

use super::object::{HashColumn, SinkObject, Validators, note};
use super::shard::ShardFile;
use super::{Block, CheckpointResult, RefusedObject, ShardFolder, Sink, Stage, UploadQueue};
use crate::manifest::ManifestWriter;
use crate::pack::Encoder;
use fetchmill_model::error::Result;
use fetchmill_model::limits;
use fetchmill_model::outcome::{OpenShard, Runs, SealedShard, ShardNumber};
use fetchmill_model::target::Sequence;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct PackSink {
    shard_folder: ShardFolder,
    stage: Arc<Stage>,
    encoder: Box<dyn Encoder>,
    shard_bytes: u64,
    rows_max: u64,
    worker: u32,
    /// Upload queue. `None` if the destination is a folder.
    upload_queue: Option<Arc<UploadQueue>>,
    open: Option<OpenPack>,
    /// Shard that the last checkpoint sealed. Its commit record is on its way to the journal.
    sealed: Option<SealedShard>,
    /// Objects added to the shard since the last checkpoint.
    sequences: Vec<Sequence>,
    bytes: u64,
    hash: Option<HashColumn>,
    validators: Validators,
}

#[derive(Debug)]
struct OpenPack {
    file: ShardFile,
    manifest: ManifestWriter,
    bytes: u64,
}

impl OpenPack {
    fn create(shard_folder: &ShardFolder, worker: u32, encoder: &mut dyn Encoder) -> Result<Self> {
        let (data, manifest) = super::shard_names(worker);
        let mut file = ShardFile::create(shard_folder, data)?;
        encoder.start(file.buffer());
        let manifest = ManifestWriter::new(&shard_folder.open_path(), manifest, shard_folder.is_durable());
        Ok(OpenPack { file, manifest, bytes: 0 })
    }

    fn push(
        &mut self,
        entry: &SinkObject<'_>,
        encoder: &mut dyn Encoder,
        validators: Validators,
    ) -> Result<()> {
        let SinkObject { object, body } = entry;
        note(&mut self.manifest, object, entry.length(), self.file.end(), validators)?;
        self.bytes += entry.length();
        match body {
            None => {
                encoder.encode(object, self.file.buffer());
                self.file.flush_if_full()
            }
            Some(body) => {
                let copied = encoder.encode_file(object, body, &mut self.file);
                copied.map_err(|error| self.file.fail("copy a staged body into", error))
            }
        }
    }
}

impl PackSink {
    /// Creates a sink for shards of about `shard_bytes` bytes.
    pub fn new(
        shard_folder: ShardFolder,
        stage: Arc<Stage>,
        encoder: Box<dyn Encoder>,
        shard_bytes: u64,
        worker: u32,
        workers: usize,
    ) -> Self {
        PackSink {
            shard_folder,
            stage,
            encoder,
            shard_bytes,
            rows_max: limits::shard_rows_max(workers),
            worker,
            upload_queue: None,
            open: None,
            sealed: None,
            sequences: Vec::new(),
            bytes: 0,
            hash: None,
            validators: Validators::default(),
        }
    }

    /// Sets the upload queue, for a destination that is a bucket.
    #[must_use]
    pub fn for_upload(self, upload_queue: Option<Arc<UploadQueue>>) -> Self {
        PackSink { upload_queue, ..self }
    }

    /// Sets the column for body hashes.
    #[must_use]
    pub fn with_hash(self, hash: Option<HashColumn>) -> Self {
        PackSink { hash, ..self }
    }

    /// Sets the place where shards store the validators of objects.
    #[must_use]
    pub fn with_validators(self, validators: Validators) -> Self {
        PackSink { validators, ..self }
    }

    /// Seals the shard: appends the bytes that follow the last record, and syncs.
    fn seal(&mut self) -> Result<Option<SealedShard>> {
        let Some(mut open) = self.open.take() else { return Ok(None) };
        self.encoder.finish(open.file.buffer());
        let objects = open.manifest.rows();
        let sealed = SealedShard {
            data: open.file.checkpoint()?,
            manifest: open.manifest.seal()?,
            objects,
            bytes: open.bytes,
            replaces: Vec::new(),
        };
        self.sealed = Some(sealed.clone());
        Ok(Some(sealed))
    }
}

impl Sink for PackSink {
    fn write(&mut self, block: &Block, from: usize) -> Result<usize> {
        for (position, entry) in block.fetched(from) {
            if self.is_full() {
                return Ok(position);
            }
            if let (None, Some(upload_queue)) = (&self.open, &self.upload_queue) {
                upload_queue.wait_for_room(self.worker);
            }
            let encoder = self.encoder.as_mut();
            let open = match &mut self.open {
                Some(open) => open,
                None => self.open.insert(OpenPack::create(&self.shard_folder, self.worker, encoder)?),
            };
            let object = SinkObject::of(block, entry, &self.stage, self.hash.as_mut())?;
            open.push(&object, encoder, self.validators)?;
            self.sequences.push(entry.sequence);
            self.bytes += entry.body.len();
        }
        Ok(block.entries().len())
    }

    fn checkpoint(&mut self, is_last: bool) -> Result<CheckpointResult> {
        let settled = Runs::from_unsorted(&mut self.sequences);
        self.sequences.clear();
        let durable = CheckpointResult {
            settled,
            bytes: std::mem::take(&mut self.bytes),
            ..CheckpointResult::default()
        };
        if is_last || self.is_full() {
            return Ok(CheckpointResult { sealed: self.seal()?, ..durable });
        }
        let Some(open) = &mut self.open else { return Ok(durable) };
        if durable.settled.is_empty() {
            return Ok(durable);
        }
        let data = open.file.checkpoint()?;
        let Some(manifest) = open.manifest.checkpoint()? else { return Ok(durable) };
        Ok(CheckpointResult { open: Some(OpenShard { data, manifest }), ..durable })
    }

    fn committed(&mut self, number: Option<ShardNumber>) -> Result<Vec<RefusedObject>> {
        if let (Some(sealed), Some(number)) = (self.sealed.take(), number) {
            self.shard_folder.publish(&sealed.data.path, &sealed.manifest.path, number)?;
            // This shard is never merged.
            self.upload_queue.iter().for_each(|upload_queue| upload_queue.add(number, self.worker, true));
        }
        Ok(Vec::new())
    }

    fn has_unsettled(&self) -> bool {
        !self.sequences.is_empty()
    }

    fn is_open(&self) -> bool {
        self.open.is_some()
    }

    fn is_full(&self) -> bool {
        self.open
            .as_ref()
            .is_some_and(|open| open.file.end() >= self.shard_bytes || open.manifest.rows() >= self.rows_max)
    }
}
