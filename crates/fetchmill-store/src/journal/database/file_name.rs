//! File names in columns of the database.

use rusqlite::Row;
use rusqlite::types::Type;

use fetchmill_model::text::file_name::FileName;

/// Reads a file name. Fails if the name leads to another folder.
pub(crate) fn read_file_name(row: &Row<'_>, column: usize) -> rusqlite::Result<FileName> {
    let refused = |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error));
    FileName::try_from(row.get::<_, String>(column)?).map_err(refused)
}
