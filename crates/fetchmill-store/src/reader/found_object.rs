//! Results of looking up objects and names in a destination.

use super::position::Position;
use fetchmill_model::object::StoredObject;
use fetchmill_model::target::Sequence;

/// Maximum total size of the names of a page, not counting the last name. A listing of ten thousand long names must fit
/// into a reply that clients accept.
pub(super) const PAGE_NAME_BYTES: usize = 1 << 20;

/// An object with its sequence number and checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObject {
    /// Sequence number of the target. `None` for `files`, which does not store sequence numbers.
    pub sequence: Option<Sequence>,
    /// CRC-32C of the body.
    pub crc32c: u32,
    /// The object.
    pub object: StoredObject,
}

/// A listed name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedName {
    /// The name.
    pub name: Vec<u8>,
    /// Size of the body in bytes. `None` for `files` unless lengths were requested.
    pub length: Option<u64>,
    /// Sequence number of the target. `None` for `files`, which does not store sequence numbers.
    pub sequence: Option<Sequence>,
}

/// A page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NamesPage {
    /// Names in storage order.
    pub names: Vec<ListedName>,
    /// Position of the next page. `None` on the last page.
    pub next: Option<Position>,
}
