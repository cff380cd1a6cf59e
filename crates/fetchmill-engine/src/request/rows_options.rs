//! Options of jobs that turn each target into a row and store no objects.

use std::path::PathBuf;

use super::source_options::file_name;
use fetchmill_model::row::RowKind;
use fetchmill_store::results::ResultsFormat;

/// Options for the rows of a check, or of a list that is written out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsOptions {
    /// Kind of the rows.
    pub kind: RowKind,
    /// Whether rows are passed to the calling program ([`crate::Job::take_rows`]) instead of being stored.
    pub is_given: bool,
    /// Whether the rows are manifest lines, with all columns and with times as text.
    pub is_manifest: bool,
    /// Results file. `None` means that rows are only counted.
    pub results: Option<PathBuf>,
    /// Format of the results file.
    pub format: ResultsFormat,
}

impl RowsOptions {
    /// Returns the options as text for the journal. Checks with different results files are different checks.
    pub(crate) fn text(&self) -> String {
        match &self.results {
            Some(path) => format!("{} ({})", file_name(path), self.format.text()),
            None => "none".to_owned(),
        }
    }
}
