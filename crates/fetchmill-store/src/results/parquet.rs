//! Results as Parquet: one typed column for each column of a row, in row groups of limited size.

use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_writer::ArrowWriterOptions;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::schema::types::ColumnPath;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::columns::{Builders, schema};
use fetchmill_model::limits::{RESULTS_BATCH_BYTES, RESULTS_BATCH_ROWS, ROW_GROUPS_BYTES};
use fetchmill_model::row::{ColumnKind, ColumnTypes, RowValues};
use fetchmill_model::target::extra_columns::ExtraColumns;

/// The same level as in shards.
const ZSTD_LEVEL: i32 = 1;

/// Writes one file.
pub(super) struct ParquetWriter<W: Write + Send> {
    to: ArrowWriter<RecoverableOutput<W>>,
    schema: SchemaRef,
    builders: Builders,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(super) fn new(to: W, own: ColumnTypes, kept: &ExtraColumns) -> io::Result<Self> {
        let schema = schema(own, kept);
        let options = ArrowWriterOptions::new()
            .with_properties(properties(own).map_err(io::Error::other)?)
            .with_skip_arrow_metadata(true);
        let to = ArrowWriter::try_new_with_options(
            RecoverableOutput { to: Some(to), refused: None },
            Arc::clone(&schema),
            options,
        );
        Ok(ParquetWriter { to: to.map_err(io::Error::other)?, schema, builders: Builders::new(own, kept) })
    }

    pub(super) fn push(&mut self, row: RowValues<'_>) -> io::Result<()> {
        self.builders.push(row);
        if self.builders.rows() >= RESULTS_BATCH_ROWS || self.builders.bytes() >= RESULTS_BATCH_BYTES {
            self.write_batch()?;
        }
        Ok(())
    }

    fn write_batch(&mut self) -> io::Result<()> {
        if self.builders.rows() == 0 {
            return Ok(());
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), self.builders.finish());
        let written = self.to.write(&batch.map_err(io::Error::other)?);
        self.checked(written)?;
        if self.to.memory_size() >= ROW_GROUPS_BYTES {
            let flushed = self.to.flush();
            self.checked(flushed)?;
        }
        Ok(())
    }

    /// Finishes the file and returns it.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.write_batch()?;
        let finished = self.to.finish();
        self.checked(finished)?;
        self.to.inner_mut().to.take().ok_or_else(ended)
    }

    /// Replaces an error of the Parquet library with the operating system error that caused it, if any.
    fn checked<T>(&self, result: Result<T, ParquetError>) -> io::Result<T> {
        result.map_err(|error| match self.to.inner().refused {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::other(error),
        })
    }
}

fn properties(own: ColumnTypes) -> Result<WriterProperties, ParquetError> {
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("fetchmill ", env!("CARGO_PKG_VERSION")).to_string())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(None);
    for (name, holds) in own {
        if matches!(holds, ColumnKind::Word | ColumnKind::Status | ColumnKind::Flag) {
            builder = builder.set_column_dictionary_enabled(ColumnPath::from(*name), true);
        }
    }
    Ok(builder.build())
}

/// The output file. It is shared with the Parquet library, so that it can be taken back at any time. The library itself
/// returns it only after one more write.
///
/// Also keeps the error number of a failed write, because the library turns the error into text.
struct RecoverableOutput<W> {
    to: Option<W>,
    refused: Option<i32>,
}

impl<W: Write> Write for RecoverableOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.as_mut().ok_or_else(ended)?.write(bytes);
        if let Err(error) = &written {
            self.refused = error.raw_os_error().or(self.refused);
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.as_mut().map_or(Ok(()), Write::flush)
    }
}

fn ended() -> io::Error {
    io::Error::other("the file has ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::row::{LISTED_COLUMNS, ListRow};

    /// A disk that becomes full after this many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 < bytes.len() {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            self.0 -= bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_as_what_it_is() {
        for room in [4, 1000, 20_000] {
            let write = || -> io::Result<Full> {
                let mut writer = ParquetWriter::new(Full(room), &LISTED_COLUMNS, &ExtraColumns::default())?;
                for number in 0..50_000_u64 {
                    // Random data, which hardly shrinks when it is compressed.
                    let url = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&number.to_le_bytes()));
                    let row = ListRow { url: Some(url.into()), ..ListRow::default() };
                    writer.push(RowValues { values: &row.values(), kept: &[] })?;
                }
                writer.finish()
            };

            assert_eq!(write().err().and_then(|error| error.raw_os_error()), Some(libc::ENOSPC), "{room}");
        }
    }
}
