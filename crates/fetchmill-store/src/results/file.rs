//! Writes a results file, in any format and with any compression.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use flate2::write::GzEncoder;

use super::parquet::ParquetWriter;
use super::{ResultsFormat, TableFormat, csv, jsonl};
use fetchmill_model::row::{ColumnTypes, RowValues};
use fetchmill_model::source::list::Compression;
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Compression level that is fast and compresses well enough.
const GZIP_LEVEL: u32 = 6;
/// The same level as in shards.
const ZSTD_LEVEL: i32 = 1;

/// Writes a results file.
pub(crate) struct ResultsFile {
    rows: RowWriter,
    columns: ColumnTypes,
    kept: ExtraColumns,
    line: Vec<u8>,
}

enum RowWriter {
    Parquet(Box<ParquetWriter<BufWriter<File>>>),
    Csv(TextOutput),
    Jsonl(TextOutput),
}

impl ResultsFile {
    /// Starts a file. `kept` are the columns kept from the list.
    pub(crate) fn begin(
        file: File,
        format: ResultsFormat,
        columns: ColumnTypes,
        kept: &ExtraColumns,
    ) -> io::Result<Self> {
        let rows = match format.table {
            TableFormat::Parquet => {
                RowWriter::Parquet(Box::new(ParquetWriter::new(BufWriter::new(file), columns, kept)?))
            }
            TableFormat::Csv => {
                let mut output = TextOutput::new(file, format.compression)?;
                csv::write_header(columns, kept, &mut output)?;
                RowWriter::Csv(output)
            }
            TableFormat::Jsonl => RowWriter::Jsonl(TextOutput::new(file, format.compression)?),
        };
        Ok(ResultsFile { rows, columns, kept: kept.clone(), line: Vec::new() })
    }

    pub(crate) fn push(&mut self, row: RowValues<'_>) -> io::Result<()> {
        self.line.clear();
        match &mut self.rows {
            RowWriter::Parquet(writer) => writer.push(row),
            RowWriter::Csv(output) => {
                csv::write_row(row, self.kept.kept().len(), &mut self.line);
                output.write_all(&self.line)
            }
            RowWriter::Jsonl(output) => {
                jsonl::write_row(self.columns, row, &self.kept, &mut self.line);
                output.write_all(&self.line)
            }
        }
    }

    /// Finishes the file and returns it.
    pub(crate) fn finish(self) -> io::Result<File> {
        match self.rows {
            RowWriter::Parquet(writer) => {
                writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)
            }
            RowWriter::Csv(output) | RowWriter::Jsonl(output) => output.finish(),
        }
    }
}

/// Writes lines to a file, optionally compressed.
enum TextOutput {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<File>>>),
}

impl TextOutput {
    fn new(file: File, compression: Option<Compression>) -> io::Result<Self> {
        let file = BufWriter::new(file);
        Ok(match compression {
            None => TextOutput::Plain(file),
            Some(Compression::Gzip) => {
                TextOutput::Gzip(Box::new(GzEncoder::new(file, flate2::Compression::new(GZIP_LEVEL))))
            }
            Some(Compression::Zstd) => TextOutput::Zstd(Box::new(zstd::Encoder::new(file, ZSTD_LEVEL)?)),
            Some(Compression::Xz | Compression::Bzip2 | Compression::Zip) => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "results are compressed with gzip or zstd",
                ));
            }
        })
    }

    fn finish(self) -> io::Result<File> {
        let file = match self {
            TextOutput::Plain(file) => file,
            TextOutput::Gzip(encoder) => encoder.finish()?,
            TextOutput::Zstd(encoder) => encoder.finish()?,
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl Write for TextOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            TextOutput::Plain(file) => file.write(bytes),
            TextOutput::Gzip(encoder) => encoder.write(bytes),
            TextOutput::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            TextOutput::Plain(file) => file.flush(),
            TextOutput::Gzip(encoder) => encoder.flush(),
            TextOutput::Zstd(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::answers::AnswerReader;
    use super::*;
    use fetchmill_model::row::{CheckRow, ROW_COLUMNS};

    fn write(path: &Path, rows: u32) {
        let format = ResultsFormat::of(&path.to_string_lossy(), None).unwrap();
        let kept = ExtraColumns::of_list(["rank".to_owned()]).unwrap();
        let mut file = ResultsFile::begin(File::create(path).unwrap(), format, &ROW_COLUMNS, &kept).unwrap();
        for number in 0..rows {
            let row = CheckRow {
                url: Some(format!("https://a.test/{number}").into()),
                status: Some(200),
                redirects: vec!["https://b.test/".into()],
                kept: vec![Some(number.to_string().into())],
                ..CheckRow::default()
            };
            file.push(RowValues { values: &row.values(), kept: &row.kept }).unwrap();
        }
        file.finish().unwrap();
    }

    #[test]
    fn every_format_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.parquet", "a.csv", "a.csv.gz", "a.jsonl", "a.jsonl.zst"] {
            for rows in [0, 10_000] {
                let path = folder.path().join(name);
                write(&path, rows);

                let mut answers = AnswerReader::open(&path).unwrap();
                for number in 0..rows {
                    let row = answers.next_row().unwrap().unwrap();
                    assert_eq!(row.site, format!("https://a.test/{number}").as_bytes(), "{name}");
                    assert_eq!((row.status, row.kind), (&b"200"[..], &b""[..]));
                }
                assert_eq!(answers.next_row().unwrap(), None);
            }
        }
    }
}
