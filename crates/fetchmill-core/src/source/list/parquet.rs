//! Rows of a Parquet file, those columns that are wanted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::file::reader::ChunkReader;
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use xxhash_rust::xxh3::Xxh3Default;

use super::ListPosition;
use super::columns::{Column, Plan, is_manifest};
use super::lines::{Progress, unreadable};
use super::records::{Records, Step, Values};
use super::value;
use crate::error::{Error, Result};
use crate::limits::{LIST_LINE_BYTES_MAX, MIB};

/// Rows of a batch,
const BATCH_ROWS: u64 = 256;
/// and about their bytes.
const BATCH_BYTES: u64 = MIB as u64;
/// Rows that are passed over before the caller may look at its stop signal.
const STRETCH_ROWS: u64 = 256 * 1024;
/// Column names that are shown when one is missing.
const SHOWN_NAMES: usize = 20;

/// The rows of a file.
pub(super) struct Rows {
    label: String,
    reader: ParquetRecordBatchReader,
    batch: Option<RecordBatch>,
    /// The next row of the batch.
    next: usize,
    /// For each wanted column, which one of a batch it is; none: the file has no such one.
    places: Vec<Option<usize>>,
    row: u64,
    digest: Xxh3Default,
}

impl Rows {
    pub(super) fn open<F: ChunkReader + 'static>(label: &str, file: F, plan: &Plan) -> Result<Self> {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder =
            guarded(label, || ParquetRecordBatchReaderBuilder::try_new_with_options(file, options))?;
        let columns = columns_of(label, plan, builder.schema())?;
        let mut projected: Vec<usize> = columns.iter().flatten().copied().collect();
        projected.sort_unstable();
        projected.dedup();
        let place_of = |column: usize| projected.partition_point(|other| *other < column);
        let places = columns.iter().map(|column| column.map(place_of)).collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), projected);
        let rows = batch_rows(builder.metadata(), &mask);
        let reader = guarded(label, || builder.with_projection(mask).with_batch_size(rows).build())?;
        Ok(Rows {
            label: label.to_owned(),
            reader,
            batch: None,
            next: 0,
            places,
            row: 0,
            digest: Xxh3Default::new(),
        })
    }

    /// A batch that has a row left; whether there is one.
    fn fill(&mut self) -> Result<bool> {
        while self.batch.as_ref().is_none_or(|batch| self.next >= batch.num_rows()) {
            let Some(batch) = guarded(&self.label, || self.reader.next().transpose())? else {
                return Ok(false);
            };
            self.batch = Some(batch);
            self.next = 0;
        }
        Ok(true)
    }

    /// Digests the values with their lengths; how many bytes they have.
    fn digest(&mut self, values: &Values) -> usize {
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

impl Records for Rows {
    fn next(&mut self, values: &mut Values) -> Result<Step> {
        values.clear(self.places.len());
        if !self.fill()? {
            return Ok(Step::End);
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
        Ok(if bytes > LIST_LINE_BYTES_MAX { Step::Bad("it is longer than 1 MiB") } else { Step::Record })
    }

    fn place(&self) -> String {
        format!("row {}", self.row)
    }

    fn position(&mut self) -> ListPosition {
        ListPosition { entries: 0, offset: self.row, line: self.row, digest: self.digest.digest() }
    }

    fn go_to(&mut self, position: ListPosition) -> Result<Progress> {
        let mut values = Values::default();
        while self.row < position.offset {
            if self.next(&mut values)? == Step::End {
                return Ok(Progress::End);
            }
            if self.row.is_multiple_of(STRETCH_ROWS) {
                return Ok(Progress::NothingNow);
            }
        }
        Ok(if self.position().digest == position.digest { Progress::Done } else { Progress::End })
    }

    fn unit(&self) -> &'static str {
        "rows"
    }
}

/// The library panics on some damage; nothing is used after a panic but what is dropped.
fn guarded<T, E: std::fmt::Display>(
    label: &str,
    read: impl FnOnce() -> std::result::Result<T, E>,
) -> Result<T> {
    let read = catch_unwind(AssertUnwindSafe(read));
    match read {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let text = error.to_string();
            Err(unreadable(label, &text.lines().next().unwrap_or_default()))
        }
        Err(_) => Err(unreadable(label, &"its contents make no sense")),
    }
}

/// Which columns of the file are the wanted ones, and that they can be text.
fn columns_of(label: &str, plan: &Plan, schema: &Schema) -> Result<Vec<Option<usize>>> {
    let fields = schema.fields();
    let find = |name: &str| fields.iter().position(|field| field.name() == name);
    let is_manifest = is_manifest(|name| find(name).is_some());
    let column_of = |wanted: &Column| {
        let place = match wanted {
            Column::Number(number) => Some(*number).filter(|number| *number < fields.len()),
            Column::Name(name) => find(name),
            Column::Url => find("url"),
            Column::Manifest(name) if is_manifest => find(name),
            Column::Manifest(_) => return Ok(None),
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
                "the list {label} has no column {}; it has {}: name the column of the URLs with --column NAME, or \
                 its number from 1",
                wanted.text(),
                names()
            ))
        })?;
        let kind = fields[place].data_type();
        if value::is_readable(kind) {
            return Ok(Some(place));
        }
        Err(Error::Usage(format!(
            "the list {label} has a column {} that is no text or number but {kind}; choose another",
            wanted.text()
        )))
    };
    plan.wanted().iter().map(column_of).collect()
}

/// Rows that have about the bytes of a batch in every row group.
fn batch_rows(metadata: &ParquetMetaData, mask: &ProjectionMask) -> usize {
    let rows_of = |group: &::parquet::file::metadata::RowGroupMetaData| {
        let wanted = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        let sizes = wanted.map(|(_, column)| u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX));
        let bytes = sizes.fold(0, u64::saturating_add);
        let rows = u64::try_from(group.num_rows()).unwrap_or(1).max(1);
        BATCH_BYTES / (bytes / rows).max(1)
    };
    metadata.row_groups().iter().map(rows_of).min().unwrap_or(1).clamp(1, BATCH_ROWS) as usize
}
