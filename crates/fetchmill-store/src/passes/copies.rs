//! A separate database that describes the rewritten shards and the shards that they replace. It is either complete or
//! absent.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, params};

use super::database;
use crate::journal::{read_file_name, sqlite_error_of};
use fetchmill_model::error::Result;
use fetchmill_model::outcome::{SealedShard, ShardEnd, ShardNumber};

/// `replaced.copy` is the row of the copy that contains the remaining objects. It is NULL if no object remains.
const TABLES: &str = "
CREATE TABLE copies (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, end INTEGER NOT NULL, crc32c INTEGER NOT NULL,
    manifest TEXT NOT NULL, manifest_end INTEGER NOT NULL, manifest_crc32c INTEGER NOT NULL,
    objects INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE replaced (number INTEGER PRIMARY KEY, copy INTEGER);
";

/// A database that is being written.
pub(super) struct CopiesWriter {
    db: Connection,
    made: PathBuf,
    path: PathBuf,
}

impl CopiesWriter {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let made = path.with_extension("tmp");
        Ok(CopiesWriter { db: database::create(&made, TABLES)?, made, path: path.to_owned() })
    }

    /// Records a sealed shard that is still in the folder of open shards. Returns its row.
    pub(super) fn note_copy(&self, copy: &SealedShard) -> Result<i64> {
        let SealedShard { data, manifest, objects, bytes, replaces: _ } = copy;
        let row = params![
            &*data.path,
            data.end as i64,
            data.crc32c,
            &*manifest.path,
            manifest.end as i64,
            manifest.crc32c,
            *objects as i64,
            *bytes as i64
        ];
        let done = self.db.execute("INSERT INTO copies VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", row);
        done.map_err(|error| sqlite_error_of(&self.made, &error))?;
        Ok(self.db.last_insert_rowid())
    }

    /// Records a shard that `copy` replaces. `copy` is `None` if the shard contains no remaining objects.
    pub(super) fn note_replaced(&self, number: ShardNumber, copy: Option<i64>) -> Result<()> {
        let done = self.db.execute("INSERT INTO replaced VALUES (?, ?)", params![number as i64, copy]);
        done.map(drop).map_err(|error| sqlite_error_of(&self.made, &error))
    }

    /// Makes the database durable.
    pub(super) fn finish(self) -> Result<()> {
        database::finish(self.db, &self.made, &self.path)
    }
}

/// Contents of the database.
pub(super) struct Copies {
    /// Rewritten shards and the shards that each one replaces.
    pub(super) sealed: Vec<SealedShard>,
    /// Shards that no longer contain any objects.
    pub(super) emptied: Vec<ShardNumber>,
}

impl Copies {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let db = database::read(path)?;
        let read = || -> rusqlite::Result<Copies> {
            let emptied = numbers(&db, "SELECT number FROM replaced WHERE copy IS NULL", [])?;
            Ok(Copies { sealed: read_sealed(&db)?, emptied })
        };
        read().map_err(|error| sqlite_error_of(path, &error))
    }
}

fn read_sealed(db: &Connection) -> rusqlite::Result<Vec<SealedShard>> {
    let mut query = db.prepare(
        "SELECT id, path, end, crc32c, manifest, manifest_end, manifest_crc32c, objects, bytes FROM copies ORDER BY id",
    )?;
    let rows = query.query_map([], |row| {
        let id: i64 = row.get(0)?;
        Ok(SealedShard {
            data: shard_end(row, 1)?,
            manifest: shard_end(row, 4)?,
            objects: row.get::<_, i64>(7)? as u64,
            bytes: row.get::<_, i64>(8)? as u64,
            replaces: numbers(db, "SELECT number FROM replaced WHERE copy = ?", [id])?,
        })
    })?;
    rows.collect()
}

fn numbers(
    db: &Connection,
    query: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Vec<ShardNumber>> {
    let mut query = db.prepare(query)?;
    let rows = query.query_map(values, |row| Ok(row.get::<_, i64>(0)? as ShardNumber))?;
    rows.collect()
}

fn shard_end(row: &Row<'_>, at: usize) -> rusqlite::Result<ShardEnd> {
    Ok(ShardEnd {
        path: read_file_name(row, at)?,
        end: row.get::<_, i64>(at + 1)? as u64,
        crc32c: row.get::<_, i64>(at + 2)? as u32,
    })
}
