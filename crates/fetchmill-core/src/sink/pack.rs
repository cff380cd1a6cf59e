//! `tar`, `warc` and `jsonl`: records that are appended to a shard. A checkpoint syncs the shard and its manifest
//! and says where they end; on resume both are cut back to there. So a crash costs a window, whatever the shard's
//! size.

use std::sync::Arc;

use super::object::read_object;
use super::shard::ShardFile;
use super::{Block, Durable, Refused, Shelf, Sink, Stage};
use crate::error::Result;
use crate::limits;
use crate::manifest::{ManifestWriter, Row};
use crate::outcome::{OpenShard, Runs, SealedShard, ShardNumber};
use crate::pack::Encoder;
use crate::target::Sequence;

/// See the module.
#[derive(Debug)]
pub struct PackSink {
    shelf: Shelf,
    stage: Arc<Stage>,
    encoder: Box<dyn Encoder>,
    shard_bytes: u64,
    rows_max: u64,
    worker: u32,
    open: Option<Open>,
    /// Sealed by the last checkpoint; its receipt is on its way to the journal.
    sealed: Option<SealedShard>,
    /// In the shard since the last checkpoint.
    sequences: Vec<Sequence>,
    bytes: u64,
    large: Vec<u8>,
}

#[derive(Debug)]
struct Open {
    file: ShardFile,
    manifest: ManifestWriter,
    bytes: u64,
}

impl PackSink {
    /// Writes shards of about so many bytes.
    pub fn new(
        shelf: Shelf,
        stage: Arc<Stage>,
        encoder: Box<dyn Encoder>,
        shard_bytes: u64,
        worker: u32,
        workers: usize,
    ) -> Self {
        PackSink {
            shelf,
            stage,
            encoder,
            shard_bytes,
            rows_max: limits::shard_rows_max(workers),
            worker,
            open: None,
            sealed: None,
            sequences: Vec::new(),
            bytes: 0,
            large: Vec::new(),
        }
    }

    fn open(&mut self) -> Result<&mut Open> {
        if self.open.is_none() {
            let (data, manifest) = super::shard_names(self.worker);
            let mut file = ShardFile::create(&self.shelf, data)?;
            self.encoder.start(file.buffer());
            let manifest = ManifestWriter::new(&self.shelf.open_path(), manifest, self.shelf.is_durable());
            self.open = Some(Open { file, manifest, bytes: 0 });
        }
        self.open.as_mut().ok_or_else(|| crate::error::Error::Internal("no shard is open".into()))
    }

    /// Ends the shard; what stands behind its last record is appended and synced.
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
            let mut large = std::mem::take(&mut self.large);
            let object = read_object(block, entry, &self.stage, &mut large)?;
            let length = object.body.len() as u64;
            self.open()?;
            let Some(open) = &mut self.open else { continue };
            let place = open.file.end();
            self.encoder.encode(&object, open.file.buffer());
            open.manifest.add(&Row {
                sequence: object.sequence,
                name: object.name,
                length,
                crc32c: object.crc32c,
                place,
            })?;
            open.bytes += length;
            open.file.relieve()?;
            self.sequences.push(entry.sequence);
            self.bytes += length;
            super::object::release(&mut large);
            self.large = large;
        }
        Ok(block.entries().len())
    }

    fn checkpoint(&mut self, is_last: bool) -> Result<Durable> {
        let settled = Runs::from_unsorted(&mut self.sequences);
        self.sequences.clear();
        let durable = Durable { settled, bytes: std::mem::take(&mut self.bytes), ..Durable::default() };
        if is_last || self.is_full() {
            return Ok(Durable { sealed: self.seal()?, ..durable });
        }
        let Some(open) = &mut self.open else { return Ok(durable) };
        if durable.settled.is_empty() {
            return Ok(durable);
        }
        let data = open.file.checkpoint()?;
        let Some(manifest) = open.manifest.checkpoint()? else { return Ok(durable) };
        Ok(Durable { open: Some(OpenShard { data, manifest }), ..durable })
    }

    fn committed(&mut self, number: Option<ShardNumber>) -> Result<Vec<Refused>> {
        if let (Some(sealed), Some(number)) = (self.sealed.take(), number) {
            self.shelf.publish(&sealed.data.path, &sealed.manifest.path, number)?;
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
