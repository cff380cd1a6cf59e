//! The format of results files. The end of the file name determines it.

use serde::Deserialize;

use fetchmill_model::source::list::{Compression, ListFormat, format_of};

/// The table format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableFormat {
    /// Typed columns.
    #[default]
    Parquet,
    /// RFC 4180, with a header.
    Csv,
    /// One JSON object per line.
    Jsonl,
}

/// The table format and the compression of a results file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResultsFormat {
    /// The table format.
    pub table: TableFormat,
    /// The compression of the whole file. `None` for Parquet, which compresses its columns itself.
    pub compression: Option<Compression>,
}

impl TableFormat {
    /// Returns the name of the format in options.
    pub fn name(self) -> &'static str {
        match self {
            TableFormat::Parquet => "parquet",
            TableFormat::Csv => "csv",
            TableFormat::Jsonl => "jsonl",
        }
    }
}

impl ResultsFormat {
    /// Returns the format that the file name implies. `table` takes precedence over the name. `None` if neither
    /// determines a table format, or if results cannot have this compression.
    pub fn of(path: &str, table: Option<TableFormat>) -> Option<Self> {
        let (format, compression) = format_of(path);
        let named = match format {
            Some(ListFormat::Parquet) => Some(TableFormat::Parquet),
            Some(ListFormat::Csv) => Some(TableFormat::Csv),
            Some(ListFormat::Jsonl) => Some(TableFormat::Jsonl),
            Some(ListFormat::Text | ListFormat::Tsv | ListFormat::Inventory) | None => None,
        };
        let table = table.or(named)?;
        if !matches!(compression, None | Some(Compression::Gzip | Compression::Zstd)) {
            return None;
        }
        (table != TableFormat::Parquet || compression.is_none())
            .then_some(ResultsFormat { table, compression })
    }

    /// Returns the text that represents this format in the journal.
    pub fn text(self) -> &'static str {
        self.table.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_how_results_are_written() {
        let of = |path, table| ResultsFormat::of(path, table).map(|found| (found.table, found.compression));

        assert_eq!(of("a/b.parquet", None), Some((TableFormat::Parquet, None)));
        assert_eq!(of("B.CSV.gz", None), Some((TableFormat::Csv, Some(Compression::Gzip))));
        assert_eq!(of("b.ndjson.zst", None), Some((TableFormat::Jsonl, Some(Compression::Zstd))));
        assert_eq!(of("results", Some(TableFormat::Csv)), Some((TableFormat::Csv, None)));
        for (path, table) in [("results", None), ("a.txt", None), ("a.parquet.gz", None), ("a.tsv", None)] {
            assert_eq!(of(path, table), None, "{path}");
        }
    }
}
