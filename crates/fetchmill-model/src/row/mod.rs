//! A row of a check (the answer of one site, or why there was none), and a row of a written list ([`ListRow`]). Before
//! it reaches the results, a row is a line of JSON in a shard, written once for each object.

mod check_row;
mod list_row;
mod values;

pub use check_row::{CheckAnswer, CheckRow, millis};
pub use list_row::{LISTED_COLUMNS, ListRow};
pub use values::{ColumnKind, ColumnTypes, ROW_COLUMNS, RowValues, Value};

use serde::Deserialize;

/// What the rows of a job are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// What sites answered: [`CheckRow`].
    #[default]
    Answers,
    /// Targets as they were listed: [`ListRow`].
    Targets,
}

impl RowKind {
    /// The columns of their file.
    pub fn columns(self) -> ColumnTypes {
        match self {
            RowKind::Answers => &ROW_COLUMNS,
            RowKind::Targets => &LISTED_COLUMNS,
        }
    }
}
