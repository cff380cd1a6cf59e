//! Rows of a check (a site's answer, or the reason why there was none) and rows of a written list ([`ListRow`]).
//!
//! A row is written once for each target, as a line of JSON in a shard, before it becomes part of the results.

mod check_row;
mod list_row;
mod values;

pub use check_row::{CheckAnswer, CheckRow, millis};
pub use list_row::{LISTED_COLUMNS, ListRow};
pub use values::{ColumnKind, ColumnTypes, ROW_COLUMNS, RowValues, Value};

use serde::Deserialize;

/// Kind of a job's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// Answers of sites: [`CheckRow`].
    #[default]
    Answers,
    /// Listed targets: [`ListRow`].
    Targets,
}

impl RowKind {
    /// Returns the columns of a file that contains such rows.
    pub fn columns(self) -> ColumnTypes {
        match self {
            RowKind::Answers => &ROW_COLUMNS,
            RowKind::Targets => &LISTED_COLUMNS,
        }
    }
}
