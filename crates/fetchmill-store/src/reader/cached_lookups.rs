//! Look-ups by name with a cache of decoded data, for callers that request many nearby objects.

use std::sync::Arc;

use super::cached_frames::CachedFrames;
use super::cached_rows::CachedRows;
use super::object_error::check;
use super::shard::ShardReader;
use super::{Destination, FoundObject, ObjectError, Storage};
use crate::manifest::{FoundRow, ManifestRow};
use fetchmill_model::error::Result;
use fetchmill_model::limits::LOOKUP_CACHE_BYTES;
use fetchmill_model::object::StoredObject;

/// Fraction of the memory for frames of manifests. The rest is for rows of Parquet files.
const FRAMES_PART: usize = 4;

/// The look-ups of one thread. They have the same results and errors as [`Destination::find`].
#[derive(Debug)]
pub struct CachedLookups {
    destination: Arc<Destination>,
    frames: CachedFrames,
    rows: CachedRows,
}

/// Cost of the look-ups so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupCounts {
    /// Frames of manifests that were decoded.
    pub frames: u64,
    /// Decoded batches of rows of Parquet files. A row that was read alone counts as one batch.
    pub batches: u64,
    /// Bytes that are cached now.
    pub bytes: usize,
}

impl CachedLookups {
    /// Creates look-ups in a destination, with a cache of [`LOOKUP_CACHE_BYTES`].
    pub fn new(destination: Arc<Destination>) -> Self {
        Self::with_bytes(destination, LOOKUP_CACHE_BYTES)
    }

    /// Creates look-ups in a destination, with a cache of `bytes` bytes.
    pub fn with_bytes(destination: Arc<Destination>, bytes: usize) -> Self {
        let frames = CachedFrames::new(bytes / FRAMES_PART);
        CachedLookups { destination, frames, rows: CachedRows::new(bytes - bytes / FRAMES_PART) }
    }

    /// Returns whether these look-ups are in this destination.
    pub fn are_of(&self, destination: &Arc<Destination>) -> bool {
        Arc::ptr_eq(&self.destination, destination)
    }

    /// Returns the cost of the look-ups so far.
    pub fn counts(&self) -> LookupCounts {
        LookupCounts {
            frames: self.frames.decoded(),
            batches: self.rows.decoded(),
            bytes: self.frames.bytes() + self.rows.bytes(),
        }
    }

    /// Returns the object with this name after checking it.
    pub fn find(&mut self, name: &[u8]) -> Result<Option<FoundObject>> {
        let Storage::Shards(shards) = &self.destination.stored else {
            return self.destination.find(name);
        };
        let frames = &mut self.frames;
        let found = match frames.find(name) {
            Some(found) => Some(found),
            None => shards.find_row_in(name, &mut |shard, manifest, index| {
                frames.frame(shard, manifest, index, shards.known_hidden())
            })?,
        };
        let Some((shard, FoundRow { row, sequence, length, crc32c, place, is_encoded })) = found else {
            return Ok(None);
        };
        let reader = Arc::clone(shards.reader(shard)?);
        let wanted = ManifestRow { sequence, name, length, crc32c, place, ..ManifestRow::default() };
        let mut object =
            self.read(shard, &reader, row, &wanted).map_err(|error| reader.error(name, error))?;
        if is_encoded {
            reader.add_encoding(row, &mut object)?;
        }
        Ok(Some(FoundObject { sequence: Some(sequence), crc32c, object }))
    }

    fn read(
        &mut self,
        shard: usize,
        reader: &ShardReader,
        number: u64,
        row: &ManifestRow<'_>,
    ) -> std::result::Result<StoredObject, ObjectError> {
        if let Some(parquet) = reader.parquet()? {
            match self.rows.read(shard, parquet, row.place) {
                Ok(Some((object, crc32c))) if crc32c == row.crc32c && check(row, &object).is_ok() => {
                    return Ok(object);
                }
                Ok(None) => {}
                // The row may be intact when it is read alone. If it is damaged, reading it alone shows the damage.
                Ok(Some(_)) | Err(_) => self.rows.read_alone_from(shard, row.place),
            }
        } else if let Some(end) = self.frames.place_of(shard, number + 1)
            && let Some(object) = reader.read_until(row, end)?
        {
            return Ok(object);
        }
        reader.read(number, row)
    }
}
