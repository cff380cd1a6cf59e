//! Repairs a destination: lost objects will be fetched again, and all others are kept.
//!
//! A damaged shard is rewritten without the lost objects. One transaction seals the new shard in its place and makes
//! the lost targets wait. Files are renamed and removed only after this transaction. A crash leaves either the old or
//! the new state, and the next run or repair finishes the work.
//!
//! In the `files` format, damaged files are removed before the transaction, because existing files are never replaced.
//! If a crash happens in between, the files are missing, and the next repair plans their targets again.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::run::VerifyRun;
use super::shards::{FoundFaults, ShardFaults};
use crate::durable;
use crate::journal::{JobLocation, Journal, JournalSnapshot, Shard};
use crate::manifest::ManifestRow;
use crate::reader::bits::Bits;
use crate::reader::entries::EntryOfName;
use crate::reader::frames;
use crate::reader::stored::{latest_first, open_root};
use crate::reader::{CopiedRows, ShardReader, copy_shard};
use crate::sink::{Format, ShardFolder, UnfetchedFiles};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::to_path;
use fetchmill_model::outcome::{SealedShard, ShardNumber};
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::text::file_name::FileName;

/// Result of a repair.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RepairReport {
    /// Objects that will be fetched again.
    pub planned: u64,
    /// Duplicates that were removed.
    pub dropped: u64,
    /// Shards that were rewritten or dropped.
    pub shards: u64,
    /// Objects that cannot be fetched again because their names are lost.
    pub unnamed: u64,
    /// Objects from a list that cannot be fetched again because their URLs are lost. They are left unchanged.
    pub without_url: u64,
}

/// Finishes the work of a run or repair that ended right after its last transaction.
pub(crate) fn tidy(place: &JobLocation) -> Result<()> {
    let snapshot = JournalSnapshot::read(place)?;
    let extension = Format::from_name(snapshot.part("format")).and_then(Format::extension);
    let Some(extension) = extension else { return Ok(()) };
    let shard_folder = ShardFolder::new(&place.dest, extension, true);
    shard_folder.prepare()?;
    for Shard { number, sealed, .. } in &snapshot.shards {
        let open = shard_folder.open_path();
        let is_there = open.join(&sealed.data.path).exists() || shard_folder.shard_path(*number).exists();
        let is_named =
            open.join(&sealed.manifest.path).exists() || shard_folder.manifest_path(*number).exists();
        // A shard that is at neither path is reported later.
        if is_there && is_named {
            shard_folder.publish_if_there(&sealed.data.path, &sealed.manifest.path, *number)?;
        }
    }
    if snapshot.is_synced {
        for (number, file) in snapshot.unfetched.iter().enumerate() {
            if shard_folder.open_path().join(&file.data.path).exists() {
                let path = UnfetchedFiles::Replies.path(&shard_folder, file, number);
                shard_folder.publish_unfetched(&file.data.path, &path)?;
            }
        }
        shard_folder.sync_sealed()?;
    }
    remove_replaced(&shard_folder, &mut Journal::open_any(place, true)?)
}

fn remove_replaced(shard_folder: &ShardFolder, journal: &mut Journal) -> Result<()> {
    for shard in journal.shards()?.iter().filter(|shard| shard.is_replaced) {
        shard_folder.remove(&[shard.number])?;
    }
    journal.forget_replaced()?;
    journal.commit()
}

/// Repairs the faults that were reported.
pub(super) fn repair(job: &VerifyRun<'_>, faults: &FoundFaults, lost: &Bits) -> Result<RepairReport> {
    let journal = Journal::open_any(job.place, true)?;
    let mut repair =
        Repair { job, journal, entries: EntryOfName::of(job.snapshot), done: RepairReport::default() };
    match job.shard_folder() {
        Some(shard_folder) => {
            let sealed = std::mem::take(&mut *faults.sealed.lock().unwrap_or_else(PoisonError::into_inner));
            repair.repair_sealed(&shard_folder, sealed)?;
            let open = std::mem::take(&mut *faults.open.lock().unwrap_or_else(PoisonError::into_inner));
            for path in open {
                repair.forget_open(&shard_folder, &path)?;
            }
            remove_replaced(&shard_folder, &mut repair.journal)?;
            let has_other_shards = repair.done.shards > 0 && !job.snapshot.cdxj_files.is_empty();
            if faults.lacks_files.load(Ordering::Relaxed) || has_other_shards {
                // The files next to the shards are written at the end of a job, so the job must be finished once more.
                repair.journal.reopen()?;
                repair.journal.commit()?;
            }
        }
        None if job.format == Format::Files => repair.repair_files(lost)?,
        None => {}
    }
    Ok(repair.done)
}

struct Repair<'r> {
    job: &'r VerifyRun<'r>,
    journal: Journal,
    /// Rule for deriving entries. `None` means that no target can be planned again.
    entries: Option<EntryOfName>,
    done: RepairReport,
}

impl Repair<'_> {
    fn repair_sealed(
        &mut self,
        shard_folder: &ShardFolder,
        sealed: BTreeMap<ShardNumber, ShardFaults>,
    ) -> Result<()> {
        for (number, faults) in sealed {
            let Some(shard) = self.job.snapshot.shards.iter().find(|shard| shard.number == number) else {
                continue;
            };
            if self.job.watch.is_stopped() {
                return Ok(());
            }
            if faults.unreadable > 0 {
                self.done.unnamed = self.done.unnamed.saturating_add(faults.unreadable);
                continue;
            }
            self.repair_shard(shard_folder, shard, faults)?;
        }
        Ok(())
    }

    fn repair_shard(
        &mut self,
        shard_folder: &ShardFolder,
        shard: &Shard,
        mut faults: ShardFaults,
    ) -> Result<()> {
        let reader = ShardReader::open(shard_folder, self.job.format, shard)?;
        if self.entries.is_none() && faults.lost.set_count() > 0 {
            self.done.without_url += faults.lost.set_count();
            return Ok(());
        }
        let kept = if faults.is_missing { None } else { self.rewrite(shard_folder, &reader, &mut faults)? };
        let number = self.journal.replace_shard(shard.number, kept.as_ref())?;
        let manifest = reader.manifest();
        let (mut dropped, mut planned) = (0, 0);
        for index in 0..manifest.frames() {
            let frame = manifest.frame(index)?;
            for (position, row) in frame.iter().enumerate() {
                let at = frame.first_row() + position as u64;
                if faults.doubled.has(at) {
                    dropped += 1;
                } else if faults.lost.has(at) {
                    planned += self.plan_again(&row)?;
                }
            }
        }
        // Regardless of any errors above, a row may leave the journal only if its object was kept, planned again, or
        // stored twice.
        if kept.as_ref().map_or(0, |kept| kept.objects) + dropped + planned != manifest.rows() {
            self.journal.roll_back()?;
            let path = reader.path().display();
            return Err(Error::Internal(format!(
                "repairing {path} would have lost objects; the shard was not changed"
            )));
        }
        self.journal.commit()?;
        self.done.dropped += dropped;
        self.done.planned += planned;
        self.done.shards += 1;
        if let (Some(SealedShard { data, manifest, .. }), Some(number)) = (kept, number) {
            shard_folder.publish(&data.path, &manifest.path, number)?;
        }
        shard_folder.remove(&[shard.number])
    }

    /// Plans a lost object again. Returns 0 if its target cannot be derived.
    fn plan_again(&mut self, row: &ManifestRow<'_>) -> Result<u64> {
        let Some(entries) = self.entries else { return Ok(0) };
        self.journal.plan_again(row.sequence, &entries.entry(row.name), row.length)?;
        Ok(1)
    }

    /// Writes the remaining objects of a shard. Returns `None` if there are none. Objects that have become unreadable
    /// are recorded as lost.
    fn rewrite(
        &self,
        shard_folder: &ShardFolder,
        reader: &ShardReader,
        faults: &mut ShardFaults,
    ) -> Result<Option<SealedShard>> {
        // If the file is no longer a shard, all of its rows are lost, and they are recorded as such.
        if faults.lost.set_count() == reader.manifest().rows() {
            return Ok(None);
        }
        let columns = ExtraColumns::of_identity(&self.job.snapshot.identity);
        let copy = copy_shard(shard_folder, &columns, reader, faults, None)?;
        copy.map(|copy| copy.seal(Vec::new())).transpose()
    }

    /// Drops an open shard. It cannot be repaired in part, so all of its objects are fetched again.
    fn forget_open(&mut self, shard_folder: &ShardFolder, path: &FileName) -> Result<()> {
        let Some(open) = self.job.snapshot.open_shards.iter().find(|open| open.data.path == *path) else {
            return Ok(());
        };
        let manifest = shard_folder.open_path().join(&open.manifest.path);
        let (watch, done) = (self.job.watch, self.done);
        let (mut planned, mut rows) = (0, 0);
        self.journal.forget_open_shard(path)?;
        let read = frames::for_each_frame(
            &manifest,
            Some(open.manifest.end),
            &|| watch.is_stopped(),
            &mut |frame| {
                for row in frame.iter() {
                    planned += self.plan_again(&row)?;
                    rows += 1;
                }
                Ok(())
            },
        )?;
        if read.damage.is_some() || self.job.watch.is_stopped() {
            self.journal.roll_back()?;
            self.done.unnamed = done.unnamed.saturating_add(1);
            return Ok(());
        }
        if planned < rows {
            self.journal.roll_back()?;
            self.done.without_url += rows;
            return Ok(());
        }
        self.journal.commit()?;
        self.done.planned += planned;
        self.done.shards += 1;
        for name in [&open.data.path, &open.manifest.path] {
            let file = shard_folder.open_path().join(name);
            durable::remove_path(&file).map_err(|error| Error::storage("remove", &file, error))?;
        }
        Ok(())
    }

    fn repair_files(&mut self, lost: &Bits) -> Result<()> {
        if lost.set_count() == 0 {
            return Ok(());
        }
        if self.entries.is_none() {
            self.done.without_url = lost.set_count();
            return Ok(());
        }
        let root = open_root(self.job.place)?;
        let mut path = Vec::new();
        for_each_lost_file(self.job, lost, |row| {
            if to_path(row.name, &mut path).is_err() {
                return Ok(());
            }
            // If something with this name is not a file, the job did not create it.
            let fail = |error| {
                Error::storage(
                    "remove",
                    self.job.place.dest.join(fetchmill_model::name::for_display(row.name)),
                    error,
                )
            };
            match durable::open_file_beneath(root.as_fd(), &path) {
                Ok(Some(_)) => durable::remove_beneath(root.as_fd(), &path).map_err(fail),
                Ok(None) => Ok(()),
                Err(error) => Err(fail(error)),
            }
        })?;
        durable::sync_file_system(root.as_fd())
            .map_err(|error| Error::storage("sync the file system of", &self.job.place.dest, error))?;
        let mut planned = 0;
        for_each_lost_file(self.job, lost, |row| {
            planned += self.plan_again(row)?;
            Ok(())
        })?;
        self.journal.commit()?;
        self.done.planned = planned;
        Ok(())
    }
}

/// Calls `each` once per lost target, with the row that counts.
fn for_each_lost_file(
    job: &VerifyRun<'_>,
    lost: &Bits,
    mut each: impl FnMut(&ManifestRow<'_>) -> Result<()>,
) -> Result<()> {
    let mut seen = Bits::new(job.snapshot.next_sequence)?;
    // Once started, finish this even if a stop is requested, because files that are missing from the journal are the
    // worst result.
    for manifest in latest_first(&job.snapshot.manifests) {
        let path = job.place.manifests_path().join(&manifest.path);
        frames::for_each_frame(&path, Some(manifest.end), &|| false, &mut |frame| {
            for row in frame.iter() {
                if lost.has(row.sequence) && seen.set(row.sequence) == Some(true) {
                    each(&row)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

impl CopiedRows for ShardFaults {
    fn is_left_out(&mut self, row: u64, _: &[u8]) -> Result<bool> {
        Ok(self.lost.has(row) || self.doubled.has(row))
    }

    fn note_damaged(&mut self, row: u64, _: &[u8], _: String) -> Result<()> {
        self.lost.set(row);
        Ok(())
    }
}
