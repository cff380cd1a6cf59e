//! Writes a shard.

use super::builder::BatchBuilder;
use super::commit::commit_record;
use super::error::io_error_in;
use super::large::{LargeBody, LargeSource};
use super::schema::{CREATED_BY, Column, properties, schema};
use crate::pack::FileBody;
use ::parquet::arrow::ArrowSchemaConverter;
use ::parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use ::parquet::errors::ParquetError;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::SchemaDescriptor;
use arrow_array::RecordBatch;
use fetchmill_model::limits::MIB;
use fetchmill_model::object::{Object, UnfetchedTarget};
use fetchmill_model::target::extra_columns::ExtraColumns;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

/// Maximum number of rows that are collected before they are encoded into pages.
const BATCH_ROWS: usize = 1024;
/// Maximum size of a batch in bytes. A larger object gets a row group of its own, so that no other object is in memory
/// with it.
const BATCH_BYTES: usize = MIB;
/// Maximum size of a row group before encoding, as a multiple of its encoded size. This limits the memory that reading
/// the row group takes, however well it compresses.
const EXPANSION_MAX: usize = 4;

/// Creates an empty file without a name, for the compressed form of a large body.
pub type MakeScratch = Box<dyn Fn() -> io::Result<File> + Send>;

/// Writes a shard.
pub struct ParquetEncoder<W: Write + Send> {
    file: SerializedFileWriter<OutputSlot<W>>,
    factory: ArrowRowGroupWriterFactory,
    /// Column writers of the open row group.
    open: Vec<ArrowColumnWriter>,
    batch: BatchBuilder,
    /// Number of rows that have been moved out of `batch`.
    rows: u64,
    /// Total size in bytes of the names, bodies, URLs and kept values in the open row group.
    plain_bytes: usize,
    row_group_bytes: usize,
    columns: ExtraColumns,
    descriptor: Arc<SchemaDescriptor>,
    /// End of the last commit. 0 before the first commit.
    committed_end: u64,
    /// Number of committed row groups.
    committed_groups: usize,
    make_scratch: MakeScratch,
}

impl<W: Write + Send> std::fmt::Debug for ParquetEncoder<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ParquetEncoder").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<W: Write + Send> ParquetEncoder<W> {
    /// Starts a shard of objects with these columns. The size of a row group limits memory use.
    pub fn new(
        to: W,
        row_group_bytes: usize,
        columns: &ExtraColumns,
        make_scratch: MakeScratch,
    ) -> io::Result<Self> {
        let (file, factory) =
            start(to, columns).map_err(|error| io_error_in(error).unwrap_or_else(io::Error::other))?;
        Ok(ParquetEncoder {
            descriptor: Arc::new(file.schema_descr().clone()),
            committed_end: 0,
            committed_groups: 0,
            file,
            factory,
            open: Vec::new(),
            batch: BatchBuilder::new(columns),
            rows: 0,
            plain_bytes: 0,
            row_group_bytes,
            columns: columns.clone(),
            make_scratch,
        })
    }

    /// Appends an object. After an error, the shard is unusable and may or may not contain the object.
    pub fn push(&mut self, object: &Object<'_>) -> io::Result<()> {
        // An item is never larger than its page, and its text is an ordinary column.
        if object.body.len() > BATCH_BYTES && !self.columns.has_items() {
            let without_body = Object { body: b"", ..*object };
            return self.push_alone(&without_body, LargeSource::Bytes(object.body));
        }
        self.batch.push(object);
        self.write_full_batch()
    }

    /// Appends an object whose body is in a file. `object.body` must be empty.
    pub fn push_file(&mut self, object: &Object<'_>, body: &FileBody) -> io::Result<()> {
        if body.length() <= BATCH_BYTES as u64 {
            // The body is small and is in a file only because memory was scarce, so write it as an ordinary row.
            return self.push(&Object { body: &body.to_vec()?, ..*object });
        }
        self.push_alone(object, LargeSource::File(body))
    }

    /// Appends the row of a target without an object. For errors, see [`ParquetEncoder::push`].
    pub fn push_unfetched(&mut self, target: &UnfetchedTarget<'_>) -> io::Result<()> {
        self.batch.push_unfetched(target);
        self.write_full_batch()
    }

    fn write_full_batch(&mut self) -> io::Result<()> {
        if self.batch.rows() >= BATCH_ROWS || self.batch.bytes() >= BATCH_BYTES {
            self.write_batch()?;
        }
        Ok(())
    }

    /// Writes a large object as a row group of its own, without loading its body into memory.
    fn push_alone(&mut self, without_body: &Object<'_>, body: LargeSource<'_>) -> io::Result<()> {
        self.write_batch()?;
        self.flush(None)?;
        self.batch.push(without_body);
        self.encode_batch()?;
        let body = LargeBody::compress(body, self.columns.has_outcomes(), (self.make_scratch)()?)?;
        self.flush(Some(&body))
    }

    fn write_batch(&mut self) -> io::Result<()> {
        self.encode_batch()?;
        let full = self.open_bytes() >= self.row_group_bytes;
        if full || self.plain_bytes >= self.row_group_bytes.saturating_mul(EXPANSION_MAX) {
            self.flush(None)?;
        }
        Ok(())
    }

    fn encode_batch(&mut self) -> io::Result<()> {
        if self.batch.rows() == 0 {
            return Ok(());
        }
        self.plain_bytes += self.batch.bytes();
        let batch = self.batch.finish()?;
        self.rows += batch.num_rows() as u64;
        let encoded = self.encode(&batch);
        self.checked(encoded)
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        if self.open.is_empty() {
            self.open = self.factory.create_column_writers(self.file.flushed_row_groups().len())?;
        }
        let columns = batch.schema_ref().fields().iter().zip(batch.columns());
        for (writer, (field, values)) in self.open.iter_mut().zip(columns) {
            for leaf in compute_leaves(field, values)? {
                writer.write(&leaf)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, large: Option<&LargeBody>) -> io::Result<()> {
        let ended = self.end_group(large);
        self.checked(ended)
    }

    fn checked<T>(&self, result: Result<T, ParquetError>) -> io::Result<T> {
        result.map_err(|error| self.file.inner().explain(error))
    }

    /// Ends the open row group. If `large` is given, it replaces the body column.
    fn end_group(&mut self, large: Option<&LargeBody>) -> Result<(), ParquetError> {
        self.plain_bytes = 0;
        if self.open.is_empty() {
            return Ok(());
        }
        let columns = std::mem::take(&mut self.open);
        let mut group = self.file.next_row_group()?;
        for (position, column) in columns.into_iter().enumerate() {
            match large.filter(|_| position == Column::Body as usize) {
                Some(body) => {
                    let chunk = body.describe(self.descriptor.column(position))?;
                    group.append_column(body, chunk)?;
                }
                None => column.close()?.append_to_row_group(&mut group)?,
            }
        }
        group.close()?;
        Ok(())
    }

    /// Returns the encoded size of the open row group.
    fn open_bytes(&self) -> usize {
        self.open.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum()
    }

    /// Returns the columns of objects besides the standard ones.
    pub fn columns(&self) -> &ExtraColumns {
        &self.columns
    }

    /// Returns the number of rows so far. The next row will have this position.
    pub fn rows(&self) -> u64 {
        self.rows + self.batch.rows() as u64
    }

    /// Returns the approximate size that the file would have if it were finished now.
    pub fn bytes(&self) -> usize {
        self.file.bytes_written() + self.open_bytes() + self.batch.bytes()
    }

    /// Returns the number of row groups so far, including the open one.
    pub fn row_groups(&self) -> usize {
        self.file.flushed_row_groups().len() + usize::from(!self.open.is_empty() || self.batch.rows() > 0)
    }

    /// Ends the row group and appends the data that [`super::footer_of`] needs to complete the file. When this returns,
    /// everything has been passed to the output.
    pub fn commit(&mut self) -> io::Result<&mut W> {
        self.encode_batch()?;
        self.flush(None)?;
        let groups = self.file.flushed_row_groups();
        let record =
            commit_record(&self.descriptor, CREATED_BY, &groups[self.committed_groups..], self.committed_end);
        self.committed_groups = groups.len();
        let record = self.checked(record)?;
        self.file.write_all(&record)?;
        self.committed_end = self.file.bytes_written() as u64;
        self.file.flush()?;
        self.file.inner_mut().to.as_mut().ok_or_else(ended)
    }

    /// Ends the file and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.encode_batch()?;
        self.flush(None)?;
        let finished = self.file.finish();
        self.checked(finished)?;
        self.file.inner_mut().take()
    }
}

type StartedFile<W> = (SerializedFileWriter<OutputSlot<W>>, ArrowRowGroupWriterFactory);

/// Starts a file whose footer does not contain the Arrow schema, because all types follow from those of Parquet.
fn start<W: Write + Send>(to: W, columns: &ExtraColumns) -> Result<StartedFile<W>, ParquetError> {
    let schema = schema(columns);
    let root = ArrowSchemaConverter::new().convert(&schema)?.root_schema_ptr();
    let file = SerializedFileWriter::new(OutputSlot::new(to), root, Arc::new(properties(columns)?))?;
    let factory = ArrowRowGroupWriterFactory::new(&file, schema);
    Ok((file, factory))
}

/// Holds the output until it is taken back. The Parquet library returns it only after one more write. Also keeps the
/// errors of the operating system, because the library turns some of them into text, and users can act on an error
/// number such as `ENOSPC`.
#[derive(Debug)]
struct OutputSlot<W> {
    to: Option<W>,
    refused: Option<i32>,
}

impl<W: Write> OutputSlot<W> {
    fn new(to: W) -> Self {
        OutputSlot { to: Some(to), refused: None }
    }

    fn take(&mut self) -> io::Result<W> {
        self.to.take().ok_or_else(ended)
    }

    fn attempt<T>(&mut self, action: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        let result = action(self.to.as_mut().ok_or_else(ended)?);
        if let Err(error) = &result {
            self.refused = error.raw_os_error().or(self.refused);
        }
        result
    }

    /// Returns the operating system error that caused a library error.
    fn explain(&self, error: ParquetError) -> io::Error {
        io_error_in(error).unwrap_or_else(|error| match self.refused {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::other(error),
        })
    }
}

impl<W: Write> Write for OutputSlot<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|to| to.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(W::flush)
    }
}

fn ended() -> io::Error {
    io::Error::other("the file has ended")
}
