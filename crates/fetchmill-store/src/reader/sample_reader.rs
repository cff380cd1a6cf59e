//! Reads the stored bytes of sampled objects.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::Path;

use super::object_error::ObjectError;
use super::shard::ShardReader;
use super::stored::open_root;
use super::verify::SampledObject;
use crate::durable;
use crate::journal::{JobLocation, JournalSnapshot};
use crate::manifest::ManifestRow;
use crate::sink::{Format, ShardFolder};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name;
use fetchmill_model::object::StoredObject;

/// Reads sampled objects.
#[derive(Debug)]
pub struct SampleReader {
    place: JobLocation,
    snapshot: JournalSnapshot,
    format: Format,
    open: Option<ShardReader>,
}

impl SampleReader {
    /// Opens a destination that no process is working on.
    pub fn open(dest: &Path, state: Option<&Path>) -> Result<Self> {
        let place = JobLocation::look(dest, state)?;
        let snapshot = JournalSnapshot::read(&place)?;
        let format = Format::from_name(snapshot.part("format")).unwrap_or(Format::Null);
        Ok(SampleReader { place, snapshot, format, open: None })
    }

    /// Reads an object. `None` if it differs from what was written, which the verification has already reported.
    pub fn read(&mut self, sampled: &SampledObject) -> Result<Option<StoredObject>> {
        match sampled.shard {
            Some((number, row)) => self.read_in_shard(number, row, sampled),
            None => self.read_file(sampled),
        }
    }

    fn read_file(&self, sampled: &SampledObject) -> Result<Option<StoredObject>> {
        let root = open_root(&self.place)?;
        let mut path = Vec::new();
        if name::to_path(&sampled.name, &mut path).is_err() {
            return Ok(None);
        }
        let Ok(Some(file)) = durable::open_file_beneath(root.as_fd(), &path) else { return Ok(None) };
        let mut body = Vec::new();
        let read = file.take(sampled.length.saturating_add(1)).read_to_end(&mut body);
        let is_good = read.is_ok() && crc32c::crc32c(&body) == sampled.crc32c;
        Ok(is_good.then(|| StoredObject { name: sampled.name.to_vec(), body, ..StoredObject::default() }))
    }

    fn read_in_shard(
        &mut self,
        number: u64,
        row: u64,
        sampled: &SampledObject,
    ) -> Result<Option<StoredObject>> {
        if self.open.as_ref().is_none_or(|open| open.number() != number) {
            let shard = self.snapshot.shards.iter().find(|shard| shard.number == number);
            let (Some(shard), Some(extension)) = (shard, self.format.extension()) else { return Ok(None) };
            let shard_folder = ShardFolder::new(&self.place.dest, extension, true);
            self.open = ShardReader::open(&shard_folder, self.format, shard).ok();
        }
        let Some(open) = &self.open else { return Ok(None) };
        let SampledObject { sequence, name, length, crc32c, place, .. } = sampled;
        let row_of = ManifestRow {
            sequence: *sequence,
            name,
            length: *length,
            crc32c: *crc32c,
            place: *place,
            ..ManifestRow::default()
        };
        match open.read(row, &row_of) {
            Ok(object) => Ok(Some(object)),
            Err(ObjectError::Damaged(_) | ObjectError::Failed(Error::Journal(_))) => Ok(None),
            Err(ObjectError::Failed(error)) => Err(error),
        }
    }
}
