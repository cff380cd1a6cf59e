//! The complete indexes of WARC shards (`--cdxj`). Each one is at its final path, or about to be moved there.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::journal::database::schema;
use crate::journal::database::sqlite_error::error_of;
use crate::journal::job::open_journal::Journal;
use crate::journal::location::JobLocation;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{ShardEnd, ShardNumber};

/// Prefix of the keys under which the indexes are stored. The shard's number follows it. Each value is a [`ShardEnd`]
/// as JSON.
const CDXJ: &str = "cdxj-";

/// Key that records that the job has indexes only because they are the default.
const BY_DEFAULT: &str = "indexed_by_default";

/// An index, and its state when it was complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CdxjFile {
    /// Shard that the index belongs to.
    pub shard: ShardNumber,
    /// The file, with its name before the move.
    pub data: ShardEnd,
}

/// Reads the indexes, ordered by shard number.
pub(in crate::journal) fn read(db: &Connection) -> rusqlite::Result<Vec<CdxjFile>> {
    let mut query = db.prepare("SELECT key, value FROM job WHERE substr(key, 1, ?) = ?")?;
    let rows = query.query_map(params![CDXJ.len() as i64, CDXJ], |row| {
        let (key, text) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?);
        let shard = key.strip_prefix(CDXJ).and_then(|number| number.parse().ok());
        let file = shard.zip(serde_json::from_str(&text).ok()).map(|(shard, data)| CdxjFile { shard, data });
        file.ok_or_else(|| rusqlite::Error::InvalidColumnType(1, key, rusqlite::types::Type::Text))
    })?;
    let mut files = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    files.sort_unstable_by_key(|file| file.shard);
    Ok(files)
}

/// Returns whether the job at a location has indexes only by default.
pub fn has_indexes_by_default(place: &JobLocation) -> Result<bool> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    let read = || db.query_row("SELECT 1 FROM job WHERE key = ?", [BY_DEFAULT], |_| Ok(())).optional();
    Ok(read().map_err(|error| error_of(&path, &error))?.is_some())
}

impl Journal {
    /// Returns the complete indexes, ordered by shard number.
    pub fn cdxj_files(&self) -> Result<Vec<CdxjFile>> {
        self.check(read(&self.db))
    }

    /// Records a complete index. From then on, it may be moved to its final place.
    pub fn set_cdxj(&self, shard: ShardNumber, data: &ShardEnd) -> Result<()> {
        let text = serde_json::to_string(data).map_err(|error| Error::Internal(error.to_string()))?;
        self.set(&format!("{CDXJ}{shard}"), &text)
    }

    /// Records whether the job has indexes only by default. Uses a transaction only if this has changed.
    pub fn keep_indexes_by_default(&self, is_default: bool) -> Result<()> {
        match (is_default, self.get(BY_DEFAULT)?.is_some()) {
            (true, false) => self.set(BY_DEFAULT, "true"),
            (false, true) => self.forget(BY_DEFAULT),
            _ => Ok(()),
        }
    }

    /// Discards the record of an index that was removed.
    pub fn forget_cdxj(&self, shard: ShardNumber) -> Result<()> {
        self.forget(&format!("{CDXJ}{shard}"))
    }
}
