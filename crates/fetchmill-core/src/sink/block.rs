//! A block: outcomes on their way from a worker to its sink, names and bodies in one buffer.

use std::ops::Range;

use crate::limits::{BLOCK_BYTES, BLOCK_OUTCOMES_MAX};
use crate::object::{Facts, Micros, Seconds};
use crate::outcome::Outcome;
use crate::target::Sequence;

/// Where a body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// In the block.
    Inside(Range<u32>),
    /// In a staging file that carries the target's sequence number as its name: it was too large for memory.
    Spilled(u64),
    /// Not kept; this long.
    Dropped(u64),
}

impl Body {
    /// Bytes of the body.
    pub fn len(&self) -> u64 {
        match self {
            Body::Inside(range) => u64::from(range.end - range.start),
            Body::Spilled(length) | Body::Dropped(length) => *length,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What became of one target.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Which target.
    pub sequence: Sequence,
    /// What became of it.
    pub outcome: Outcome,
    /// The status of the last reply; 0 when there was none.
    pub status: u16,
    /// Attempts that were made.
    pub attempts: u32,
    name: Range<u32>,
    facts: KeptFacts,
    /// Its body when it was fetched.
    pub body: Body,
}

/// The facts of a fetched target besides its status. The values of fields lie behind the name, in this order.
#[derive(Debug, Default, Clone, Copy)]
struct KeptFacts {
    fetched_at: Micros,
    last_modified: Option<Seconds>,
    content_type_length: u16,
    etag_length: u16,
    head_length: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Block {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Block {
    /// Adds a fetched target. A sink that keeps nothing needs no name.
    pub fn push_fetched(
        &mut self,
        sequence: Sequence,
        attempts: u32,
        name: &[u8],
        body: FetchedBody<'_>,
        facts: &Facts<'_>,
    ) {
        let name = self.append(name);
        let kept = self.append_facts(facts);
        let body = match body {
            FetchedBody::Bytes(bytes) => Body::Inside(self.append(bytes)),
            FetchedBody::Spilled(length) => Body::Spilled(length),
            FetchedBody::Dropped(length) => Body::Dropped(length),
        };
        self.entries.push(Entry {
            sequence,
            outcome: Outcome::Fetched,
            status: facts.status,
            attempts,
            name,
            facts: kept,
            body,
        });
    }

    /// A line of a head is at most 16 KiB, so a value's length fits.
    fn append_facts(&mut self, facts: &Facts<'_>) -> KeptFacts {
        let mut append = |value: Option<&[u8]>| self.append(value.unwrap_or_default()).len();
        KeptFacts {
            fetched_at: facts.fetched_at,
            last_modified: facts.last_modified,
            content_type_length: append(facts.content_type) as u16,
            etag_length: append(facts.etag) as u16,
            head_length: append(facts.head) as u32,
        }
    }

    /// Adds a target that was not fetched.
    pub fn push_other(
        &mut self,
        sequence: Sequence,
        outcome: Outcome,
        status: u16,
        attempts: u32,
        name: &[u8],
    ) {
        let name = self.append(name);
        self.entries.push(Entry {
            sequence,
            outcome,
            status,
            attempts,
            name,
            facts: KeptFacts::default(),
            body: Body::Dropped(0),
        });
    }

    fn append(&mut self, bytes: &[u8]) -> Range<u32> {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len() as u32
    }

    /// The outcomes.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The fetched ones from a position on, with their positions.
    pub fn fetched(&self, from: usize) -> impl Iterator<Item = (usize, &Entry)> {
        let entries = self.entries.iter().enumerate().skip(from);
        entries.filter(|(_, entry)| entry.outcome == Outcome::Fetched)
    }

    /// The name of an entry of this block.
    pub fn name(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.name.start as usize..entry.name.end as usize]
    }

    /// What is known of a fetched entry. An empty field is one that was not there.
    pub fn facts(&self, entry: &Entry) -> Facts<'_> {
        let mut at = entry.name.end as usize;
        let mut next = |length: usize| {
            let value = &self.bytes[at..at + length];
            at += length;
            (length > 0).then_some(value)
        };
        let kept = &entry.facts;
        Facts {
            status: entry.status,
            fetched_at: kept.fetched_at,
            content_type: next(usize::from(kept.content_type_length)),
            etag: next(usize::from(kept.etag_length)),
            last_modified: kept.last_modified,
            head: next(kept.head_length as usize),
        }
    }

    /// The bytes of an entry's body that are in this block.
    pub fn body(&self, entry: &Entry) -> &[u8] {
        match &entry.body {
            Body::Inside(range) => &self.bytes[range.start as usize..range.end as usize],
            Body::Spilled(_) | Body::Dropped(_) => &[],
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it should go to the sink.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES || self.entries.len() >= BLOCK_OUTCOMES_MAX
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
    }
}

/// The body of a fetched target.
#[derive(Debug, Clone, Copy)]
pub enum FetchedBody<'b> {
    /// All of it.
    Bytes(&'b [u8]),
    /// See [`Body::Spilled`].
    Spilled(u64),
    /// See [`Body::Dropped`].
    Dropped(u64),
}
