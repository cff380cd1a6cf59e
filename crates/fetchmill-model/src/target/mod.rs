//! Targets as values: the names in pages, and the slices of pages that are handed out together.

pub mod entry;
pub mod expected_hash;
mod extension;
pub mod extra_columns;
pub mod request;
pub mod source_metadata;
pub mod stored_name;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crate::outcome::FailureKind;
pub use crate::outcome::Sequence;

/// Names that share a single allocation. A page has thousands of names, and a separate allocation for each name would
/// be too expensive.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Names {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Names {
    /// Appends a name. Names are bytes, because a folder on a file server can contain names that are not UTF-8.
    pub fn push(&mut self, name: &[u8]) {
        self.push_parts(&[name]);
    }

    /// Appends a name that consists of parts.
    pub fn push_parts(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.ends.push(self.bytes.len() as u32);
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the memory that the names occupy, in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<u32>()
    }

    /// Returns the name at a position.
    ///
    /// # Panics
    ///
    /// Panics if the position is out of bounds.
    pub fn get(&self, position: usize) -> &[u8] {
        let start = if position == 0 { 0 } else { self.ends[position - 1] as usize };
        &self.bytes[start..self.ends[position] as usize]
    }

    /// Iterates over the names in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|position| self.get(position))
    }

    /// Encodes the names for the journal: first the lengths as little-endian u32, and then the bytes.
    pub fn to_blob(&self) -> Vec<u8> {
        let mut blob = Vec::with_capacity(4 + self.byte_len());
        blob.extend_from_slice(&(self.ends.len() as u32).to_le_bytes());
        for end in &self.ends {
            blob.extend_from_slice(&end.to_le_bytes());
        }
        blob.extend_from_slice(&self.bytes);
        blob
    }

    /// Decodes the output of [`Names::to_blob`]. Returns `None` if the blob is malformed.
    pub fn from_blob(blob: &[u8]) -> Option<Self> {
        let (count, rest) = blob.split_first_chunk::<4>()?;
        let table = (u32::from_le_bytes(*count) as usize).checked_mul(4)?;
        if rest.len() < table {
            return None;
        }
        let (table, bytes) = rest.split_at(table);
        let ends: Vec<u32> = table.as_chunks::<4>().0.iter().map(|end| u32::from_le_bytes(*end)).collect();
        let sorted = ends.is_sorted() && ends.last().copied().unwrap_or(0) as usize == bytes.len();
        sorted.then(|| Names { bytes: bytes.to_vec(), ends })
    }
}

/// Number of bytes taken up by the names of all pages.
pub type LiveBytes = Arc<AtomicUsize>;

/// A page that the journal has made durable.
#[derive(Debug)]
pub struct Page {
    /// Sequence number of the first name.
    pub first: Sequence,
    /// The names, in the order of their sequence numbers.
    pub names: Names,
    live_bytes: Option<LiveBytes>,
}

impl Page {
    /// Creates a page. `live_bytes` must already include the size of the names, which is subtracted when the page is
    /// dropped.
    pub fn new(first: Sequence, names: Names, live_bytes: Option<LiveBytes>) -> Self {
        Page { first, names, live_bytes }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Some(live_bytes) = &self.live_bytes {
            live_bytes.fetch_sub(self.names.byte_len(), Ordering::Relaxed);
        }
    }
}

/// A target that is tried again, separately from its page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingTarget {
    /// Sequence number of the target.
    pub sequence: Sequence,
    /// Name of the target.
    pub name: Box<[u8]>,
    /// Number of counted attempts so far.
    pub attempts: u32,
    /// Failure kind of the last attempt.
    pub kind: FailureKind,
    /// Earliest time of the next attempt, in milliseconds since 1970 UTC. A monotonic time would not work, because the
    /// journal is still used after the machine has been restarted.
    pub not_before: u64,
    /// Time of the first throttling reply, measured on the same clock. 0 if there was none.
    pub throttled_since: u64,
}

/// Targets that a worker takes at the same time.
#[derive(Debug)]
pub enum Batch {
    /// Part of a page, given by positions.
    Page(Arc<Page>, Range<usize>),
    /// Targets of a page whose hosts belong to the same worker, given by their positions.
    Picked(Arc<Page>, Vec<u32>),
    /// Targets that are tried again.
    Retries(Vec<WaitingTarget>),
}

impl Batch {
    /// Returns the number of targets.
    pub fn len(&self) -> usize {
        match self {
            Batch::Page(_, range) => range.len(),
            Batch::Picked(_, positions) => positions.len(),
            Batch::Retries(targets) => targets.len(),
        }
    }

    /// Returns whether there are no targets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sequence number of the first target.
    pub fn first_sequence(&self) -> Option<Sequence> {
        match self {
            Batch::Page(page, range) => {
                range.clone().next().map(|position| page.first + position as Sequence)
            }
            Batch::Picked(page, positions) => {
                positions.first().map(|position| page.first + Sequence::from(*position))
            }
            Batch::Retries(targets) => targets.first().map(|target| target.sequence),
        }
    }
}

/// The targets of a connection, in the order of their replies. Includes the data that is needed to name the targets or
/// to plan them again.
#[derive(Debug, Default)]
pub struct TargetList {
    targets: Vec<ListedTarget>,
    entries: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct ListedTarget {
    sequence: Sequence,
    attempts: u32,
    throttled_since: u64,
    /// Position at which the entry ends. The entry starts where the previous one ends.
    end: u32,
}

impl TargetList {
    /// Adds a target with its entry from a page.
    pub fn push(&mut self, sequence: Sequence, entry: &[u8], attempts: u32, throttled_since: u64) {
        self.entries.extend_from_slice(entry);
        let end = self.entries.len() as u32;
        self.targets.push(ListedTarget { sequence, attempts, throttled_since, end });
    }

    /// Returns the targets as the planner needs them. `not_before` is the time at which they are due.
    pub fn waiting(&self, kind: FailureKind, not_before: u64) -> impl Iterator<Item = WaitingTarget> {
        let mut start = 0;
        self.targets.iter().map(move |target| {
            let name = self.entries[start..target.end as usize].into();
            start = target.end as usize;
            let ListedTarget { sequence, attempts, throttled_since, .. } = *target;
            WaitingTarget { sequence, name, attempts, kind, not_before, throttled_since }
        })
    }

    /// Iterates over the sequence numbers and the entries.
    pub fn iter(&self) -> impl Iterator<Item = (Sequence, &[u8])> {
        let mut start = 0;
        self.targets.iter().map(move |target| {
            let entry = &self.entries[start..target.end as usize];
            start = target.end as usize;
            (target.sequence, entry)
        })
    }

    /// Returns the number of targets.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Returns whether there are no targets.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Returns the memory that the targets occupy, in bytes.
    pub fn memory(&self) -> usize {
        self.entries.len() + self.targets.len() * size_of::<ListedTarget>()
    }

    /// Removes the targets but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.targets.clear();
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_journal() {
        let mut names = Names::default();
        for name in [&b"a"[..], b"", b"b/c", &[0xff, 0x00]] {
            names.push(name);
        }

        assert_eq!(Names::from_blob(&names.to_blob()), Some(names));
    }

    #[test]
    fn a_damaged_blob_is_refused() {
        let mut names = Names::default();
        names.push(b"abc");
        let blob = names.to_blob();

        for length in 0..blob.len() {
            assert_eq!(Names::from_blob(&blob[..length]), None, "cut at {length}");
        }
    }
}
