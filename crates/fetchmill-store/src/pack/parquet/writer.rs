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

/// Rows of a batch on its way into the columns' pages,
const BATCH_ROWS: usize = 1024;
/// and their bytes. An object with more is a row group of its own, so that no second one is in memory with it.
const BATCH_BYTES: usize = MIB;
/// A row group may stand for so many times its size: what is read back is bounded by this, not by how well it
/// compresses.
const EXPANSION_MAX: usize = 4;

/// Makes an empty file without a name, in which a large body waits, compressed.
pub type MakeScratch = Box<dyn Fn() -> io::Result<File> + Send>;

/// Writes one shard.
pub struct ParquetEncoder<W: Write + Send> {
    file: SerializedFileWriter<OutputSlot<W>>,
    factory: ArrowRowGroupWriterFactory,
    /// The columns of the open row group.
    open: Vec<ArrowColumnWriter>,
    batch: BatchBuilder,
    /// Rows that left `batch`.
    rows: u64,
    /// Bytes of the open row group's names, bodies, URLs and kept values.
    plain_bytes: usize,
    row_group_bytes: usize,
    columns: ExtraColumns,
    descriptor: Arc<SchemaDescriptor>,
    /// Where the last commit ends; 0 when there is none.
    committed_end: u64,
    /// Row groups that are in a commit.
    committed_groups: usize,
    make_scratch: MakeScratch,
}

impl<W: Write + Send> std::fmt::Debug for ParquetEncoder<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ParquetEncoder").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<W: Write + Send> ParquetEncoder<W> {
    /// Starts a shard of objects that have these columns; memory is bounded by the size of a row group.
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

    /// Appends an object. After an error the shard is lost: the object may be in it or not.
    pub fn push(&mut self, object: &Object<'_>) -> io::Result<()> {
        // An item is no larger than its page, and its text is a column among others.
        if object.body.len() > BATCH_BYTES && !self.columns.has_items() {
            let without_body = Object { body: b"", ..*object };
            return self.push_alone(&without_body, LargeSource::Bytes(object.body));
        }
        self.batch.push(object);
        self.write_full_batch()
    }

    /// The same for an object whose body is in a file; `object.body` is empty.
    pub fn push_file(&mut self, object: &Object<'_>, body: &FileBody) -> io::Result<()> {
        if body.length() <= BATCH_BYTES as u64 {
            // It went to a file only because memory was short: it is a row among others.
            return self.push(&Object { body: &body.to_vec()?, ..*object });
        }
        self.push_alone(object, LargeSource::File(body))
    }

    /// Appends the row of a target that has no object, as [`ParquetEncoder::push`] does that of one with an object.
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

    /// A large object: a row group of its own, and its body is never in memory.
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

    /// Ends the open row group; a large body takes the place of its body.
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

    /// Size of the open row group, encoded.
    fn open_bytes(&self) -> usize {
        self.open.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum()
    }

    /// Columns that objects have besides the standard ones.
    pub fn columns(&self) -> &ExtraColumns {
        &self.columns
    }

    /// Rows so far: the place of the next one.
    pub fn rows(&self) -> u64 {
        self.rows + self.batch.rows() as u64
    }

    /// What the file would have if it ended now, about.
    pub fn bytes(&self) -> usize {
        self.file.bytes_written() + self.open_bytes() + self.batch.bytes()
    }

    /// Row groups so far, the open one among them.
    pub fn row_groups(&self) -> usize {
        self.file.flushed_row_groups().len() + usize::from(!self.open.is_empty() || self.batch.rows() > 0)
    }

    /// Ends the row group, and writes behind it what [`super::footer_of`] needs to make a whole file of what is written.
    /// All of it has been given to the output when this returns.
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

    /// Ends the file, and gives it back.
    pub fn finish(mut self) -> io::Result<W> {
        self.encode_batch()?;
        self.flush(None)?;
        let finished = self.file.finish();
        self.checked(finished)?;
        self.file.inner_mut().take()
    }
}

type StartedFile<W> = (SerializedFileWriter<OutputSlot<W>>, ArrowRowGroupWriterFactory);

/// Without the Arrow schema in the footer: all its types follow from those of Parquet.
fn start<W: Write + Send>(to: W, columns: &ExtraColumns) -> Result<StartedFile<W>, ParquetError> {
    let schema = schema(columns);
    let root = ArrowSchemaConverter::new().convert(&schema)?.root_schema_ptr();
    let file = SerializedFileWriter::new(OutputSlot::new(to), root, Arc::new(properties(columns)?))?;
    let factory = ArrowRowGroupWriterFactory::new(&file, schema);
    Ok((file, factory))
}

/// Where the file goes, until it is taken back: the library gives it back only with a last write of its own. And what
/// the operating system said when it refused: the library makes a text of it in some places, and `ENOSPC` is
/// something a user can help.
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

    /// The error of the operating system behind one of the library.
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
