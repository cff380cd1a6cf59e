//! Indexes of WARC shards, which are written at the end of a job unless it uses `--no-cdxj`.
//!
//! An index depends only on its sealed shard, so it can be written again after a kill. It is written to the folder of
//! open shards and synced. Its checksum is then recorded in the journal, and the index is renamed without replacing a
//! file. If an index is in the journal but no longer among the open shards, it was renamed. In that case, the file with
//! its final name belongs to the job. At the end of the job, missing and damaged indexes are written, and the indexes
//! of removed shards are deleted.

use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{ShardEnd, ShardNumber};
use fetchmill_store::durable::{self, is_whole};
use fetchmill_store::journal::{CdxjFile, Journal, Shard};
use fetchmill_store::pack::warc::CdxjLines;
use fetchmill_store::reader::ShardReader;
use fetchmill_store::sink::{CdxjWriter, Format, ShardFolder};

/// Number of records between checks of the stop signal.
const STRETCH_RECORDS: u64 = 1024;

/// Removes from the journal the indexes that an earlier run did not rename. This happens before their files are
/// deleted. A file with the final name of such an index does not belong to the job.
pub(crate) fn forget_unplaced(journal: &Journal, shard_folder: &ShardFolder) -> Result<()> {
    for CdxjFile { shard, data } in journal.cdxj_files()? {
        if shard_folder.open_path().join(&data.path).exists() {
            journal.forget_cdxj(shard)?;
        }
    }
    Ok(())
}

/// Records whether a new job has indexes by default or because the user asked for them. A sync can discard indexes that
/// exist by default.
pub(crate) fn note_choice(journal: &Journal, is_indexed: bool, asked: Option<bool>) -> Result<()> {
    match asked {
        Some(true) => journal.keep_indexes_by_default(false),
        None if is_indexed && !journal.is_begun()? => journal.keep_indexes_by_default(true),
        _ => Ok(()),
    }
}

/// Writes the missing indexes. Returns `false` if `goes_on` ended the work early. The next run then writes the
/// remaining indexes.
pub(crate) fn write_indexes(
    journal: &Journal,
    shard_folder: &ShardFolder,
    goes_on: &dyn Fn() -> bool,
) -> Result<bool> {
    shard_folder.prepare()?;
    let mut shards = journal.shards()?;
    shards.retain(|shard| !shard.is_replaced);
    let good = keep_good(journal, shard_folder, &shards)?;
    shard_folder.clear_open(CdxjWriter::OPEN)?;
    for shard in shards.iter().filter(|shard| good.binary_search(&shard.number).is_err()) {
        let Some(data) = write_index(shard_folder, shard, goes_on)? else { return Ok(false) };
        journal.set_cdxj(shard.number, &data)?;
        shard_folder.publish_cdxj(&data.path, shard.number)?;
    }
    shard_folder.sync_sealed()?;
    Ok(true)
}

/// Removes useless indexes and returns the shards that have a valid index.
fn keep_good(journal: &Journal, shard_folder: &ShardFolder, shards: &[Shard]) -> Result<Vec<ShardNumber>> {
    let mut good = Vec::new();
    for CdxjFile { shard, data } in journal.cdxj_files()? {
        let is_there = shards.binary_search_by_key(&shard, |shard| shard.number).is_ok();
        let path = shard_folder.cdxj_path(shard);
        if is_there && is_whole(&path, &data).map_err(|error| Error::storage("read", &path, error))? {
            good.push(shard);
            continue;
        }
        durable::remove_path(&path).map_err(|error| Error::storage("remove", &path, error))?;
        shard_folder.sync_sealed()?;
        journal.forget_cdxj(shard)?;
    }
    Ok(good)
}

fn write_index(
    shard_folder: &ShardFolder,
    shard: &Shard,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<ShardEnd>> {
    let reader = ShardReader::open(shard_folder, Format::Warc, shard)?;
    let file_name = reader.path().file_name().unwrap_or_default().to_string_lossy();
    let mut lines = CdxjLines::new(&file_name);
    let mut writer = CdxjWriter::new(shard_folder)?;
    let mut count = 0_u64;
    let is_complete = reader.for_each_record(|place, record| {
        if count.is_multiple_of(STRETCH_RECORDS) && !goes_on() {
            return Ok(false);
        }
        count += 1;
        for line in lines.of(record, place)? {
            writer.push(line)?;
        }
        Ok(true)
    })?;
    if is_complete { writer.finish().map(Some) } else { Ok(None) }
}
