//! Reads the wanted columns of a Parquet file, row by row.

use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::basic::Encoding;
use ::parquet::errors::{self as parquet_errors, ParquetError};
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::file::reader::ChunkReader;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use xxhash_rust::xxh3::Xxh3Default;

use super::columns::{ColumnPlan, ColumnSelector, is_manifest};
use super::lines::{ReadStep, unreadable};
use super::parquet_pages::{BoundedPages, PageMemory};
use super::read_share::ReadShare;
use super::records::{RecordStep, RecordValues, Records};
use super::value;
use crate::error::{Error, Result};
use crate::limits::{LIST_LINE_BYTES_MAX, MIB};
use crate::panics;
use crate::source::ListPosition;
use crate::target::extra_columns::ColumnType;

/// Maximum number of rows in a batch.
const BATCH_ROWS: u64 = 256;
/// Approximate size of a batch in bytes.
const BATCH_BYTES: u64 = MIB as u64;
/// Maximum number of rows in a batch if each value can be as long as its page.
const PREFIX_BATCH_ROWS: u64 = 16;
/// Number of rows that are skipped before the caller can check its stop signal.
const STRETCH_ROWS: u64 = 256 * 1024;
/// Maximum number of column names that an error shows if a wanted column is missing.
const SHOWN_NAMES: usize = 20;

/// The rows of a file.
pub(super) struct ParquetRecords {
    label: String,
    reader: ParquetRecordBatchReader,
    memory: PageMemory,
    batch: Option<RecordBatch>,
    /// Index of the next row in the batch.
    next: usize,
    /// Position of each wanted column in a batch. `None` if the file does not have the column.
    places: Vec<Option<usize>>,
    /// Type of each wanted column.
    types: Vec<ColumnType>,
    /// Names of all columns, with their types.
    names: Vec<String>,
    row: u64,
    /// Number of rows read so far.
    rows: u64,
    /// Number of rows to skip in the first row group before the first wanted row.
    skip: u64,
    digest: Xxh3Default,
}

/// Returns the number of rows in a Parquet file, according to its footer.
pub fn parquet_rows<F: ChunkReader + 'static>(label: &str, file: &F) -> Result<u64> {
    let metadata = guarded(label, || ArrowReaderMetadata::load(file, ArrowReaderOptions::new()))?;
    Ok(u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0))
}

/// Reads the metadata of a file. The schema in the result describes the columns as they are read.
pub(super) fn read_metadata<F: ChunkReader>(label: &str, file: &F) -> Result<ArrowReaderMetadata> {
    guarded(label, || {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let found = ArrowReaderMetadata::load(file, options.clone())?;
        let options = options.with_schema(without_copies(found.schema()));
        ArrowReaderMetadata::try_new(Arc::clone(found.metadata()), options)
    })
}

impl ParquetRecords {
    /// Opens a file to read `count` of its rows, starting at row `first`.
    pub(super) fn open<F: ChunkReader + 'static>(
        label: &str,
        file: F,
        plan: &ColumnPlan,
        (first, count): (u64, Option<u64>),
    ) -> Result<Self> {
        let metadata = read_metadata(label, &file)?;
        let columns = columns_of(label, plan, metadata.schema())?;
        let type_of = |column: &Option<usize>| {
            column.map_or(ColumnType::String, |column| {
                value::column_type(metadata.schema().field(column).data_type())
            })
        };
        let types = columns.iter().map(type_of).collect();
        let name_of = |field: &FieldRef| {
            let name = crate::name::for_display(field.name().as_bytes());
            format!("{name} ({})", value::column_type(field.data_type()).name())
        };
        let names = metadata.schema().fields().iter().map(name_of).collect();
        let mut projected: Vec<usize> = columns.iter().flatten().copied().collect();
        projected.sort_unstable();
        projected.dedup();
        let place_of = |column: usize| projected.partition_point(|other| *other < column);
        let places = columns.iter().map(|column| column.map(place_of)).collect();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), projected);
        let all_rows = u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
        let count = count.unwrap_or(u64::MAX).min(all_rows.saturating_sub(first));
        let (groups, skip) = groups_of(metadata.metadata(), first, count);
        let rows = batch_rows(metadata.metadata(), &mask, (BATCH_BYTES, BATCH_ROWS));
        let (file, memory) = guarded(label, || BoundedPages::new(file, metadata.metadata(), &mask, rows))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
        let reader = guarded(label, || {
            builder.with_projection(mask).with_batch_size(rows).with_row_groups(groups).build()
        })?;
        Ok(ParquetRecords {
            label: label.to_owned(),
            reader,
            memory,
            batch: None,
            next: 0,
            places,
            types,
            names,
            row: 0,
            rows: count,
            skip,
            digest: Xxh3Default::new(),
        })
    }

    /// Reads the next batch if the current one is used up. Returns whether a row is left.
    fn fill(&mut self) -> Result<bool> {
        while self.batch.as_ref().is_none_or(|batch| self.next >= batch.num_rows()) {
            self.batch = None;
            self.memory.begin_batch();
            let read = guarded(&self.label, || self.reader.next().transpose().map_err(ParquetError::from));
            let batch = read.map_err(|error| match self.memory.refused() {
                Some(why) => Error::Usage(format!("the list {} cannot be read: {why}", self.label)),
                None => error,
            })?;
            let Some(batch) = batch else { return Ok(false) };
            self.next = batch.num_rows().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            self.skip -= self.next as u64;
            self.batch = Some(batch);
        }
        Ok(true)
    }

    /// Adds the values and their lengths to the digest. Returns the total size of the values in bytes.
    fn digest(&mut self, values: &RecordValues) -> usize {
        let mut bytes = 0;
        for (column, _) in self.places.iter().enumerate().filter(|(_, place)| place.is_some()) {
            let value = values.get(column);
            self.digest.update(&value.map_or(0, |value| value.len() as u64 + 1).to_le_bytes());
            self.digest.update(value.unwrap_or_default());
            bytes += value.map_or(0, <[u8]>::len);
        }
        bytes
    }
}

impl Records for ParquetRecords {
    fn read_share(&self) -> Option<ReadShare> {
        Some(ReadShare::Part(self.row as f64 / self.rows.max(1) as f64))
    }

    fn next(&mut self, values: &mut RecordValues) -> Result<RecordStep> {
        values.clear(self.places.len());
        if self.row >= self.rows || !self.fill()? {
            return Ok(RecordStep::End);
        }
        if let Some(batch) = &self.batch {
            for (column, place) in self.places.iter().enumerate() {
                let Some(place) = *place else { continue };
                value::give(batch.column(place), self.next, |text| values.set(column, text));
            }
        }
        self.next += 1;
        self.row += 1;
        let bytes = self.digest(values);
        Ok(if bytes > LIST_LINE_BYTES_MAX {
            RecordStep::Bad("it is longer than 1 MiB")
        } else {
            RecordStep::Record
        })
    }

    fn place(&self) -> String {
        format!("row {}", self.row)
    }

    fn position(&mut self) -> ListPosition {
        let digest = self.digest.digest();
        ListPosition { offset: self.row, line: self.row, digest, ..ListPosition::default() }
    }

    fn go_to(&mut self, position: ListPosition) -> Result<ReadStep> {
        let mut values = RecordValues::default();
        while self.row < position.offset {
            if self.next(&mut values)? == RecordStep::End {
                return Ok(ReadStep::End);
            }
            if self.row.is_multiple_of(STRETCH_ROWS) {
                return Ok(ReadStep::NothingNow);
            }
        }
        Ok(if self.position().digest == position.digest { ReadStep::Done } else { ReadStep::End })
    }

    fn column_type(&self, column: usize) -> ColumnType {
        self.types.get(column).copied().unwrap_or_default()
    }

    fn columns(&mut self) -> Result<Option<Vec<String>>> {
        Ok(Some(self.names.clone()))
    }

    fn unit(&self) -> &'static str {
        "rows"
    }
}

/// Returns the row groups that contain the `count` rows starting at `first`, and the number of rows in them that
/// precede `first`.
fn groups_of(metadata: &ParquetMetaData, first: u64, count: u64) -> (Vec<usize>, u64) {
    let (mut groups, mut skip, mut start) = (Vec::new(), 0, 0_u64);
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let end = start.saturating_add(u64::try_from(group.num_rows()).unwrap_or(0));
        if end > first && start < first.saturating_add(count) {
            if groups.is_empty() {
                skip = first.saturating_sub(start);
            }
            groups.push(number);
        }
        start = end;
    }
    (groups, skip)
}

/// Catches panics in the library, which some damaged files cause. After a panic, the library's values are dropped
/// without further use.
pub(super) fn guarded<T>(label: &str, read: impl FnOnce() -> parquet_errors::Result<T>) -> Result<T> {
    match panics::expected(read) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => {
            let text = error.to_string();
            Err(unreadable(label, &text.lines().next().unwrap_or_default()))
        }
        None => Err(unreadable(label, &"its contents are inconsistent")),
    }
}

/// Returns the same columns, with strings read as views into their pages. Without views, a value in a dictionary would
/// be copied for each row that contains it.
fn without_copies(schema: &Schema) -> SchemaRef {
    let view = |field: &FieldRef| match field.data_type() {
        DataType::Utf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
        DataType::Binary => Arc::new(field.as_ref().clone().with_data_type(DataType::BinaryView)),
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(view).collect::<Vec<_>>()))
}

/// Returns the positions of the wanted columns in the file. Fails if a column cannot be converted to text.
fn columns_of(label: &str, plan: &ColumnPlan, schema: &Schema) -> Result<Vec<Option<usize>>> {
    let fields = schema.fields();
    let find = |name: &str| fields.iter().position(|field| field.name() == name);
    let is_manifest = is_manifest(|name| find(name).is_some());
    let column_of = |wanted: &ColumnSelector| {
        let place = match wanted {
            ColumnSelector::Number(number) => Some(*number).filter(|number| *number < fields.len()),
            ColumnSelector::Name(name) => find(name),
            ColumnSelector::Url => find("url"),
            ColumnSelector::Inventory(name) => return column_of_inventory(label, schema, name).map(Some),
            ColumnSelector::Manifest(name) if is_manifest => find(name),
            ColumnSelector::Manifest(_) => return Ok(None),
        };
        let names = || {
            let shown = fields.iter().take(SHOWN_NAMES);
            shown
                .map(|field| crate::name::for_display(field.name().as_bytes()))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let place = place.ok_or_else(|| {
            Error::Usage(format!(
                "the list {label} has no column {} (it has {}); choose the column of URLs with --column \
                 NAME or --column NUMBER (starting from 1)",
                wanted.text(),
                names()
            ))
        })?;
        let kind = fields[place].data_type();
        if value::is_readable(kind) {
            return Ok(Some(place));
        }
        Err(Error::Usage(format!(
            "the list {label}: column {} has neither text nor numbers ({kind}); choose another column",
            wanted.text()
        )))
    };
    plan.wanted().iter().map(column_of).collect()
}

/// Returns the position of a column from an inventory's schema. The user cannot choose a different column.
fn column_of_inventory(label: &str, schema: &Schema, name: &str) -> Result<usize> {
    let place = schema.fields().iter().position(|field| field.name() == name);
    place.filter(|place| value::is_readable(schema.field(*place).data_type())).ok_or_else(|| {
        let shown = crate::name::for_display(name.as_bytes());
        unreadable(
            label,
            &format!("it has no column {shown} with text or numbers, but manifest.json lists one"),
        )
    })
}

/// Returns a number of rows per batch that keeps batches near their target size in every row group. The number is small
/// if a value can be stored without the prefix that it shares with earlier values. Each such value can decode to the
/// length of its whole page.
pub(super) fn batch_rows(
    metadata: &ParquetMetaData,
    mask: &ProjectionMask,
    (bytes_max, rows_max): (u64, u64),
) -> usize {
    let rows_of = |group: &::parquet::file::metadata::RowGroupMetaData| {
        let wanted = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        let sizes = wanted.map(|(_, column)| u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX));
        let bytes = sizes.fold(0, u64::saturating_add);
        let rows = u64::try_from(group.num_rows()).unwrap_or(1).max(1);
        let has_prefixes = group.columns().iter().enumerate().any(|(leaf, column)| {
            mask.leaf_included(leaf)
                && column.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY)
        });
        (bytes_max / (bytes / rows).max(1)).min(if has_prefixes { PREFIX_BATCH_ROWS } else { rows_max })
    };
    metadata.row_groups().iter().map(rows_of).min().unwrap_or(1).clamp(1, rows_max) as usize
}
