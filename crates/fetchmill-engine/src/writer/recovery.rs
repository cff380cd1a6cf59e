//! Recovers the state that an earlier run left:
//! - Sealed shards are renamed to their final names.
//! - Open shards are truncated to their last receipt and sealed.
//! - Staged windows of the `files` format are moved into place.
//! - Data without a receipt is removed.
//!
//! Recovery can be interrupted and repeated at any time.

use std::path::Path;
use std::sync::Arc;

use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{
    KindCounts, OpenShard, Outcome, Receipt, Runs, SealedShard, ShardEnd, ShardNumber, Tally,
};
use fetchmill_model::target::entry::Naming;
use fetchmill_model::target::stored_name::StoredNames;
use fetchmill_model::text::file_name::FileName;
use fetchmill_store::durable;
use fetchmill_store::journal::{JobLocation, Journal, Shard, UploadState};
use fetchmill_store::manifest::{self, Manifest};
use fetchmill_store::pack::parquet::{ShardError, footer_of};
use fetchmill_store::reader::latest_names;
use fetchmill_store::reader::verify::check_prefix;
use fetchmill_store::sink::failures::{FailuresShard, cut_back, cut_back_of};
use fetchmill_store::sink::{
    DestinationFolder, Format, RefusedObject, RenameResult, ShardFolder, ShardSize, SinkSetup, Stage,
    UploadQueue, new_encoder,
};

/// Advice for a damaged shard whose objects are known.
const REPAIR: &str = "fetch its objects again with `fetchmill verify --repair`, then run the same command";
/// Advice for a damaged shard whose objects are unknown.
const ANEW: &str = "the names of its objects are lost; fetch into a new destination";

/// Parameters of [`ProcessRecovery::recover_process`].
pub(crate) struct ProcessRecovery {
    pub(crate) place: Arc<JobLocation>,
    pub(crate) setup: SinkSetup,
    pub(crate) naming: Naming,
    pub(crate) names: StoredNames,
}

impl ProcessRecovery {
    /// Does the same as [`recover`], but only for the dead process of one worker, while the other workers continue. The
    /// file names of the process start with its worker number and process id. Returns the targets that are finished as
    /// a result.
    pub(crate) fn recover_process(&self, journal: &mut Journal, worker: u32, pid: u32) -> Result<Runs> {
        journal.commit()?;
        let of_pack = format!("{worker}-{pid}-");
        let of_failures = format!("worker-{of_pack}");
        cut_back_of(&self.place.failures_path(), &journal.failures_shards()?, &of_failures)?;
        cut_back_of(&self.place.manifests_path(), &journal.manifests()?, &of_pack)?;
        if let Some(shard_folder) = self.setup.shard_folder() {
            publish_sealed(&shard_folder, journal)?;
            for open in journal.open_shards()?.iter().filter(|open| open.data.path.starts_with(&of_pack)) {
                seal_open(&shard_folder, journal, &self.setup, open)?;
            }
            shard_folder.clear_open(&of_pack)?;
        }
        let staged = journal.staged()?.into_iter().find(|(of, _)| *of == worker);
        let settled = match &staged {
            Some((_, staged)) => {
                let naming = (self.naming, &self.names);
                finish_window(&self.place, journal, (worker, staged), self.setup.is_durable, naming)?
            }
            None => Runs::default(),
        };
        remove_stage(&self.place.stage_path().join(worker.to_string()))?;
        Ok(settled)
    }
}

/// Makes the output consistent with the journal.
pub(crate) fn recover(
    place: &JobLocation,
    journal: &mut Journal,
    setup: &SinkSetup,
    naming: (Naming, &StoredNames),
) -> Result<()> {
    if place.is_contested() {
        detach_files(place, setup)?;
    }
    cut_back(&place.failures_path(), &journal.failures_shards()?)?;
    cut_back(&place.manifests_path(), &journal.manifests()?)?;
    if let Some(shard_folder) = setup.shard_folder() {
        publish_sealed(&shard_folder, journal)?;
        for open in journal.open_shards()? {
            seal_open(&shard_folder, journal, setup, &open)?;
        }
        shard_folder.clear_open("")?;
    }
    for (worker, staged) in journal.staged()? {
        finish_window(place, journal, (worker, &staged), setup.is_durable, naming)?;
    }
    remove_stage(&place.stage_path())
}

/// Detaches the job's files from an earlier run, which might still be alive on another machine. That run can then no
/// longer write to them.
fn detach_files(place: &JobLocation, setup: &SinkSetup) -> Result<()> {
    let open = setup.shard_folder().map(|shard_folder| shard_folder.open_path());
    for folder in [place.failures_path(), place.manifests_path()].into_iter().chain(open) {
        durable::detach_files(&folder)
            .map_err(|error| Error::storage("copy the files of", &folder, error))?;
    }
    Ok(())
}

/// Renames shards after the transaction that seals them and removes the shards that they replace.
fn publish_sealed(shard_folder: &ShardFolder, journal: &mut Journal) -> Result<()> {
    let shards = journal.shards()?;
    let uploads = journal.uploads()?;
    let is_uploaded = |number: &ShardNumber| uploads.get(number) == Some(&UploadState::Done);
    for shard in shards.iter().filter(|shard| !shard.is_replaced && !is_uploaded(&shard.number)) {
        let SealedShard { data, manifest, .. } = &shard.sealed;
        let path = shard_folder.shard_path(shard.number);
        if !path.exists() || !shard_folder.manifest_path(shard.number).exists() {
            shard_folder.publish_if_there(&data.path, &manifest.path, shard.number)?;
        }
        let length = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if length != data.end {
            return Err(Error::Journal(format!(
                "{} is missing or does not have {} bytes; restore the file, or fetch its {} objects again \
                 with `fetchmill verify --repair`",
                path.display(),
                data.end,
                shard.sealed.objects
            )));
        }
    }
    // The previous run might have ended after it renamed files and before it synced them.
    if !shards.is_empty() {
        shard_folder.sync_sealed()?;
    }
    let replaced = shards.iter().filter(|shard| shard.is_replaced).map(|shard| shard.number);
    let replaced: Vec<ShardNumber> = replaced.collect();
    shard_folder.remove(&replaced)?;
    // The files of all other uploaded shards are gone, because only the last removal might have been interrupted.
    let is_left =
        |number| shard_folder.shard_path(number).exists() || shard_folder.manifest_path(number).exists();
    let uploaded = uploads.keys().copied().filter(|number| is_uploaded(number) && is_left(*number));
    shard_folder.remove(&uploaded.collect::<Vec<_>>())?;
    if !replaced.is_empty() {
        journal.forget_replaced()?;
        journal.commit()?;
    }
    Ok(())
}

/// Returns the sealed shards, for a sink that merges small ones. Leaves out shards whose upload has started.
pub(crate) fn sealed_shards(journal: &Journal) -> Result<Vec<ShardSize>> {
    let uploads = journal.uploads()?;
    let shards = journal.shards()?.into_iter().filter(|shard| !uploads.contains_key(&shard.number));
    Ok(shards.map(|shard| size(&shard)).collect())
}

fn size(shard: &Shard) -> ShardSize {
    ShardSize { number: shard.number, bytes: shard.sealed.data.end, rows: shard.sealed.objects }
}

/// Returns the queue of shards to upload.
pub(crate) fn upload_queue(journal: &Journal, setup: &SinkSetup, workers: usize) -> Result<UploadQueue> {
    let uploads = journal.uploads()?;
    let full = setup.full_shard();
    let is_final = |shard: &Shard| {
        let is_begun = uploads.contains_key(&shard.number);
        is_begun || setup.format != Format::Parquet || !full.makes_small(size(shard))
    };
    let shards = journal.shards()?;
    let is_left =
        |shard: &&Shard| !shard.is_replaced && uploads.get(&shard.number) != Some(&UploadState::Done);
    let left = shards.iter().filter(is_left);
    Ok(UploadQueue::new(left.map(|shard| (shard.number, is_final(shard))), workers))
}

/// Seals open shards at their last receipt. Objects after that receipt are fetched again.
fn seal_open(
    shard_folder: &ShardFolder,
    journal: &mut Journal,
    setup: &SinkSetup,
    open: &OpenShard,
) -> Result<()> {
    let folder = shard_folder.open_path();
    cut(&folder, &open.data, REPAIR)?;
    cut(&folder, &open.manifest, ANEW)?;
    let (trailer, rows) = trailer_of(&folder, setup, &open.data)?;
    let data = append(&folder, &open.data, &trailer, setup.is_durable)?;
    let manifest_end = manifest::seal_open(&folder, &open.manifest, setup.is_durable)?;
    let manifest = Manifest::open(&folder.join(&manifest_end.path))?;
    if rows.is_some_and(|rows| rows != manifest.rows()) {
        return Err(Error::Journal(format!(
            "{}: the shard is damaged (its manifest has a different number of rows); fetch its objects again \
             with `fetchmill verify --repair`",
            folder.join(&open.data.path).display()
        )));
    }
    let sealed = SealedShard {
        data,
        manifest: manifest_end,
        objects: manifest.rows(),
        bytes: manifest.bytes(),
        replaces: Vec::new(),
    };
    let receipt = Receipt { sealed: Some(sealed.clone()), ..Receipt::default() };
    let number = journal.settle(&receipt)?;
    journal.commit()?;
    number.map_or(Ok(()), |number| shard_folder.publish(&sealed.data.path, &sealed.manifest.path, number))
}

/// Returns the bytes that follow the last record of a shard. For shards with rows, these bytes are the footer, and the
/// number of rows is also returned.
fn trailer_of(folder: &Path, setup: &SinkSetup, data: &ShardEnd) -> Result<(Vec<u8>, Option<u64>)> {
    let mut trailer = Vec::new();
    if setup.format != Format::Parquet {
        new_encoder(setup.format, &setup.columns, setup.origin.clone())?.finish(&mut trailer);
        return Ok((trailer, None));
    }
    let path = folder.join(&data.path);
    let file = std::fs::File::open(&path).map_err(|error| Error::storage("read", &path, error))?;
    let (footer, rows) = footer_of(&file, data.end).map_err(|error| match error {
        ShardError::Io(error) => Error::storage("read", &path, error),
        damage => Error::Journal(format!(
            "cannot complete {}: {damage}; fetch its objects again with `fetchmill verify --repair`",
            path.display()
        )),
    })?;
    Ok((footer, Some(rows)))
}

/// Truncates a file to its receipt and verifies the checksum of the remaining bytes. A sealed shard gets a new
/// checksum.
fn cut(folder: &Path, end: &ShardEnd, remedy: &str) -> Result<()> {
    let path = folder.join(&end.path);
    let why = match durable::cut(&path, end.end) {
        Ok(true) => check_prefix(&path, end).err(),
        Ok(false) => Some("the file is shorter than recorded in the journal".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some("the file is missing".to_owned()),
        Err(error) => return Err(Error::storage("truncate", path, error)),
    };
    why.map_or(Ok(()), |why| Err(Error::Journal(format!("{} is damaged: {why}; {remedy}", path.display()))))
}

fn append(folder: &Path, end: &ShardEnd, bytes: &[u8], is_durable: bool) -> Result<ShardEnd> {
    let path = folder.join(&end.path);
    let append = || -> std::io::Result<()> {
        let mut file = std::fs::File::options().append(true).open(&path)?;
        durable::append(&mut file, bytes)?;
        if is_durable {
            durable::sync_file(&file)?;
        }
        Ok(())
    };
    append().map_err(|error| Error::storage("write", &path, error))?;
    Ok(ShardEnd {
        path: end.path.clone(),
        end: end.end + bytes.len() as u64,
        crc32c: crc32c::crc32c_append(end.crc32c, bytes),
    })
}

/// Renames the staged files of a committed window. Missing files were renamed earlier.
fn finish_window(
    place: &JobLocation,
    journal: &mut Journal,
    (worker, staged): (u32, &Runs),
    is_durable: bool,
    (naming, names): (Naming, &StoredNames),
) -> Result<Runs> {
    let stage = Stage::open(&place.stage_path().join(worker.to_string()))?;
    let mut places = DestinationFolder::open(&place.dest)?;
    let mut failures = FailuresShard::new(&place.failures_path(), shard_name("recovery", worker), is_durable);
    let mut tally = Tally::default();
    let mut kinds = KindCounts::default();
    let mut settled = Vec::new();
    let mut named = Vec::new();
    // Stored names depend on the replies. They are read from the manifest, which became durable with its window.
    let stored =
        (!names.are_listed()).then(|| latest_names(place, &journal.manifests()?, staged)).transpose()?;
    journal.for_each_name(staged, |sequence, entry| {
        let listed = naming.name_of(sequence, entry, &mut named);
        let name = match &stored {
            None => listed,
            // The row is missing, so the file name is unknown and the target is fetched again.
            Some(stored) => match stored.get(&sequence) {
                Some(name) => name,
                None => return Ok(()),
            },
        };
        match places.put(&stage, sequence, name)? {
            RenameResult::Done | RenameResult::Missing => {
                // The file is neither staged nor in place, so it was removed. Its target is fetched again.
                let Some(bytes) = places.size(name) else {
                    return Ok(());
                };
                tally.fetched += 1;
                tally.bytes += bytes;
            }
            RenameResult::Refused(kind) => {
                tally.count(Outcome::Failed(kind));
                kinds.add(kind, 1);
                failures.add_refused(&RefusedObject {
                    sequence,
                    name: listed.into(),
                    url: naming.url_of(entry),
                    request: naming.request_of(entry),
                    kind,
                })?;
            }
        }
        settled.push(sequence);
        Ok(())
    })?;
    let end = if tally.failed > 0 { failures.checkpoint()? } else { None };
    if is_durable {
        durable::sync_file_system(stage.folder())
            .map_err(|error| Error::storage("sync the file system of", stage.path(), error))?;
    }
    let settled = Runs::from_unsorted(&mut settled);
    let receipt =
        Receipt { worker, settled: settled.clone(), tally, kinds, failures: end, ..Receipt::default() };
    journal.settle(&receipt)?;
    journal.commit()?;
    Ok(settled)
}

/// Removes staged files that do not belong to a committed window. Their targets are fetched again.
pub(crate) fn remove_stage(stage: &Path) -> Result<()> {
    durable::remove_folder(stage).map_err(|error| Error::storage("remove", stage, error))
}

/// Returns a unique shard name, which contains the process id and the time.
pub(crate) fn shard_name(role: &str, worker: u32) -> FileName {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    FileName::of_own(&format!("{role}-{worker}-{}-{}.jsonl.zst", std::process::id(), since.as_nanos()))
}
