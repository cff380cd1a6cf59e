//! What came of the requests of a pass, read out of the journal and the manifests of the job that made them.

use std::path::Path;

use rusqlite::{Connection, params};

use super::database;
use crate::error::{Error, Result};
use crate::journal::{JobLocation, read_manifests, read_shards, read_status, sqlite_error_of};
use crate::manifest::ManifestRows;
use crate::sink::failures::FailureRows;

/// `failed` has all that were not stored: absent, failed and, of a request on a condition, skipped ones.
const TABLES: &str = "
CREATE TABLE fetched (
    name BLOB PRIMARY KEY, length INTEGER NOT NULL, crc32c INTEGER NOT NULL, etag BLOB, modified INTEGER)
    WITHOUT ROWID;
CREATE TABLE failed (name BLOB PRIMARY KEY, outcome TEXT NOT NULL, kind TEXT, detail TEXT) WITHOUT ROWID;
";

/// Gathers them in a file of their own; without a job there are none.
pub(super) fn gather(job: Option<&Path>, path: &Path) -> Result<()> {
    let made = path.with_extension("tmp");
    let db = database::create(&made, TABLES)?;
    if let Some(job) = job {
        let place = JobLocation::find(job, None)?;
        if read_status(&place)?.finished_at.is_none() {
            let job = job.display();
            return Err(Error::Internal(format!(
                "the job of {job} is not finished, and its outcomes are asked for"
            )));
        }
        read_fetched(&place, &db, &made)?;
        read_failed(&place, &db, &made)?;
    }
    database::finish(db, &made, path)
}

fn read_fetched(place: &JobLocation, db: &Connection, made: &Path) -> Result<()> {
    let fail = |error: rusqlite::Error| sqlite_error_of(made, &error);
    let mut insert = db.prepare("INSERT OR IGNORE INTO fetched VALUES (?, ?, ?, ?, ?)").map_err(fail)?;
    for shard in read_manifests(place)? {
        let mut rows = ManifestRows::open(&place.manifests_path().join(&shard.path), Some(shard.end))?;
        while let Some(frame) = rows.next_frame()? {
            for row in frame.iter() {
                let etag = Some(row.etag).filter(|etag| !etag.is_empty());
                let modified = row.last_modified.map(|seconds| seconds as i64);
                let row = params![row.name, row.length as i64, row.crc32c, etag, modified];
                insert.execute(row).map_err(fail)?;
            }
        }
    }
    Ok(())
}

fn read_failed(place: &JobLocation, db: &Connection, made: &Path) -> Result<()> {
    let fail = |error: rusqlite::Error| sqlite_error_of(made, &error);
    let mut insert = db.prepare("INSERT OR REPLACE INTO failed VALUES (?, ?, ?, ?)").map_err(fail)?;
    for shard in read_shards(place)? {
        for row in FailureRows::open(&place.failures_path(), &shard)? {
            let row = row?;
            let Some(name) = row.name_bytes() else {
                return Err(Error::Journal(format!(
                    "a failures shard of {} is damaged",
                    place.dest.display()
                )));
            };
            insert.execute(params![name, row.outcome, row.kind, row.detail]).map_err(fail)?;
        }
    }
    Ok(())
}
