//! Derives the page entry of an object from its stored name.
//!
//! For the listing of a server, the entry is the name. For a list, the entry contains a URL and possibly other values,
//! which a manifest does not store. Such an entry can be derived only if the name is the URL, or if it is the URL
//! without a scheme that is the same in the whole list. The URL in a damaged record is never used, because the URL
//! itself may be damaged.

use std::borrow::Cow;

use crate::journal::{
    FOLDERS, HASH, INDEX_PAGES, JournalSnapshot, KEYS, LINK_PAGES, NAMES, REQUEST_PART, STRIP_PREFIX,
    TRANSFORM, transform_columns,
};
use crate::sink::Format;
use fetchmill_model::name::url_name;
use fetchmill_model::target::entry::{EntryTraits, Naming};
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Prefix of the entry for a listed key without known values ([`fetchmill_model::target::source_metadata`]).
const NOTHING_KNOWN: &str = "\0";
/// Prefix of the entry for a file of unknown size in a server's folder
/// ([`fetchmill_model::target::source_metadata::SizedName`]).
const SIZE_UNKNOWN: &str = "\0\0";

/// Returns whether the targets came from a list, even if the objects have been exported since.
pub fn are_of_list(snapshot: &JournalSnapshot) -> bool {
    snapshot.part("listing").starts_with("list ")
}

/// Returns the request with which the objects were fetched, even if they have been exported since. `None` if it was a
/// plain `GET` of their URLs.
pub fn request_of(snapshot: &JournalSnapshot) -> Option<String> {
    let said = snapshot.part(REQUEST_PART);
    match said {
        "" => snapshot.traits.request.then(|| "own".to_owned()),
        said => Some(said.to_owned()),
    }
}

/// Returns whether names lack the folder in which they were listed, even if the objects have been exported since. Such
/// names do not show where the objects are on the server.
pub fn are_stripped(snapshot: &JournalSnapshot) -> bool {
    !snapshot.part(STRIP_PREFIX).is_empty()
}

/// Rule for deriving the entry of an object from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryOfName {
    /// Part of the entry before the name.
    before: &'static str,
    /// Whether the name comes from a URL and was decoded.
    is_decoded: bool,
}

impl EntryOfName {
    /// The name is the URL.
    pub(super) const URL: EntryOfName = EntryOfName { before: "", is_decoded: false };

    /// Returns the rule for the objects of a job. `None` if their entries cannot be derived.
    pub(super) fn of(snapshot: &JournalSnapshot) -> Option<Self> {
        let is_decoded = are_of_list(snapshot)
            && !is_export(snapshot)
            && snapshot.rules.naming(naming_of_list(snapshot)) == Naming::Path;
        before_name(snapshot).map(|before| EntryOfName { before, is_decoded })
    }

    /// Returns the entry for an object's name.
    pub(super) fn entry(self, name: &[u8]) -> Vec<u8> {
        let name = if self.is_decoded { url_name::to_url(name) } else { Cow::Borrowed(name) };
        [self.before.as_bytes(), &name].concat()
    }
}

/// Returns the part of an entry before the name. `None` if the entry cannot be derived.
fn before_name(snapshot: &JournalSnapshot) -> Option<&'static str> {
    if are_stripped(snapshot) && !is_export(snapshot) {
        return None;
    }
    // An export reads objects by their numbers.
    if snapshot.part("listing") == KEYS && !is_export(snapshot) {
        return Some(NOTHING_KNOWN);
    }
    if matches!(snapshot.part("listing"), FOLDERS | INDEX_PAGES | LINK_PAGES) && !is_export(snapshot) {
        return Some(SIZE_UNKNOWN);
    }
    if !are_of_list(snapshot) || is_export(snapshot) {
        return Some("");
    }
    // The job was started by a release that did not record traits.
    if snapshot.traits == EntryTraits::default() {
        return None;
    }
    // The columns of a transform or a hash do not come from the list.
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

/// Returns whether the job is an export of another job's objects.
pub(super) fn is_export(snapshot: &JournalSnapshot) -> bool {
    snapshot.identity.contains_key("contents")
}

/// Returns how a new job would name the objects of such a list.
fn naming_of_list(snapshot: &JournalSnapshot) -> Naming {
    match (snapshot.part(NAMES), snapshot.part("format")) {
        ("seq", _) => Naming::Number,
        (_, format) if format == Format::Files.name() => Naming::Path,
        _ => Naming::Url,
    }
}
