//! Outcomes of the requests of a pass, read from the journal and the manifests of the job that sent them.

use std::path::Path;

use rusqlite::{Connection, params};

use super::database;
use crate::journal::{
    JobLocation, read_manifests, read_sealed_shards, read_shards, read_status, sqlite_error_of,
};
use crate::manifest::ManifestRows;
use crate::sink::failures::{FailureRow, FailureRows};
use crate::sink::{Format, ShardFolder};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{FailureKind, Outcome, ShardNumber};

/// `shard` is the number of the object's shard, or NULL for a file. `failed` contains all targets that were not stored:
/// absent and failed ones, and those that conditional requests skipped.
const TABLES: &str = "
CREATE TABLE fetched (
    name BLOB PRIMARY KEY, length INTEGER NOT NULL, crc32c INTEGER NOT NULL, etag BLOB, modified INTEGER,
    shard INTEGER)
    WITHOUT ROWID;
CREATE TABLE failed (name BLOB PRIMARY KEY, outcome TEXT NOT NULL, kind TEXT, detail TEXT) WITHOUT ROWID;
";

/// Collects the outcomes in a separate file. The file is empty if there was no job.
pub(super) fn gather(job: Option<&Path>, path: &Path) -> Result<()> {
    let made = path.with_extension("tmp");
    let db = database::create(&made, TABLES)?;
    if let Some(job) = job {
        let place = JobLocation::find(job, None)?;
        if read_status(&place)?.finished_at.is_none() {
            let job = job.display();
            return Err(Error::Internal(format!(
                "cannot read the outcomes of {job}: the job is not finished"
            )));
        }
        read_fetched(&place, &db, &made)?;
        read_failed(&place, &db, &made)?;
    }
    database::finish(db, &made, path)
}

fn read_fetched(place: &JobLocation, db: &Connection, made: &Path) -> Result<()> {
    let fail = |error: rusqlite::Error| sqlite_error_of(made, &error);
    let mut insert = db.prepare("INSERT OR IGNORE INTO fetched VALUES (?, ?, ?, ?, ?, ?)").map_err(fail)?;
    for_each_manifest(place, |mut rows, number| {
        let number = number.map(|number| number as i64);
        while let Some(frame) = rows.next_frame()? {
            for row in frame.iter() {
                let etag = Some(row.etag).filter(|etag| !etag.is_empty());
                let modified = row.last_modified.map(|seconds| seconds as i64);
                let row = params![row.name, row.length as i64, row.crc32c, etag, modified, number];
                insert.execute(row).map_err(fail)?;
            }
        }
        Ok(())
    })
}

/// Calls `each` for each manifest of a job, with its rows and the number of its shard.
pub(super) fn for_each_manifest(
    place: &JobLocation,
    mut each: impl FnMut(ManifestRows, Option<ShardNumber>) -> Result<()>,
) -> Result<()> {
    let format = read_status(place)?.identity.get("format").and_then(|name| Format::from_name(name));
    let Some(extension) = format.and_then(Format::extension) else {
        return read_manifests(place)?.into_iter().try_for_each(|shard| {
            let path = place.manifests_path().join(&shard.path);
            each(ManifestRows::open(&path, Some(shard.end))?, None)
        });
    };
    let folder = ShardFolder::new(&place.dest, extension, false);
    read_sealed_shards(place)?.into_iter().try_for_each(|shard| {
        each(ManifestRows::open(&folder.manifest_path(shard.number), None)?, Some(shard.number))
    })
}

/// Returns the outcome and the kind. A skipped object counts as unchanged only if the server said so. An archived
/// object is also skipped, but counts as failed.
fn outcome_of(row: &FailureRow) -> (&str, Option<&str>) {
    const NOT_MODIFIED: u16 = 304;
    match row.status {
        Some(status) if row.is_skipped() && status != NOT_MODIFIED => {
            (Outcome::Failed(FailureKind::Status).name(), Some(FailureKind::Status.name()))
        }
        _ => (&row.outcome, row.kind.as_deref()),
    }
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
            let (outcome, kind) = outcome_of(&row);
            insert.execute(params![name, outcome, kind, row.detail]).map_err(fail)?;
        }
    }
    Ok(())
}
