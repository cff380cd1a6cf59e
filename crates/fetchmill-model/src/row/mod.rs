//! Rows of a check (the answer of a site, or why there was none) and rows of a written list ([`ListRow`]). Before it
//! reaches the results, a row is a line of JSON in a shard, written once for each target.

mod check_row;
mod list_row;
mod values;

pub use check_row::{CheckAnswer, CheckRow, millis};
pub use list_row::{LISTED_COLUMNS, ListRow};
pub use values::{ColumnKind, ColumnTypes, ROW_COLUMNS, RowValues, Value};

use serde::Deserialize;

/// Kind of the rows of a job.
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
    /// Returns the columns of a file with such rows.
    pub fn columns(self) -> ColumnTypes {
        match self {
            RowKind::Answers => &ROW_COLUMNS,
            RowKind::Targets => &LISTED_COLUMNS,
        }
    }
}
