//! A destination of a job that is finished becomes that of a sync: what the job has stored is the first base.

use std::path::Path;

use rusqlite::{Connection, params};

use super::database::{self, set_fact};
use super::local::LocalFolder;
use super::plan::is_ours;
use crate::durable::{self, PathState};
use crate::error::{Error, Result};
use crate::journal::{JobLocation, NAMES, STRIP_PREFIX, read_manifests, read_status, sqlite_error_of};
use crate::manifest::ManifestRows;
use crate::name;
use crate::time_text::parse_utc_to_the_second;

/// What the state folder of a job holds besides `job.sqlite`, which goes last.
const OF_A_JOB: [&str; 8] =
    ["manifests", "failures", "stage", "open", "index", "job.sqlite-wal", "job.sqlite-shm", "state"];

/// Takes over a job's destination; how many objects it has. Again after a kill it goes on.
pub(super) fn adopt(dest: &Path, base: &Path, source: &str, filters: &str) -> Result<u64> {
    let place = JobLocation::take(dest, None)?;
    let status = read_status(&place)?;
    let shown = dest.display();
    let format = status.identity.get("format").map_or("", String::as_str);
    if format != "files" {
        return Err(Error::Usage(format!(
            "{shown} holds a job with the format {format}, and a sync keeps plain files: give it a destination of its own"
        )));
    }
    if status.finished_at.is_none() {
        return Err(Error::Usage(format!(
            "{shown} holds a job that is not finished; finish it first: run its `fetchmill get` again"
        )));
    }
    if [NAMES, STRIP_PREFIX].iter().any(|part| status.identity.contains_key(*part)) {
        return Err(Error::Usage(format!(
            "{shown} holds a job whose files have names of their own (--names, --strip-prefix), and a sync calls them as \
             their source does: give it a destination of its own"
        )));
    }
    let db = database::open_base(base)?;
    let fail = |error: rusqlite::Error| sqlite_error_of(base, &error);
    if database::fact(&db, "pass").map_err(fail)?.is_none() {
        db.execute_batch("BEGIN IMMEDIATE").map_err(fail)?;
        // What was fetched later was younger at most.
        let started_at =
            status.started_at.as_deref().and_then(|text| parse_utc_to_the_second(text.as_bytes()));
        read_objects(&place, started_at.unwrap_or_default() as i64, &db, base)?;
        let note = || {
            set_fact(&db, "pass", "0")?;
            set_fact(&db, "source", source)?;
            set_fact(&db, "filters", filters)?;
            db.execute_batch("COMMIT")
        };
        note().map_err(fail)?;
    }
    let count = db.query_row("SELECT count(*) FROM objects", [], |row| row.get::<_, i64>(0)).map_err(fail)?;
    forget_job(&place)?;
    Ok(count as u64)
}

fn read_objects(place: &JobLocation, checked_at: i64, db: &Connection, base: &Path) -> Result<()> {
    let fail = |error: rusqlite::Error| sqlite_error_of(base, &error);
    let mut folder = LocalFolder::open(&place.dest)?;
    let mut path = Vec::new();
    let mut insert = db
        .prepare("REPLACE INTO objects VALUES (?, NULL, NULL, NULL, NULL, ?, ?, ?, ?, ?, ?)")
        .map_err(fail)?;
    for shard in read_manifests(place)? {
        let mut rows = ManifestRows::open(&place.manifests_path().join(&shard.path), Some(shard.end))?;
        while let Some(frame) = rows.next_frame()? {
            for row in frame.iter() {
                if name::to_path(row.name, &mut path).is_err() {
                    continue;
                }
                // One that is not there is fetched; one of another size was changed by somebody else.
                let Some(PathState::File { size, mtime_ns }) = folder.state(&path)? else { continue };
                let length = row.length as i64;
                let mtime_ns = Some(mtime_ns).filter(|time| is_ours(length, Some(*time), size, *time));
                let etag = Some(row.etag).filter(|etag| !etag.is_empty());
                let modified = row.last_modified.map(|seconds| seconds as i64);
                insert
                    .execute(params![row.name, etag, modified, length, row.crc32c, mtime_ns, checked_at])
                    .map_err(fail)?;
            }
        }
    }
    Ok(())
}

/// Removes what the job knew: the base has it.
fn forget_job(place: &JobLocation) -> Result<()> {
    for name in OF_A_JOB {
        let path = place.state.join(name);
        let removed = if path.is_dir() { durable::remove_folder(&path) } else { durable::remove_path(&path) };
        removed.map_err(|error| Error::storage("remove", path, error))?;
    }
    let journal = place.journal_path();
    durable::remove_path(&journal).map_err(|error| Error::storage("remove", journal, error))
}
