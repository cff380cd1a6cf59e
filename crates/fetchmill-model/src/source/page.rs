//! A page of a listing, and the position after it.

use super::position::ListPosition;
use crate::outcome::skips::Skips;
use crate::target::Names;

/// The cursor after a page, from which the listing continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageCursor {
    /// A page of the list/get API.
    Marker {
        /// Marker that led to this page. `None` for the first page.
        from: Option<String>,
        /// Marker of the next page. `None` after the last page.
        next: Option<String>,
    },
    /// A JSON page of another API.
    Json {
        /// URL of the page. No two pages are allowed to have the same URL.
        url: String,
        /// Digest of the page's items. No two pages are allowed to have the same digest. `None` for a page without
        /// items.
        items_digest: Option<u128>,
        /// Link to the next page: a marker, a URL or a number. `None` after the last page.
        next: Option<String>,
        /// URL of the next page.
        next_url: Option<String>,
    },
    /// A piece of a folder.
    Folder {
        /// Path of the folder.
        path: Vec<u8>,
        /// Folders found in this piece, with their full paths.
        found: Names,
        /// Folders that are not entered because they are nested too deeply or have an invalid name. Each of them
        /// becomes a failed target with the failure kind `listing`.
        refused: Names,
        /// Number of entries read from the folder so far.
        read: u64,
        /// Digest of the entries read so far. If the folder is read again, it must begin with the same entries.
        digest: u64,
        /// Whether this piece is the last one of the folder.
        is_last: bool,
        /// Whether other folders may contain the same names. If so, the journal keeps a digest of each name.
        names_once: bool,
    },
    /// A piece of a range of keys. Several ranges are listed in parallel.
    Keys {
        /// Number of the range.
        range: u64,
        /// Last listed key of the range.
        after: Vec<u8>,
        /// Whether this piece is the last one of the range.
        is_last: bool,
    },
    /// A piece of a list.
    List {
        /// Position after the piece.
        position: ListPosition,
        /// Whether this piece is the last one of the list.
        is_last: bool,
    },
}

/// A page of a listing. Its targets have no sequence numbers yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPage {
    /// The targets.
    pub names: Names,
    /// Entries that were skipped.
    pub skipped: Skips,
    /// Number of objects in the whole listing, if the listing states the number.
    pub total: Option<u64>,
    /// Position for the journal.
    pub cursor: PageCursor,
}

/// A folder whose listing is not complete yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PendingFolder {
    /// Path without leading or trailing slashes. It is empty for the top folder.
    pub path: Vec<u8>,
    /// Number of pages that lead to this folder. It is 0 for the top folder.
    pub depth: u64,
    /// Number of entries that were read. See [`PageCursor::Folder`].
    pub read: u64,
    /// Digest of the entries that were read. See [`PageCursor::Folder`].
    pub digest: u64,
}

/// A range of a bucket's keys whose listing is not complete yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Number of the range in the journal.
    pub id: u64,
    /// The range starts after this key. It is empty for the first range.
    pub after: Vec<u8>,
    /// Last key of the range. `None` if the range extends to the end of the bucket.
    pub until: Option<Vec<u8>>,
}

/// Position in a bucket's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketCursor {
    /// Continue in these ranges, each after its last listed key.
    Ranges(Vec<KeyRange>),
    /// Continue at the page with this token, or at the first page if there is no token. Used if the keys are not in
    /// ascending order.
    Token(Option<String>),
}

/// Reason why a document is not a page of the listing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPage(pub String);
