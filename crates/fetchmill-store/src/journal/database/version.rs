//! Compatibility between databases and releases. A database stores a version number, and the release that last wrote to
//! it. The number is incremented whenever older releases can no longer read the database.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _};

use super::sqlite_error::error_of;
use fetchmill_model::error::{Error, Result};

const RELEASE: &str = env!("CARGO_PKG_VERSION");
const TABLE: &str = "CREATE TABLE IF NOT EXISTS written_by (
    id INTEGER PRIMARY KEY CHECK (id = 0), release TEXT NOT NULL)";

/// Fails if a database's version exceeds `known`.
pub(in crate::journal) fn check(db: &Connection, path: &Path, known: i64) -> Result<()> {
    let failed = |error: rusqlite::Error| error_of(path, &error);
    let number: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    if number <= known {
        return Ok(());
    }
    // Newer releases keep this table, whatever else they change. If the table cannot be read, report only the version.
    let release = db.query_row("SELECT release FROM written_by", [], |row| row.get::<_, String>(0));
    let (writer, can) = match release.optional().ok().flatten() {
        Some(release) => (format!("fetchmill {release}"), format!("fetchmill {release} or later")),
        None => ("a newer fetchmill".to_owned(), "that release or a later one".to_owned()),
    };
    Err(Error::Journal(format!(
        "{}: written by {writer} (format version {number}), but this is fetchmill {RELEASE}, which reads \
         versions up to {known}; use {can}",
        path.display()
    )))
}

/// Writes the version number to a new database. The first transaction must be small: see [`super::wal_index`].
pub(in crate::journal) fn begin(db: &Connection, number: i64) -> rusqlite::Result<()> {
    let found: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found == 0 { db.pragma_update(None, "user_version", number) } else { Ok(()) }
}

/// Writes the version number and this release. Part of the transaction that creates the tables.
pub(in crate::journal) fn write(db: &Connection, number: i64) -> rusqlite::Result<()> {
    db.execute_batch(TABLE)?;
    db.execute("REPLACE INTO written_by VALUES (0, ?)", [RELEASE])?;
    db.pragma_update(None, "user_version", number)
}
