//! Reads a shard in place, either single rows or batches of rows.

use super::error::{ShardError, one_line};
use super::items::widened;
use super::rows::{BatchRows, check_body, stored};
use super::schema::{Column, columns_of};
use super::source::ShardBytes;
use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
    RowSelection, RowSelectionPolicy, RowSelector,
};
use ::parquet::file::metadata::PageIndexPolicy;
use arrow_array::RecordBatch;
use fetchmill_model::limits::MIB;
use fetchmill_model::object::StoredObject;
use fetchmill_model::panics;
use fetchmill_model::target::extra_columns::ExtraColumns;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of rows in a batch.
const BATCH_ROWS: u64 = 1024;
/// Approximate maximum size of a batch in bytes.
const BATCH_BYTES: u64 = MIB as u64;

/// A shard that is read in place. Clones share the file and its metadata.
#[derive(Debug, Clone)]
pub struct ParquetShard {
    source: ShardBytes,
    metadata: ArrowReaderMetadata,
    /// End of each row group, as a row number.
    ends: Arc<[u64]>,
    columns: ExtraColumns,
}

impl ParquetShard {
    /// Reads the footer and the page index.
    pub fn open(file: File) -> Result<Self, ShardError> {
        let source = ShardBytes::new(file)?;
        let options = ArrowReaderOptions::new()
            .with_skip_arrow_metadata(true)
            .with_offset_index_policy(PageIndexPolicy::Optional)
            .with_column_index_policy(PageIndexPolicy::Skip);
        let metadata = guarded(|| Ok(ArrowReaderMetadata::load(&source, options)?))?;
        let columns = columns_of(metadata.schema())?;
        let ends = group_ends(&metadata)?;
        Ok(ParquetShard { source, metadata, ends, columns })
    }

    /// Returns the columns that objects have besides the standard ones.
    pub fn columns(&self) -> &ExtraColumns {
        &self.columns
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Reads a row and verifies its body. Decodes only the pages that contain this row.
    pub fn row(&self, row: u64) -> Result<StoredObject, ShardError> {
        let end = row.checked_add(1).ok_or_else(|| no_row(row, self.rows()))?;
        let batch = self.batches(row..end, None)?.next().ok_or_else(|| no_row(row, self.rows()))??;
        let (rows, mut kept) = (BatchRows::of(&batch)?, Vec::new());
        let object = rows.get(0, &mut kept).ok_or_else(|| no_row(row, self.rows()))?;
        check_body(&object)?;
        Ok(stored(&object))
    }

    /// Reads rows in order, in batches of limited size. `columns` selects columns. `None` means all of them.
    pub fn batches(&self, rows: Range<u64>, columns: Option<&[Column]>) -> Result<RowBatches, ShardError> {
        if rows.start > rows.end || rows.end > self.rows() {
            return Err(no_row(rows.end.saturating_sub(1), self.rows()));
        }
        let schema = self.metadata.parquet_schema();
        // Rows of items can be converted to objects only if all columns are present.
        let columns = columns.filter(|_| !self.columns.has_items());
        let columns = columns.map_or_else(ProjectionMask::all, |columns| {
            ProjectionMask::roots(schema, columns.iter().map(|column| *column as usize))
        });
        Ok(RowBatches { shard: self.clone(), columns, rows, open: None })
    }

    /// Returns the row group that contains a row, and the range of rows in this group.
    fn group_of(&self, row: u64) -> Option<(usize, Range<u64>)> {
        let group = self.ends.partition_point(|end| *end <= row);
        let end = *self.ends.get(group)?;
        let start = group.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        Some((group, start..end))
    }

    fn group_reader(
        &self,
        (group, place): (usize, Range<u64>),
        rows: Range<u64>,
        columns: ProjectionMask,
    ) -> Result<ParquetRecordBatchReader, ShardError> {
        let selection = RowSelection::from(vec![
            RowSelector::skip((rows.start - place.start) as usize),
            RowSelector::select((rows.end - rows.start) as usize),
        ]);
        let batch_rows = self.batch_rows(group).min(rows.end - rows.start) as usize;
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.source.clone(), self.metadata.clone())
                .with_row_groups(vec![group])
                .with_row_selection_policy(RowSelectionPolicy::Selectors)
                .with_row_selection(selection)
                .with_projection(columns)
                .with_batch_size(batch_rows);
        Ok(builder.build()?)
    }

    /// Returns how many rows of a group make up about one batch.
    fn batch_rows(&self, group: usize) -> u64 {
        let group = self.metadata.metadata().row_group(group);
        let bytes = u64::try_from(group.total_byte_size()).unwrap_or(u64::MAX);
        let rows = u64::try_from(group.num_rows()).unwrap_or(1).max(1);
        (BATCH_BYTES / (bytes / rows).max(1)).clamp(1, BATCH_ROWS)
    }
}

/// Iterates over the rows of a shard in batches.
#[derive(Debug)]
pub struct RowBatches {
    shard: ParquetShard,
    columns: ProjectionMask,
    /// Rows still to be read, without those of the open row group.
    rows: Range<u64>,
    open: Option<OpenGroup>,
}

/// The row group being read.
struct OpenGroup {
    reader: ParquetRecordBatchReader,
    /// Number of rows still to be read in the group.
    due: u64,
}

impl std::fmt::Debug for OpenGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenGroup").field("due", &self.due).finish_non_exhaustive()
    }
}

impl RowBatches {
    fn read(&mut self) -> Result<Option<RecordBatch>, ShardError> {
        loop {
            if let Some(open) = &mut self.open {
                if let Some(batch) = open.read()? {
                    let columns = &self.shard.columns;
                    return if columns.has_items() {
                        widened(&batch, columns).map(Some)
                    } else {
                        Ok(Some(batch))
                    };
                }
                self.open = None;
            }
            if self.rows.is_empty() {
                return Ok(None);
            }
            self.open_next()?;
        }
    }

    fn open_next(&mut self) -> Result<(), ShardError> {
        let found = self.shard.group_of(self.rows.start);
        let (group, place) = found.ok_or_else(|| no_row(self.rows.start, self.shard.rows()))?;
        let rows = self.rows.start..self.rows.end.min(place.end);
        self.rows.start = rows.end;
        let due = rows.end - rows.start;
        let reader = self.shard.group_reader((group, place), rows, self.columns.clone())?;
        self.open = Some(OpenGroup { reader, due });
        Ok(())
    }
}

impl OpenGroup {
    fn read(&mut self) -> Result<Option<RecordBatch>, ShardError> {
        if self.due == 0 {
            return Ok(None);
        }
        let batch = match self.reader.next() {
            Some(batch) => batch.map_err(|error| ShardError::Damage(one_line(&error)))?,
            None => return Err(ShardError::Damage(format!("{} rows are missing", self.due))),
        };
        let rows = batch.num_rows() as u64;
        let left = self.due.checked_sub(rows).filter(|_| rows > 0);
        self.due = left.ok_or_else(|| {
            ShardError::Damage("a row group does not have the recorded number of rows".into())
        })?;
        Ok(Some(batch))
    }
}

impl Iterator for RowBatches {
    type Item = Result<RecordBatch, ShardError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = guarded(|| self.read());
        if batch.is_err() {
            self.open = None;
            self.rows = 0..0;
        }
        batch.transpose()
    }
}

/// Treats a panic in the library as damage, because certain damaged data makes it panic. After a panic, the values that
/// the library was using are dropped and not used in any other way.
fn guarded<T>(read: impl FnOnce() -> Result<T, ShardError>) -> Result<T, ShardError> {
    panics::expected(read).unwrap_or_else(|| Err(ShardError::Damage("its contents are inconsistent".into())))
}

fn group_ends(metadata: &ArrowReaderMetadata) -> Result<Arc<[u64]>, ShardError> {
    let mut end = 0_u64;
    let mut ends = Vec::with_capacity(metadata.metadata().num_row_groups());
    for group in metadata.metadata().row_groups() {
        let rows = u64::try_from(group.num_rows()).ok();
        let next = rows.and_then(|rows| end.checked_add(rows));
        end = next.ok_or_else(|| ShardError::Damage("its row groups have impossible row counts".into()))?;
        ends.push(end);
    }
    let told = u64::try_from(metadata.metadata().file_metadata().num_rows()).ok();
    if told != Some(end) {
        return Err(ShardError::Damage(format!(
            "its row groups have {end} rows, but its footer records a different number"
        )));
    }
    Ok(ends.into())
}

fn no_row(row: u64, rows: u64) -> ShardError {
    ShardError::Damage(format!("row {row} was requested from a file with {rows} rows"))
}
