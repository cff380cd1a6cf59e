//! Takes over the destination of a finished job for a sync. The objects that the job stored become the first base.

use std::path::Path;

use rusqlite::{CachedStatement, Connection, params};

use super::database::{self, set_byte_names, set_decoded_names, set_fact};
use super::local::LocalFolder;
use super::outcomes::for_each_manifest;
use super::plan::is_ours;
use crate::durable::{self, PathState};
use crate::journal::{
    CdxjFile, INDEX_PART, Identity, JobLocation, JobRules, Journal, NAMES, SIDECAR, STRIP_PREFIX, Status,
    TRANSFORM, has_indexes_by_default, read_sealed_shards, read_status, sqlite_error_of,
};
use crate::reader::{ObjectError, ShardReader};
use crate::results::take_back_unfetched;
use crate::sink::{Format, ShardFolder, UnfetchedFiles};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name;
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::text::dates::parse_utc_to_the_second;

/// Contents of a job's state folder without `job.sqlite`, which is removed last.
const OF_A_JOB: [&str; 8] =
    ["manifests", "failures", "stage", "open", "index", "job.sqlite-wal", "job.sqlite-shm", "state"];

/// A destination that is taken over, and its first base.
#[derive(Clone, Copy)]
pub(super) struct Adoption<'a> {
    pub(super) place: &'a JobLocation,
    pub(super) format: Format,
    pub(super) base: &'a Path,
    pub(super) source: &'a str,
    pub(super) filters: &'a str,
}

/// Takes over the destination of a job. Returns the number of objects. If the process is killed, another call
/// continues.
pub(super) fn adopt(adoption: &Adoption<'_>) -> Result<u64> {
    let Adoption { place, format, .. } = *adoption;
    let status = read_status(place)?;
    must_fit(place, format, &status)?;
    let count = make_base(adoption, &status)?;
    if format == Format::Files {
        forget_job(place)?;
    } else {
        let mut journal = Journal::open_any(place, true)?;
        remove_failures(&journal, place, format)?;
        remove_indexes(&journal, place, format)?;
        let mut identity = status.identity;
        identity.remove(INDEX_PART);
        journal.keep_for_passes(&Identity::of_parts(identity))?;
        remove_folder(&place.failures_path())?;
    }
    Ok(count)
}

/// Writes the base that a takeover would write, but leaves the job unchanged. Returns the number of objects.
pub(super) fn preview(adoption: &Adoption<'_>) -> Result<u64> {
    let status = read_status(adoption.place)?;
    must_fit(adoption.place, adoption.format, &status)?;
    make_base(adoption, &status)
}

/// Writes the first base if it does not exist yet. Returns the number of objects.
fn make_base(adoption: &Adoption<'_>, status: &Status) -> Result<u64> {
    let Adoption { place, format, base, source, filters } = *adoption;
    let rules = JobRules::of(place)?;
    let db = database::open_base(base)?;
    let fail = |error: rusqlite::Error| sqlite_error_of(base, &error);
    if database::fact(&db, "pass").map_err(fail)?.is_none() {
        db.execute_batch("BEGIN IMMEDIATE").map_err(fail)?;
        // Use the start of the job as the time. The objects were fetched later, so they can only be newer.
        let started_at =
            status.started_at.as_deref().and_then(|text| parse_utc_to_the_second(text.as_bytes()));
        let adopted = Adopted { db: &db, base, checked_at: started_at.unwrap_or_default() as i64 };
        match format.extension() {
            None => adopted.read_files(place)?,
            Some(extension) => {
                let shard_folder = ShardFolder::new(&place.dest, extension, true);
                adopted.read_shards(place, format, &shard_folder)?;
            }
        }
        let note = || {
            set_fact(&db, "pass", "0")?;
            set_fact(&db, "source", source)?;
            set_fact(&db, "filters", filters)?;
            set_byte_names(&db)?;
            if rules.decode_names() {
                set_decoded_names(&db)?;
            }
            db.execute_batch("COMMIT")
        };
        note().map_err(fail)?;
    }
    let count = db.query_row("SELECT count(*) FROM objects", [], |row| row.get::<_, i64>(0)).map_err(fail)?;
    Ok(count as u64)
}

/// Fails if a sync cannot take over the destination of a job.
fn must_fit(place: &JobLocation, format: Format, status: &Status) -> Result<()> {
    let shown = place.dest.display();
    let refuse = |why: &str| {
        Err(Error::Usage(format!("{shown} holds a job {why}; choose another destination for the sync")))
    };
    let part = |name: &str| status.identity.get(name).map_or("", String::as_str);
    if part("format") != format.name() {
        return Err(Error::Usage(format!(
            "{shown} holds a job with the format {}, not {}; use --format {0}, or choose another destination \
             for the sync",
            part("format"),
            format.name()
        )));
    }
    if status.finished_at.is_none() {
        return Err(Error::Usage(format!(
            "{shown} holds an unfinished job; run its `fetchmill get` again to finish it first"
        )));
    }
    if !part(TRANSFORM).is_empty() {
        return refuse("whose objects were transformed by a function");
    }
    if [NAMES, STRIP_PREFIX].iter().any(|name| !part(name).is_empty()) {
        return refuse(
            "whose objects were renamed (--names, --strip-prefix), but a sync keeps the names of the source",
        );
    }
    let columns = ExtraColumns::of_identity(&status.identity);
    if columns.has_outcomes() || !columns.kept().is_empty() || !part(SIDECAR).is_empty() {
        return refuse("whose objects have extra columns or sidecars, which a sync cannot write");
    }
    if !part(INDEX_PART).is_empty() && !has_indexes_by_default(place)? {
        return refuse("whose shards have indexes (--cdxj), which a sync does not update");
    }
    Ok(())
}

/// The first base, built from the stored objects of a job.
struct Adopted<'a> {
    db: &'a Connection,
    base: &'a Path,
    checked_at: i64,
}

impl Adopted<'_> {
    fn fail(&self, error: &rusqlite::Error) -> Error {
        sqlite_error_of(self.base, error)
    }

    fn insert(&self) -> Result<CachedStatement<'_>> {
        let insert = "INSERT OR IGNORE INTO objects VALUES (?, NULL, NULL, NULL, NULL, ?, ?, ?, ?, ?, ?, ?)";
        self.db.prepare_cached(insert).map_err(|error| self.fail(&error))
    }

    fn read_files(&self, place: &JobLocation) -> Result<()> {
        let mut folder = LocalFolder::open(&place.dest)?;
        let mut path = Vec::new();
        let mut insert = self.insert()?;
        for_each_manifest(place, |mut rows, _| {
            while let Some(frame) = rows.next_frame()? {
                for row in frame.iter() {
                    if name::to_path(row.name, &mut path).is_err() {
                        continue;
                    }
                    // A missing file will be fetched. A file of a different size was changed by something else.
                    let Some(PathState::File { size, mtime_ns }) = folder.state(&path)? else { continue };
                    let length = row.length as i64;
                    let mtime_ns = Some(mtime_ns).filter(|time| is_ours(length, Some(*time), size, *time));
                    let etag = Some(row.etag).filter(|etag| !etag.is_empty());
                    let modified = row.last_modified.map(|seconds| seconds as i64);
                    let none = None::<i64>;
                    let row = params![
                        row.name,
                        etag,
                        modified,
                        length,
                        row.crc32c,
                        mtime_ns,
                        self.checked_at,
                        none
                    ];
                    insert.execute(row).map_err(|error| self.fail(&error))?;
                }
            }
            Ok(())
        })
    }

    fn read_shards(&self, place: &JobLocation, format: Format, shard_folder: &ShardFolder) -> Result<()> {
        let mut insert = self.insert()?;
        for shard in read_sealed_shards(place)? {
            let reader = ShardReader::open(shard_folder, format, &shard)?;
            for scanned in reader.scan()? {
                let scanned = scanned?;
                let object = scanned
                    .object
                    .map_err(|lost| reader.error(&lost.name, ObjectError::Damaged(lost.what)))?;
                let modified = object.last_modified.map(|seconds| seconds as i64);
                let row = params![
                    object.name,
                    object.etag,
                    modified,
                    object.body.len() as i64,
                    scanned.crc32c,
                    None::<i64>,
                    self.checked_at,
                    shard.number as i64
                ];
                if insert.execute(row).map_err(|error| self.fail(&error))? == 0 {
                    return Err(Error::Usage(format!(
                        "{} holds two objects with the name {}, but a sync keeps only one object per name; \
                         choose another destination for the sync",
                        place.dest.display(),
                        name::for_display(&object.name)
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Removes the records of the job's failures. They are outdated once a pass has fetched some of these targets.
fn remove_failures(journal: &Journal, place: &JobLocation, format: Format) -> Result<()> {
    let Some(extension) = format.extension() else { return Ok(()) };
    take_back_unfetched(journal, &ShardFolder::new(&place.dest, extension, true), UnfetchedFiles::Failures)?;
    journal.forget_unfetched()
}

/// Removes indexes that the job has only by default. A sync rewrites shards without updating their indexes.
fn remove_indexes(journal: &Journal, place: &JobLocation, format: Format) -> Result<()> {
    let Some(extension) = format.extension() else { return Ok(()) };
    let shard_folder = ShardFolder::new(&place.dest, extension, true);
    for CdxjFile { shard, .. } in journal.cdxj_files()? {
        let path = shard_folder.cdxj_path(shard);
        durable::remove_path(&path).map_err(|error| Error::storage("remove", &path, error))?;
        shard_folder.sync_sealed()?;
        journal.forget_cdxj(shard)?;
    }
    Ok(())
}

fn remove_folder(path: &Path) -> Result<()> {
    durable::remove_folder(path).map_err(|error| Error::storage("remove", path, error))
}

/// Removes the state of the job, because the base contains it now.
fn forget_job(place: &JobLocation) -> Result<()> {
    for name in OF_A_JOB {
        let path = place.state.join(name);
        let removed = if path.is_dir() { durable::remove_folder(&path) } else { durable::remove_path(&path) };
        removed.map_err(|error| Error::storage("remove", path, error))?;
    }
    let journal = place.journal_path();
    durable::remove_path(&journal).map_err(|error| Error::storage("remove", journal, error))
}
