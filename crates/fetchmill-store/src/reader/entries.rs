//! Finds the page entry of an object from its stored name.
//!
//! For a server's listing the entry is the name. For a list it is a URL and possibly more, and a manifest has none of
//! it. It is known only if the name is the URL, or the URL without the scheme that the whole list shared. A damaged
//! record is not used, because its URL may be the damaged part.

use std::borrow::Cow;

use crate::journal::{
    FOLDERS, HASH, INDEX_PAGES, JournalSnapshot, KEYS, LINK_PAGES, NAMES, REQUEST_PART, STRIP_PREFIX,
    TRANSFORM, transform_columns,
};
use crate::sink::Format;
use fetchmill_model::name::url_name;
use fetchmill_model::target::entry::{EntryTraits, Naming};
use fetchmill_model::target::extra_columns::ExtraColumns;

/// A listed key of which nothing is known but itself: what stands before it ([`fetchmill_model::target::source_metadata`]).
const NOTHING_KNOWN: &str = "\0";
/// The same of a file in a server's folder ([`fetchmill_model::target::source_metadata::SizedName`]).
const SIZE_UNKNOWN: &str = "\0\0";

/// Whether the targets came from a list, also when they were exported since.
pub fn are_of_list(snapshot: &JournalSnapshot) -> bool {
    snapshot.part("listing").starts_with("list ")
}

/// What the objects were asked with when it was no plain `GET` of their URLs, also when they were exported since.
pub fn request_of(snapshot: &JournalSnapshot) -> Option<String> {
    let said = snapshot.part(REQUEST_PART);
    match said {
        "" => snapshot.traits.request.then(|| "own".to_owned()),
        said => Some(said.to_owned()),
    }
}

/// Whether names were listed in a folder that they have lost, also when they were exported since: they do not tell where
/// a server has their objects.
pub fn are_stripped(snapshot: &JournalSnapshot) -> bool {
    !snapshot.part(STRIP_PREFIX).is_empty()
}

/// What leads from the name of an object to its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryOfName {
    /// Stands before it.
    before: &'static str,
    /// The name is made of a URL, and decoded.
    is_decoded: bool,
}

impl EntryOfName {
    /// The URL is the name.
    pub(super) const URL: EntryOfName = EntryOfName { before: "", is_decoded: false };

    /// Of the objects of a job; `None` when nothing tells their entries.
    pub(super) fn of(snapshot: &JournalSnapshot) -> Option<Self> {
        let is_decoded = are_of_list(snapshot)
            && !is_export(snapshot)
            && snapshot.rules.naming(naming_of_list(snapshot)) == Naming::Path;
        before_name(snapshot).map(|before| EntryOfName { before, is_decoded })
    }

    /// The entry of the object with a name.
    pub(super) fn entry(self, name: &[u8]) -> Vec<u8> {
        let name = if self.is_decoded { url_name::to_url(name) } else { Cow::Borrowed(name) };
        [self.before.as_bytes(), &name].concat()
    }
}

/// What stands before a name in its entry. `None` when nothing tells the entry.
fn before_name(snapshot: &JournalSnapshot) -> Option<&'static str> {
    if are_stripped(snapshot) && !is_export(snapshot) {
        return None;
    }
    // What was exported is read again by its number.
    if snapshot.part("listing") == KEYS && !is_export(snapshot) {
        return Some(NOTHING_KNOWN);
    }
    if matches!(snapshot.part("listing"), FOLDERS | INDEX_PAGES | LINK_PAGES) && !is_export(snapshot) {
        return Some(SIZE_UNKNOWN);
    }
    if !are_of_list(snapshot) || is_export(snapshot) {
        return Some("");
    }
    // A job of which this was not noted.
    if snapshot.traits == EntryTraits::default() {
        return None;
    }
    // What a function has filled is not of the list, nor is a hash.
    let made =
        transform_columns(snapshot.part(TRANSFORM)).len() + usize::from(!snapshot.part(HASH).is_empty());
    let has_own = snapshot.traits.key || snapshot.traits.request;
    let has_more = has_own || ExtraColumns::of_identity(&snapshot.identity).kept().len() > made;
    match naming_of_list(snapshot) {
        _ if has_more => None,
        Naming::Path => snapshot.traits.scheme(),
        Naming::Url => Some(""),
        Naming::Number
        | Naming::Extension
        | Naming::EncodedPath
        | Naming::Whole
        | Naming::Sized
        | Naming::Listed
        | Naming::Item => None,
    }
}

/// Whether a job has written another one's objects again.
pub(super) fn is_export(snapshot: &JournalSnapshot) -> bool {
    snapshot.identity.contains_key("contents")
}

/// How a new job names the targets of such a list.
fn naming_of_list(snapshot: &JournalSnapshot) -> Naming {
    match (snapshot.part(NAMES), snapshot.part("format")) {
        ("seq", _) => Naming::Number,
        (_, format) if format == Format::Files.name() => Naming::Path,
        _ => Naming::Url,
    }
}
