//! Names of files in columns of a database.

use rusqlite::Row;
use rusqlite::types::Type;

use fetchmill_model::text::file_name::FileName;

/// Reads a name of a file; one that leads to another folder is an error.
pub(crate) fn read_file_name(row: &Row<'_>, column: usize) -> rusqlite::Result<FileName> {
    let refused = |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error));
    FileName::try_from(row.get::<_, String>(column)?).map_err(refused)
}
