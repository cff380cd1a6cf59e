//! A cache of decoded Parquet rows, in batches.
//!
//! Reading a single row requires decoding a page of each column. For this reason, rows that are close together are read
//! by a scan, which continues where it stopped and decodes each page only once. Other rows are read separately.

use std::collections::HashMap;

use super::object_error::{ObjectError, of_row};
use crate::pack::parquet::{ParquetShard, RowBatches, object_at};
use arrow_array::RecordBatch;
use fetchmill_model::object::StoredObject;

/// Maximum distance between rows that count as close together. It exceeds the number of requests that a client keeps in
/// flight.
const NEAR_ROWS: u64 = 256;
/// Maximum number of rows that a scan may skip after its last batch.
const AHEAD_ROWS: u64 = 2048;
/// Maximum number of open scans. Each one keeps a page and a dictionary per column in memory. This takes a few MiB, or
/// more if a body is larger.
const SCANS_MAX: usize = 2;
/// An object and its stored CRC-32C.
type StoredRow = (StoredObject, u32);

/// Number of rows that are read separately after damage is found, or because a batch is too large for the cache.
const ALONE_ROWS: u64 = 1024;

/// Batches up to a total size, most recently used first. Belongs to one thread.
#[derive(Debug)]
pub(super) struct CachedRows {
    batches: Vec<CachedBatch>,
    /// Open scans, most recently used first.
    scans: Vec<OpenScan>,
    /// Rows that were read separately, by shard.
    alone: HashMap<usize, ReadAlone>,
    bytes: usize,
    bytes_max: usize,
    decoded: u64,
}

#[derive(Debug)]
struct CachedBatch {
    shard: usize,
    first: u64,
    batch: RecordBatch,
    bytes: usize,
}

#[derive(Debug)]
struct OpenScan {
    shard: usize,
    /// First row that the scan has not read yet.
    next: u64,
    batches: RowBatches,
}

#[derive(Debug, Default, Clone, Copy)]
struct ReadAlone {
    last: Option<u64>,
    /// Range of rows that are always read separately.
    only: (u64, u64),
}

impl CachedRows {
    pub(super) fn new(bytes_max: usize) -> Self {
        let (batches, scans, alone) = (Vec::new(), Vec::new(), HashMap::new());
        CachedRows { batches, scans, alone, bytes: 0, bytes_max, decoded: 0 }
    }

    /// Returns the size of the cached batches in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of batches decoded so far. A row that is read separately counts as a batch.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Returns a row of a shard as an object with its stored checksum, without verifying either. `None` if the row must
    /// be read separately.
    pub(super) fn read(
        &mut self,
        shard: usize,
        parquet: &ParquetShard,
        row: u64,
    ) -> std::result::Result<Option<StoredRow>, ObjectError> {
        if let Some(at) = self.batches.iter().position(|cached| cached.has(shard, row)) {
            self.batches[..=at].rotate_right(1);
            return self.batches[0].object(row).map(Some);
        }
        if !self.goes_on(shard, row) && !self.start(shard, parquet, row)? {
            self.decoded += 1;
            return Ok(None);
        }
        self.read_on(row)
    }

    /// Marks this row and those after it to be read separately, because their batch cannot be used.
    pub(super) fn read_alone_from(&mut self, shard: usize, row: u64) {
        self.scans.retain(|scan| scan.shard != shard);
        self.alone.entry(shard).or_default().only = (row, row.saturating_add(ALONE_ROWS));
    }

    /// Returns whether a scan will soon reach this row. If so, moves this scan to the front.
    fn goes_on(&mut self, shard: usize, row: u64) -> bool {
        let comes =
            |scan: &OpenScan| scan.shard == shard && (scan.next..scan.next + AHEAD_ROWS).contains(&row);
        let found = self.scans.iter().position(comes);
        if let Some(at) = found {
            self.scans[..=at].rotate_right(1);
        }
        found.is_some()
    }

    /// Starts a scan if a row close to this one was requested earlier.
    fn start(
        &mut self,
        shard: usize,
        parquet: &ParquetShard,
        row: u64,
    ) -> std::result::Result<bool, ObjectError> {
        let alone = self.alone.entry(shard).or_default();
        let last = alone.last.replace(row);
        let is_near = last.is_some_and(|last| row.abs_diff(last) <= NEAR_ROWS);
        if !is_near || (alone.only.0..alone.only.1).contains(&row) {
            return Ok(false);
        }
        // Requests for rows just before this one may still follow, because they were sent at about the same time.
        let next = row.saturating_sub(NEAR_ROWS);
        let batches = parquet.batches(next..parquet.rows(), None).map_err(of_row)?;
        self.scans.truncate(SCANS_MAX - 1);
        self.scans.insert(0, OpenScan { shard, next, batches });
        Ok(true)
    }

    /// Reads batches of the first scan, up to the one that contains this row.
    fn read_on(&mut self, row: u64) -> std::result::Result<Option<StoredRow>, ObjectError> {
        while let Some(scan) = self.scans.first_mut()
            && let Some(batch) = scan.batches.next()
        {
            let batch = batch.map_err(of_row)?;
            self.decoded += 1;
            let (shard, first) = (scan.shard, scan.next);
            scan.next += batch.num_rows() as u64;
            let bytes = batch.get_array_memory_size();
            let cached = CachedBatch { shard, first, batch, bytes };
            let object = cached.has(shard, row).then(|| cached.object(row)).transpose()?;
            self.keep(cached);
            if object.is_some() {
                return Ok(object);
            }
        }
        Err(ObjectError::Damaged("the row does not exist".to_owned()))
    }

    fn keep(&mut self, cached: CachedBatch) {
        if cached.bytes > self.bytes_max {
            return self.read_alone_from(cached.shard, cached.first);
        }
        self.bytes += cached.bytes;
        self.batches.insert(0, cached);
        while self.bytes > self.bytes_max {
            let Some(last) = self.batches.pop() else { return };
            self.bytes -= last.bytes;
        }
    }
}

impl CachedBatch {
    fn has(&self, shard: usize, row: u64) -> bool {
        shard == self.shard && (self.first..self.first + self.batch.num_rows() as u64).contains(&row)
    }

    fn object(&self, row: u64) -> std::result::Result<StoredRow, ObjectError> {
        object_at(&self.batch, (row - self.first) as usize)
            .map(|(_, object, crc32c)| (object, crc32c))
            .map_err(of_row)
    }
}
