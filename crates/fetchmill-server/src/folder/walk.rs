//! Lists a folder page by page, with names in byte order.
//!
//! A walk is a stack of folders with a position in each. Each folder is read and sorted when the walk enters it. A
//! marker is the last name of its page, in hexadecimal so that clients cannot corrupt it. Every walk can be restored
//! from its marker, even after a restart.
//!
//! The walks of the latest markers are kept, so that they do not have to be restored. They share their folders, so a
//! page costs only its names. A folder with a million files is read once per listing, and takes about 40 MB during the
//! walk.

use std::collections::{HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, OFlags};
use rustix::io::Errno;

use super::beneath::{is_safe, is_shown, open_beneath};
use crate::content::{ContentError, Page};
use crate::hash;

/// Number of walks to keep.
const WALKS_MAX: usize = 8;
/// Maximum number of distinct unlisted names that are counted.
const UNLISTED_MAX: usize = 1 << 20;

/// The walks of the latest markers.
#[derive(Debug, Default)]
pub(super) struct WalkCache {
    latest: Mutex<VecDeque<(String, FolderWalk)>>,
    unlisted: UnlistedNames,
    hidden: bool,
}

impl WalkCache {
    pub(super) fn new(hidden: bool) -> Self {
        WalkCache { hidden, ..WalkCache::default() }
    }

    pub(super) fn list(
        &self,
        root: &OwnedFd,
        marker: Option<&str>,
        limit: usize,
        page: &mut Page<'_>,
    ) -> Result<(), ContentError> {
        let reader = FolderReader { root, unlisted: &self.unlisted, hidden: self.hidden };
        let mut walk = match marker {
            None => FolderWalk::start(&reader)?,
            Some(marker) => match self.kept(marker) {
                Some(walk) => walk,
                None => FolderWalk::after(&from_marker(marker).ok_or(ContentError::UnknownMarker)?, &reader)?,
            },
        };
        if let Some(total) = walk.total() {
            page.total(total);
        }
        let mut last = String::new();
        let mut left = limit;
        while walk.settle(&reader)? {
            if left == 0 {
                let next = to_marker(&last);
                self.keep(next.clone(), walk);
                page.next_marker(next);
                break;
            }
            left -= 1;
            walk.take(&mut last);
            page.name(&last);
        }
        Ok(())
    }

    pub(super) fn unlisted(&self) -> u64 {
        self.unlisted.count()
    }

    /// Returns a copy of a walk. The original is kept, because the same page may be requested again.
    fn kept(&self, marker: &str) -> Option<FolderWalk> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.iter().find(|(kept, _)| kept == marker).map(|(_, walk)| walk.clone())
    }

    fn keep(&self, marker: String, walk: FolderWalk) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.retain(|(kept, _)| *kept != marker);
        latest.push_front((marker, walk));
        latest.truncate(WALKS_MAX);
    }
}

/// A position in the tree, just before a name.
#[derive(Debug, Clone)]
struct FolderWalk {
    /// Path of the innermost folder. It ends with `/`, unless the folder is the root.
    path: String,
    stack: Vec<Level>,
}

#[derive(Debug, Clone)]
struct Level {
    entries: Arc<Entries>,
    at: usize,
    /// Length of the path of this level's folder.
    path_length: usize,
}

impl FolderWalk {
    fn start(reader: &FolderReader<'_>) -> Result<Self, ContentError> {
        let mut walk = FolderWalk { path: String::new(), stack: Vec::new() };
        walk.enter("", reader)?;
        Ok(walk)
    }

    /// Returns the walk that continues after `last`. This name may no longer exist.
    fn after(last: &str, reader: &FolderReader<'_>) -> Result<Self, ContentError> {
        let mut walk = FolderWalk::start(reader)?;
        for segment in last.split_inclusive('/') {
            let Some(level) = walk.stack.last_mut() else { break };
            let found = level.entries.search(segment);
            level.at = found.map_or_else(|place| place, |place| place + 1);
            if found.is_err() || !segment.ends_with('/') || !walk.enter(segment, reader)? {
                break;
            }
        }
        Ok(walk)
    }

    /// Returns the number of files if the folder has no subfolders. In this case, all names are in memory.
    fn total(&self) -> Option<u64> {
        self.stack.first().filter(|top| !top.entries.has_folders).map(|top| top.entries.places.len() as u64)
    }

    /// Moves to the next file without taking it. Returns `false` at the end.
    fn settle(&mut self, reader: &FolderReader<'_>) -> Result<bool, ContentError> {
        while let Some(level) = self.stack.last_mut() {
            self.path.truncate(level.path_length);
            let entries = Arc::clone(&level.entries);
            let Some(name) = entries.get(level.at) else {
                self.stack.pop();
                continue;
            };
            if !name.ends_with('/') {
                return Ok(true);
            }
            level.at += 1;
            self.enter(name, reader)?;
        }
        Ok(false)
    }

    /// Takes the file at the current position.
    fn take(&mut self, name: &mut String) {
        if let Some(level) = self.stack.last_mut() {
            name.clear();
            name.push_str(&self.path);
            name.push_str(level.entries.get(level.at).unwrap_or_default());
            level.at += 1;
        }
    }

    /// Enters a subfolder of the innermost folder. Returns `false` if the subfolder no longer exists or cannot be read.
    fn enter(&mut self, name: &str, reader: &FolderReader<'_>) -> Result<bool, ContentError> {
        self.path.push_str(name);
        let entries = reader.read(&self.path)?;
        let entered = entries.is_some();
        if let Some(entries) = entries {
            self.stack.push(Level { entries: Arc::new(entries), at: 0, path_length: self.path.len() });
        }
        Ok(entered)
    }
}

/// Sorted names of a folder, in a single allocation. Folder names end with `/`, so that whole paths are in byte order.
#[derive(Debug, Default)]
struct Entries {
    text: String,
    places: Vec<(usize, u16)>,
    has_folders: bool,
}

impl Entries {
    fn push(&mut self, name: &str, is_folder: bool) {
        // Names have at most 255 bytes (`NAME_MAX`).
        self.places.push((self.text.len(), (name.len() + usize::from(is_folder)) as u16));
        self.text.push_str(name);
        if is_folder {
            self.text.push('/');
            self.has_folders = true;
        }
    }

    fn sort(&mut self) {
        let Entries { text, places, .. } = self;
        places.sort_unstable_by_key(|place| slice(text, *place));
    }

    fn get(&self, position: usize) -> Option<&str> {
        self.places.get(position).map(|place| slice(&self.text, *place))
    }

    fn search(&self, name: &str) -> Result<usize, usize> {
        self.places.binary_search_by(|place| slice(&self.text, *place).cmp(name))
    }
}

fn slice(text: &str, (start, length): (usize, u16)) -> &str {
    &text[start..start + usize::from(length)]
}

/// Reads folders.
struct FolderReader<'a> {
    root: &'a OwnedFd,
    unlisted: &'a UnlistedNames,
    hidden: bool,
}

impl FolderReader<'_> {
    /// Returns the entries of a folder. `None` if the folder no longer exists or is not readable.
    fn read(&self, path: &str) -> Result<Option<Entries>, ContentError> {
        let opened = open_beneath(self.root, if path.is_empty() { "." } else { path }, OFlags::DIRECTORY);
        let fd = match opened {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !path.is_empty() => return Ok(None),
            Err(Errno::ACCESS | Errno::NAMETOOLONG) if !path.is_empty() => {
                self.unlisted.note(path, b"");
                return Ok(None);
            }
            Err(errno) => return Err(ContentError::Io(errno.into())),
        };
        let mut entries = Entries::default();
        for entry in Dir::read_from(&fd).map_err(std::io::Error::from)? {
            let entry = entry.map_err(std::io::Error::from)?;
            self.add(path, &fd, &entry, &mut entries);
        }
        entries.sort();
        Ok(Some(entries))
    }

    fn add(&self, path: &str, folder: &OwnedFd, entry: &DirEntry, entries: &mut Entries) {
        let name = entry.file_name().to_bytes();
        let is_folder = match kind(folder, entry) {
            FileType::Directory if matches!(name, b"." | b"..") => return,
            FileType::Directory => true,
            FileType::RegularFile => false,
            _ => return,
        };
        match std::str::from_utf8(name) {
            Ok(name) if !is_shown(name, self.hidden) => {}
            Ok(name) => entries.push(name, is_folder),
            Err(_) => self.unlisted.note(path, name),
        }
    }
}

/// Returns the kind of an entry. Some file systems do not store it in the folder.
fn kind(folder: &OwnedFd, entry: &DirEntry) -> FileType {
    match entry.file_type() {
        FileType::Unknown => rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        known => known,
    }
}

/// Hashes of names that no page can contain. They prevent double counting, because folders are read more than once.
#[derive(Debug, Default)]
struct UnlistedNames(Mutex<HashSet<u64>>);

impl UnlistedNames {
    fn note(&self, path: &str, name: &[u8]) {
        let mut hashes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hashes.len() < UNLISTED_MAX {
            hashes.insert(hash::of_bytes(hash::of_bytes(0, path.as_bytes()), name));
        }
    }

    fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }
}

fn to_marker(name: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    name.bytes()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(HEX[usize::from(nibble)]))
        .collect()
}

fn from_marker(marker: &str) -> Option<String> {
    let nibble = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = marker.as_bytes().as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return None;
    }
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect();
    String::from_utf8(bytes?).ok().filter(|name| is_safe(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_lead_back() {
        for name in ["a", "a/b", "ü 文/🦀", "\n"] {
            assert_eq!(from_marker(&to_marker(name)).as_deref(), Some(name));
        }
    }

    #[test]
    fn invented_markers_are_unknown() {
        for marker in ["", "6", "zz", "6A", "ff", "2e2e", "2f", "00"] {
            assert_eq!(from_marker(marker), None, "{marker}");
        }
    }

    #[test]
    fn folders_sort_as_their_paths() {
        let mut entries = Entries::default();
        for (name, is_folder) in [("a", true), ("a-b", false), ("a", false), ("ab", false)] {
            entries.push(name, is_folder);
        }
        entries.sort();

        let names: Vec<_> = (0..4).filter_map(|position| entries.get(position)).collect();
        assert_eq!(names, ["a", "a-b", "a/", "ab"]);
    }
}
