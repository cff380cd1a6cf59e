//! The databases of a pass, and how they are opened.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::journal::sqlite_error_of;
use fetchmill_model::error::{Error, Result};

/// KiB of a database in memory: the bound of what a pass takes, whatever the number of objects. Sorting has as much.
const CACHE_KIB: i64 = 64 * 1024;
/// The fact that names that are not UTF-8 are names.
const BYTE_NAMES: &str = "byte_names";
/// The fact that names that are made of URLs are decoded.
const DECODED_NAMES: &str = "decoded_names";
/// Raised when an older fetchmill could not read the base.
const VERSION: i64 = 2;

/// `length` and `mtime_ns` are those of the file: one that has others was changed by somebody else. `shard` is the number
/// of the one that holds the object; none for files, and in version 1.
const BASE_TABLES: &str = "
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    name BLOB PRIMARY KEY, url TEXT, listed_size INTEGER, listed_etag TEXT, listed_modified INTEGER,
    etag BLOB, modified INTEGER, length INTEGER NOT NULL, crc32c INTEGER NOT NULL, mtime_ns INTEGER,
    checked_at INTEGER NOT NULL, shard INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (
    name BLOB PRIMARY KEY, outcome TEXT NOT NULL, kind TEXT, detail TEXT) WITHOUT ROWID;
";

/// The base, to change it; made if it is not there.
pub(super) fn open_base(path: &Path) -> Result<Connection> {
    let open = || {
        let _ = crate::durable::keep_private(path);
        let db = Connection::open(path)?;
        db.busy_timeout(std::time::Duration::from_secs(10))?;
        db.pragma_update(None, "synchronous", "FULL")?;
        bound_memory(&db)?;
        Ok(db)
    };
    let db = open().map_err(|error| sqlite_error_of(path, &error))?;
    let version = must_be_known(&db, path)?;
    let make = || {
        db.execute_batch("BEGIN IMMEDIATE")?;
        db.execute_batch(BASE_TABLES)?;
        if version == 1 {
            db.execute_batch("ALTER TABLE objects ADD COLUMN shard INTEGER")?;
        }
        db.pragma_update(None, "user_version", VERSION)?;
        db.execute_batch("COMMIT")
    };
    make().map_err(|error| sqlite_error_of(path, &error))?;
    Ok(db)
}

/// The base as it is, or an empty one: also where a kill came before its tables.
pub(super) fn look_at_base(path: &Path) -> Result<Connection> {
    let fail = |error: rusqlite::Error| sqlite_error_of(path, &error);
    if path.exists() {
        // To write, as far as the file allows it: what a kill has left of a transaction is undone by who opens it next,
        // and SQLite refuses that to a reader.
        let open = || {
            let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            db.busy_timeout(std::time::Duration::from_secs(10))?;
            bound_memory(&db)?;
            Ok(db)
        };
        let db = open().map_err(fail)?;
        if must_be_known(&db, path)? > 0 {
            return Ok(db);
        }
    }
    let db = Connection::open_in_memory().map_err(fail)?;
    db.execute_batch(BASE_TABLES).map_err(fail)?;
    Ok(db)
}

fn must_be_known(db: &Connection, path: &Path) -> Result<i64> {
    let number: i64 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|error| sqlite_error_of(path, &error))?;
    if number <= VERSION {
        return Ok(number);
    }
    Err(Error::Journal(format!("{} was written by a newer fetchmill; use that one", path.display())))
}

/// A file that is made as a whole, from nothing: nothing of it counts before it has its name ([`finish`]).
pub(super) fn create(path: &Path, tables: &str) -> Result<Connection> {
    crate::durable::remove_path(path).map_err(|error| Error::storage("remove", path, error))?;
    let make = || {
        let db = Connection::open(path)?;
        db.pragma_update(None, "journal_mode", "OFF")?;
        db.pragma_update(None, "synchronous", "OFF")?;
        bound_memory(&db)?;
        db.execute_batch(tables)?;
        db.execute_batch("BEGIN")?;
        Ok(db)
    };
    make().map_err(|error| sqlite_error_of(path, &error))
}

/// Makes such a file durable, and gives it its name.
pub(super) fn finish(db: Connection, made: &Path, path: &Path) -> Result<()> {
    let commit = db.execute_batch("COMMIT");
    commit.map_err(|error| sqlite_error_of(made, &error))?;
    db.close().map_err(|(_, error)| sqlite_error_of(made, &error))?;
    crate::durable::put_in_place(made, path)
}

/// A whole file, to read it.
pub(super) fn read(path: &Path) -> Result<Connection> {
    let open = || {
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        bound_memory(&db)?;
        Ok(db)
    };
    open().map_err(|error| sqlite_error_of(path, &error))
}

/// Names another file in a connection.
pub(super) fn attach(db: &Connection, path: &Path, name: &str) -> Result<()> {
    // A path may be no UTF-8; SQLite takes the bytes as they are.
    let attached = db.execute(&format!("ATTACH ? AS {name}"), [path.as_os_str().as_bytes()]);
    attached.map(drop).map_err(|error| sqlite_error_of(path, &error))
}

/// A fact of a database; none that it does not have.
pub(super) fn fact(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    db.query_row("SELECT value FROM facts WHERE key = ?", [key], |row| row.get(0)).optional()
}

/// Whether the objects of a base whose names are not UTF-8 have these names: those of a new one have. fetchmill 0.1.0
/// named them by their URLs, and such a base goes on so.
pub(super) fn has_byte_names(db: &Connection) -> rusqlite::Result<bool> {
    Ok(fact(db, "pass")?.is_none() || fact(db, BYTE_NAMES)?.is_some())
}

/// Notes that they have these names.
pub(super) fn set_byte_names(db: &Connection) -> rusqlite::Result<()> {
    set_fact(db, BYTE_NAMES, "1")
}

/// Whether names of its files that are made of URLs are decoded: those of a new base are. Older releases had them encoded,
/// and such a base keeps them.
pub(super) fn has_decoded_names(db: &Connection) -> rusqlite::Result<bool> {
    Ok(fact(db, "pass")?.is_none() || fact(db, DECODED_NAMES)?.is_some())
}

/// Notes that they are.
pub(super) fn set_decoded_names(db: &Connection) -> rusqlite::Result<()> {
    set_fact(db, DECODED_NAMES, "1")
}

/// Notes one.
pub(super) fn set_fact(db: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    db.execute("REPLACE INTO facts VALUES (?, ?)", [key, value]).map(drop)
}

fn bound_memory(db: &Connection) -> rusqlite::Result<()> {
    db.set_prepared_statement_cache_capacity(16);
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    db.pragma_update(None, "temp_store", "FILE")
}
