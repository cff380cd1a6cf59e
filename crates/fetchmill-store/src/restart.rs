//! Restarts a destination: removes the files of its job, and then the job itself.
//!
//! A fact in the journal says that the removal has started. From then on, the job cannot continue, and the next run
//! completes the removal first. The last step is one transaction that empties the journal. Until then, everything that
//! shows which files belong to the job stays in place, so that the removal can be repeated after a kill.
//!
//! Only files that the job has moved into place are removed. If a shard is still open or an object is still staged, a
//! file with its final name does not belong to the job.

use std::path::Path;

use crate::durable::{self, PathState};
use crate::journal::{Identity, JobLocation, Journal, is_restarting, must_have_objects};
use crate::manifest::ManifestRows;
use crate::passes::LocalFolder;
use crate::reader::Bits;
use crate::sink::failures::FailureRows;
use crate::sink::{Format, ShardFolder, Stage, UnfetchedFiles};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name;
use fetchmill_model::outcome::{Runs, SealedShard, ShardEnd};
use fetchmill_model::target::Sequence;
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Counts of the files that a restart removed or left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Number of files.
    pub files: u64,
    /// Size of the files.
    pub bytes: u64,
    /// Number of files that have the name of one of the job's files but were not removed, because they differ from it.
    pub left: u64,
}

impl Removed {
    fn count(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

/// Removes the job of a destination if `is_asked`, or if an earlier run has begun to remove it. Returns `None` if there
/// is nothing to remove. The caller must hold the lock. `command` is the command of the new job. It ensures that
/// `resume` does not fetch the removed job again if the removal is killed.
pub fn remove_job(place: &JobLocation, is_asked: bool, command: Option<&str>) -> Result<Option<Removed>> {
    if !place.journal_path().exists() || !is_asked && !is_restarting(place)? {
        return Ok(None);
    }
    let mut journal = Journal::open_any(place, true)?;
    let Some(identity) = journal.get("identity")? else { return Ok(None) };
    let identity = Identity::from_json(&identity);
    must_have_objects(&identity, &place.dest)?;
    let named = identity.get("format").and_then(|format| Format::from_name(format));
    let format = named.ok_or_else(|| {
        Error::Usage(format!(
            "{} holds a job with an unknown format; choose another destination",
            place.dest.display()
        ))
    })?;
    let unplaced = match format.extension() {
        None => Some(UnplacedObjects::find(place, &journal)?),
        Some(_) => None,
    };
    // From here on, the job cannot continue. This is why the code above reads everything first.
    journal.begin_restart(command)?;
    let removed = match format.extension() {
        None => remove_objects(place, &journal, &unplaced.unwrap_or_default())?,
        Some(extension) => {
            let shard_folder = ShardFolder::new(&place.dest, extension, true);
            remove_shards(&journal, &shard_folder, UnfetchedFiles::of(&ExtraColumns::of_identity(&identity)))?
        }
    };
    place.must_be_ours()?;
    journal.forget_job(removed.left == 0, command)?;
    remove_folders(place)?;
    Ok(Some(removed))
}

/// Removes folders that are no longer needed once the journal is empty. If the process is killed first, the next run
/// removes their contents as data without a commit record.
fn remove_folders(place: &JobLocation) -> Result<()> {
    let hidden = ShardFolder::new(&place.dest, "", true);
    let of_state = [place.failures_path(), place.manifests_path(), place.stage_path()];
    for path in of_state.into_iter().chain([hidden.open_path(), hidden.index_path()]) {
        durable::remove_folder(&path).map_err(|error| Error::storage("remove", &path, error))?;
    }
    Ok(())
}

/// Removes shards, their manifests and indexes, and the files that describe targets without an object.
fn remove_shards(journal: &Journal, shard_folder: &ShardFolder, files: UnfetchedFiles) -> Result<Removed> {
    let open_path = shard_folder.open_path();
    let is_placed = |open: &str| !open_path.join(open).exists();
    let mut removed = Removed::default();
    for shard in journal.shards()? {
        let SealedShard { data, manifest, .. } = &shard.sealed;
        if is_placed(&data.path) {
            remove_file(&shard_folder.shard_path(shard.number), data, &mut removed)?;
        } else if shard_folder.shard_path(shard.number).symlink_metadata().is_ok() {
            removed.left += 1;
        }
        if is_placed(&manifest.path) {
            let path = shard_folder.manifest_path(shard.number);
            durable::remove_path(&path).map_err(|error| Error::storage("remove", &path, error))?;
        }
    }
    for file in journal.cdxj_files()?.iter().filter(|file| is_placed(&file.data.path)) {
        remove_file(&shard_folder.cdxj_path(file.shard), &file.data, &mut removed)?;
    }
    for (number, file) in journal.unfetched()?.iter().enumerate() {
        if is_placed(&file.data.path) {
            remove_file(&files.path(shard_folder, file, number), &file.data, &mut removed)?;
        }
    }
    if removed.files > 0 {
        shard_folder.prepare()?;
        shard_folder.sync_sealed()?;
    }
    Ok(removed)
}

/// Removes a file, unless it is missing or its size differs from what was stored.
fn remove_file(path: &Path, stored: &ShardEnd, removed: &mut Removed) -> Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.is_file() || found.len() != stored.end {
        removed.left += 1;
        return Ok(());
    }
    durable::remove_path(path).map_err(|error| Error::storage("remove", path, error))?;
    removed.count(found.len());
    Ok(())
}

/// Removes the files of objects, and folders that become empty.
fn remove_objects(place: &JobLocation, journal: &Journal, unplaced: &UnplacedObjects) -> Result<Removed> {
    let mut folder = LocalFolder::open(&place.dest)?;
    let mut removed = Removed::default();
    let mut path = Vec::new();
    for manifest in journal.manifests()? {
        let mut rows = ManifestRows::open(&place.manifests_path().join(&manifest.path), Some(manifest.end))?;
        while let Some(frame) = rows.next_frame()? {
            for row in frame.iter() {
                if name::to_path(row.name, &mut path).is_err() || unplaced.contains(row.sequence) {
                    continue;
                }
                match folder.state(&path)? {
                    Some(PathState::File { size, .. }) if size == row.length => {
                        folder.remove(&path)?;
                        removed.count(size);
                    }
                    Some(_) => removed.left += 1,
                    None => {}
                }
            }
        }
    }
    folder.sync()?;
    Ok(removed)
}

/// Objects that have a row but were not moved into place, because their name was taken or because the job was killed
/// first.
#[derive(Default)]
struct UnplacedObjects {
    /// Targets that failed, including those that wait for another attempt. Takes one bit per target of the job, which
    /// is 125 kB for a million targets.
    failed: Bits,
    /// Objects of committed windows, and the stage that may still contain them.
    staged: Vec<(Runs, Stage)>,
}

impl UnplacedObjects {
    /// Finds these objects. Fails if a manifest is damaged, so that no removal starts that cannot be completed.
    fn find(place: &JobLocation, journal: &Journal) -> Result<Self> {
        for manifest in journal.manifests()? {
            let mut rows =
                ManifestRows::open(&place.manifests_path().join(&manifest.path), Some(manifest.end))?;
            while rows.next_frame()?.is_some() {}
        }
        let mut failed = Bits::new(journal.next_sequence())?;
        journal.for_each_waiting(|sequence| {
            failed.set(sequence);
        })?;
        for shard in journal.failures_shards()? {
            for row in FailureRows::open(&place.failures_path(), &shard)? {
                failed.set(row?.sequence);
            }
        }
        let mut staged = Vec::new();
        for (worker, runs) in journal.staged()? {
            staged.push((runs, Stage::open(&place.stage_path().join(worker.to_string()))?));
        }
        Ok(UnplacedObjects { failed, staged })
    }

    fn contains(&self, sequence: Sequence) -> bool {
        let is_staged = |(runs, stage): &(Runs, Stage)| runs.contains(sequence) && stage.has(sequence);
        self.failed.has(sequence) || self.staged.iter().any(is_staged)
    }
}
