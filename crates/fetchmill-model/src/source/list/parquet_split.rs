//! Distributes the rows of Parquet lists among several files that have the same columns.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use ::parquet::arrow::arrow_writer::ArrowWriterOptions;
use ::parquet::arrow::{ArrowWriter, ProjectionMask};
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::ChunkReader;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use arrow_select::take::take_record_batch;

use super::parquet::{batch_rows, guarded, read_metadata};
use super::parquet_pages::{BoundedPages, PageMemory};
use crate::error::{Error, Result};
use crate::limits::MIB;

/// Target size of a batch in bytes, and its maximum number of rows. Each part receives a few of these rows.
const BATCH_BYTES: u64 = 2 * MIB as u64;
const BATCH_ROWS: u64 = 8192;
/// Maximum total size of the row groups that are not written yet, for all parts together.
const UNWRITTEN_BYTES_MAX: usize = 64 * MIB;
/// Size of a page. A part can have many columns, each with an incomplete page in memory.
const PAGE_BYTES: usize = 64 << 10;
const ZSTD_LEVEL: i32 = 1;

/// See the [module documentation](self).
pub struct ParquetSplit<W: Write + Send> {
    /// Location of the parts, for messages.
    folder: PathBuf,
    /// Files for the parts, until the columns are known.
    outputs: Vec<W>,
    columns: Option<SchemaRef>,
    parts: Vec<Part<W>>,
    /// Total size, over all parts, at which unwritten row groups are written.
    unwritten_max: usize,
}

struct Part<W: Write + Send> {
    to: ArrowWriter<W>,
    rows: u64,
    /// Rows of the current batch that belong to this part.
    of_batch: Vec<u32>,
}

impl<W: Write + Send> std::fmt::Debug for ParquetSplit<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetSplit").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl<W: Write + Send> ParquetSplit<W> {
    /// Creates the parts in these files. `folder` is the location that messages show.
    pub fn new(folder: PathBuf, outputs: Vec<W>) -> Self {
        ParquetSplit { folder, outputs, columns: None, parts: Vec::new(), unwritten_max: UNWRITTEN_BYTES_MAX }
    }

    /// Adds all rows of a file. `groups` contains a byte for each row. The row is added to part `byte % parts`.
    pub fn add<F: ChunkReader + 'static>(
        &mut self,
        label: &str,
        file: F,
        groups: &mut impl Read,
    ) -> Result<()> {
        let mut rows = AllRows::open(label, file)?;
        let columns = self.begin(label, &rows.columns)?;
        while let Some(batch) = rows.next()? {
            let batch = RecordBatch::try_new(Arc::clone(&columns), batch.columns().to_vec());
            let batch = batch.map_err(|error| self.cannot_write(error.into()))?;
            let mut of_rows = vec![0; batch.num_rows()];
            groups.read_exact(&mut of_rows).map_err(|_| Error::Internal("a row has no group".to_owned()))?;
            self.write(&batch, &of_rows)?;
        }
        Ok(())
    }

    /// Finishes the parts. Returns the number of rows in each part.
    pub fn finish(mut self) -> Result<Vec<u64>> {
        let mut rows = Vec::new();
        for part in &mut self.parts {
            part.to.finish().map_err(|error| cannot_write(&self.folder, error))?;
            rows.push(part.rows);
        }
        Ok(rows)
    }

    /// Starts the parts with the columns of the first file, and refuses any file with different columns.
    fn begin(&mut self, label: &str, columns: &SchemaRef) -> Result<SchemaRef> {
        if let Some(first) = &self.columns {
            if first == columns {
                return Ok(Arc::clone(first));
            }
            return Err(Error::Usage(format!("the list {label} and the first file have different columns")));
        }
        for output in std::mem::take(&mut self.outputs) {
            let properties = properties().map_err(|error| self.cannot_write(error))?;
            let options =
                ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
            let to = ArrowWriter::try_new_with_options(output, Arc::clone(columns), options);
            let to = to.map_err(|error| self.cannot_write(error))?;
            self.parts.push(Part { to, rows: 0, of_batch: Vec::new() });
        }
        self.columns = Some(Arc::clone(columns));
        Ok(Arc::clone(columns))
    }

    fn write(&mut self, batch: &RecordBatch, groups: &[u8]) -> Result<()> {
        let count = self.parts.len().max(1);
        for (row, group) in groups.iter().enumerate() {
            if let Some(part) = self.parts.get_mut(usize::from(*group) % count) {
                part.of_batch.push(row as u32);
            }
        }
        for part in &mut self.parts {
            part.write(batch).map_err(|error| cannot_write(&self.folder, error))?;
        }
        let unwritten: usize = self.parts.iter().map(|part| part.to.memory_size()).sum();
        if unwritten < self.unwritten_max {
            return Ok(());
        }
        for part in self.parts.iter_mut().filter(|part| part.to.memory_size() >= unwritten / count) {
            part.to.flush().map_err(|error| cannot_write(&self.folder, error))?;
        }
        Ok(())
    }

    fn cannot_write(&self, error: ParquetError) -> Error {
        cannot_write(&self.folder, error)
    }
}

impl<W: Write + Send> Part<W> {
    fn write(&mut self, batch: &RecordBatch) -> std::result::Result<(), ParquetError> {
        if self.of_batch.is_empty() {
            return Ok(());
        }
        self.rows += self.of_batch.len() as u64;
        let rows = UInt32Array::from(std::mem::take(&mut self.of_batch));
        self.to.write(&take_record_batch(batch, &rows)?)
    }
}

fn cannot_write(folder: &std::path::Path, error: ParquetError) -> Error {
    Error::storage("write into", folder, io::Error::other(error))
}

fn properties() -> std::result::Result<WriterProperties, ParquetError> {
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        // A dictionary would have to be in memory for each column of each part.
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_max_row_group_row_count(None)
        .build())
}

/// All rows of a file, with all columns.
struct AllRows {
    label: String,
    reader: ParquetRecordBatchReader,
    memory: PageMemory,
    columns: SchemaRef,
}

impl AllRows {
    fn open<F: ChunkReader + 'static>(label: &str, file: F) -> Result<Self> {
        let metadata = read_metadata(label, &file)?;
        let columns = nullable(metadata.schema());
        let mask = ProjectionMask::all();
        let rows = batch_rows(metadata.metadata(), &mask, (BATCH_BYTES, BATCH_ROWS));
        let (file, memory) = guarded(label, || BoundedPages::new(file, metadata.metadata(), &mask, rows))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
        let reader = guarded(label, || builder.with_batch_size(rows).build())?;
        Ok(AllRows { label: label.to_owned(), reader, memory, columns })
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.memory.begin_batch();
        let read = guarded(&self.label, || self.reader.next().transpose().map_err(ParquetError::from));
        read.map_err(|error| match self.memory.refused() {
            Some(why) => Error::Usage(format!("the list {} cannot be read: {why}", self.label)),
            None => error,
        })
    }
}

/// Returns the same columns without metadata. All columns are nullable, because another file of the list can contain
/// nulls.
fn nullable(schema: &Schema) -> SchemaRef {
    let plain = |field: &FieldRef| Field::new(field.name(), field.data_type().clone(), true);
    Arc::new(Schema::new(schema.fields().iter().map(plain).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use arrow_array::cast::AsArray as _;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, StringArray};
    use bytes::Bytes;

    use super::*;

    fn list(name: &str, first: i64, rows: i64, is_nullable: bool) -> Bytes {
        let schema = Arc::new(Schema::new(vec![
            Field::new("url", arrow_schema::DataType::Utf8, false),
            Field::new(name, arrow_schema::DataType::Int64, is_nullable),
        ]));
        let urls = StringArray::from_iter_values((first..first + rows).map(|row| format!("http://a/{row}")));
        let values = Int64Array::from_iter_values(first..first + rows);
        let batch =
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(urls), Arc::new(values)]).unwrap();
        let mut out = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut out, schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        out.into()
    }

    /// The content of a part.
    #[derive(Clone, Default)]
    struct Content(Arc<Mutex<Vec<u8>>>);

    impl Write for Content {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn values_of(part: &Content) -> Vec<i64> {
        let content = Bytes::from(part.0.lock().unwrap().clone());
        let batches = ParquetRecordBatchReaderBuilder::try_new(content).unwrap().build().unwrap();
        let values = batches.flat_map(|batch| {
            let batch = batch.unwrap();
            let urls = batch.column(0).as_string::<i32>().iter().map(|url| url.unwrap().to_owned());
            let values = batch.column(1).as_primitive::<Int64Type>().values().to_vec();
            for (url, value) in urls.zip(&values) {
                assert_eq!(url, format!("http://a/{value}"));
            }
            values
        });
        values.collect()
    }

    #[test]
    fn each_row_is_in_the_part_of_its_group() {
        let parts: Vec<Content> = (0..3).map(|_| Content::default()).collect();
        let mut split = ParquetSplit::new("parts".into(), parts.clone());
        let groups: Vec<u8> = (0..20_000).map(|row| if row % 2 == 0 { 3 } else { 4 }).collect();

        split.add("one", list("n", 0, 20_000, false), &mut &groups[..]).unwrap();
        split.add("two", list("n", 20_000, 10, true), &mut &[4; 10][..]).unwrap();
        let refused = split.add("three", list("m", 0, 1, true), &mut &[0][..]).unwrap_err();
        assert!(refused.to_string().contains("three and the first file have"), "{refused}");
        let missing = split.add("four", list("n", 0, 2, true), &mut &[0][..]).unwrap_err();
        assert!(missing.to_string().contains("has no group"), "{missing}");

        assert_eq!(split.finish().unwrap(), [10_000, 10_010, 0]);
        assert_eq!(values_of(&parts[0]), (0..20_000).step_by(2).collect::<Vec<_>>());
        let odd = (0..20_000).skip(1).step_by(2).chain(20_000..20_010);
        assert_eq!(values_of(&parts[1]), odd.collect::<Vec<_>>());
        assert!(values_of(&parts[2]).is_empty());
    }

    #[test]
    fn row_groups_are_written_before_memory_is_full() {
        let parts: Vec<Content> = (0..2).map(|_| Content::default()).collect();
        let mut split = ParquetSplit::new("parts".into(), parts.clone());
        split.unwritten_max = MIB / 16;
        let groups: Vec<u8> = (0..100_000).map(|row| u8::from(row % 1000 == 0)).collect();

        split.add("list", list("n", 0, 100_000, false), &mut &groups[..]).unwrap();

        // On its own, the smaller part would not fill a row group.
        let written = [0, 1].map(|part: usize| split.parts[part].to.flushed_row_groups().len());
        assert!(written[0] > 2 && written[1] == 0, "{written:?}");
        assert_eq!(split.finish().unwrap(), [99_900, 100]);
        assert_eq!(values_of(&parts[1]), (0..100_000).step_by(1000).collect::<Vec<_>>());
        assert_eq!(values_of(&parts[0]).len(), 99_900);
    }
}
