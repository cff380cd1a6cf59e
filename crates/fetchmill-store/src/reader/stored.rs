//! Iterates over all stored data of a job. The order stays the same until the job changes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, OwnedFd};

use super::ShardReader;
use super::bits::Bits;
use super::frames::for_each_frame;
use crate::durable;
use crate::journal::{JobLocation, JournalSnapshot, Shard, for_each_pending};
use crate::manifest::ManifestRow;
use crate::sink::failures::FailureRows;
use crate::sink::{Format, ShardFolder};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::{self, to_path};
use fetchmill_model::object::{Facts, Object};
use fetchmill_model::outcome::{Runs, ShardEnd};
use fetchmill_model::target::Sequence;

/// Returns the manifests, latest first, because later rows take precedence.
pub(crate) fn latest_first(manifests: &[ShardEnd]) -> Vec<&ShardEnd> {
    let made_at = |manifest: &&ShardEnd| {
        let stem = manifest.path.rsplit_once('.').map_or("", |(stem, _)| stem);
        stem.rsplit('-').next().and_then(|nanos| nanos.parse::<u128>().ok()).unwrap_or(0)
    };
    let mut manifests: Vec<_> = manifests.iter().collect();
    manifests.sort_by_key(|manifest| std::cmp::Reverse(made_at(manifest)));
    manifests
}

/// Returns the names under which the `files` format has stored these targets of a window. Uses the latest row of each
/// target, and skips rows that cannot be read.
pub fn latest_names(
    place: &JobLocation,
    manifests: &[ShardEnd],
    of: &Runs,
) -> Result<HashMap<Sequence, Box<[u8]>>> {
    let names = RefCell::new(HashMap::new());
    let has_all = || names.borrow().len() as u64 == of.count();
    for manifest in latest_first(manifests) {
        let path = place.manifests_path().join(&manifest.path);
        for_each_frame(&path, Some(manifest.end), &has_all, &mut |frame| {
            for row in frame.iter().filter(|row| of.contains(row.sequence)) {
                names.borrow_mut().entry(row.sequence).or_insert_with(|| row.name.into());
            }
            Ok(())
        })?;
    }
    Ok(names.into_inner())
}

pub(crate) fn open_root(place: &JobLocation) -> Result<OwnedFd> {
    durable::open_folder(&place.dest).map_err(|error| Error::storage("open the folder", &place.dest, error))
}

/// Called with each object and its number in the order. Returns whether to continue.
pub type EachObject<'e> = &'e mut dyn FnMut(u64, &Object<'_>) -> Result<ControlFlow<()>>;

/// Calls `each` with every object, starting at a number. Fails if an object is damaged.
pub fn for_each_object(
    place: &JobLocation,
    snapshot: &JournalSnapshot,
    from: u64,
    each: EachObject<'_>,
) -> Result<()> {
    match Format::from_name(snapshot.part("format")) {
        Some(Format::Files) => each_file(place, snapshot, from, each),
        Some(format) if format.extension().is_some() => each_in_shards(place, snapshot, format, from, each),
        _ => Err(Error::Usage(format!(
            "{} holds no objects: its format is {}",
            place.dest.display(),
            snapshot.part("format")
        ))),
    }
}

fn each_in_shards(
    place: &JobLocation,
    snapshot: &JournalSnapshot,
    format: Format,
    from: u64,
    each: EachObject<'_>,
) -> Result<()> {
    let shard_folder = ShardFolder::new(&place.dest, format.extension().unwrap_or_default(), true);
    let mut first = 0_u64;
    for shard in &snapshot.shards {
        let end = first.saturating_add(shard.sealed.objects);
        if end > from && each_in_shard(&shard_folder, format, shard, first, from, each)?.is_break() {
            return Ok(());
        }
        first = end;
    }
    Ok(())
}

fn each_in_shard(
    shard_folder: &ShardFolder,
    format: Format,
    shard: &Shard,
    first: u64,
    from: u64,
    each: EachObject<'_>,
) -> Result<ControlFlow<()>> {
    let reader = ShardReader::open(shard_folder, format, shard)?;
    let mut scan = reader.scan()?;
    if from > first {
        scan.skip_to(from - first);
    }
    for scanned in scan {
        let scanned = scanned?;
        let object = scanned
            .object
            .map_err(|lost| reader.error(&lost.name, super::ObjectError::Damaged(lost.what)))?;
        if each(first + scanned.row, &object.as_object(scanned.sequence))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Calls `each` with every file, after marking targets that have no stored object as seen. If a target has several
/// rows, only the latest one counts.
fn each_file(place: &JobLocation, snapshot: &JournalSnapshot, from: u64, each: EachObject<'_>) -> Result<()> {
    let mut seen = Bits::new(snapshot.next_sequence)?;
    for shard in &snapshot.failures {
        for row in FailureRows::open(&place.failures_path(), shard)? {
            seen.set(row?.sequence);
        }
    }
    for_each_pending(place, |sequence| {
        seen.set(sequence);
        Ok(())
    })?;
    let root = open_root(place)?;
    let (mut number, mut body, mut is_over) = (0_u64, Vec::new(), false);
    for manifest in latest_first(&snapshot.manifests) {
        let path = place.manifests_path().join(&manifest.path);
        let mut rows = crate::manifest::ManifestRows::open(&path, Some(manifest.end))?;
        while let Some(frame) = rows.next_frame()? {
            for row in frame.iter().filter(|row| seen.set(row.sequence) == Some(true)) {
                if number >= from && !is_over {
                    read_file(place, &root, &row, &mut body)?;
                    let facts = Facts::default();
                    let object = Object {
                        sequence: row.sequence,
                        name: row.name,
                        body: &body,
                        crc32c: row.crc32c,
                        facts,
                    };
                    is_over = each(number, &object)?.is_break();
                }
                number += 1;
            }
            if is_over {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn read_file(place: &JobLocation, root: &OwnedFd, row: &ManifestRow<'_>, body: &mut Vec<u8>) -> Result<()> {
    let shown = || place.dest.join(name::for_display(row.name));
    let damaged = |what: &str| {
        Error::Journal(format!(
            "{} {what}; run `fetchmill verify` to see what is lost, or `fetchmill verify --repair` so that the \
             next `get` fetches it again",
            shown().display()
        ))
    };
    let mut path = Vec::new();
    to_path(row.name, &mut path).map_err(|_| damaged("has a name that cannot be a file name"))?;
    let file = durable::open_file_beneath(root.as_fd(), &path)
        .map_err(|error| Error::storage("read", shown(), error))?
        .ok_or_else(|| damaged("is missing"))?;
    body.clear();
    // Do not keep the memory of a large object.
    body.shrink_to(fetchmill_model::limits::BODY_MEMORY_BYTES_MAX);
    file.take(row.length.saturating_add(1))
        .read_to_end(body)
        .map_err(|error| Error::storage("read", shown(), error))?;
    let is_whole = body.len() as u64 == row.length && crc32c::crc32c(body) == row.crc32c;
    if is_whole { Ok(()) } else { Err(damaged("differs from the fetched object")) }
}
