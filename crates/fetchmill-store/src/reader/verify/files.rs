//! Verifies the `files` format: each object against its manifest row, and each file against all rows.
//!
//! A run writes a row when it stages an object. Some rows have no file, because the target failed (its name was taken)
//! or is pending (its window was never renamed). If a target was fetched more than once, its last row counts. The name
//! of a manifest contains its creation time.

use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Mutex;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::finding::{Finding, FindingKind};
use super::ledger::{Ledger, SequenceClaim, check_prefix};
use super::monitor::VerifyMonitor;
use super::sample::ObjectSample;
use crate::durable;
use crate::journal::{JobLocation, JournalSnapshot};
use crate::manifest::ManifestRow;
use crate::reader::bits::Bits;
use crate::reader::frames;
use crate::reader::stored::{latest_first, open_root};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::MIB;
use fetchmill_model::name::{STATE_FOLDER, to_path};
use fetchmill_model::outcome::ShardEnd;
use fetchmill_model::target::{Names, Sequence};

/// Number of rows that a thread gets at a time. Their names take a few dozen bytes each.
const BATCH_ROWS: usize = 1024;
/// Maximum number of path hashes in memory, which take 64 MiB. If there are more, the destination is walked several
/// times.
const HASHES_MAX: u64 = 8 << 20;
/// Maximum depth of folders that can belong to the job.
const DEPTH_MAX: usize = fetchmill_model::limits::NAME_SEGMENTS_MAX;

/// Rows for a thread that reads the files.
#[derive(Debug, Default)]
struct FileBatch {
    names: Names,
    rows: Vec<(Sequence, u64, u32)>,
}

/// Reads all manifests, and reads the files that they list in several threads. `lost` collects the targets to fetch
/// again.
pub(super) fn check(
    place: &JobLocation,
    snapshot: &JournalSnapshot,
    ledger: &mut Ledger<'_>,
    sample: &mut ObjectSample,
    lost: &Mutex<Bits>,
    threads: usize,
    watch: &VerifyMonitor,
) -> Result<()> {
    let root = open_root(place)?;
    let (to_readers, batches) = bounded::<FileBatch>(2 * threads);
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| read_files(&root, &batches, lost, watch))).collect();
        let sent = send_rows(place, snapshot, ledger, sample, &to_readers, watch);
        drop(to_readers);
        for reader in readers {
            reader.join().map_err(|_| Error::Internal("a thread that reads files has panicked".into()))?;
        }
        sent
    })
}

fn send_rows(
    place: &JobLocation,
    snapshot: &JournalSnapshot,
    ledger: &mut Ledger<'_>,
    sample: &mut ObjectSample,
    to_readers: &Sender<FileBatch>,
    watch: &VerifyMonitor,
) -> Result<()> {
    let mut batch = FileBatch::default();
    for manifest in latest_first(&snapshot.manifests) {
        let path = place.manifests_path().join(&manifest.path);
        if let Err(why) = check_prefix(&path, manifest) {
            watch.find(Finding::file(FindingKind::Damaged, &shown(manifest), why).beyond_repair());
        }
        let send = |batch: FileBatch| {
            // Threads end early only after an error, which is reported when they are joined.
            let _ = to_readers.send(batch);
        };
        frames::for_each_frame(&path, Some(manifest.end), &|| watch.is_stopped(), &mut |frame| {
            for row in frame.iter() {
                match ledger.claim_row(&row) {
                    SequenceClaim::First => {}
                    SequenceClaim::Another => continue,
                    SequenceClaim::NoTarget => {
                        let detail = "no target has this number";
                        let finding = Finding::object(FindingKind::Doubled, row.name, row.sequence, detail);
                        watch.find(finding.beyond_repair());
                        continue;
                    }
                }
                sample.offer(&row, None);
                batch.names.push(row.name);
                batch.rows.push((row.sequence, row.length, row.crc32c));
                if batch.rows.len() >= BATCH_ROWS {
                    send(std::mem::take(&mut batch));
                }
            }
            Ok(())
        })?;
    }
    let _ = to_readers.send(batch);
    Ok(())
}

fn shown(manifest: &ShardEnd) -> String {
    format!("{STATE_FOLDER}/manifests/{}", manifest.path)
}

fn read_files(root: &OwnedFd, batches: &Receiver<FileBatch>, lost: &Mutex<Bits>, watch: &VerifyMonitor) {
    let mut buffer = vec![0; MIB / 4];
    let mut path = Vec::new();
    for batch in batches {
        let mut bytes = 0_u64;
        let rows = batch.rows.len() as u64;
        for (position, (sequence, length, crc32c)) in batch.rows.into_iter().enumerate() {
            if watch.is_stopped() {
                break;
            }
            let row = ManifestRow {
                sequence,
                name: batch.names.get(position),
                length,
                crc32c,
                place: 0,
                ..ManifestRow::default()
            };
            bytes = bytes.saturating_add(length);
            let Some((what, why)) = check_file(root, &row, &mut path, &mut buffer) else { continue };
            // If the destination is only read, nothing is recorded.
            lost.lock().unwrap_or_else(std::sync::PoisonError::into_inner).set(sequence);
            watch.find(Finding::object(what, row.name, sequence, why));
        }
        watch.advance(bytes, rows);
    }
}

/// Returns what is wrong with the file of a row. `None` if the file is intact.
fn check_file(
    root: &OwnedFd,
    row: &ManifestRow<'_>,
    path: &mut Vec<u8>,
    buffer: &mut [u8],
) -> Option<(FindingKind, String)> {
    if to_path(row.name, path).is_err() {
        return Some((FindingKind::Missing, "the name cannot be a file name".into()));
    }
    let mut file = match durable::open_file_beneath(root.as_fd(), path) {
        Ok(Some(file)) => file,
        Ok(None) => return Some((FindingKind::Missing, "the file does not exist".into())),
        Err(error) => return Some((FindingKind::Damaged, error.to_string())),
    };
    let (mut length, mut crc32c) = (0_u64, 0);
    // Read up to one byte more than expected, to detect a file that is too long.
    while length <= row.length {
        match file.read(buffer) {
            Ok(0) => break,
            Ok(count) => {
                length += count as u64;
                crc32c = crc32c::crc32c_append(crc32c, buffer.get(..count).unwrap_or_default());
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Some((FindingKind::Damaged, error.to_string())),
        }
    }
    if length != row.length {
        let size = file.metadata().map_or(length, |metadata| metadata.len());
        return Some((FindingKind::Damaged, format!("it has {size} bytes instead of {}", row.length)));
    }
    let is_good = crc32c == row.crc32c;
    (!is_good).then(|| (FindingKind::Damaged, "its checksum is wrong".into()))
}

/// Reports files that no manifest lists. Compares 64-bit hashes of paths, a limited number at a time.
pub(super) fn find_unknown(
    place: &JobLocation,
    snapshot: &JournalSnapshot,
    watch: &VerifyMonitor,
) -> Result<()> {
    let parts = snapshot.next_sequence.div_ceil(HASHES_MAX).max(1);
    for part in 0..parts {
        let is_mine = |hash: &u64| hash % parts == part;
        let mut known = known_hashes(place, snapshot, watch, &is_mine)?;
        known.sort_unstable();
        let mut relative = Vec::new();
        walk(&place.dest, &mut relative, 0, watch, &mut |path| {
            let hash = hash(path);
            if is_mine(&hash) && known.binary_search(&hash).is_err() {
                let mut finding =
                    Finding::file(FindingKind::Unknown, "", "no manifest lists this file").beyond_repair();
                finding.name = path.into();
                watch.find(finding);
            }
        })?;
    }
    Ok(())
}

fn hash(path: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(path)
}

fn known_hashes(
    place: &JobLocation,
    snapshot: &JournalSnapshot,
    watch: &VerifyMonitor,
    is_mine: &dyn Fn(&u64) -> bool,
) -> Result<Vec<u64>> {
    let mut known = Vec::new();
    let mut path = Vec::new();
    for manifest in &snapshot.manifests {
        let file = place.manifests_path().join(&manifest.path);
        frames::for_each_frame(&file, Some(manifest.end), &|| watch.is_stopped(), &mut |frame| {
            for row in frame.iter() {
                if to_path(row.name, &mut path).is_ok() {
                    known.extend(Some(hash(&path)).filter(is_mine));
                }
            }
            Ok(())
        })?;
    }
    Ok(known)
}

/// Calls `each` with every path below a folder, except folders and the job's own files.
fn walk(
    folder: &Path,
    relative: &mut Vec<u8>,
    depth: usize,
    watch: &VerifyMonitor,
    each: &mut dyn FnMut(&[u8]),
) -> Result<()> {
    use std::os::unix::ffi::OsStrExt as _;

    let fail = |error| Error::storage("read", folder, error);
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        if watch.is_stopped() {
            return Ok(());
        }
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        if depth == 0 && name == STATE_FOLDER {
            continue;
        }
        let length = relative.len();
        if depth > 0 {
            relative.push(b'/');
        }
        relative.extend_from_slice(name.as_bytes());
        if depth < DEPTH_MAX && entry.file_type().map_err(fail)?.is_dir() {
            walk(&entry.path(), relative, depth + 1, watch, each)?;
        } else {
            each(relative);
        }
        relative.truncate(length);
    }
    Ok(())
}
