//! The indexes of shards of WARC, for `--cdxj`: complete, and in their place or on the way there.

use rusqlite::{Connection, params};

use crate::journal::job::transactions::Journal;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{ShardEnd, ShardNumber};

/// The facts of a job that has them begin so, behind which the shard's number stands; each is a [`ShardEnd`] as JSON.
const CDXJ: &str = "cdxj-";

/// An index, and what it was when it was complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CdxjFile {
    /// Its shard.
    pub shard: ShardNumber,
    /// The file, under its first name.
    pub data: ShardEnd,
}

/// By number.
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

impl Journal {
    /// Those that were complete once, by the numbers of their shards.
    pub fn cdxj_files(&self) -> Result<Vec<CdxjFile>> {
        self.check(read(&self.db))
    }

    /// It is complete: from here on it may be put in its place.
    pub fn set_cdxj(&self, shard: ShardNumber, data: &ShardEnd) -> Result<()> {
        let text = serde_json::to_string(data).map_err(|error| Error::Internal(error.to_string()))?;
        self.set(&format!("{CDXJ}{shard}"), &text)
    }

    /// It is removed.
    pub fn forget_cdxj(&self, shard: ShardNumber) -> Result<()> {
        self.forget(&format!("{CDXJ}{shard}"))
    }
}
