//! Writes files from the failures shards of a job when the job ends. With `--keep-failed`, these files contain the rows
//! of targets without an object. Without this option, the failures file is written if any target failed.
//!
//! The files exist if and only if the job is finished. They are first written and synced among the open shards. After
//! that, they are recorded in the journal, and renamed without replacing any file. Only then is the job finished.
//!
//! A run of an unfinished or reopened job removes the files of the previous run, and writes new ones when it ends. This
//! ensures that no target has two rows, and that an object fetched by a retry run is not reported as missing.
//!
//! Memory use: one row, the buffer of the file ([`fetchmill_model::limits::SHARD_BUFFER_BYTES`]), and
//! [`STRETCH_FOLDERS`] folders.

use std::path::PathBuf;

use crate::durable;
use crate::journal::{JobLocation, Journal};
use crate::sink::failures::{FailureRow, FailureRows};
use crate::sink::{CdxjWriter, ShardFolder, SinkSetup, UnfetchedFiles, UnfetchedWriter};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::object::UnfetchedTarget;
use fetchmill_model::outcome::{FailureKind, Outcome, UnfetchedFile};
use fetchmill_model::target::stored_name::StoredNames;

/// Number of rows between two checks of the stop signal.
const STRETCH_ROWS: u64 = 4096;
/// Number of folders that are read at a time.
const STRETCH_FOLDERS: usize = 1024;

/// Writes the files, moves them into place, and returns their paths. Every target must have an outcome. If `goes_on`
/// returns `false`, returns `None` and leaves no files.
pub fn write_unfetched(
    place: &JobLocation,
    journal: &Journal,
    (setup, names): (&SinkSetup, &StoredNames),
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Vec<PathBuf>>> {
    let files = UnfetchedFiles::of(&setup.columns);
    let tally = journal.tally();
    let has_failures = tally.failed + tally.absent > 0 || files == UnfetchedFiles::Rows;
    let has_something = has_failures && setup.unfetched.tells_failures || setup.unfetched.keeps_replies;
    let Some(shard_folder) = setup.shard_folder().filter(|_| has_something) else {
        return Ok(Some(Vec::new()));
    };
    shard_folder.prepare()?;
    let Some(written) = write_files(place, journal, (setup, names), goes_on)? else {
        shard_folder.clear_open(UnfetchedWriter::OPEN)?;
        shard_folder.clear_open(CdxjWriter::OPEN)?;
        return Ok(None);
    };
    journal.set_unfetched(&written)?;
    let mut paths = Vec::new();
    for (number, file) in written.iter().enumerate() {
        let path = files.path(&shard_folder, file, number);
        shard_folder.publish_unfetched(&file.data.path, &path)?;
        paths.push(path);
    }
    shard_folder.sync_sealed()?;
    Ok(Some(paths))
}

/// Removes the local files, whether renamed or not. If a file was not renamed, any file that has its final name is
/// kept. The journal keeps the list of files until [`Journal::forget_unfetched`], because a bucket may contain one of
/// them.
pub fn take_back_unfetched(
    journal: &Journal,
    shard_folder: &ShardFolder,
    files: UnfetchedFiles,
) -> Result<()> {
    let written = journal.unfetched()?;
    for (number, file) in written.iter().enumerate() {
        let open = shard_folder.open_path().join(&file.data.path);
        let path = if open.exists() { open } else { files.path(shard_folder, file, number) };
        durable::remove_path(&path).map_err(|error| Error::storage("remove", &path, error))?;
    }
    if written.is_empty() { Ok(()) } else { shard_folder.sync_sealed() }
}

fn write_files(
    place: &JobLocation,
    journal: &Journal,
    (setup, names): (&SinkSetup, &StoredNames),
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Vec<UnfetchedFile>>> {
    let files = UnfetchedFiles::of(&setup.columns);
    let Some(mut writer) = UnfetchedWriter::new(setup, files) else { return Ok(Some(Vec::new())) };
    let mut replies = if setup.unfetched.keeps_replies {
        UnfetchedWriter::new(setup, UnfetchedFiles::Replies)
    } else {
        None
    };
    let has_all_rows = files == UnfetchedFiles::Rows;
    let mut rows = 0_u64;
    for shard in journal.failures_shards()? {
        let damaged = || Error::Journal(format!("{} is damaged: a row has no name", shard.path));
        for row in FailureRows::open(&place.failures_path(), &shard)? {
            if rows.is_multiple_of(STRETCH_ROWS) && !goes_on() {
                return Ok(None);
            }
            let row = row?;
            rows += 1;
            let name = row.name_bytes().ok_or_else(damaged)?;
            if setup.unfetched.tells_failures && (has_all_rows || !row.is_skipped()) {
                push(&mut writer, &row, names.stripped(&name))?;
            }
            if let Some(replies) = replies.as_mut().filter(|_| row.replies_hex.is_some()) {
                // The URL is derived from the listed name.
                push(replies, &row, &name)?;
            }
        }
    }
    let (fetched, given) = (journal.tally().fetched, journal.next_sequence());
    if setup.unfetched.tells_failures && fetched + rows != given {
        return Err(Error::Journal(format!(
            "{fetched} objects and {rows} rows without an object do not add up to the {given} targets in \
             {}; check with `fetchmill verify`",
            place.dest.display()
        )));
    }
    if !has_all_rows {
        if setup.unfetched.tells_failures && !push_folders(&mut writer, journal, goes_on)? {
            return Ok(None);
        }
        let mut written = writer.finish(false)?;
        written.extend(replies.map_or(Ok(Vec::new()), |replies| replies.finish(false))?);
        return Ok(Some(written));
    }
    // Write the columns even if nothing was listed, so that programs that read all files of the destination find them.
    let has_shard = journal.shards()?.iter().any(|shard| !shard.is_replaced);
    writer.finish(!has_shard).map(Some)
}

fn push(writer: &mut UnfetchedWriter<'_>, row: &FailureRow, name: &[u8]) -> Result<()> {
    let (url, kept, replies) = (row.url_bytes(), row.extra_bytes(), row.replies_bytes());
    writer.push(&UnfetchedTarget {
        sequence: row.sequence,
        name,
        outcome: &row.outcome,
        kind: row.kind.as_deref(),
        detail: row.detail.as_deref(),
        status: row.status.unwrap_or(0),
        attempts: row.attempts,
        url: url.as_deref().filter(|url| !url.is_empty()),
        kept: kept.as_deref(),
        replies: replies.as_deref(),
    })
}

/// Appends folders that could not be listed. Returns `false` if `goes_on` returns `false`.
fn push_folders(
    writer: &mut UnfetchedWriter<'_>,
    journal: &Journal,
    goes_on: &dyn Fn() -> bool,
) -> Result<bool> {
    let mut folders = journal.failed_folders(None, STRETCH_FOLDERS)?;
    while let Some(last) = folders.last() {
        if !goes_on() {
            return Ok(false);
        }
        let last = last.path.clone();
        for folder in folders {
            let name = [&folder.path[..], b"/"].concat();
            writer.push_folder(&UnfetchedTarget {
                sequence: 0,
                name: &name,
                outcome: Outcome::Failed(FailureKind::Listing).name(),
                kind: Some(FailureKind::Listing.name()),
                detail: Some(&folder.detail),
                status: folder.status.unwrap_or(0),
                attempts: folder.attempts,
                url: None,
                kept: None,
                replies: None,
            })?;
        }
        folders = journal.failed_folders(Some(&last), STRETCH_FOLDERS)?;
    }
    Ok(true)
}
