//! The files below the destination of a `files` job, ordered by path.
//!
//! A walk is a stack of folders. Each folder is read and sorted when the walk enters it. A folder with a million files
//! is read once, and takes about 40 MB of memory during the walk. The walks of recent pages are cached, so that the
//! next page only has to read its own names. The walk skips the job's own files, and files whose paths do not
//! correspond to names.

use std::collections::VecDeque;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Dir, DirEntry, FileType};
use rustix::io::Errno;

use crate::durable;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::{self, STATE_FOLDER};
use fetchmill_model::object::StoredObject;

/// Maximum number of cached walks.
const WALKS_MAX: usize = 8;

/// Files of a destination.
#[derive(Debug)]
pub(super) struct FileTree {
    root: OwnedFd,
    path: PathBuf,
    latest: Mutex<VecDeque<(Vec<u8>, TreeWalk)>>,
}

impl FileTree {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let root = durable::open_folder(path).map_err(|error| Error::storage("read", path, error))?;
        Ok(FileTree { root, path: path.to_owned(), latest: Mutex::default() })
    }

    /// Returns the object with this name.
    pub(super) fn find(&self, name: &[u8]) -> Result<Option<StoredObject>> {
        let mut path = Vec::new();
        if name::to_path(name, &mut path).is_err() {
            return Ok(None);
        }
        let Some(size) = self.size(&path)? else { return Ok(None) };
        let mut body = Vec::with_capacity(size as usize);
        let read = durable::open_beneath(self.root.as_fd(), &path).map_err(std::io::Error::from);
        match read.and_then(|mut file| file.read_to_end(&mut body)) {
            Ok(_) => Ok(Some(StoredObject { name: name.to_vec(), body, ..StoredObject::default() })),
            Err(error) if is_nothing(Errno::from_io_error(&error)) => Ok(None),
            Err(error) => Err(self.fail(&path, error)),
        }
    }

    /// Returns the size of the object with this name.
    pub(super) fn length(&self, name: &[u8]) -> Result<Option<u64>> {
        let mut path = Vec::new();
        if name::to_path(name, &mut path).is_err() { Ok(None) } else { self.size(&path) }
    }

    /// Returns the size of a regular file.
    fn size(&self, path: &[u8]) -> Result<Option<u64>> {
        match rustix::fs::statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Ok(Some(u64::try_from(stat.st_size).unwrap_or(0)))
            }
            Ok(_) => Ok(None),
            Err(error) if is_nothing(Some(error)) => Ok(None),
            Err(error) => Err(self.fail(path, error)),
        }
    }

    fn fail(&self, path: &[u8], error: impl Into<std::io::Error>) -> Error {
        use std::os::unix::ffi::OsStrExt as _;
        Error::storage("read", self.path.join(std::ffi::OsStr::from_bytes(path)), error)
    }

    /// Returns paths and names after `path` until `take` accepts no more. Also returns the path after which to
    /// continue, unless the end was reached.
    pub(super) fn names(
        &self,
        behind: Option<&[u8]>,
        mut take: impl FnMut(Vec<u8>) -> Result<bool>,
    ) -> Result<Option<Vec<u8>>> {
        let mut walk = match behind {
            None => TreeWalk::start(self)?,
            Some(path) => match self.kept(path) {
                Some(walk) => walk,
                None => TreeWalk::behind(path, self)?,
            },
        };
        let mut last = Vec::new();
        let mut is_full = false;
        while walk.settle(self)? {
            if is_full {
                self.keep(last.clone(), walk);
                return Ok(Some(last));
            }
            walk.take(&mut last);
            if let Some(name) = name::from_path(&last) {
                is_full = take(name)?;
            }
        }
        Ok(None)
    }

    /// Returns a copy of the cached walk. The original stays in the cache, because the same page may be requested
    /// again.
    fn kept(&self, path: &[u8]) -> Option<TreeWalk> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.iter().find(|(kept, _)| kept == path).map(|(_, walk)| walk.clone())
    }

    fn keep(&self, path: Vec<u8>, walk: TreeWalk) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.retain(|(kept, _)| *kept != path);
        latest.push_front((path, walk));
        latest.truncate(WALKS_MAX);
    }

    /// Returns the entries of a folder. `None` if the folder no longer exists.
    fn read(&self, path: &[u8]) -> Result<Option<FolderEntries>> {
        let shown = if path.is_empty() { b"." } else { path };
        let folder = match durable::open_folder_beneath(self.root.as_fd(), shown) {
            Ok(folder) => folder,
            Err(error) if !path.is_empty() && is_nothing(Some(error)) => return Ok(None),
            Err(error) => return Err(self.fail(path, error)),
        };
        let mut entries = FolderEntries::default();
        let fail = |error: Errno| self.fail(path, error);
        for entry in Dir::read_from(&folder).map_err(fail)? {
            add(path.is_empty(), &folder, &entry.map_err(fail)?, &mut entries);
        }
        entries.sort();
        Ok(Some(entries))
    }
}

/// Returns whether an error means that the file does not exist.
fn is_nothing(error: Option<Errno>) -> bool {
    matches!(error, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG))
}

fn add(is_root: bool, folder: &OwnedFd, entry: &DirEntry, entries: &mut FolderEntries) {
    let name = entry.file_name().to_bytes();
    match kind(folder, entry) {
        FileType::Directory if matches!(name, b"." | b"..") => {}
        FileType::Directory if is_root && name == STATE_FOLDER.as_bytes() => {}
        FileType::Directory => entries.push(name, true),
        FileType::RegularFile => entries.push(name, false),
        _ => {}
    }
}

/// Returns the type of an entry. Some file systems do not store the type in the folder.
fn kind(folder: &OwnedFd, entry: &DirEntry) -> FileType {
    match entry.file_type() {
        FileType::Unknown => rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        known => known,
    }
}

/// A position in the tree, just before a file.
#[derive(Debug, Clone, Default)]
struct TreeWalk {
    /// Path of the innermost folder. It ends with `/`, unless the folder is the root.
    path: Vec<u8>,
    stack: Vec<TreeLevel>,
}

#[derive(Debug, Clone)]
struct TreeLevel {
    entries: Arc<FolderEntries>,
    position: usize,
    /// Length of the path of this level's folder.
    path_length: usize,
}

impl TreeWalk {
    fn start(tree: &FileTree) -> Result<Self> {
        let mut walk = TreeWalk::default();
        walk.enter(b"", tree)?;
        Ok(walk)
    }

    /// Returns the walk that continues after a path. The path may no longer exist.
    fn behind(path: &[u8], tree: &FileTree) -> Result<Self> {
        let mut walk = TreeWalk::start(tree)?;
        for segment in path.split_inclusive(|byte| *byte == b'/') {
            let Some(level) = walk.stack.last_mut() else { break };
            let found = level.entries.search(segment);
            level.position = found.map_or_else(|place| place, |place| place + 1);
            if found.is_err() || !segment.ends_with(b"/") || !walk.enter(segment, tree)? {
                break;
            }
        }
        Ok(walk)
    }

    /// Moves to the next file without taking it. Returns `false` at the end.
    fn settle(&mut self, tree: &FileTree) -> Result<bool> {
        while let Some(level) = self.stack.last_mut() {
            self.path.truncate(level.path_length);
            let entries = Arc::clone(&level.entries);
            let Some(name) = entries.get(level.position) else {
                self.stack.pop();
                continue;
            };
            if !name.ends_with(b"/") {
                return Ok(true);
            }
            level.position += 1;
            self.enter(name, tree)?;
        }
        Ok(false)
    }

    /// Takes the file that the walk has moved to.
    fn take(&mut self, path: &mut Vec<u8>) {
        if let Some(level) = self.stack.last_mut() {
            path.clear();
            path.extend_from_slice(&self.path);
            path.extend_from_slice(level.entries.get(level.position).unwrap_or_default());
            level.position += 1;
        }
    }

    /// Enters a subfolder of the innermost folder. Returns `false` if the subfolder no longer exists.
    fn enter(&mut self, name: &[u8], tree: &FileTree) -> Result<bool> {
        self.path.extend_from_slice(name);
        let entries = tree.read(&self.path)?;
        let entered = entries.is_some();
        if let Some(entries) = entries {
            let level = TreeLevel { entries: Arc::new(entries), position: 0, path_length: self.path.len() };
            self.stack.push(level);
        }
        Ok(entered)
    }
}

/// Sorted names of a folder, in a single allocation. Folder names end with `/`, so that whole paths are sorted
/// bytewise.
#[derive(Debug, Default)]
struct FolderEntries {
    names: Vec<u8>,
    places: Vec<(usize, u16)>,
}

impl FolderEntries {
    fn push(&mut self, name: &[u8], is_folder: bool) {
        // Names are at most 255 bytes long (`NAME_MAX`).
        self.places.push((self.names.len(), (name.len() + usize::from(is_folder)) as u16));
        self.names.extend_from_slice(name);
        if is_folder {
            self.names.push(b'/');
        }
    }

    fn sort(&mut self) {
        let FolderEntries { names, places } = self;
        places.sort_unstable_by_key(|place| slice(names, *place));
    }

    fn get(&self, position: usize) -> Option<&[u8]> {
        self.places.get(position).map(|place| slice(&self.names, *place))
    }

    fn search(&self, name: &[u8]) -> std::result::Result<usize, usize> {
        self.places.binary_search_by(|place| slice(&self.names, *place).cmp(name))
    }
}

fn slice(names: &[u8], (start, length): (usize, u16)) -> &[u8] {
    &names[start..start + usize::from(length)]
}
