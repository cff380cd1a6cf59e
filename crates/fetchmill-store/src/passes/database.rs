//! Opens the databases of a sync pass.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::journal::sqlite_error_of;
use fetchmill_model::error::{Error, Result};

/// Cache size of a database in KiB. It limits the memory of a pass, regardless of the number of objects. Sorting takes
/// the same amount again.
const CACHE_KIB: i64 = 64 * 1024;
/// Key that records that non-UTF-8 names are stored as bytes.
const BYTE_NAMES: &str = "byte_names";
/// Key that records that names from URLs are decoded.
const DECODED_NAMES: &str = "decoded_names";
/// Version of the format. It is incremented whenever an older fetchmill cannot read the base.
const VERSION: i64 = 2;

/// `length` and `mtime_ns` describe the file. If the file has different values, something other than a pass has changed
/// it. `shard` is the number of the shard that contains the object. It is NULL for objects stored as files, and in
/// version 1.
const BASE_TABLES: &str = "
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    name BLOB PRIMARY KEY, url TEXT, listed_size INTEGER, listed_etag TEXT, listed_modified INTEGER,
    etag BLOB, modified INTEGER, length INTEGER NOT NULL, crc32c INTEGER NOT NULL, mtime_ns INTEGER,
    checked_at INTEGER NOT NULL, shard INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (
    name BLOB PRIMARY KEY, outcome TEXT NOT NULL, kind TEXT, detail TEXT) WITHOUT ROWID;
";

/// Opens the base for writing, creating it if it is missing.
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

/// Opens the base for reading. If the base is missing, or has no tables because of a kill, opens an empty one.
pub(super) fn look_at_base(path: &Path) -> Result<Connection> {
    let fail = |error: rusqlite::Error| sqlite_error_of(path, &error);
    if path.exists() {
        // Open it for writing if possible. After a kill, an unfinished transaction must be rolled back, and only
        // writers can do that in SQLite.
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
    Err(Error::Journal(format!(
        "{} was written by a newer fetchmill; use that release or a later one",
        path.display()
    )))
}

/// Creates a file that is written from scratch. The file is valid only after [`finish`] has renamed it.
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

/// Makes a file from [`create`] durable and renames it.
pub(super) fn finish(db: Connection, made: &Path, path: &Path) -> Result<()> {
    let commit = db.execute_batch("COMMIT");
    commit.map_err(|error| sqlite_error_of(made, &error))?;
    db.close().map_err(|(_, error)| sqlite_error_of(made, &error))?;
    crate::durable::put_in_place(made, path)
}

/// Opens a complete file for reading.
pub(super) fn read(path: &Path) -> Result<Connection> {
    let open = || {
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        bound_memory(&db)?;
        Ok(db)
    };
    open().map_err(|error| sqlite_error_of(path, &error))
}

/// Attaches another file to a connection.
pub(super) fn attach(db: &Connection, path: &Path, name: &str) -> Result<()> {
    // The path may not be UTF-8. SQLite accepts the bytes unchanged.
    let attached = db.execute(&format!("ATTACH ? AS {name}"), [path.as_os_str().as_bytes()]);
    attached.map(drop).map_err(|error| sqlite_error_of(path, &error))
}

/// Returns a fact from a database. `None` if the fact is not stored.
pub(super) fn fact(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    db.query_row("SELECT value FROM facts WHERE key = ?", [key], |row| row.get(0)).optional()
}

/// Returns whether non-UTF-8 names are stored as bytes, as in every new base. fetchmill 0.1.0 used the URLs as names,
/// and its bases still do.
pub(super) fn has_byte_names(db: &Connection) -> rusqlite::Result<bool> {
    Ok(fact(db, "pass")?.is_none() || fact(db, BYTE_NAMES)?.is_some())
}

/// Records that non-UTF-8 names are stored as bytes.
pub(super) fn set_byte_names(db: &Connection) -> rusqlite::Result<()> {
    set_fact(db, BYTE_NAMES, "1")
}

/// Returns whether file names from URLs are decoded, as in every new base. Older releases left them encoded, and their
/// bases still do.
pub(super) fn has_decoded_names(db: &Connection) -> rusqlite::Result<bool> {
    Ok(fact(db, "pass")?.is_none() || fact(db, DECODED_NAMES)?.is_some())
}

/// Records that file names from URLs are decoded.
pub(super) fn set_decoded_names(db: &Connection) -> rusqlite::Result<()> {
    set_fact(db, DECODED_NAMES, "1")
}

/// Stores a fact.
pub(super) fn set_fact(db: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    db.execute("REPLACE INTO facts VALUES (?, ?)", [key, value]).map(drop)
}

fn bound_memory(db: &Connection) -> rusqlite::Result<()> {
    db.set_prepared_statement_cache_capacity(16);
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    db.pragma_update(None, "temp_store", "FILE")
}
