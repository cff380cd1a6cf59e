//! Verifies sealed and open shards against the journal. Whole files are checked first, and then each record.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::finding::{Finding, FindingKind};
use super::monitor::VerifyMonitor;
use crate::journal::{CDXJ, INDEX_PART, JournalSnapshot, Shard};
use crate::reader::bits::Bits;
use crate::reader::frames;
use crate::reader::{Scan, ShardReader};
use crate::sink::{Format, ShardFolder, UnfetchedFiles};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::MIB;
use fetchmill_model::outcome::{OpenShard, ShardEnd, ShardNumber};
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::text::file_name::FileName;

/// Number of rows after which progress is reported.
const ADVANCE_ROWS: u64 = 1024;

/// Faults of a sealed shard. They take two bits per object.
#[derive(Debug)]
pub(super) struct ShardFaults {
    /// Rows of the manifest whose records differ from what was written.
    pub(super) lost: Bits,
    /// Rows whose target also has an object in an earlier shard.
    pub(super) doubled: Bits,
    /// Whether the file is missing.
    pub(super) is_missing: bool,
    /// Number of manifest rows that cannot be read.
    pub(super) unreadable: u64,
}

/// The facts about each shard that a repair needs. Intact shards have no entry.
#[derive(Debug, Default)]
pub(super) struct FoundFaults {
    /// Faults of sealed shards.
    pub(super) sealed: Mutex<BTreeMap<ShardNumber, ShardFaults>>,
    /// Damaged open shards, by file name.
    pub(super) open: Mutex<Vec<FileName>>,
    /// Whether any of the files that a job writes next to the shards when it finishes must be rewritten.
    pub(super) lacks_files: AtomicBool,
}

impl FoundFaults {
    /// Records that the record of a row differs from what was written.
    fn report_lost(&self, shard: &Shard, row: u64) -> Result<()> {
        self.note(shard, |faults| {
            faults.lost.set(row);
        })
    }

    /// Records that the target of a row has another object.
    pub(super) fn double(&self, shard: &Shard, row: u64) -> Result<()> {
        self.note(shard, |faults| {
            faults.doubled.set(row);
        })
    }

    /// Records a fault of a shard.
    fn note(&self, shard: &Shard, note: impl FnOnce(&mut ShardFaults)) -> Result<()> {
        let mut sealed = self.sealed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let faults = match sealed.entry(shard.number) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(ShardFaults {
                lost: Bits::new(shard.sealed.objects)?,
                doubled: Bits::new(shard.sealed.objects)?,
                is_missing: false,
                unreadable: 0,
            }),
        };
        note(faults);
        Ok(())
    }
}

/// Returns the paths of a sealed shard and its manifest. The last run may have ended before it renamed them.
pub(super) fn locate(shard_folder: &ShardFolder, shard: &Shard) -> (PathBuf, PathBuf) {
    let choose = |placed: PathBuf, open: &str| {
        let unplaced = shard_folder.open_path().join(open);
        if !placed.exists() && unplaced.exists() { unplaced } else { placed }
    };
    (
        choose(shard_folder.shard_path(shard.number), &shard.sealed.data.path),
        choose(shard_folder.manifest_path(shard.number), &shard.sealed.manifest.path),
    )
}

/// Returns the name of a file in the form that findings show.
pub(super) fn shown(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Result of checking an entire file.
enum WholeFile {
    Good,
    Missing,
    Damaged(String),
}

/// Verifies the checksum of a file, up to its recorded end.
fn check_file(path: &Path, end: &ShardEnd, is_sealed: bool, watch: &VerifyMonitor) -> Result<WholeFile> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(WholeFile::Missing),
        Err(error) => return Err(Error::storage("read", path, error)),
    };
    let length = file.metadata().map_err(|error| Error::storage("read", path, error))?.len();
    if length < end.end || (is_sealed && length > end.end) {
        watch.advance(end.end, 0);
        return Ok(WholeFile::Damaged(format!("it has {length} bytes instead of {}", end.end)));
    }
    let mut buffer = vec![0; MIB];
    let (mut left, mut crc32c) = (end.end, 0);
    while left > 0 && !watch.is_stopped() {
        let wanted = left.min(MIB as u64) as usize;
        let piece = buffer.get_mut(..wanted).unwrap_or_default();
        match file.read(piece) {
            Ok(0) => return Ok(WholeFile::Damaged("it ends too early".into())),
            Ok(count) => {
                crc32c = crc32c::crc32c_append(crc32c, piece.get(..count).unwrap_or_default());
                left -= count as u64;
                watch.advance(count as u64, 0);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // If the disk cannot read a part of the file, this counts as damage, and the verification continues.
            Err(error) => return Ok(WholeFile::Damaged(error.to_string())),
        }
    }
    if crc32c == end.crc32c || watch.is_stopped() {
        Ok(WholeFile::Good)
    } else {
        Ok(WholeFile::Damaged("its checksum is wrong".into()))
    }
}

/// Returns how many bytes the verification of a sealed shard reads.
pub(super) fn bytes_of(shard: &Shard) -> u64 {
    shard.sealed.data.end.saturating_mul(2).saturating_add(shard.sealed.manifest.end)
}

/// Checks a sealed shard.
pub(super) fn check_sealed(
    format: Format,
    shard_folder: &ShardFolder,
    shard: &Shard,
    faults: &FoundFaults,
    watch: &VerifyMonitor,
) -> Result<()> {
    let (data, manifest) = locate(shard_folder, shard);
    let whole = check_whole(&data, &shard.sealed.data, shard, faults, watch)?;
    let is_missing = whole == Some(FindingKind::Missing);
    check_whole(&manifest, &shard.sealed.manifest, shard, faults, watch)?;
    let checked = ShardCheck { shard, file: shown(&data), manifest: shown(&manifest), faults, watch };
    if is_missing {
        faults.note(shard, |faults| faults.is_missing = true)?;
    }
    match ShardReader::open(shard_folder, format, shard) {
        Ok(reader) if is_missing => checked.report_all_lost(&reader, FindingKind::Missing, "it is missing"),
        Ok(reader) => match reader.scan() {
            Ok(scan) => {
                let lost = checked.scan(scan)?;
                if whole.is_some() && lost == 0 && has_unproved_facts(format) {
                    checked.report_all_lost(
                        &reader,
                        FindingKind::Damaged,
                        "damaged at an unknown position",
                    )?;
                }
                Ok(())
            }
            Err(error) => checked.report_all_lost(&reader, FindingKind::Damaged, &frames::one_cause(&error)),
        },
        Err(error) => checked.report_names_lost(shard.sealed.objects, &frames::one_cause(&error)),
    }
}

/// Returns whether some bytes of records are not covered by checksums. If so, and if the file is damaged although all
/// checksums match, the damage may be in the facts of any record. In `tar` and `warc`, checksums cover the whole
/// record.
fn has_unproved_facts(format: Format) -> bool {
    matches!(format, Format::Parquet | Format::Jsonl)
}

/// A shard that is being checked record by record.
struct ShardCheck<'c> {
    shard: &'c Shard,
    file: String,
    manifest: String,
    faults: &'c FoundFaults,
    watch: &'c VerifyMonitor,
}

impl ShardCheck<'_> {
    /// Checks each record on its own. Returns the number of lost records.
    fn scan(&self, scan: Scan) -> Result<u64> {
        let (mut named, mut lost_count) = (0, 0);
        let mut cause = None;
        let mut before = 0;
        for scanned in scan {
            if self.watch.is_stopped() {
                return Ok(lost_count);
            }
            match scanned {
                Ok(scanned) => {
                    named += 1;
                    if let Err(lost) = &scanned.object {
                        lost_count += 1;
                        self.report_lost(
                            scanned.row,
                            &lost.name,
                            scanned.sequence,
                            FindingKind::Damaged,
                            &lost.what,
                        )?;
                    }
                    if named - before >= ADVANCE_ROWS {
                        self.advance(before, named);
                        before = named;
                    }
                }
                Err(error) => cause = Some(frames::one_cause(&error)),
            }
        }
        self.advance(before, named);
        if let Some(cause) = cause {
            self.report_names_lost(self.shard.sealed.objects.saturating_sub(named), &cause)?;
        }
        Ok(lost_count)
    }

    /// Reports progress for some rows, in proportion to the bytes of the shard.
    fn advance(&self, from: u64, to: u64) {
        let (end, objects) =
            (u128::from(self.shard.sealed.data.end), u128::from(self.shard.sealed.objects.max(1)));
        let share = |rows: u64| (end * u128::from(rows) / objects) as u64;
        self.watch.advance(share(to).saturating_sub(share(from)), to - from);
    }

    /// Reports all objects of the manifest as lost.
    fn report_all_lost(&self, reader: &ShardReader, what: FindingKind, why: &str) -> Result<()> {
        let manifest = reader.manifest();
        let mut unnamed = None;
        for index in 0..manifest.frames() {
            if self.watch.is_stopped() {
                return Ok(());
            }
            match manifest.frame(index) {
                Ok(frame) => {
                    for (position, row) in frame.iter().enumerate() {
                        self.report_lost(
                            frame.first_row() + position as u64,
                            row.name,
                            row.sequence,
                            what,
                            why,
                        )?;
                    }
                }
                Err(error) => unnamed = Some(frames::one_cause(&error)),
            }
        }
        unnamed.map_or(Ok(()), |cause| self.report_names_lost(1, &cause))
    }

    fn report_lost(&self, row: u64, name: &[u8], sequence: u64, what: FindingKind, why: &str) -> Result<()> {
        self.faults.report_lost(self.shard, row)?;
        let detail = format!("{}: {why}", self.file);
        self.watch.find(Finding::object(what, name, sequence, detail).in_shard(self.shard.number));
        Ok(())
    }

    /// Reports manifest rows that cannot be read. Their objects may exist, but their targets are unknown.
    fn report_names_lost(&self, unreadable: u64, cause: &str) -> Result<()> {
        self.faults.note(self.shard, |faults| faults.unreadable = unreadable.max(1))?;
        let detail = format!(
            "the names of {unreadable} of the {} objects in {} cannot be read: {cause}",
            self.shard.sealed.objects, self.file
        );
        let finding = Finding::file(FindingKind::Damaged, &self.manifest, detail).in_shard(self.shard.number);
        self.watch.find(finding.beyond_repair());
        Ok(())
    }
}

/// Checks a whole file and reports damage. Returns `None` if the file is intact.
fn check_whole(
    path: &Path,
    end: &ShardEnd,
    shard: &Shard,
    faults: &FoundFaults,
    watch: &VerifyMonitor,
) -> Result<Option<FindingKind>> {
    let (what, detail) = match check_file(path, end, true, watch)? {
        WholeFile::Good => return Ok(None),
        WholeFile::Missing => (FindingKind::Missing, "the file does not exist".to_owned()),
        WholeFile::Damaged(why) => (FindingKind::Damaged, why),
    };
    faults.note(shard, |_| {})?;
    watch.find(Finding::file(what, &shown(path), detail).in_shard(shard.number));
    Ok(Some(what))
}

/// Verifies a shard that the last run left open. The shard is verified as a whole, up to its committed end.
pub(super) fn check_open(
    shard_folder: &ShardFolder,
    open: &OpenShard,
    faults: &FoundFaults,
    watch: &VerifyMonitor,
) -> Result<()> {
    for end in [&open.data, &open.manifest] {
        let path = shard_folder.open_path().join(&end.path);
        let (what, detail) = match check_file(&path, end, false, watch)? {
            WholeFile::Good => continue,
            WholeFile::Missing => (FindingKind::Missing, "the file does not exist".to_owned()),
            WholeFile::Damaged(why) => (FindingKind::Damaged, why),
        };
        let mut noted = faults.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !noted.contains(&open.data.path) {
            noted.push(open.data.path.clone());
        }
        drop(noted);
        watch.find(Finding::file(what, &format!(".fetchmill/open/{}", end.path), detail));
    }
    Ok(())
}

/// Verifies the files of a finished job that describe targets without an object. These files are next to the shards.
/// Returns whether any of them is damaged.
pub(super) fn check_unfetched(
    shard_folder: &ShardFolder,
    snapshot: &JournalSnapshot,
    faults: &FoundFaults,
    watch: &VerifyMonitor,
) -> Result<()> {
    let files = snapshot.unfetched.iter().filter(|_| snapshot.is_finished);
    for (number, file) in files.enumerate() {
        let path = unfetched_files(snapshot).path(shard_folder, file, number);
        tell_unlike(&path, check_file(&path, &file.data, true, watch)?, faults, watch);
    }
    Ok(())
}

fn unfetched_files(snapshot: &JournalSnapshot) -> UnfetchedFiles {
    UnfetchedFiles::of(&ExtraColumns::of_identity(&snapshot.identity))
}

/// Returns the names of the files that describe targets without an object.
fn unfetched_names(snapshot: &JournalSnapshot, shard_folder: &ShardFolder) -> Vec<OsString> {
    let files = unfetched_files(snapshot);
    let name = |(number, file)| files.path(shard_folder, file, number).file_name().map(OsStr::to_owned);
    snapshot.unfetched.iter().enumerate().filter_map(name).collect()
}

/// Checks the shard indexes of a finished `--cdxj` job, which are at their final paths.
pub(super) fn check_cdxj(
    shard_folder: &ShardFolder,
    snapshot: &JournalSnapshot,
    faults: &FoundFaults,
    watch: &VerifyMonitor,
) -> Result<()> {
    if !snapshot.is_finished || snapshot.part(INDEX_PART) != CDXJ {
        return Ok(());
    }
    for Shard { number, .. } in &snapshot.shards {
        let path = shard_folder.cdxj_path(*number);
        let known = snapshot.cdxj_files.binary_search_by_key(number, |file| file.shard).ok();
        let known = known.and_then(|position| snapshot.cdxj_files.get(position));
        let found = known.map_or(Ok(WholeFile::Missing), |file| check_file(&path, &file.data, true, watch));
        tell_unlike(&path, found?, faults, watch);
    }
    Ok(())
}

/// Reports a file that differs from what was written at the end of a job.
fn tell_unlike(path: &Path, found: WholeFile, faults: &FoundFaults, watch: &VerifyMonitor) {
    let (what, why) = match found {
        WholeFile::Good => return,
        WholeFile::Missing => (FindingKind::Missing, "the file does not exist".to_owned()),
        WholeFile::Damaged(why) => (FindingKind::Damaged, why),
    };
    let detail = format!("{why}; after a repair, the same `fetchmill get` writes the file again");
    watch.find(Finding::file(what, &shown(path), detail));
    faults.lacks_files.store(true, Ordering::Relaxed);
}

/// Reports files that have names like those of the job's files but do not belong to the job.
pub(super) fn find_unknown(
    dest: &Path,
    format: Format,
    snapshot: &JournalSnapshot,
    watch: &VerifyMonitor,
) -> Result<()> {
    let Some(extension) = format.extension() else { return Ok(()) };
    let is_shard =
        |number| snapshot.shards.binary_search_by_key(&number, |shard: &Shard| shard.number).is_ok();
    let written = unfetched_names(snapshot, &ShardFolder::new(dest, extension, false));
    let index_end = Some(CDXJ).filter(|_| snapshot.part(INDEX_PART) == CDXJ);
    let ends: Vec<&str> = index_end.into_iter().chain([extension]).collect();
    let has_index = |number| snapshot.cdxj_files.binary_search_by_key(&number, |file| file.shard).is_ok();
    let unknown = |name: &str| {
        let finding = Finding::file(FindingKind::Unknown, name, "the file is not recorded in the journal");
        watch.find(finding.beyond_repair());
    };
    let entries = std::fs::read_dir(dest).map_err(|error| Error::storage("read", dest, error))?;
    for entry in entries {
        let name = entry.map_err(|error| Error::storage("read", dest, error))?.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_written = written.iter().any(|written| written == name);
        if name == ShardFolder::FAILURES && !is_written {
            unknown(name);
        }
        let Some((kind, number)) = name.split_once('-') else { continue };
        let without = |end: &&str| number.strip_suffix(*end)?.strip_suffix('.');
        let Some(end) = ends.iter().find(|end| without(end).is_some()) else { continue };
        let number = without(end).unwrap_or_default();
        let is_index = *end == CDXJ;
        let is_meant = |number: u64| format!("{kind}-{number:06}.{end}") == name;
        let is_known = number.parse::<ShardNumber>().is_ok_and(|number| match kind {
            "shard" if is_index => is_meant(number) && has_index(number),
            "shard" => is_meant(number) && is_shard(number),
            "unfetched" => is_written,
            _ => true,
        });
        if !is_known && matches!(kind, "shard" | "unfetched") {
            unknown(name);
        }
    }
    Ok(())
}
