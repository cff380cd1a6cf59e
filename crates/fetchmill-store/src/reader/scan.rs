//! Reads a shard from start to end with large reads. `verify`, `export` and Arrow use this.

use std::sync::Arc;

use super::data::{RecordFile, ShardData};
use super::object_error::{ObjectError, check, note_encoding, of_row};
use crate::manifest::{Frame, Manifest, ManifestRow};
use crate::pack::parquet::{ParquetShard, RowBatches, object_at};
use arrow_array::RecordBatch;
use fetchmill_model::error::Result;
use fetchmill_model::limits::MIB;
use fetchmill_model::object::StoredObject;
use fetchmill_model::target::Sequence;

/// Size of a read. A larger record is read on its own.
const READ_BYTES: usize = MIB;
/// Number of Parquet rows that are read one by one after damage is found, so that only the damaged rows are lost.
const SALVAGED_ROWS: u64 = 1024;

/// A row and its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedObject {
    /// Position of the row in the manifest.
    pub row: u64,
    /// Sequence number of the target.
    pub sequence: Sequence,
    /// CRC-32C of the body, from the manifest.
    pub crc32c: u32,
    /// The object, or a description of the damage.
    pub object: std::result::Result<StoredObject, LostObject>,
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostObject {
    /// Name of the object, according to the manifest.
    pub name: Vec<u8>,
    /// Size of the body in bytes, according to the manifest.
    pub length: u64,
    /// Description of the damage.
    pub what: String,
}

/// Iterates over the rows of a shard, in order. An error concerns a single manifest frame. The item after it comes from
/// the next frame.
#[derive(Debug)]
pub struct Scan {
    manifest: Arc<Manifest>,
    data: ScanCursor,
    next_frame: usize,
    frame: Option<Arc<Frame>>,
    /// The frame after `frame`, read in advance. Its first row shows where the last record of `frame` ends.
    ahead: Option<Result<Arc<Frame>>>,
    position: usize,
}

impl Scan {
    pub(super) fn new(manifest: Arc<Manifest>, data: &ShardData) -> Self {
        let data = match data {
            ShardData::Parquet(shard) => ScanCursor::Parquet(Box::new(ParquetScan::new(shard.clone()))),
            ShardData::Records(records) => {
                ScanCursor::Records(ScanWindow { records: Arc::clone(records), start: 0, bytes: Vec::new() })
            }
        };
        Scan { manifest, data, next_frame: 0, frame: None, ahead: None, position: 0 }
    }

    /// Skips the rows before `row`.
    pub fn skip_to(&mut self, row: u64) {
        self.next_frame = self.manifest.frame_of_row(row).unwrap_or(self.manifest.frames());
        (self.frame, self.ahead) = (None, None);
        if let Some(Ok(frame)) = self.read_frame() {
            self.position = row.saturating_sub(frame.first_row()) as usize;
            self.frame = Some(frame);
            self.ahead = self.read_frame();
        } else {
            // The error is returned when the first row is requested.
            self.next_frame = self.next_frame.saturating_sub(1);
        }
    }

    fn read_frame(&mut self) -> Option<Result<Arc<Frame>>> {
        if self.next_frame >= self.manifest.frames() {
            return None;
        }
        self.next_frame += 1;
        Some(self.manifest.frame(self.next_frame - 1).map(Arc::new))
    }

    /// Moves to the next frame. Returns `None` after the last one.
    fn advance(&mut self) -> Option<Result<()>> {
        (self.frame, self.position) = (None, 0);
        let next = self.ahead.take().or_else(|| self.read_frame())?;
        self.ahead = self.read_frame();
        Some(next.map(|frame| self.frame = Some(frame)))
    }

    /// Returns the end of the record at a position. `None` if the frame that would show the end is damaged.
    fn record_end(&self, frame: &Frame, position: usize) -> Option<u64> {
        if position + 1 < frame.len() {
            return Some(frame.row(position + 1).place);
        }
        match &self.ahead {
            Some(Ok(next)) => Some(next.row(0).place),
            Some(Err(_)) => None,
            None => Some(self.data.end()),
        }
    }
}

impl Iterator for Scan {
    type Item = Result<ScannedObject>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(frame) = self.frame.clone().filter(|frame| self.position < frame.len()) else {
                match self.advance()? {
                    Ok(()) => continue,
                    Err(error) => return Some(Err(error)),
                }
            };
            let row = frame.row(self.position);
            let end = self.record_end(&frame, self.position);
            let number = frame.first_row() + self.position as u64;
            self.position += 1;
            let read = self.data.read(&row, end).and_then(|mut object| {
                check(&row, &object)?;
                note_encoding(&row, &mut object);
                Ok(object)
            });
            let object = match read {
                Ok(object) => Ok(object),
                Err(ObjectError::Failed(error)) => return Some(Err(error)),
                Err(ObjectError::Damaged(what)) => {
                    Err(LostObject { name: row.name.to_vec(), length: row.length, what })
                }
            };
            return Some(Ok(ScannedObject {
                row: number,
                sequence: row.sequence,
                crc32c: row.crc32c,
                object,
            }));
        }
    }
}

#[derive(Debug)]
enum ScanCursor {
    Parquet(Box<ParquetScan>),
    Records(ScanWindow),
}

impl ScanCursor {
    fn read(
        &mut self,
        row: &ManifestRow<'_>,
        end: Option<u64>,
    ) -> std::result::Result<StoredObject, ObjectError> {
        match self {
            ScanCursor::Parquet(rows) => rows.read(row.place),
            ScanCursor::Records(window) => match end {
                Some(end) => window.read(row, end),
                None => Err(ObjectError::Damaged(
                    "the end of its record is unknown, because the next part of the manifest is damaged"
                        .to_owned(),
                )),
            },
        }
    }

    fn end(&self) -> u64 {
        match self {
            ScanCursor::Parquet(_) => 0,
            ScanCursor::Records(window) => window.records.end(),
        }
    }
}

/// The part of a shard that is in memory.
#[derive(Debug)]
struct ScanWindow {
    records: Arc<RecordFile>,
    start: u64,
    bytes: Vec<u8>,
}

impl ScanWindow {
    fn read(&mut self, row: &ManifestRow<'_>, end: u64) -> std::result::Result<StoredObject, ObjectError> {
        let length = self.records.record_length(row, end)?;
        let is_here = row.place >= self.start && end <= self.start + self.bytes.len() as u64;
        if !is_here {
            self.load(row.place, length)?;
        }
        let from = (row.place - self.start) as usize;
        self.records.decode(row, self.bytes.get(from..from + length).unwrap_or_default())
    }

    fn load(&mut self, place: u64, length: usize) -> std::result::Result<(), ObjectError> {
        let ahead = self.records.bytes_from(place).min(READ_BYTES as u64) as usize;
        self.start = place;
        self.bytes.clear();
        // Do not keep the memory of a large record.
        self.bytes.shrink_to(READ_BYTES);
        self.bytes.resize(ahead.max(length), 0);
        let read = self.records.fill(place, &mut self.bytes);
        if read.is_err() {
            self.bytes.clear();
        }
        read
    }
}

/// Rows of a Parquet file, read in batches.
#[derive(Debug)]
struct ParquetScan {
    shard: ParquetShard,
    batches: Option<RowBatches>,
    batch: Option<RecordBatch>,
    /// First row in the batch.
    first: u64,
    /// Rows before this one are read one by one.
    salvage_until: u64,
}

impl ParquetScan {
    fn new(shard: ParquetShard) -> Self {
        ParquetScan { shard, batches: None, batch: None, first: 0, salvage_until: 0 }
    }

    fn read(&mut self, row: u64) -> std::result::Result<StoredObject, ObjectError> {
        if row < self.salvage_until {
            return self.shard.row(row).map_err(of_row);
        }
        if self.position(row).is_none() && self.load(row).is_err() {
            (self.batches, self.batch) = (None, None);
            self.salvage_until = row.saturating_add(SALVAGED_ROWS);
            return self.shard.row(row).map_err(of_row);
        }
        let no_row = || ObjectError::Damaged("the row does not exist".to_owned());
        let (batch, position) = self.batch.as_ref().zip(self.position(row)).ok_or_else(no_row)?;
        object_at(batch, position).map(|(_, object, _)| object).map_err(of_row)
    }

    fn position(&self, row: u64) -> Option<usize> {
        let rows = self.batch.as_ref()?.num_rows() as u64;
        row.checked_sub(self.first).filter(|position| *position < rows).map(|position| position as usize)
    }

    /// Reads the batch that starts at this row.
    fn load(&mut self, row: u64) -> std::result::Result<(), ObjectError> {
        let next = self.batch.as_ref().map(|batch| self.first + batch.num_rows() as u64);
        self.batch = None;
        let mut batches = match self.batches.take().filter(|_| next == Some(row)) {
            Some(batches) => batches,
            None => self.shard.batches(row..self.shard.rows(), None).map_err(of_row)?,
        };
        let batch =
            batches.next().ok_or_else(|| ObjectError::Damaged("the row does not exist".to_owned()))?;
        self.batch = Some(batch.map_err(of_row)?);
        (self.first, self.batches) = (row, Some(batches));
        Ok(())
    }
}
