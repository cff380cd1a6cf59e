//! Code shared by all formats in which web servers list folders.
//!
//! Folders are walked depth-first. A folder is split into pages while it is read, so memory does not depend on its
//! size. If the connection breaks, the folder is read again from its start. Entries that are already in the journal are
//! skipped after a digest has proved that they are unchanged.

use super::{BadPage, ListedPage, OriginUrl, PageCursor, PendingFolder};
use crate::error::Error;
use crate::limits::{FOLDER_DEPTH_MAX, FOLDER_PAGE_TARGETS};
use crate::name::url_name::object_name;
use crate::outcome::skips::{SkipReason, Skips};
use crate::target::Names;
use crate::target::entry::{ExpectedObject, ListEntry};
use crate::target::source_metadata::{ListedTime, SizedName};

/// Returns the path of a folder's listing.
pub fn folder_path(origin: &OriginUrl, folder: &[u8]) -> String {
    let mut path = origin.path().as_bytes().to_vec();
    path.push(b'/');
    if !folder.is_empty() {
        crate::name::encode(folder, &mut path);
        path.push(b'/');
    }
    // Encoded names consist of ASCII only.
    String::from_utf8(path).unwrap_or_default()
}

/// Reason why a folder was not read to its end.
#[derive(Debug)]
pub enum FolderReadError {
    /// The reply is not a listing.
    Page(BadPage),
    /// The reply is an HTML page that does not identify itself as an index.
    NotIndex(String),
    /// The connection failed while the folder was being read. The folder can be read again.
    Io(std::io::Error),
    /// The reply arrived completely, but the page in it is incomplete. The folder can be read again.
    Cut(&'static str),
    /// The callback `each` failed.
    Job(Error),
}

/// The size and time of a file, as listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FileFacts {
    /// Size in bytes, if the listing states the exact size.
    pub(super) size: Option<u64>,
    pub(super) modified: Option<ListedTime>,
}

/// Kind of an entry in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// A file.
    File(FileFacts),
    /// A folder.
    Folder,
    /// An entry that is neither a file nor a folder. It is counted as skipped.
    LeftOut(SkipReason),
    /// A target from a sitemap, identified by its URL.
    Url(Option<ListedTime>),
    /// A target that is identified by its URL. Its name is made from the URL ([`object_name`]).
    Object,
    /// Another sitemap, identified by its path.
    Sitemap,
}

impl EntryKind {
    /// Returns whether this is a file of which only the name is known.
    pub(super) fn tells_nothing(self) -> bool {
        self == EntryKind::File(FileFacts::default())
    }
}

/// Collects a folder's entries into pages.
pub(super) struct FolderPages<'f, E> {
    folder: &'f PendingFolder,
    each: E,
    read: u64,
    digest: u64,
    names: Names,
    /// Reused buffer. Contains the path before a file's name, or an entry with a URL.
    scratch: Vec<u8>,
    found: Names,
    refused: Names,
    skipped: Skips,
    /// Whether the entries are links, which can lead anywhere below the folder.
    is_of_links: bool,
}

impl<'f, E: FnMut(ListedPage) -> Result<(), Error>> FolderPages<'f, E> {
    pub(super) fn new(folder: &'f PendingFolder, each: E) -> Self {
        FolderPages {
            folder,
            each,
            read: 0,
            digest: 0,
            names: Names::default(),
            scratch: Vec::new(),
            found: Names::default(),
            refused: Names::default(),
            skipped: Skips::default(),
            is_of_links: false,
        }
    }

    /// Creates pages of links. A link can lead deeper into the folder, or to an entry that another folder also
    /// contains.
    pub(super) fn of_links(folder: &'f PendingFolder, each: E) -> Self {
        FolderPages { is_of_links: true, ..FolderPages::new(folder, each) }
    }

    /// Adds the next entry. Passes on the page when it is full.
    pub(super) fn push(&mut self, name: &[u8], kind: EntryKind) -> Result<(), FolderReadError> {
        self.add(name, kind).map_err(FolderReadError::Page)?;
        if self.names.len() + self.found.len() + self.refused.len() < FOLDER_PAGE_TARGETS {
            return Ok(());
        }
        self.hand_over(false).map_err(FolderReadError::Job)
    }

    fn add(&mut self, name: &[u8], kind: EntryKind) -> Result<(), BadPage> {
        self.read += 1;
        self.digest = xxhash_rust::xxh3::xxh3_64_with_seed(name, self.digest);
        if self.read <= self.folder.read {
            return self.must_be_the_same();
        }
        let path = self.folder.path.as_slice();
        let between: &[u8] = if path.is_empty() { b"" } else { b"/" };
        let parts = [path, between, name];
        match kind {
            EntryKind::File(FileFacts { size, modified }) => {
                self.scratch.clear();
                SizedName::prefix(size, modified, &mut self.scratch);
                self.names.push_parts(&[&self.scratch, path, between, name]);
            }
            EntryKind::Folder if self.may_enter(name) => self.found.push_parts(&parts),
            EntryKind::Folder => self.refused.push_parts(&parts),
            EntryKind::LeftOut(reason) => self.skipped.add(reason, name),
            EntryKind::Url(modified) => {
                self.scratch.clear();
                let expected = ExpectedObject { modified, ..ExpectedObject::default() };
                ListEntry { url: name, expected, ..ListEntry::default() }.write(&mut self.scratch);
                self.names.push(&self.scratch);
            }
            EntryKind::Object => {
                self.scratch.clear();
                let key = object_name(name);
                ListEntry { url: name, key: key.as_deref(), ..ListEntry::default() }.write(&mut self.scratch);
                self.names.push(&self.scratch);
            }
            EntryKind::Sitemap => self.found.push(name),
        }
        Ok(())
    }

    fn must_be_the_same(&self) -> Result<(), BadPage> {
        if self.read == self.folder.read && self.digest != self.folder.digest {
            return Err(BadPage("it changed while being read".into()));
        }
        Ok(())
    }

    fn may_enter(&self, name: &[u8]) -> bool {
        let path = &self.folder.path;
        let above = if path.is_empty() { 0 } else { 1 + memchr::memchr_iter(b'/', path).count() };
        let below = 1 + memchr::memchr_iter(b'/', name).count();
        above + below <= FOLDER_DEPTH_MAX
            && (below == 1 || self.is_of_links)
            && !name.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"" | b"." | b".."))
            && !name.contains(&0)
    }

    fn hand_over(&mut self, is_last: bool) -> Result<(), Error> {
        let cursor = PageCursor::Folder {
            path: self.folder.path.clone(),
            found: std::mem::take(&mut self.found),
            refused: std::mem::take(&mut self.refused),
            read: self.read,
            digest: self.digest,
            is_last,
            names_once: self.is_of_links,
        };
        let names = std::mem::take(&mut self.names);
        let skipped = std::mem::take(&mut self.skipped);
        (self.each)(ListedPage { names, skipped, total: None, cursor })
    }

    /// Passes on the last page at the end of the listing.
    pub(super) fn finish(&mut self) -> Result<(), FolderReadError> {
        if self.read < self.folder.read {
            return Err(FolderReadError::Page(BadPage("it changed while being read".into())));
        }
        self.hand_over(true).map_err(FolderReadError::Job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_asked_for_with_a_slash_and_encoded() {
        let origin = OriginUrl::parse("http://a/base/").unwrap();

        assert_eq!(folder_path(&origin, b""), "/base/");
        assert_eq!(folder_path(&origin, b"a b/\xff%20"), "/base/a%20b/%FF%2520/");
    }
}
