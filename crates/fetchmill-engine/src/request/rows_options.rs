//! Jobs that make a row of each target, and store no objects.

use std::path::PathBuf;

use super::source_options::file_name;
use fetchmill_model::row::RowKind;
use fetchmill_store::results::ResultsFormat;

/// What a check, or a list that is written out, does with its rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsOptions {
    /// What they are about.
    pub kind: RowKind,
    /// Whether they are given to the program that starts the job ([`crate::Job::take_rows`]), and not kept.
    pub is_given: bool,
    /// The file that they go into; none: they are only counted.
    pub results: Option<PathBuf>,
    /// How it is written.
    pub format: ResultsFormat,
}

impl RowsOptions {
    /// As it stands in the journal: another file is another check.
    pub(crate) fn text(&self) -> String {
        match &self.results {
            Some(path) => format!("{} ({})", file_name(path), self.format.text()),
            None => "none".to_owned(),
        }
    }
}
