//! Writes a shard.

use super::builder::BatchBuilder;
use super::io_error_in;
use super::schema::{properties, schema};
use crate::limits::MIB;
use crate::object::Object;
use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_writer::ArrowWriterOptions;
use ::parquet::errors::ParquetError;
use std::io::{self, Write};

/// Rows of a batch on its way into the columns' pages,
const BATCH_ROWS: usize = 1024;
/// and their bytes. An object with more is a row group of its own, so that no second one is in memory with it.
const BATCH_BYTES: usize = MIB;
/// A row group may stand for so many times its size: what is read back is bounded by this, not by how well it
/// compresses.
const EXPANSION_MAX: usize = 4;

/// Writes one shard.
#[derive(Debug)]
pub struct ParquetEncoder<W: Write + Send> {
    writer: ArrowWriter<Slot<W>>,
    batch: BatchBuilder,
    /// Rows that left `batch`.
    rows: u64,
    /// Bytes of the open row group's names and bodies.
    plain_bytes: usize,
    row_group_bytes: usize,
}

impl<W: Write + Send> ParquetEncoder<W> {
    /// Starts a shard; memory is bounded by the size of a row group, and of the largest object.
    pub fn new(to: W, row_group_bytes: usize) -> io::Result<Self> {
        let options = ArrowWriterOptions::new()
            .with_properties(properties().map_err(to_io)?)
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Slot(Some(to)), schema(), options).map_err(to_io)?;
        Ok(ParquetEncoder { writer, batch: BatchBuilder::new(), rows: 0, plain_bytes: 0, row_group_bytes })
    }

    /// Appends an object.
    pub fn push(&mut self, object: &Object<'_>) -> io::Result<()> {
        if object.body.len() > BATCH_BYTES {
            return self.push_alone(object);
        }
        self.batch.push(object);
        if self.batch.rows() >= BATCH_ROWS || self.batch.bytes() >= BATCH_BYTES {
            self.write_batch()?;
        }
        Ok(())
    }

    /// A large object: a row group of its own.
    fn push_alone(&mut self, object: &Object<'_>) -> io::Result<()> {
        self.write_batch()?;
        self.flush()?;
        self.batch.push(object);
        self.write_batch()?;
        self.flush()
    }

    fn write_batch(&mut self) -> io::Result<()> {
        if self.batch.rows() == 0 {
            return Ok(());
        }
        self.plain_bytes += self.batch.bytes();
        let batch = self.batch.finish()?;
        self.writer.write(&batch).map_err(to_io)?;
        self.rows += batch.num_rows() as u64;
        let full = self.writer.in_progress_size() >= self.row_group_bytes;
        if full || self.plain_bytes >= self.row_group_bytes.saturating_mul(EXPANSION_MAX) {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.plain_bytes = 0;
        self.writer.flush().map_err(to_io)
    }

    /// Rows so far: the place of the next one.
    pub fn rows(&self) -> u64 {
        self.rows + self.batch.rows() as u64
    }

    /// What the file would have if it ended now, about.
    pub fn bytes(&self) -> usize {
        self.writer.bytes_written() + self.writer.in_progress_size() + self.batch.bytes()
    }

    /// Ends the file, and gives it back.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_batch()?;
        self.writer.finish().map_err(to_io)?;
        self.writer.inner_mut().0.take().ok_or_else(Slot::<W>::taken)
    }
}

/// Where the file goes, until it is taken back. The library gives it back only with a last write of its own, and that
/// one's error has lost its number.
#[derive(Debug)]
struct Slot<W>(Option<W>);

impl<W> Slot<W> {
    fn taken() -> io::Error {
        io::Error::other("the file has ended")
    }
}

impl<W: Write> Write for Slot<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_mut().ok_or_else(Slot::<W>::taken)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().ok_or_else(Slot::<W>::taken)?.flush()
    }
}

/// Keeps the operating system's error number: `ENOSPC` is something a user can help.
fn to_io(error: ParquetError) -> io::Error {
    io_error_in(error).unwrap_or_else(io::Error::other)
}
