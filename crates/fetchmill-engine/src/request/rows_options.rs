//! Jobs that make a row of each target and do not store objects.

use std::path::PathBuf;

use super::source_options::file_name;
use fetchmill_model::row::RowKind;
use fetchmill_store::results::ResultsFormat;

/// Options for the rows of a check, or of a list that is written out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsOptions {
    /// Kind of the rows.
    pub kind: RowKind,
    /// Whether the rows go to the program that starts the job ([`crate::Job::take_rows`]) and are not kept.
    pub is_given: bool,
    /// Whether these rows are lines of a manifest: with all columns, and with times as text.
    pub is_manifest: bool,
    /// Results file. `None` means that rows are only counted.
    pub results: Option<PathBuf>,
    /// Format of the results file.
    pub format: ResultsFormat,
}

impl RowsOptions {
    /// Returns the text for the journal. A check with another results file is another check.
    pub(crate) fn text(&self) -> String {
        match &self.results {
            Some(path) => format!("{} ({})", file_name(path), self.format.text()),
            None => "none".to_owned(),
        }
    }
}
