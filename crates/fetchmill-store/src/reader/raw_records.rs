//! Reads the records of a shard unchanged, from start to end, and verifies the checksum of the whole file.

use std::sync::Arc;

use super::data::RecordFile;
use super::object_error::ObjectError;
use crate::manifest::ManifestRow;
use fetchmill_model::limits::MIB;

/// Size of a read. A larger record is read into memory as a whole.
const READ_BYTES: usize = MIB;

/// The part of a shard that is in memory. It only moves forward, so that the checksum covers every byte.
#[derive(Debug)]
pub(super) struct RawRecords {
    records: Arc<RecordFile>,
    start: u64,
    bytes: Vec<u8>,
    /// CRC-32C of everything up to the end of this part.
    crc32c: u32,
}

impl RawRecords {
    pub(super) fn new(records: Arc<RecordFile>) -> Self {
        RawRecords { records, start: 0, bytes: Vec::new(), crc32c: 0 }
    }

    /// Returns the end of the last record.
    pub(super) fn end(&self) -> u64 {
        self.records.end()
    }

    /// Returns the record of a row. The record must follow those read so far, and must end at `end`.
    pub(super) fn read(&mut self, row: &ManifestRow<'_>, end: u64) -> Result<&[u8], ObjectError> {
        self.records.record_length(row, end)?;
        while end > self.bytes_end() {
            self.advance(row.place, end)?;
        }
        let range = self.position(row.place)..self.position(end);
        self.bytes
            .get(range)
            .ok_or_else(|| ObjectError::Damaged("its record is at an impossible position".into()))
    }

    /// Reads the file up to its end. Returns the checksum of the whole file.
    pub(super) fn finish(mut self) -> Result<u32, ObjectError> {
        while self.records.bytes_from(self.bytes_end()) > 0 {
            self.advance(u64::MAX, 0)?;
        }
        Ok(self.crc32c)
    }

    fn bytes_end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn position(&self, place: u64) -> usize {
        place.checked_sub(self.start).map_or(usize::MAX, |position| position as usize)
    }

    /// Drops the bytes before `place` and reads more, at least up to `end`.
    fn advance(&mut self, place: u64, end: u64) -> Result<(), ObjectError> {
        let dropped = self.position(place).min(self.bytes.len());
        self.bytes.drain(..dropped);
        self.start += dropped as u64;
        let kept = self.bytes.len();
        let wanted = end.saturating_sub(self.bytes_end()).max(READ_BYTES as u64);
        let length = wanted.min(self.records.bytes_from(self.bytes_end())) as usize;
        if length == 0 {
            return Err(ObjectError::Damaged("the shard ends within its record".into()));
        }
        // Do not keep the memory of a large record.
        self.bytes.shrink_to(2 * READ_BYTES);
        self.bytes.resize(kept + length, 0);
        let read = &mut self.bytes[kept..];
        self.records.fill(self.start + kept as u64, read)?;
        self.crc32c = crc32c::crc32c_append(self.crc32c, read);
        Ok(())
    }
}
