//! Commit records, from which the committed part of a Parquet shard can be turned into a valid file. Each one follows
//! the row groups of a commit and contains the metadata that a footer needs.
//!
//! A commit record is `metadata | previous u64 | length u32 | crc32c u32 | "FMCOMMIT"`, with little-endian numbers:
//! - `metadata` is Parquet's `FileMetaData` with the row groups since the previous record.
//! - `previous` is the end of the previous record, or 0.
//! - `length` is the length of the metadata.
//! - The checksum covers all of the preceding fields.
//!
//! As a result, the cost of a record depends only on its own row groups. Parquet readers ignore the space between row
//! groups.

use super::error::{ShardError, one_line};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use ::parquet::schema::types::SchemaDescriptor;
use fetchmill_model::panics;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"FMCOMMIT";
/// Size of the fields after the metadata.
const TAIL_BYTES: usize = 8 + 4 + 4 + MAGIC.len();
/// Size of the end of a Parquet file: the length of its metadata, and `PAR1`.
const PARQUET_TAIL_BYTES: usize = 8;

/// Returns the record for these row groups. `previous` is the end of the previous record.
pub(super) fn commit_record(
    schema: &Arc<SchemaDescriptor>,
    created_by: &str,
    row_groups: &[RowGroupMetaData],
    previous: u64,
) -> Result<Vec<u8>, ParquetError> {
    let metadata = metadata_of(schema, created_by, row_groups.to_vec());
    let mut record = footer_bytes(&metadata)?;
    record.truncate(record.len().saturating_sub(PARQUET_TAIL_BYTES));
    let length = u32::try_from(record.len())?;
    record.extend_from_slice(&previous.to_le_bytes());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&crc32c::crc32c(&record).to_le_bytes());
    record.extend_from_slice(MAGIC);
    Ok(record)
}

/// Returns the footer that completes a shard truncated to a commit, and the number of rows.
pub fn footer_of(file: &File, end: u64) -> Result<(Vec<u8>, u64), ShardError> {
    let mut records = vec![CommitRecord::read(file, end)?];
    while let Some(record) = records.last().filter(|record| record.previous > 0) {
        records.push(CommitRecord::read(file, record.previous)?);
    }
    let last = records.first().map(|record| record.metadata.file_metadata().clone());
    let last = last.ok_or_else(|| damaged("it has no commit record"))?;
    let groups = records.into_iter().rev().flat_map(|record| record.metadata.row_groups().to_vec()).collect();
    let metadata = metadata_of(&last.schema_descr_ptr(), last.created_by().unwrap_or_default(), groups);
    let rows = u64::try_from(metadata.file_metadata().num_rows())
        .map_err(|_| damaged("the number of rows is negative"))?;
    Ok((footer_bytes(&metadata)?, rows))
}

/// A commit record that was read from a file.
struct CommitRecord {
    metadata: ParquetMetaData,
    previous: u64,
}

impl CommitRecord {
    /// Reads the record that ends at `end`. Checks lengths from the file before allocating memory for them.
    fn read(file: &File, end: u64) -> Result<Self, ShardError> {
        let mut tail = [0; TAIL_BYTES];
        let start = end
            .checked_sub(TAIL_BYTES as u64)
            .ok_or_else(|| damaged("it is too short to contain a commit record"))?;
        read_at(file, &mut tail, start)?;
        let (numbers, magic) = tail.split_at(TAIL_BYTES - MAGIC.len());
        let (previous, rest) = numbers.split_at(size_of::<u64>());
        let (length, checksum) = rest.split_at(size_of::<u32>());
        let previous = previous.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let length = length.try_into().map(u32::from_le_bytes).unwrap_or_default();
        let checksum = checksum.try_into().map(u32::from_le_bytes).unwrap_or_default();
        let begin = start.checked_sub(u64::from(length)).filter(|begin| *begin > previous);
        let begin = begin.filter(|_| magic == MAGIC).ok_or_else(|| damaged("a commit record is missing"))?;
        let mut record = vec![0; length as usize + size_of::<u64>() + size_of::<u32>()];
        read_at(file, &mut record, begin)?;
        if crc32c::crc32c(&record) != checksum {
            return Err(damaged("the checksum of a commit record is wrong"));
        }
        record.truncate(length as usize);
        let metadata = panics::expected(|| ParquetMetaDataReader::decode_metadata(&record));
        let metadata = metadata.ok_or_else(|| damaged("a commit record is not valid"))??;
        Ok(CommitRecord { metadata, previous })
    }
}

fn read_at(file: &File, bytes: &mut [u8], place: u64) -> Result<(), ShardError> {
    file.read_exact_at(bytes, place).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it is too short"),
        _ => ShardError::Io(error),
    })
}

fn metadata_of(
    schema: &Arc<SchemaDescriptor>,
    created_by: &str,
    row_groups: Vec<RowGroupMetaData>,
) -> ParquetMetaData {
    let rows = row_groups.iter().map(RowGroupMetaData::num_rows).sum();
    let file = FileMetaData::new(1, rows, Some(created_by.to_owned()), None, Arc::clone(schema), None);
    ParquetMetaDataBuilder::new(file).set_row_groups(row_groups).build()
}

fn footer_bytes(metadata: &ParquetMetaData) -> Result<Vec<u8>, ParquetError> {
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, metadata).finish()?;
    Ok(bytes)
}

fn damaged(what: &str) -> ShardError {
    ShardError::Damage(one_line(&what))
}
