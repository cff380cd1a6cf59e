//! Reads results files: the site and the answer in each row.

use std::fs::File;
use std::path::Path;

use super::{ResultsFormat, TableFormat};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::list::{ListFormat, TableReader};

/// Columns to read, which identify the site and its answer.
const COLUMNS: [&str; 4] = ["key", "url", "status", "kind"];

/// Reads the rows of a file one after another.
#[derive(Debug)]
pub(super) struct AnswerReader {
    shown: String,
    table: TableReader,
}

/// The site and its answer in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowAnswer<'a> {
    /// The key, or the URL if there is no key.
    pub(super) site: &'a [u8],
    pub(super) status: &'a [u8],
    pub(super) kind: &'a [u8],
}

impl AnswerReader {
    /// Opens a file. Its name determines the format.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let Some(format) = ResultsFormat::of(&path.to_string_lossy(), None) else {
            return Err(Error::Usage(format!(
                "{shown}: unknown kind of file; the name must end with .parquet, .csv or .jsonl (the last \
                 two also with .gz or .zst)"
            )));
        };
        let file = File::open(path).map_err(|error| Error::Usage(format!("cannot open {shown}: {error}")))?;
        let stream = |format: ListFormat, compression, file| {
            TableReader::of_stream(&shown, Box::new(file), (format, compression), &COLUMNS)
        };
        let table = match format.table {
            TableFormat::Parquet => TableReader::of_parquet(&shown, file, &COLUMNS),
            TableFormat::Csv => stream(ListFormat::Csv, format.compression, file),
            TableFormat::Jsonl => stream(ListFormat::Jsonl, format.compression, file),
        };
        table
            .map(|table| AnswerReader { table, shown: shown.clone() })
            .map_err(|error| foreign(&shown, &error))
    }

    /// Returns the next row. `None` after the last one.
    pub(super) fn next_row(&mut self) -> Result<Option<RowAnswer<'_>>> {
        if !self.table.next_record().map_err(|error| foreign(&self.shown, &error))? {
            return Ok(None);
        }
        let value = |column| self.table.value(column).filter(|value: &&[u8]| !value.is_empty());
        let site = value(0).or_else(|| value(1));
        let (status, kind) = (value(2).unwrap_or_default(), value(3).unwrap_or_default());
        match site {
            Some(site) if !(status.is_empty() && kind.is_empty()) => {
                Ok(Some(RowAnswer { site, status, kind }))
            }
            _ => Err(foreign(&self.shown, &format!("{} has no site or no answer", self.table.place()))),
        }
    }
}

fn foreign(shown: &str, why: &dyn std::fmt::Display) -> Error {
    Error::Usage(format!("{shown} is not a results file of `fetchmill check`: {why}"))
}
