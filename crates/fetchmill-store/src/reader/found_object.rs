//! Results of searching a destination: objects and names.

use super::position::Position;
use fetchmill_model::object::StoredObject;
use fetchmill_model::target::Sequence;

/// Size limit for the names of a page, plus one more name. A listing of ten thousand long names must fit into a reply
/// that clients accept.
pub(super) const PAGE_NAME_BYTES: usize = 1 << 20;

/// An object with the facts that the job has about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObject {
    /// Which target of the job it was; `files` does not know.
    pub sequence: Option<Sequence>,
    /// CRC-32C of the body.
    pub crc32c: u32,
    /// The object.
    pub object: StoredObject,
}

/// A name of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedName {
    /// The name.
    pub name: Vec<u8>,
    /// Bytes of the body; `files` tells when it is asked for.
    pub length: Option<u64>,
    /// Which target of the job it was; `files` does not know.
    pub sequence: Option<Sequence>,
}

/// Some names of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NamesPage {
    /// In the order of storage.
    pub names: Vec<ListedName>,
    /// Where the next page starts, unless this was the last.
    pub next: Option<Position>,
}
