//! Reads facts about a job before a run opens the journal.

use std::collections::BTreeMap;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _};

use super::identity::Identity;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::location::JobLocation;
use fetchmill_model::error::Result;

/// Key that records that a run has begun to remove the job and its files. The next job will use the current rules.
pub(super) const RESTARTING: &str = "restarting";

/// Reads a journal without changing it. Returns `None` if there is no journal, or if it has no tables yet.
///
/// The journal is opened read-only. Nothing is written or synced, and the write-ahead log stays in place. After a kill,
/// an unfinished transaction is left alone, because only a writer can roll it back.
pub(super) fn peek<T>(
    place: &JobLocation,
    read: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    let path = place.journal_path();
    if !path.exists() {
        return Ok(None);
    }
    let read_with = |flags| -> rusqlite::Result<Option<T>> {
        let db = Connection::open_with_flags(&path, flags)?;
        db.busy_timeout(std::time::Duration::from_secs(10))?;
        let has_facts = "SELECT 1 FROM sqlite_schema WHERE name = 'job'";
        if db.query_row(has_facts, [], |_| Ok(())).optional()?.is_none() {
            return Ok(None);
        }
        read(&db).map(Some)
    };
    let found = match read_with(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
            read_with(OpenFlags::SQLITE_OPEN_READ_WRITE)
        }
        found => found,
    };
    found.map_err(|error| error_of(&path, &error))
}

/// Returns a fact from a journal whose tables exist.
pub(super) fn fact_of(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    let query = "SELECT value FROM job WHERE key = ?";
    db.query_row(query, [key], |row| row.get::<_, String>(0)).optional()
}

/// Returns the identity of the job at a location. `None` if no job was ever started there.
pub fn stored_identity(place: &JobLocation) -> Result<Option<BTreeMap<String, String>>> {
    let stored = peek(place, |db| fact_of(db, "identity"))?.flatten();
    Ok(stored.map(|stored| Identity::from_json(&stored)))
}

/// Returns whether a run has begun to remove the job at a location.
pub fn is_restarting(place: &JobLocation) -> Result<bool> {
    Ok(peek(place, |db| fact_of(db, RESTARTING))?.flatten().is_some())
}
