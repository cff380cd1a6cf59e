//! A page as it was listed, and where a listing goes on.

use super::position::ListPosition;
use crate::outcome::skips::Skips;
use crate::target::Names;

/// What a page brings besides names: the cursor behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageCursor {
    /// The list/get API.
    Marker {
        /// The marker that led to this page; none for the first.
        from: Option<String>,
        /// The marker of the next page; none behind the last.
        next: Option<String>,
    },
    /// A page of JSON of another API.
    Json {
        /// Where it was asked for: no page comes twice.
        url: String,
        /// A digest of its items: no other page has the same. None for a page without items.
        items_digest: Option<u128>,
        /// What leads to the next page: a marker, a URL or a number; none behind the last.
        next: Option<String>,
        /// Where that page will be asked for.
        next_url: Option<String>,
    },
    /// A piece of a folder.
    Folder {
        /// The folder that is being read.
        path: Vec<u8>,
        /// Folders that were found in it, with their whole paths.
        found: Names,
        /// Folders that are not entered: too deep, or with a name that is none. Each is failed(listing).
        refused: Names,
        /// Entries read from it so far.
        read: u64,
        /// A digest of these entries: a folder that is read again must begin in the same way.
        digest: u64,
        /// Whether this is its end.
        is_last: bool,
        /// Whether other folders may have the same names: the journal keeps a digest of each.
        names_once: bool,
    },
    /// A piece of a range of keys, whose ranges are listed side by side.
    Keys {
        /// Which range.
        range: u64,
        /// What is listed of it: everything up to this key.
        after: Vec<u8>,
        /// Whether this is the range's end.
        is_last: bool,
    },
    /// A piece of a list.
    List {
        /// Where it ends.
        position: ListPosition,
        /// Whether this is the list's end.
        is_last: bool,
    },
}

/// A page as it was listed; it has no sequence numbers yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPage {
    /// The targets.
    pub names: Names,
    /// Entries that were left out.
    pub skipped: Skips,
    /// How many objects the whole listing has, when it says so.
    pub total: Option<u64>,
    /// What the journal keeps.
    pub cursor: PageCursor,
}

/// A folder that is not yet listed, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PendingFolder {
    /// Its path, without slashes at its ends; empty for the top.
    pub path: Vec<u8>,
    /// How many pages lead to it, one after the other; 0 for the top.
    pub depth: u64,
    /// See [`PageCursor::Folder`].
    pub read: u64,
    /// See [`PageCursor::Folder`].
    pub digest: u64,
}

/// A part of a bucket's keys that is not listed to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Names it in the journal.
    pub id: u64,
    /// It begins behind this key; empty for the first.
    pub after: Vec<u8>,
    /// It ends with this key; none: with the last there is.
    pub until: Option<Vec<u8>>,
}

/// Where the listing of a bucket goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketCursor {
    /// In these ranges, each after its last key.
    Ranges(Vec<KeyRange>),
    /// At the page that this token leads to; none: at the first. The keys do not ascend.
    Token(Option<String>),
}

/// Why a page is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPage(pub String);
