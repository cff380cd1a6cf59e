//! Results of searching a destination: objects and names.

use super::position::Position;
use fetchmill_model::object::StoredObject;
use fetchmill_model::target::Sequence;

/// Size limit for the names of a page. One more name may follow. A listing of ten thousand long names must fit into a
/// reply that clients accept.
pub(super) const PAGE_NAME_BYTES: usize = 1 << 20;

/// An object, with the facts that the job has about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObject {
    /// Sequence number of the target. `None` for `files`, which does not store it.
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
    /// Bytes of the body. `None` for `files` unless lengths were requested.
    pub length: Option<u64>,
    /// Sequence number of the target. `None` for `files`, which does not store it.
    pub sequence: Option<Sequence>,
}

/// Some names of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NamesPage {
    /// In the order of storage.
    pub names: Vec<ListedName>,
    /// Position of the next page. `None` after the last page.
    pub next: Option<Position>,
}
