//! Lookups by name with a cache of decoded data, for callers that request many neighbouring objects.

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

/// Manifest frames may use 1 / `FRAMES_PART` of the cache. The remaining part is for Parquet rows.
const FRAMES_PART: usize = 4;

/// Lookups for one thread. They return the same results and errors as [`Destination::find`].
#[derive(Debug)]
pub struct CachedLookups {
    destination: Arc<Destination>,
    frames: CachedFrames,
    rows: CachedRows,
}

/// Cost of the lookups so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupCounts {
    /// Decoded manifest frames.
    pub frames: u64,
    /// Decoded batches of Parquet rows. A row that is read separately counts as a batch.
    pub batches: u64,
    /// Size of the cache in bytes.
    pub bytes: usize,
}

impl CachedLookups {
    /// Creates lookups in a destination with a cache of [`LOOKUP_CACHE_BYTES`].
    pub fn new(destination: Arc<Destination>) -> Self {
        Self::with_bytes(destination, LOOKUP_CACHE_BYTES)
    }

    /// Creates lookups in a destination with a cache of `bytes` bytes.
    pub fn with_bytes(destination: Arc<Destination>, bytes: usize) -> Self {
        let frames = CachedFrames::new(bytes / FRAMES_PART);
        CachedLookups { destination, frames, rows: CachedRows::new(bytes - bytes / FRAMES_PART) }
    }

    /// Returns whether these lookups belong to this destination.
    pub fn are_of(&self, destination: &Arc<Destination>) -> bool {
        Arc::ptr_eq(&self.destination, destination)
    }

    /// Returns the cost of the lookups so far.
    pub fn counts(&self) -> LookupCounts {
        LookupCounts {
            frames: self.frames.decoded(),
            batches: self.rows.decoded(),
            bytes: self.frames.bytes() + self.rows.bytes(),
        }
    }

    /// Returns the object with this name after verifying it.
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
                // The row itself may be intact. Reading it separately shows whether it is damaged.
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
