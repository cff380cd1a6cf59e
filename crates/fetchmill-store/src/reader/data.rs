//! The contents of a shard, which are appended records or a Parquet file.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::object_error::ObjectError;
use crate::manifest::ManifestRow;
use crate::pack::parquet::ParquetShard;
use crate::pack::{Decoder, Encoder as _, JsonlDecoder, TarDecoder, TarEncoder, WarcDecoder, item_of};
use crate::sink::Format;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::{HEAD_BYTES_MAX, KEPT_BYTES_MAX, SIDECARS_MAX, URL_BYTES_MAX};
use fetchmill_model::object::StoredObject;

/// Maximum number of bytes that a record takes per byte of a name or body. JSON writes `\u0000` for a single byte, and
/// repeats a name in hexadecimal if the name is not text.
const RECORD_GROWTH_MAX: u64 = 8;
/// Maximum number of bytes that a record takes per byte of a name. Each sidecar repeats the escaped name.
const NAME_GROWTH_MAX: u64 = RECORD_GROWTH_MAX + 3 * SIDECARS_MAX as u64;
/// Maximum size of everything else in a record: the heads of the request and the reply, facts from a list, and the
/// overhead of the format.
const RECORD_HEAD_BYTES_MAX: u64 =
    16 * HEAD_BYTES_MAX as u64 + 2 * RECORD_GROWTH_MAX * (KEPT_BYTES_MAX + URL_BYTES_MAX) as u64;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) enum ShardData {
    /// Rows.
    Parquet(ParquetShard),
    /// Records.
    Records(Arc<RecordFile>),
}

/// A file of consecutive records.
#[derive(Debug)]
pub(super) struct RecordFile {
    file: File,
    /// Actual length. If the shard was truncated, this is shorter than its recorded length.
    length: u64,
    /// Position at which the last record must end.
    end: u64,
    format: Format,
    decoder: Box<dyn Decoder>,
}

impl RecordFile {
    /// Opens a file of `length` bytes that should have `sealed` bytes.
    pub(super) fn new(file: File, format: Format, length: u64, sealed: u64) -> Result<Self> {
        let end = sealed.saturating_sub(trailer_bytes(format));
        Ok(RecordFile { file, length, end, format, decoder: decoder(format)? })
    }

    /// Returns the end of the last record.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Reads the object of a row, whose record ends at `end`.
    pub(super) fn read(
        &self,
        row: &ManifestRow<'_>,
        end: u64,
    ) -> std::result::Result<StoredObject, ObjectError> {
        let length = self.record_length(row, end)?;
        let mut record = vec![0; length];
        self.fill(row.place, &mut record)?;
        self.decode(row, &record)
    }

    /// Reads the record of a row unchanged, for a shard that replaces this one.
    pub(super) fn raw(&self, row: &ManifestRow<'_>, end: u64) -> std::result::Result<Vec<u8>, ObjectError> {
        let mut record = vec![0; self.record_length(row, end)?];
        self.fill(row.place, &mut record)?;
        Ok(record)
    }

    /// Returns the length of a row's record. Fails if no record can be at this position.
    pub(super) fn record_length(
        &self,
        row: &ManifestRow<'_>,
        end: u64,
    ) -> std::result::Result<usize, ObjectError> {
        let length = end.checked_sub(row.place).filter(|length| *length > 0 && end <= self.end);
        let length = length
            .ok_or_else(|| ObjectError::Damaged("its record is at an impossible position".to_owned()))?;
        if end > self.length {
            return Err(ObjectError::Damaged("the shard ends within its record".to_owned()));
        }
        let body = row.length.saturating_mul(RECORD_GROWTH_MAX);
        let name = (row.name.len() as u64).saturating_mul(NAME_GROWTH_MAX);
        if length > body.saturating_add(name).saturating_add(RECORD_HEAD_BYTES_MAX) {
            return Err(ObjectError::Damaged("its record is larger than possible".to_owned()));
        }
        Ok(length as usize)
    }

    /// Decodes the object of a row from its record.
    pub(super) fn decode(
        &self,
        row: &ManifestRow<'_>,
        record: &[u8],
    ) -> std::result::Result<StoredObject, ObjectError> {
        if self.format == Format::Jsonl
            && let Some(item) = item_of(record, row.name, row.length)
        {
            return Ok(item);
        }
        self.decoder.decode(record).map_err(ObjectError::from)
    }

    /// Returns the number of bytes from a position to the end of the file.
    pub(super) fn bytes_from(&self, place: u64) -> u64 {
        self.length.saturating_sub(place)
    }

    pub(super) fn fill(&self, place: u64, bytes: &mut [u8]) -> std::result::Result<(), ObjectError> {
        self.file.read_exact_at(bytes, place).map_err(|error| {
            ObjectError::Damaged(if error.kind() == ErrorKind::UnexpectedEof {
                "the shard ends within its record".to_owned()
            } else {
                format!("its record cannot be read: {error}")
            })
        })
    }
}

/// Returns how many bytes follow the last record.
fn trailer_bytes(format: Format) -> u64 {
    let mut trailer = Vec::new();
    if format == Format::Tar {
        TarEncoder::new().finish(&mut trailer);
    }
    trailer.len() as u64
}

/// Returns the decoder for a format that appends records.
fn decoder(format: Format) -> Result<Box<dyn Decoder>> {
    match format {
        Format::Tar => Ok(Box::new(TarDecoder)),
        Format::Jsonl => Ok(Box::new(JsonlDecoder)),
        Format::Warc => Ok(Box::new(WarcDecoder)),
        Format::Files | Format::Null | Format::Parquet => {
            Err(Error::Internal(format!("{} has no records", format.name())))
        }
    }
}
