//! The shards of a job: open ones with their durable lengths, and sealed ones with their numbers. Also stores the
//! manifests of the `files` format.

pub(super) mod cdxj;
pub(super) mod unfetched;
pub(super) mod uploads;

use rusqlite::{Connection, Row, params};

use super::database::file_name::read_file_name;
use super::database::schema;
use super::database::sqlite_error::error_of;
use super::job::open_journal::Journal;
use super::location::JobLocation;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::{OpenShard, Receipt, SealedShard, ShardEnd, ShardNumber};

/// A sealed shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Number of the shard.
    pub number: ShardNumber,
    /// State when the shard was sealed.
    pub sealed: SealedShard,
    /// Whether another shard now contains the objects. If so, this shard will be removed.
    pub is_replaced: bool,
}

const SEALED: &str =
    "number, path, end, crc32c, manifest, manifest_end, manifest_crc32c, objects, bytes, replaced_by";

/// Stores the shards of a commit record. Returns the number of the shard that it seals.
pub(super) fn apply(db: &Connection, receipt: &Receipt) -> rusqlite::Result<Option<ShardNumber>> {
    if let Some(open) = &receipt.open {
        let OpenShard { data, manifest } = open;
        db.prepare_cached("REPLACE INTO open_shards VALUES (?, ?, ?, ?, ?, ?)")?.execute(params![
            &*data.path,
            data.end as i64,
            data.crc32c,
            &*manifest.path,
            manifest.end as i64,
            manifest.crc32c
        ])?;
    }
    if let Some(manifest) = &receipt.manifest {
        db.prepare_cached("REPLACE INTO manifests VALUES (?, ?, ?)")?.execute(params![
            &*manifest.path,
            manifest.end as i64,
            manifest.crc32c
        ])?;
    }
    for removed in &receipt.removed {
        db.execute("DELETE FROM shards WHERE number = ?", [*removed as i64 + 1])?;
    }
    receipt.sealed.as_ref().map(|sealed| seal(db, sealed)).transpose()
}

pub(super) fn seal(db: &Connection, sealed: &SealedShard) -> rusqlite::Result<ShardNumber> {
    let SealedShard { data, manifest, objects, bytes, replaces } = sealed;
    db.execute("DELETE FROM open_shards WHERE path = ?", [&*data.path])?;
    db.execute(
        "INSERT INTO shards (path, end, crc32c, manifest, manifest_end, manifest_crc32c, objects, bytes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            &*data.path,
            data.end as i64,
            data.crc32c,
            &*manifest.path,
            manifest.end as i64,
            manifest.crc32c,
            *objects as i64,
            *bytes as i64
        ],
    )?;
    // Shard numbers start at 0, and row ids at 1.
    let number = db.last_insert_rowid() - 1;
    for replaced in replaces {
        db.execute("UPDATE shards SET replaced_by = ? WHERE number = ?", [number + 1, *replaced as i64 + 1])?;
    }
    Ok(number as ShardNumber)
}

fn end(row: &Row<'_>, path: usize) -> rusqlite::Result<ShardEnd> {
    Ok(ShardEnd {
        path: read_file_name(row, path)?,
        end: row.get::<_, i64>(path + 1)? as u64,
        crc32c: row.get::<_, i64>(path + 2)? as u32,
    })
}

pub(super) fn sealed(db: &Connection) -> rusqlite::Result<Vec<Shard>> {
    let mut query = db.prepare(&format!("SELECT {SEALED} FROM shards ORDER BY number"))?;
    let rows = query.query_map([], |row| {
        let sealed = SealedShard {
            data: end(row, 1)?,
            manifest: end(row, 4)?,
            objects: row.get::<_, i64>(7)? as u64,
            bytes: row.get::<_, i64>(8)? as u64,
            replaces: Vec::new(),
        };
        let number = row.get::<_, i64>(0)? as ShardNumber - 1;
        Ok(Shard { number, sealed, is_replaced: row.get::<_, Option<i64>>(9)?.is_some() })
    })?;
    rows.collect()
}

pub(super) fn open(db: &Connection) -> rusqlite::Result<Vec<OpenShard>> {
    let columns = "path, end, crc32c, manifest, manifest_end, manifest_crc32c";
    db.prepare(&format!("SELECT {columns} FROM open_shards ORDER BY path"))?
        .query_map([], |row| Ok(OpenShard { data: end(row, 0)?, manifest: end(row, 3)? }))?
        .collect()
}

pub(super) fn manifests(db: &Connection) -> rusqlite::Result<Vec<ShardEnd>> {
    db.prepare("SELECT path, end, crc32c FROM manifests ORDER BY path")?
        .query_map([], |row| end(row, 0))?
        .collect()
}

/// Returns the sealed shards by number, except those that were replaced.
pub fn read_shards(place: &JobLocation) -> Result<Vec<Shard>> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    let mut shards = sealed(&db).map_err(|error| error_of(&path, &error))?;
    shards.retain(|shard| !shard.is_replaced);
    Ok(shards)
}

/// Returns the manifests of the `files` format, with their valid lengths.
pub fn read_manifests(place: &JobLocation) -> Result<Vec<ShardEnd>> {
    let path = place.journal_path();
    let db = schema::open_to_read(&path)?;
    manifests(&db).map_err(|error| error_of(&path, &error))
}

pub(super) fn failures(db: &Connection) -> rusqlite::Result<Vec<ShardEnd>> {
    let mut query = db.prepare("SELECT path, end, crc32c FROM failures ORDER BY path")?;
    query.query_map([], |row| end(row, 0))?.collect()
}

impl Journal {
    /// Returns the sealed shards by number, including those that will be removed.
    pub fn shards(&self) -> Result<Vec<Shard>> {
        self.check(sealed(&self.db))
    }

    /// Returns the shards that an earlier run left open.
    pub fn open_shards(&self) -> Result<Vec<OpenShard>> {
        self.check(open(&self.db))
    }

    /// Returns the manifests of the `files` format.
    pub fn manifests(&self) -> Result<Vec<ShardEnd>> {
        self.check(manifests(&self.db))
    }

    /// Discards the records of replaced shards whose files were removed.
    pub fn forget_replaced(&mut self) -> Result<()> {
        self.begin()?;
        let done = self.db.execute("DELETE FROM shards WHERE replaced_by IS NOT NULL", []);
        self.check(done).map(drop)
    }
}
