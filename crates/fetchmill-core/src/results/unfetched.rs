//! The end of a job where every target has a row (`--all-rows`): out of the failures shards, the files with the rows of
//! targets without an object.
//!
//! They are there when the job is finished, and only then. They are written among the open shards and synced, then the
//! journal names them, then they are renamed without replacing anything, then the job is finished. A run of a job that is
//! not finished, or not any more, takes back what the one before has left of them, and writes them again at its end: so
//! no target has two rows, whatever becomes of it in a second pass.

use crate::durable;
use crate::error::{Error, Result};
use crate::journal::{JobLocation, Journal};
use crate::object::UnfetchedTarget;
use crate::outcome::UnfetchedFile;
use crate::sink::failures::{FailureRow, FailureRows};
use crate::sink::{SinkSetup, UnfetchedWriter};
use crate::stored_name::StoredNames;

/// Rows between two looks at the stop signal.
const STRETCH_ROWS: u64 = 4096;

/// Writes them and puts them in their place; every target has its outcome. False: `goes_on` said no, and there are none.
pub fn write_unfetched(
    place: &JobLocation,
    journal: &Journal,
    (setup, names): (&SinkSetup, &StoredNames),
    goes_on: &dyn Fn() -> bool,
) -> Result<bool> {
    let Some(shard_folder) = setup.shard_folder() else { return Ok(true) };
    shard_folder.prepare()?;
    let Some(files) = write_files(place, journal, (setup, names), goes_on)? else {
        shard_folder.clear_open(UnfetchedWriter::OPEN)?;
        return Ok(false);
    };
    journal.set_unfetched(&files)?;
    for (number, file) in files.iter().enumerate() {
        shard_folder.publish_unfetched(&file.data.path, number)?;
    }
    shard_folder.sync_sealed()?;
    Ok(true)
}

/// Removes them, wherever they are. One that was not renamed has not taken the place of another file.
pub fn take_back_unfetched(journal: &Journal, setup: &SinkSetup) -> Result<()> {
    let files = journal.unfetched()?;
    let Some(shard_folder) = setup.shard_folder().filter(|_| !files.is_empty()) else { return Ok(()) };
    for (number, file) in files.iter().enumerate() {
        let open = shard_folder.open_path().join(&file.data.path);
        let path = if open.exists() { open } else { shard_folder.unfetched_path(number) };
        durable::remove_path(&path).map_err(|error| Error::storage("remove", &path, error))?;
    }
    shard_folder.sync_sealed()?;
    journal.forget_unfetched()
}

fn write_files(
    place: &JobLocation,
    journal: &Journal,
    (setup, names): (&SinkSetup, &StoredNames),
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Vec<UnfetchedFile>>> {
    let Some(mut writer) = UnfetchedWriter::new(setup) else { return Ok(Some(Vec::new())) };
    let mut rows = 0_u64;
    for shard in journal.failures_shards()? {
        let damaged = || Error::Journal(format!("{} is damaged: a row has no name", shard.path));
        for row in FailureRows::open(&place.failures_path(), &shard)? {
            if rows.is_multiple_of(STRETCH_ROWS) && !goes_on() {
                return Ok(None);
            }
            let row = row?;
            push(&mut writer, &row, names.stripped(&row.name_bytes().ok_or_else(damaged)?))?;
            rows += 1;
        }
    }
    let (fetched, given) = (journal.tally().fetched, journal.next_sequence());
    if fetched + rows != given {
        return Err(Error::Journal(format!(
            "{fetched} objects and {rows} rows without one are not the {given} targets of {}; look with `fetchmill \
             verify`",
            place.dest.display()
        )));
    }
    // Who reads all files of a destination finds the columns, even when nothing was listed.
    let has_shard = journal.shards()?.iter().any(|shard| !shard.is_replaced);
    writer.finish(!has_shard).map(Some)
}

fn push(writer: &mut UnfetchedWriter, row: &FailureRow, name: &[u8]) -> Result<()> {
    let (url, kept) = (row.url_bytes(), row.extra_bytes());
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
    })
}
