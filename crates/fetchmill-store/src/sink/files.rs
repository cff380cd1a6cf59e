//! `files`: one file per object, named like the object.
//!
//! The objects of window k are written to the worker's [`Stage`]. The checkpoint at the end of the window requests one
//! sync of the file system. The sync runs while the objects of window k+1 are being written. The checkpoint's commit
//! record says that window k is staged and window k-1 is finished. Once the commit record is in the journal, the files
//! of window k are renamed to their final names, without replacing any file. The sync at the end of window k+1 makes
//! these renames durable.
//!
//! After a crash, the staged files of a committed window are renamed. If one of these files is missing, it was already
//! renamed before the crash. All other staged files are garbage.
//!
//! An object costs a create, a write, a close and a rename. Folders stay open while they are in use.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::{
    Block, BlockBody, BlockEntry, CheckpointResult, EntryDescription, FileSystemSync, RefusedObject, Sink,
    Stage,
};
use crate::durable;
use crate::full_folder::cannot_put;
use crate::manifest::{ManifestRow, ManifestWriter};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name;
use fetchmill_model::object::Seconds;
use fetchmill_model::outcome::{FailureKind, Outcome, Runs, ShardNumber};
use fetchmill_model::target::Sequence;

/// Maximum number of open folders. With a limit of 1,024 descriptors, 256 open folders would be too many, because
/// connections need most of the descriptors.
const OPEN_FOLDERS_MAX: usize = 16;

/// An object that is written but not in place yet. Its names are in a buffer shared by all objects, because a window
/// can contain 100,000 objects.
#[derive(Debug)]
struct StagedObject {
    sequence: Sequence,
    bytes: u64,
    name: std::ops::Range<usize>,
    /// Length of the listed name, which follows the name. `None` if the two names are the same.
    listed_length: Option<u32>,
    /// Length of the URL, which follows the names. `None` if the object has no URL.
    url_length: Option<u32>,
    /// Length of the request, which follows the URL. `None` for a plain `GET`.
    request_length: Option<u32>,
}

#[derive(Debug, Default)]
struct StageWindow {
    objects: Vec<StagedObject>,
    names: Vec<u8>,
}

impl StageWindow {
    fn sequences(&self) -> Runs {
        Runs::from_unsorted(&mut self.objects.iter().map(|staged| staged.sequence).collect::<Vec<_>>())
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct FilesSink {
    places: DestinationFolder,
    stage: Arc<Stage>,
    /// Manifest with one row per object, for `verify`. A row is written in the same window as its file.
    manifest: ManifestWriter,
    is_durable: bool,
    /// Whether files get the modification time that the server sent.
    keeps_server_times: bool,
    /// Objects written since the last checkpoint.
    open: StageWindow,
    /// Objects that the last checkpoint staged. Their commit record is on its way to the journal.
    staged: StageWindow,
    /// Renamed objects. The next checkpoint makes the renames durable.
    renamed: Vec<Sequence>,
    renamed_bytes: u64,
    /// Objects that could not be renamed. Their staged files are removed once the journal contains the commit record
    /// that finishes them.
    refused: Vec<Sequence>,
    refused_before: Vec<Sequence>,
}

impl FilesSink {
    /// Stores objects below `dest`. The stage must be on the same file system.
    pub fn open(dest: &Path, stage: Arc<Stage>, manifest: ManifestWriter, is_durable: bool) -> Result<Self> {
        Ok(FilesSink {
            places: DestinationFolder::open(dest)?,
            stage,
            manifest,
            is_durable,
            keeps_server_times: false,
            open: StageWindow::default(),
            staged: StageWindow::default(),
            renamed: Vec::new(),
            renamed_bytes: 0,
            refused: Vec::new(),
            refused_before: Vec::new(),
        })
    }

    /// Sets whether files get the modification time that the server sent.
    #[must_use]
    pub fn with_server_times(mut self, keeps_server_times: bool) -> Self {
        self.keeps_server_times = keeps_server_times;
        self
    }

    /// Returns the modification time that the server sent for an object. `None` if files do not get this time, or if
    /// the time is in the future.
    fn server_time(&self, block: &Block, entry: &BlockEntry) -> Option<Seconds> {
        let facts = block.facts(entry);
        let now = facts.fetched_at / 1_000_000;
        facts.last_modified.filter(|modified| self.keeps_server_times && *modified <= now)
    }

    fn rename_all(&mut self) -> Result<Vec<RefusedObject>> {
        let window = std::mem::take(&mut self.staged);
        let mut refused = Vec::new();
        for staged in &window.objects {
            let name = &window.names[staged.name.clone()];
            match self.places.put(&self.stage, staged.sequence, name)? {
                RenameResult::Missing => {
                    let path = self.stage.path();
                    return Err(Error::storage("find a staged file in", path, Errno::NOENT));
                }
                RenameResult::Done => {
                    self.renamed.push(staged.sequence);
                    self.renamed_bytes += staged.bytes;
                }
                RenameResult::Refused(kind) => {
                    self.refused.push(staged.sequence);
                    let mut behind = &window.names[staged.name.end..];
                    let mut next = |length: Option<u32>| {
                        let (value, rest) = behind.split_at(length? as usize);
                        behind = rest;
                        Some(value.into())
                    };
                    let listed: Option<Box<[u8]>> = next(staged.listed_length);
                    let (url, request) = (next(staged.url_length), next(staged.request_length));
                    let (sequence, name) = (staged.sequence, listed.unwrap_or_else(|| name.into()));
                    refused.push(RefusedObject { sequence, name, url, request, kind });
                }
            }
        }
        Ok(refused)
    }

    fn remove_refused(&mut self) -> Result<()> {
        for sequence in std::mem::take(&mut self.refused_before) {
            self.stage.remove(sequence)?;
        }
        self.refused_before = std::mem::take(&mut self.refused);
        Ok(())
    }
}

impl Sink for FilesSink {
    fn write(&mut self, block: &Block, from: usize) -> Result<usize> {
        for entry in block.entries()[from..].iter().filter(|entry| entry.outcome == Outcome::Fetched) {
            let modified = self.server_time(block, entry);
            let crc32c = if let BlockBody::Spilled(length) = entry.body {
                if let Some(modified) = modified {
                    self.stage.set_modified(entry.sequence, modified);
                }
                let body = self.stage.body(entry.sequence, length)?;
                body.crc32c().map_err(|error| Error::storage("read a body in", self.stage.path(), error))?
            } else {
                self.stage.write(entry.sequence, block.body(entry), modified)?;
                crc32c::crc32c(block.body(entry))
            };
            let known = block.facts(entry);
            self.manifest.add(&ManifestRow {
                sequence: entry.sequence,
                name: block.name(entry),
                length: entry.body.len(),
                crc32c,
                place: 0,
                etag: known.etag.unwrap_or_default(),
                last_modified: known.last_modified,
                content_encoding: known.content_encoding.unwrap_or_default(),
            })?;
            let start = self.open.names.len();
            self.open.names.extend_from_slice(block.name(entry));
            let name = start..self.open.names.len();
            let described = EntryDescription::fetched(&[], &block.facts(entry));
            let mut append = |value: Option<&[u8]>| {
                self.open.names.extend_from_slice(value?);
                value.map(|value| value.len() as u32)
            };
            let listed_length = append(known.listed);
            let (url_length, request_length) = (append(described.url), append(described.request));
            let (sequence, bytes) = (entry.sequence, entry.body.len());
            self.open.objects.push(StagedObject {
                sequence,
                bytes,
                name,
                listed_length,
                url_length,
                request_length,
            });
        }
        Ok(block.entries().len())
    }

    fn checkpoint(&mut self, _is_last: bool) -> Result<CheckpointResult> {
        let has_unsynced = self.is_durable && self.has_unsettled();
        // The manifest and the stage are both in the job's state folder, so the same sync makes both durable.
        let manifest = if self.open.objects.is_empty() { None } else { self.manifest.checkpoint()? };
        self.staged = std::mem::take(&mut self.open);
        let settled = Runs::from_unsorted(&mut self.renamed);
        self.renamed.clear();
        let bytes = std::mem::take(&mut self.renamed_bytes);
        Ok(CheckpointResult {
            settled,
            bytes,
            staged: self.staged.sequences(),
            manifest,
            sync: has_unsynced.then(|| FileSystemSync(Arc::clone(&self.stage))),
            ..CheckpointResult::default()
        })
    }

    fn committed(&mut self, _number: Option<ShardNumber>) -> Result<Vec<RefusedObject>> {
        self.remove_refused()?;
        self.rename_all()
    }

    fn has_unsettled(&self) -> bool {
        !(self.open.objects.is_empty()
            && self.staged.objects.is_empty()
            && self.renamed.is_empty()
            && self.refused.is_empty()
            && self.refused_before.is_empty())
    }
}

/// Result of a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameResult {
    /// The object is in place.
    Done,
    /// The staged file is missing, because it was already renamed.
    Missing,
    /// The object cannot have this name.
    Refused(FailureKind),
}

/// Destination folder. Creates the folders that names contain, and keeps them open.
#[derive(Debug)]
pub struct DestinationFolder {
    root: OwnedFd,
    root_path: PathBuf,
    folders: HashMap<Box<[u8]>, OwnedFd>,
    path: Vec<u8>,
}

impl DestinationFolder {
    /// Opens the folder of a destination.
    pub fn open(root: &Path) -> Result<Self> {
        let opened =
            durable::open_folder(root).map_err(|error| Error::storage("open the folder", root, error))?;
        Ok(DestinationFolder {
            root: opened,
            root_path: root.to_owned(),
            folders: HashMap::new(),
            path: Vec::new(),
        })
    }

    /// Renames a staged file to its final name.
    pub fn put(&mut self, stage: &Stage, sequence: Sequence, name: &[u8]) -> Result<RenameResult> {
        let mut path = std::mem::take(&mut self.path);
        let placed = match name::to_path(name, &mut path) {
            Ok(()) => self.put_at(stage, sequence, &path),
            Err(_) => Ok(RenameResult::Refused(FailureKind::Name)),
        };
        self.path = path;
        placed
    }

    fn put_at(&mut self, stage: &Stage, sequence: Sequence, path: &[u8]) -> Result<RenameResult> {
        let (folder, leaf) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&path[..0], path),
        };
        let renamed = self.folder(folder).and_then(|folder| stage.rename(sequence, folder, leaf));
        match renamed {
            Ok(()) => Ok(RenameResult::Done),
            Err(Errno::NOENT) if !stage.has(sequence) => Ok(RenameResult::Missing),
            // The open folder was removed, so try once more with a new one.
            Err(Errno::NOENT) if self.folders.remove(folder).is_some() => self.put_at(stage, sequence, path),
            Err(Errno::EXIST | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP) => {
                Ok(RenameResult::Refused(FailureKind::NameTaken))
            }
            Err(Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ) => {
                Ok(RenameResult::Refused(FailureKind::Name))
            }
            Err(error) => {
                let shown = self.root_path.join(name::for_display(path));
                Err(cannot_put(&shown, error))
            }
        }
    }

    fn folder(&mut self, path: &[u8]) -> durable::ErrnoResult<BorrowedFd<'_>> {
        if path.is_empty() {
            return Ok(self.root.as_fd());
        }
        if !self.folders.contains_key(path) {
            if self.folders.len() >= OPEN_FOLDERS_MAX {
                self.folders.clear();
            }
            let opened = durable::make_folders_beneath(self.root.as_fd(), path)?;
            self.folders.insert(path.into(), opened);
        }
        self.folders.get(path).map(AsFd::as_fd).ok_or(Errno::NOENT)
    }

    /// Returns the size of the file with this name. `None` if there is no such file.
    pub fn size(&self, name: &[u8]) -> Option<u64> {
        let mut path = Vec::new();
        name::to_path(name, &mut path).ok()?;
        durable::file_size(self.root.as_fd(), &path).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::FetchedBody;
    use super::*;
    use fetchmill_model::object::Facts;
    use fetchmill_model::text::file_name::FileName;

    struct World {
        _folder: tempfile::TempDir,
        dest: PathBuf,
        stage: PathBuf,
        sink: FilesSink,
    }

    fn world() -> World {
        let folder = tempfile::tempdir().unwrap();
        let dest = folder.path().join("dest");
        let stage = dest.join(".fetchmill/stage/0");
        std::fs::create_dir(&dest).unwrap();
        let manifest =
            ManifestWriter::new_unsealed(&dest.join(".fetchmill/manifests"), FileName::of_own("0"));
        let sink = FilesSink::open(&dest, Arc::new(Stage::open(&stage).unwrap()), manifest, true).unwrap();
        World { _folder: folder, dest, stage, sink }
    }

    fn staged_files(world: &World) -> usize {
        let folders = std::fs::read_dir(&world.stage).unwrap();
        folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
    }

    fn block(objects: &[(u64, &str, &str)]) -> Block {
        let mut block = Block::default();
        for (sequence, name, body) in objects {
            let body = FetchedBody::Bytes(body.as_bytes());
            block.push_fetched(
                *sequence,
                1,
                name.as_bytes(),
                body,
                &Facts { status: 200, ..Facts::default() },
            );
        }
        block
    }

    #[test]
    fn objects_appear_only_when_their_window_is_journaled() {
        let mut world = world();
        world.sink.write(&block(&[(7, "a", "A"), (8, "b/c", "C")]), 0).unwrap();

        let durable = world.sink.checkpoint(false).unwrap();
        assert_eq!(durable.staged.numbers().collect::<Vec<_>>(), [7, 8]);
        assert!(durable.settled.is_empty());
        assert!(!world.dest.join("a").exists());

        assert_eq!(world.sink.committed(None).unwrap(), []);
        assert_eq!(std::fs::read(world.dest.join("b/c")).unwrap(), b"C");
        let durable = world.sink.checkpoint(false).unwrap();
        assert_eq!((durable.settled.count(), durable.bytes), (2, 2));
        world.sink.committed(None).unwrap();
        assert!(!world.sink.has_unsettled());
        assert_eq!(staged_files(&world), 0);
    }

    #[test]
    fn the_first_of_two_names_stays() {
        let mut world = world();
        let objects = [(1, "a", "1"), (2, "a", "2"), (3, "a/b", "3"), (4, "d/e", "4"), (5, "d", "5")];
        world.sink.write(&block(&objects), 0).unwrap();
        world.sink.checkpoint(false).unwrap();

        let refused = world.sink.committed(None).unwrap();

        let sequences: Vec<_> = refused.iter().map(|refused| (refused.sequence, refused.kind)).collect();
        assert_eq!(sequences, [2, 3, 5].map(|sequence| (sequence, FailureKind::NameTaken)));
        assert_eq!(std::fs::read(world.dest.join("a")).unwrap(), b"1");
        assert_eq!(staged_files(&world), 3, "kept until the receipt is journaled");
        for _ in 0..2 {
            world.sink.checkpoint(false).unwrap();
            world.sink.committed(None).unwrap();
        }
        assert_eq!(staged_files(&world), 0);
        assert!(!world.sink.has_unsettled());
    }

    #[test]
    fn a_folder_that_is_removed_meanwhile_is_made_again() {
        let mut world = world();
        for (sequence, name) in [(1, "d/a"), (2, "d/b")] {
            world.sink.write(&block(&[(sequence, name, "x")]), 0).unwrap();
            world.sink.checkpoint(false).unwrap();
            world.sink.committed(None).unwrap();
            assert!(world.dest.join(name).exists());
            std::fs::remove_dir_all(world.dest.join("d")).unwrap();
        }
    }

    #[test]
    fn a_staged_file_that_is_missing_is_told_also_in_a_folder() {
        let mut world = world();

        for name in [&b"a"[..], b"d/e/f"] {
            let placed = world.sink.places.put(&world.sink.stage, 7, name).unwrap();
            assert_eq!(placed, RenameResult::Missing, "{}", name::for_display(name));
        }
    }

    #[test]
    fn a_link_that_is_planted_is_not_followed() {
        let mut world = world();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), world.dest.join("d")).unwrap();
        world.sink.write(&block(&[(1, "d/a", "x")]), 0).unwrap();
        world.sink.checkpoint(false).unwrap();

        assert_eq!(world.sink.committed(None).unwrap()[0].kind, FailureKind::NameTaken);
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
