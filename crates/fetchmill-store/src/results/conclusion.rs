//! The end of a job that writes rows. Creates the results file and the summary from the shards that contain the rows.
//!
//! The file is written and synced under a temporary name next to its final name. After that, the journal records that
//! the file is complete, the file is renamed without replacing another one, and the job is finished. If a run is
//! killed, the file is unfinished, complete or renamed. The next run rewrites an unfinished file, renames a complete
//! one, and keeps a renamed one.

use std::os::fd::AsFd as _;
use std::path::Path;

use super::file::ResultsFile;
use super::{ResultsFormat, Summary};
use crate::durable;
use crate::journal::{JobLocation, Journal};
use crate::sink::failures::{ShardLines, cut_back};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::row::{CheckRow, ListRow, RowKind, RowValues};
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::text::file_name::FileName;

/// Journal entry with the name of the file that is being written.
const UNFINISHED: &str = "results_unfinished";
/// Journal entry that marks this file as complete. It contains the summary.
const COMPLETE: &str = "results_complete";
/// Journal entry with the summary of a finished check.
const SUMMARY: &str = "summary";
/// Number of rows between two checks of the stop signal.
const STRETCH_ROWS: u64 = 4096;

/// A results file to write.
#[derive(Debug, Clone, Copy)]
pub struct ResultsTarget<'t> {
    /// Path of the file.
    pub path: &'t Path,
    /// Kind of rows.
    pub rows: RowKind,
    /// Format of the file.
    pub format: ResultsFormat,
    /// Columns kept from the list.
    pub kept: &'t ExtraColumns,
    /// Whether the file must survive a power cut.
    pub is_durable: bool,
}

/// Fails, before anything is created, if the file does not belong to this job or the folder does not exist.
pub fn refuse_foreign(path: &Path, has_journal: bool) -> Result<()> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(Error::Usage(format!(
            "cannot write {}: the folder {} does not exist; create it",
            path.display(),
            folder.display()
        )));
    }
    if has_journal || path.symlink_metadata().is_err() { Ok(()) } else { Err(foreign(path)) }
}

/// Fails if the results file cannot be used. Must be called once the journal is open. Without this check, a job could
/// find out only after a million requests that it cannot create its file.
pub fn refuse_unfit(journal: &Journal, path: &Path) -> Result<()> {
    if journal.get(SUMMARY)?.is_some() || journal.get(COMPLETE)?.is_some() {
        return Ok(());
    }
    if path.symlink_metadata().is_ok() {
        return Err(foreign(path));
    }
    let folder = folder_of(path);
    durable::find_trouble(folder).map_or(Ok(()), |error| Err(Error::storage("write into", folder, error)))
}

fn foreign(path: &Path) -> Error {
    Error::Usage(format!(
        "{} exists, but was not written by this job; move it away, or choose another name",
        path.display()
    ))
}

/// Returns the summary of a finished check.
pub fn read_summary(journal: &Journal) -> Result<Option<Summary>> {
    journal.get(SUMMARY)?.as_deref().map(Summary::from_text).transpose()
}

/// Returns the summary of the rows so far, for a run that ends before the check is complete.
pub fn summarize(place: &JobLocation, journal: &Journal, rows: RowKind) -> Result<Option<Summary>> {
    gather(place, journal, rows, &mut |_| Ok(()), &|| true)
}

/// Writes the results, and leaves open the transaction that will finish the job. If `goes_on` returns `false`, returns
/// `None` and changes nothing.
pub fn conclude(
    place: &JobLocation,
    journal: &mut Journal,
    rows: RowKind,
    target: Option<ResultsTarget<'_>>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Summary>> {
    let summary = match target {
        None => gather(place, journal, rows, &mut |_| Ok(()), goes_on)?,
        Some(target) => write_file(place, journal, target, goes_on)?,
    };
    if let Some(summary) = &summary {
        journal.begin()?;
        journal.set(SUMMARY, &summary.to_text())?;
        journal.forget_rows()?;
    }
    Ok(summary)
}

/// Removes the shards, which are no longer needed once the job is finished.
pub fn remove_shards(place: &JobLocation) -> Result<()> {
    cut_back(&place.failures_path(), &[])
}

fn write_file(
    place: &JobLocation,
    journal: &mut Journal,
    target: ResultsTarget<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Summary>> {
    if let Some(name) = journal.get(UNFINISHED)? {
        let name = FileName::try_from(name).map_err(|error| Error::Security(error.to_string()))?;
        let unfinished = folder_of(target.path).join(&name);
        if let Some(summary) = journal.get(COMPLETE)? {
            let summary = Summary::from_text(&summary)?;
            if unfinished.exists() || !target.path.exists() {
                put_in_place(&unfinished, &target)?;
            }
            return Ok(Some(summary));
        }
        remove(&unfinished)?;
    }
    let name = unfinished_name();
    let unfinished = folder_of(target.path).join(&name);
    journal.set(UNFINISHED, &name)?;
    let written = write_rows(place, journal, &unfinished, target, goes_on);
    let Ok(Some(summary)) = written else {
        remove(&unfinished)?;
        return written;
    };
    journal.set(COMPLETE, &summary.to_text())?;
    put_in_place(&unfinished, &target)?;
    Ok(Some(summary))
}

fn write_rows(
    place: &JobLocation,
    journal: &Journal,
    path: &Path,
    target: ResultsTarget<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Summary>> {
    let fail = |error: std::io::Error| Error::storage("write", path, error);
    let opened = durable::open_folder(folder_of(path)).map_err(|error| fail(error.into()))?;
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let file = durable::create_new(opened.as_fd(), name).map_err(|error| fail(error.into()))?;
    let columns = target.rows.columns();
    let mut file = ResultsFile::begin(file, target.format, columns, target.kept).map_err(fail)?;
    let mut each = |row: RowValues<'_>| file.push(row).map_err(fail);
    let summary = gather(place, journal, target.rows, &mut each, goes_on)?;
    if summary.is_some() {
        let file = file.finish().map_err(fail)?;
        if target.is_durable {
            durable::sync_file(&file).map_err(|error| Error::storage("sync", path, error))?;
        }
    }
    Ok(summary)
}

/// Callback for each row.
type EachRow<'e> = &'e mut dyn FnMut(RowValues<'_>) -> Result<()>;

/// Reads all rows in the order in which the workers wrote them.
fn gather(
    place: &JobLocation,
    journal: &Journal,
    rows: RowKind,
    each: EachRow<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Summary>> {
    let mut summary = Summary::default();
    for shard in journal.failures_shards()? {
        if !goes_on() {
            return Ok(None);
        }
        let mut lines = ShardLines::open(&place.failures_path(), &shard)?;
        while let Some(line) = lines.next_line()? {
            let Some(taken) = take(rows, line, &mut summary, each) else {
                return Err(damaged(&place.failures_path().join(&shard.path), &"a line is not a valid row"));
            };
            taken?;
            if summary.rows.is_multiple_of(STRETCH_ROWS) && !goes_on() {
                return Ok(None);
            }
        }
    }
    let tally = journal.tally();
    // A folder that could not be listed counts as failed, but is not a target.
    let settled = tally.settled()
        - (tally.skipped - journal.skipped_after_replies()?)
        - journal.kinds()?.count(FailureKind::Listing);
    if summary.rows != settled {
        let reason = format!("{} rows, but {settled} targets have an outcome", summary.rows);
        return Err(damaged(&place.failures_path(), &reason));
    }
    Ok(Some(summary))
}

/// Counts a row and passes it on. Returns `None` if the line is not a row.
fn take(rows: RowKind, line: &[u8], summary: &mut Summary, each: EachRow<'_>) -> Option<Result<()>> {
    Some(match rows {
        RowKind::Answers => {
            let row = CheckRow::read_line(line)?;
            summary.add(&row);
            each(RowValues { values: &row.values(), kept: &row.kept })
        }
        RowKind::Targets => {
            let row = ListRow::read_line(line)?;
            summary.rows += 1;
            each(RowValues { values: &row.values(), kept: &row.kept })
        }
    })
}

fn damaged(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    Error::Journal(format!(
        "{} is damaged ({reason}); run the command again with another results file",
        path.display()
    ))
}

/// Renames a complete file to its final name. Fails if this name already exists.
fn put_in_place(unfinished: &Path, target: &ResultsTarget<'_>) -> Result<()> {
    let folder = folder_of(target.path);
    let fail = |error| Error::storage("rename", unfinished, error);
    let opened = durable::open_folder(folder).map_err(fail)?;
    let name = |path: &Path| path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
    match durable::rename_new(opened.as_fd(), &name(unfinished), opened.as_fd(), &name(target.path)) {
        Err(rustix::io::Errno::EXIST) => return Err(foreign(target.path)),
        renamed => renamed.map_err(fail)?,
    }
    if target.is_durable {
        durable::sync_folder(opened.as_fd()).map_err(|error| Error::storage("sync", folder, error))?;
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    durable::remove_path(path).map_err(|error| Error::storage("remove", path, error))
}

/// Returns a unique name made from the process id and the time. It does not contain the name of the file itself, which
/// may already have the maximum length.
fn unfinished_name() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!(".fetchmill-{}-{}.unfinished", std::process::id(), since.as_nanos())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
