//! Converts rows to objects.

use super::error::ShardError;
use super::kept_columns::KeptArray;
use super::schema::{Column, has_encodings, has_outcomes, outcome_place, schema, url_place};
use arrow_array::{
    Array, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt16Array,
    UInt32Array,
};
use fetchmill_model::object::{Facts, Micros, Object, StoredObject};
use fetchmill_model::target::Sequence;
use fetchmill_model::target::extra_columns::{ExtraColumns, OUTCOME_COLUMNS, URL_COLUMN, write_extra};

/// The columns of a complete batch in which every row must be an object. A row without a body counts as damage.
#[derive(Debug)]
pub struct BatchRows<'a> {
    sequence: &'a Int64Array,
    name: &'a StringArray,
    name_raw: &'a BinaryArray,
    status: &'a UInt16Array,
    content_type: &'a StringArray,
    etag: &'a StringArray,
    last_modified: &'a TimestampMicrosecondArray,
    fetched_at: &'a TimestampMicrosecondArray,
    crc32c: &'a UInt32Array,
    body: &'a BinaryArray,
    content_encoding: Option<&'a StringArray>,
    attempts: Option<&'a UInt32Array>,
    url: Option<&'a StringArray>,
    kept: Vec<KeptArray<'a>>,
}

impl<'a> BatchRows<'a> {
    /// Returns the columns, if they match [`schema()`].
    pub fn of(batch: &'a RecordBatch) -> Result<Self, ShardError> {
        Ok(BatchRows {
            sequence: column(batch, Column::Sequence)?,
            name: column(batch, Column::Name)?,
            name_raw: column(batch, Column::NameRaw)?,
            status: column(batch, Column::Status)?,
            content_type: column(batch, Column::ContentType)?,
            etag: column(batch, Column::Etag)?,
            last_modified: column(batch, Column::LastModified)?,
            fetched_at: column(batch, Column::FetchedAt)?,
            crc32c: column(batch, Column::Crc32c)?,
            body: column(batch, Column::Body)?,
            content_encoding: encoding_column(batch)?,
            attempts: attempts_column(batch)?,
            url: url_column(batch)?,
            kept: extra_columns(batch)?,
        })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.sequence.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the object in a row and its stored CRC-32C. `None` if the row does not exist. Kept values are written to
    /// `kept`.
    pub fn get<'o>(&self, row: usize, kept: &'o mut Vec<u8>) -> Option<Object<'o>>
    where
        'a: 'o,
    {
        if row >= self.len() {
            return None;
        }
        let name = if self.name_raw.is_null(row) {
            self.name.value(row).as_bytes()
        } else {
            self.name_raw.value(row)
        };
        Some(Object {
            sequence: self.sequence.value(row) as Sequence,
            name,
            body: self.body.value(row),
            crc32c: self.crc32c.value(row),
            facts: Facts {
                status: if self.status.is_null(row) { 0 } else { self.status.value(row) },
                attempts: self.attempts.map_or(0, |attempts| attempts.value(row)),
                fetched_at: micros(self.fetched_at, row).unwrap_or(0),
                content_type: text(self.content_type, row),
                content_encoding: self.content_encoding.and_then(|encodings| text(encodings, row)),
                etag: text(self.etag, row),
                last_modified: micros(self.last_modified, row).map(|micros| micros / 1_000_000),
                head: None,
                url: self.url.and_then(|url| text(url, row)),
                kept: self.kept_of(row, kept),
                entry: None,
                listed: None,
                replies: None,
            },
        })
    }

    fn kept_of<'o>(&self, row: usize, kept: &'o mut Vec<u8>) -> Option<&'o [u8]> {
        kept.clear();
        if self.kept.is_empty() {
            return None;
        }
        let mut memory = String::new();
        for column in &self.kept {
            write_extra(std::iter::once(column.text(row, &mut memory)), kept);
        }
        Some(kept)
    }
}

/// Returns the sequence number, the object and the stored CRC-32C of a row.
pub fn object_at(batch: &RecordBatch, row: usize) -> Result<(Sequence, StoredObject, u32), ShardError> {
    let (rows, mut kept) = (BatchRows::of(batch)?, Vec::new());
    let object = rows.get(row, &mut kept).ok_or_else(|| {
        ShardError::Damage(format!("row {row} was requested from a batch of {} rows", batch.num_rows()))
    })?;
    Ok((object.sequence, stored(&object), object.crc32c))
}

/// Verifies a body with its own checksum, because this version of the library does not write Parquet checksums.
pub(super) fn check_body(object: &Object<'_>) -> Result<(), ShardError> {
    if crc32c::crc32c(object.body) == object.crc32c {
        return Ok(());
    }
    let name = String::from_utf8_lossy(object.name);
    Err(ShardError::Damage(format!("the checksum of the body of {name:?} is wrong")))
}

pub(super) fn stored(object: &Object<'_>) -> StoredObject {
    StoredObject {
        name: object.name.to_vec(),
        body: object.body.to_vec(),
        status: object.facts.status,
        attempts: object.facts.attempts,
        fetched_at: object.facts.fetched_at,
        content_type: object.facts.content_type.map(<[u8]>::to_vec),
        content_encoding: object.facts.content_encoding.map(<[u8]>::to_vec),
        etag: object.facts.etag.map(<[u8]>::to_vec),
        last_modified: object.facts.last_modified,
        head: None,
        url: object.facts.url.map(<[u8]>::to_vec),
        kept: object.facts.kept.map(<[u8]>::to_vec),
    }
}

/// Returns the column after the standard ones.
fn encoding_column(batch: &RecordBatch) -> Result<Option<&StringArray>, ShardError> {
    if !has_encodings(batch.schema_ref()) {
        return Ok(None);
    }
    let column = batch.columns().get(Column::ALL.len());
    let texts = column.and_then(|values| values.as_any().downcast_ref());
    texts.map(Some).ok_or_else(|| {
        ShardError::Foreign("the column `content_encoding` is missing or has the wrong type".into())
    })
}

/// Returns the column after the encoding. It exists if every target has a row.
fn attempts_column(batch: &RecordBatch) -> Result<Option<&UInt32Array>, ShardError> {
    if !has_outcomes(batch.schema_ref()) {
        return Ok(None);
    }
    let column = batch.columns().get(outcome_place(batch.schema_ref()) + OUTCOME_COLUMNS.len() - 1);
    let numbers = column.and_then(|values| values.as_any().downcast_ref());
    numbers
        .map(Some)
        .ok_or_else(|| ShardError::Foreign("the column `attempts` is missing or has the wrong type".into()))
}

/// Returns the URL column, which follows the outcomes.
fn url_column(batch: &RecordBatch) -> Result<Option<&StringArray>, ShardError> {
    let place = url_place(batch.schema_ref());
    let Some(field) = batch.schema_ref().fields().get(place) else { return Ok(None) };
    let column = batch.columns().get(place).filter(|_| field.name() == URL_COLUMN);
    let texts = column.and_then(|values| values.as_any().downcast_ref());
    texts.map(Some).ok_or_else(|| ShardError::Foreign(format!("unexpected column {field:?}")))
}

/// Returns the columns after the URL.
fn extra_columns(batch: &RecordBatch) -> Result<Vec<KeptArray<'_>>, ShardError> {
    let columns = batch.columns().iter().skip(url_place(batch.schema_ref()) + 1).map(KeptArray::of);
    let known = columns.collect::<Option<_>>();
    known.ok_or_else(|| ShardError::Foreign("a kept column is not text, numbers or booleans".into()))
}

fn column<T: Array + 'static>(batch: &RecordBatch, column: Column) -> Result<&T, ShardError> {
    let named = batch.schema_ref().fields().get(column as usize).is_some_and(|it| it.name() == column.name());
    let values = batch.columns().get(column as usize).filter(|_| named);
    let values = values.and_then(|values| values.as_any().downcast_ref::<T>());
    // The Parquet reader has already checked that required columns contain no nulls.
    let nullable = schema(&ExtraColumns::default()).field(column as usize).is_nullable();
    values.filter(|values| nullable || values.null_count() == 0).ok_or_else(|| {
        ShardError::Foreign(format!("the column `{}` is missing or has the wrong type", column.name()))
    })
}

fn text(column: &StringArray, row: usize) -> Option<&[u8]> {
    (!column.is_null(row)).then(|| column.value(row).as_bytes())
}

fn micros(column: &TimestampMicrosecondArray, row: usize) -> Option<Micros> {
    (!column.is_null(row)).then(|| Micros::try_from(column.value(row)).ok()).flatten()
}
