//! Reads some columns of a file that is not used as a list of targets. Values are returned unchanged, record by record.

use std::io::Read;

use ::parquet::file::reader::ChunkReader;

use super::columns::ColumnPlan;
use super::csv::Csv;
use super::decode::DecodedInput;
use super::dialect::Dialect;
use super::json::JsonRecords;
use super::lines::Lines;
use super::parquet::ParquetRecords;
use super::records::{RecordStep, RecordValues, Records};
use super::{Compression, ListFormat, ListOptions};
use crate::error::{Error, Result};

/// A reader of a file's columns, with the same memory limits as a list. See the module.
pub struct TableReader {
    records: Box<dyn Records>,
    values: RecordValues,
}

impl std::fmt::Debug for TableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableReader").field("place", &self.records.place()).finish_non_exhaustive()
    }
}

impl TableReader {
    /// Reads a `csv` or `jsonl` file from start to end. The file can be compressed.
    pub fn of_stream(
        label: &str,
        input: Box<dyn Read + Send>,
        (format, promised): (ListFormat, Option<Compression>),
        columns: &[&str],
    ) -> Result<Self> {
        let plan = plan(columns)?;
        let lines = Lines::new(label, DecodedInput::new(input, promised), format);
        let records: Box<dyn Records> = match format {
            ListFormat::Jsonl => Box::new(JsonRecords::new(lines, &plan)?),
            ListFormat::Csv => Box::new(Csv::new(lines, Dialect::OURS, &plan, Some(true))?),
            ListFormat::Tsv => {
                Box::new(Csv::new(lines, Dialect { delimiter: b'\t', ..Dialect::OURS }, &plan, Some(true))?)
            }
            ListFormat::Text | ListFormat::Parquet | ListFormat::Inventory => {
                return Err(Error::Internal(format!("{label} has no columns as a stream")));
            }
        };
        Ok(TableReader { records, values: RecordValues::default() })
    }

    /// Reads a Parquet file.
    pub fn of_parquet<F: ChunkReader + 'static>(label: &str, file: F, columns: &[&str]) -> Result<Self> {
        let records = Box::new(ParquetRecords::open(label, file, &plan(columns)?, (0, None))?);
        Ok(TableReader { records, values: RecordValues::default() })
    }

    /// Moves to the next record. Returns `false` after the last record. An invalid record is an error.
    pub fn next_record(&mut self) -> Result<bool> {
        loop {
            return match self.records.next(&mut self.values)? {
                RecordStep::Record => Ok(true),
                RecordStep::End => Ok(false),
                RecordStep::NothingNow | RecordStep::LeftOut => continue,
                RecordStep::Bad(reason) => Err(Error::Usage(format!("{}: {reason}", self.place()))),
            };
        }
    }

    /// Returns the value of the wanted column at this position, or `None` if the value is null.
    pub fn value(&self, column: usize) -> Option<&[u8]> {
        self.values.get(column)
    }

    /// Describes the position of the current record.
    pub fn place(&self) -> String {
        self.records.place()
    }
}

/// Creates a plan with the first column as the URL column and the others as kept columns.
fn plan(columns: &[&str]) -> Result<ColumnPlan> {
    let (first, others) = columns.split_first().unwrap_or((&"", &[]));
    ColumnPlan::new(&ListOptions {
        column: Some((*first).to_owned()),
        keep_columns: others.iter().map(|name| (*name).to_owned()).collect(),
        ..ListOptions::default()
    })
}
