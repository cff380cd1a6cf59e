//! The tables of the journal, and the functions that open the database. docs/reference/formats.md describes the tables
//! for readers.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use super::sqlite_error::error_of;
use super::{fence, version, wal_index};
use crate::durable;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{FailureKind, KindCounts, Runs, StatusCounts, Tally};
use fetchmill_model::target::Sequence;
use fetchmill_model::target::entry::EntryTraits;

/// Version of the format. It is incremented whenever older releases can no longer read a journal or another part of a
/// destination.
const VERSION: i64 = 3;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS job (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tally (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    listed INTEGER NOT NULL, fetched INTEGER NOT NULL, absent INTEGER NOT NULL, failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL, bytes INTEGER NOT NULL, next_sequence INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS pages (
    first INTEGER PRIMARY KEY, count INTEGER NOT NULL, settled BLOB, names BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS markers (digest BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS folders (
    path BLOB PRIMARY KEY, depth INTEGER NOT NULL, read INTEGER NOT NULL, digest INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS deepest_folders ON folders (depth, path);
CREATE TABLE IF NOT EXISTS failed_folders (
    path BLOB PRIMARY KEY, depth INTEGER NOT NULL, read INTEGER NOT NULL, digest INTEGER NOT NULL,
    status INTEGER, attempts INTEGER NOT NULL, detail TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS doubtful (sequence INTEGER PRIMARY KEY, name BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS key_ranges (id INTEGER PRIMARY KEY, after BLOB NOT NULL, until BLOB);
CREATE TABLE IF NOT EXISTS waiting (
    sequence INTEGER PRIMARY KEY, name BLOB NOT NULL, attempts INTEGER NOT NULL, kind TEXT NOT NULL,
    not_before INTEGER NOT NULL, throttled_since INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS waiting_by_time ON waiting (not_before, sequence);
CREATE TABLE IF NOT EXISTS failed_kinds (kind TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failed_statuses (status INTEGER PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS staged (worker INTEGER PRIMARY KEY, sequences BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS failures (path TEXT PRIMARY KEY, end INTEGER NOT NULL, crc32c INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS manifests (path TEXT PRIMARY KEY, end INTEGER NOT NULL, crc32c INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS open_shards (
    path TEXT PRIMARY KEY, end INTEGER NOT NULL, crc32c INTEGER NOT NULL,
    manifest TEXT NOT NULL, manifest_end INTEGER NOT NULL, manifest_crc32c INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shards (
    number INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, end INTEGER NOT NULL, crc32c INTEGER NOT NULL,
    manifest TEXT NOT NULL, manifest_end INTEGER NOT NULL, manifest_crc32c INTEGER NOT NULL,
    objects INTEGER NOT NULL, bytes INTEGER NOT NULL, replaced_by INTEGER);
CREATE TABLE IF NOT EXISTS samples (time REAL PRIMARY KEY, sample TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS begun (id INTEGER PRIMARY KEY CHECK (id = 0), sequences BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS skipped (reason TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS skipped_names (id INTEGER PRIMARY KEY, reason TEXT NOT NULL, name BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS opted_out (rule TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS opted_out_hosts (host TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS uploads (number INTEGER PRIMARY KEY, uploaded_at TEXT);
INSERT OR IGNORE INTO tally VALUES (0, 0, 0, 0, 0, 0, 0, 0);
";

/// Key under which the [`EntryTraits`] of the list's entries are stored.
pub(in crate::journal) const TRAITS: &str = "entries";

/// Returns the traits found in any entry of the list so far.
pub(in crate::journal) fn read_traits(db: &Connection) -> rusqlite::Result<EntryTraits> {
    let text = db.query_row("SELECT value FROM job WHERE key = ?", [TRAITS], |row| row.get::<_, String>(0));
    Ok(EntryTraits::from_text(&text.optional()?.unwrap_or_default()))
}

/// Opens the database for writing. If `is_durable` is false, nothing is synced, so the journal survives a kill but not
/// a power cut.
pub(in crate::journal) fn open(path: &Path, is_durable: bool) -> Result<Connection> {
    // SQLite gives its other files the mode of this one. If this file cannot be created, SQLite reports the error.
    let _ = durable::keep_private(path);
    wal_index::check_room(path)?;
    connect(path, is_durable).map_err(|error| error_of(path, &error))
}

fn connect(path: &Path, is_durable: bool) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.set_prepared_statement_cache_capacity(32);
    // Set this first, because changing the journal mode is itself a transaction.
    db.pragma_update(None, "synchronous", if is_durable { "FULL" } else { "OFF" })?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // A reader (`status`) may briefly lock the database.
    db.busy_timeout(std::time::Duration::from_secs(10))?;
    Ok(db)
}

/// Creates missing tables in one transaction. Leaves the journal of a newer release unchanged.
pub(in crate::journal) fn make_tables(db: &Connection, path: &Path) -> Result<()> {
    version::check(db, path, VERSION)?;
    let make = || {
        version::begin(db, VERSION)?;
        db.execute_batch("BEGIN IMMEDIATE")?;
        db.execute_batch(TABLES)?;
        db.execute_batch(fence::TABLE)?;
        version::write(db, VERSION)?;
        db.execute_batch("COMMIT")
    };
    make().map_err(|error| error_of(path, &error))
}

/// Opens the database for reading, even while a job writes to it.
pub(in crate::journal) fn open_to_read(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(std::time::Duration::from_secs(10))?;
        Ok(db)
    };
    let db = open().map_err(|error| error_of(path, &error))?;
    version::check(&db, path, VERSION)?;
    let count = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = db.query_row(count, [], |row| row.get(0)).map_err(|error| error_of(path, &error))?;
    if tables == 0 {
        // The file may have no tables yet, because they are created slightly later, in one transaction.
        let path = path.display();
        return Err(Error::Usage(format!(
            "{path}: the journal is still empty (its job has just started, or was killed while starting); run \
             the job's command again"
        )));
    }
    Ok(db)
}

/// Returns whether a table exists. In the journal of an older release, a table may be missing until a job writes to it.
pub(in crate::journal) fn has_table(db: &Connection, name: &str) -> rusqlite::Result<bool> {
    let found = "SELECT count(*) FROM sqlite_schema WHERE name = ?";
    db.query_row(found, [name], |row| row.get::<_, i64>(0)).map(|count| count > 0)
}

/// Returns the counts and the next sequence number.
pub(in crate::journal) fn read_tally(db: &Connection) -> rusqlite::Result<(Tally, u64)> {
    let columns = "listed, fetched, absent, failed, skipped, bytes, next_sequence";
    db.query_row(&format!("SELECT {columns} FROM tally"), [], |row| {
        let number = |at: usize| row.get::<_, i64>(at).map(|value| value as u64);
        let tally = Tally {
            listed: number(0)?,
            fetched: number(1)?,
            absent: number(2)?,
            failed: number(3)?,
            skipped: number(4)?,
            bytes: number(5)?,
        };
        Ok((tally, number(6)?))
    })
}

/// Stores the counts and the next sequence number.
pub(in crate::journal) fn write_tally(
    db: &Connection,
    tally: Tally,
    next_sequence: u64,
) -> rusqlite::Result<()> {
    let mut update = db.prepare_cached(
        "UPDATE tally SET listed = ?, fetched = ?, absent = ?, failed = ?, skipped = ?, bytes = ?, next_sequence = ?",
    )?;
    update.execute(params![
        tally.listed as i64,
        tally.fetched as i64,
        tally.absent as i64,
        tally.failed as i64,
        tally.skipped as i64,
        tally.bytes as i64,
        next_sequence as i64
    ])?;
    Ok(())
}

/// Returns the number of failed targets by kind. Kinds that only newer releases know are omitted.
pub(in crate::journal) fn read_kinds(db: &Connection) -> rusqlite::Result<KindCounts> {
    let mut query = db.prepare("SELECT kind, count FROM failed_kinds")?;
    let mut rows = query.query([])?;
    let mut kinds = KindCounts::default();
    while let Some(row) = rows.next()? {
        if let Some(kind) = FailureKind::from_name(&row.get::<_, String>(0)?) {
            kinds.add(kind, row.get::<_, i64>(1)? as u64);
        }
    }
    Ok(kinds)
}

/// Adds to the number of failed targets by kind.
pub(in crate::journal) fn add_kinds(db: &Connection, kinds: &KindCounts) -> rusqlite::Result<()> {
    let statement = "INSERT INTO failed_kinds VALUES (?1, ?2) ON CONFLICT DO UPDATE SET count = count + ?2";
    for (kind, count) in kinds.iter() {
        db.prepare_cached(statement)?.execute(params![kind.name(), count as i64])?;
    }
    Ok(())
}

/// Returns the number of targets that failed because of their status, by status. In the journal of an older release,
/// the table is missing until a job writes to it. Failures before that are never counted.
pub(in crate::journal) fn read_statuses(db: &Connection) -> rusqlite::Result<StatusCounts> {
    let mut statuses = StatusCounts::default();
    if !has_table(db, "failed_statuses")? {
        return Ok(statuses);
    }
    let mut query = db.prepare("SELECT status, count FROM failed_statuses")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        statuses.add(row.get(0)?, row.get::<_, i64>(1)? as u64);
    }
    Ok(statuses)
}

/// Adds to the number of failed targets by status.
pub(in crate::journal) fn add_statuses(db: &Connection, statuses: &StatusCounts) -> rusqlite::Result<()> {
    let statement =
        "INSERT INTO failed_statuses VALUES (?1, ?2) ON CONFLICT DO UPDATE SET count = count + ?2";
    for (status, count) in statuses.iter() {
        db.prepare_cached(statement)?.execute(params![status, count as i64])?;
    }
    Ok(())
}

/// Compresses bytes at level 1. Names from a listing shrink to a fifth of their size, at 300 MB/s.
pub(in crate::journal) fn pack(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    zstd::bulk::compress(bytes, 1)
}

/// Decompresses bytes. The size of the result is limited in the same way as that of a page.
pub(in crate::journal) fn unpack(blob: &[u8]) -> std::io::Result<Vec<u8>> {
    zstd::bulk::decompress(blob, 8 * fetchmill_model::limits::PAGE_BYTES_MAX)
}

/// Removes a waiting target. Returns the number of removed rows, which is 0 or 1.
pub(in crate::journal) fn remove_waiting(db: &Connection, sequence: Sequence) -> rusqlite::Result<u64> {
    let mut delete = db.prepare_cached("DELETE FROM waiting WHERE sequence = ?")?;
    delete.execute([sequence as i64]).map(|count| count as u64)
}

pub(in crate::journal) fn waiting_name(
    db: &Connection,
    sequence: Sequence,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut query = db.prepare_cached("SELECT name FROM waiting WHERE sequence = ?")?;
    query.query_row([sequence as i64], |row| row.get(0)).optional()
}

/// Returns the targets whose requests may have been sent and must not be repeated.
pub(in crate::journal) fn read_begun(db: &Connection) -> rusqlite::Result<BTreeSet<Sequence>> {
    let blob = db.query_row("SELECT sequences FROM begun", [], |row| row.get::<_, Vec<u8>>(0)).optional()?;
    let damaged = || rusqlite::Error::InvalidColumnType(0, "sequences".into(), rusqlite::types::Type::Blob);
    let runs = blob.map(|blob| Runs::from_blob(&blob).ok_or_else(damaged)).transpose()?;
    Ok(runs.iter().flat_map(Runs::numbers).collect())
}
