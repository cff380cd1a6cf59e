//! A block of outcomes on its way from a worker to its sink. A single buffer holds all names and bodies.

use std::ops::Range;

use fetchmill_model::limits::{
    BLOCK_BYTES, BLOCK_OUTCOMES_MAX, BODY_MEMORY_BYTES_MAX, OPT_OUT_HOST_BYTES_MAX,
};
use fetchmill_model::object::{Facts, Micros, Seconds};
use fetchmill_model::outcome::Outcome;
use fetchmill_model::target::Sequence;
use fetchmill_model::target::entry::ListEntry;
use fetchmill_model::target::extra_columns::{extra_values, write_extra};

/// Part size from which the buffer of the block grows by exactly the number of bytes needed, rather than doubling.
const LARGE_BYTES: usize = 16 * 1024;

/// Location of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockBody {
    /// The body is in this range of the block.
    Inside(Range<u32>),
    /// The body was too large for memory and is in a staging file named after the sequence number.
    Spilled(u64),
    /// The body is not stored. Contains its length.
    Dropped(u64),
}

impl BlockBody {
    /// Returns the length of the body in bytes.
    pub fn len(&self) -> u64 {
        match self {
            BlockBody::Inside(range) => u64::from(range.end - range.start),
            BlockBody::Spilled(length) | BlockBody::Dropped(length) => *length,
        }
    }

    /// Returns whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Outcome of a target.
#[derive(Debug, Clone)]
pub struct BlockEntry {
    /// Sequence number of the target.
    pub sequence: Sequence,
    /// Outcome of the target.
    pub outcome: Outcome,
    /// Status of the last reply. 0 if there was no reply.
    pub status: u16,
    /// Number of attempts made.
    pub attempts: u32,
    name: Range<u32>,
    facts: EntryFacts,
    /// Body of a fetched target.
    pub body: BlockBody,
}

/// Facts about a fetched target, except its status. In the buffer, the values of the fields follow the name in this
/// order.
#[derive(Debug, Default, Clone, Copy)]
struct EntryFacts {
    fetched_at: Micros,
    last_modified: Option<Seconds>,
    content_type_length: u16,
    content_encoding_length: u16,
    etag_length: u16,
    head_length: u32,
    /// Length of the host whose robots.txt forbids the target. The host is at the end of the entry.
    forbidding_host_length: u16,
    /// Length of the additional values, as written by [`write_extra`], or 0 if there are none. The additional values
    /// are the URL, the kept values, the detail, the request (or the entry of a fetched target), the listed name, and
    /// replies that are not objects.
    rest_length: u32,
}

/// Description of an unfetched target, as it appears in the list of failures.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct EntryDescription<'d> {
    /// Name of the target.
    pub name: &'d [u8],
    /// See [`Facts::url`].
    pub url: Option<&'d [u8]>,
    /// See [`Facts::kept`].
    pub kept: Option<&'d [u8]>,
    /// Detail of the failure for the user, in UTF-8.
    pub detail: Option<&'d [u8]>,
    /// Request, if it is not a plain `GET` ([`fetchmill_model::target::request`]).
    pub request: Option<&'d [u8]>,
    /// See [`fetchmill_model::object::UnfetchedTarget::replies`].
    pub replies: Option<&'d [u8]>,
}

impl<'d> EntryDescription<'d> {
    /// Creates a description that contains only the name of a target.
    pub fn named(name: &'d [u8]) -> Self {
        EntryDescription { name, ..EntryDescription::default() }
    }

    /// Creates the description of a fetched target that fails afterwards. It allows the same request to be sent again.
    pub fn fetched(stored: &'d [u8], facts: &Facts<'d>) -> Self {
        let name = facts.listed.unwrap_or(stored);
        match facts.entry.map(ListEntry::read) {
            // Use the URL from the list rather than the destination of a redirect, because the request must not go
            // anywhere else.
            Some(entry) => EntryDescription {
                name,
                url: Some(entry.url).filter(|url| *url != name),
                kept: facts.kept,
                detail: None,
                request: entry.request,
                replies: facts.replies,
            },
            None => EntryDescription {
                url: facts.url,
                kept: facts.kept,
                replies: facts.replies,
                ..EntryDescription::named(name)
            },
        }
    }
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub struct Block {
    entries: Vec<BlockEntry>,
    bytes: Vec<u8>,
}

impl Block {
    /// Adds a fetched target. The name may be empty if the sink stores nothing.
    pub fn push_fetched(
        &mut self,
        sequence: Sequence,
        attempts: u32,
        name: &[u8],
        body: FetchedBody<'_>,
        facts: &Facts<'_>,
    ) {
        let name = self.append(name);
        let known = self.append_facts(facts);
        let body = match body {
            FetchedBody::Bytes(bytes) => BlockBody::Inside(self.append(bytes)),
            FetchedBody::Spilled(length) => BlockBody::Spilled(length),
            FetchedBody::Dropped(length) => BlockBody::Dropped(length),
        };
        self.entries.push(BlockEntry {
            sequence,
            outcome: Outcome::Fetched,
            status: facts.status,
            attempts,
            name,
            facts: known,
            body,
        });
    }

    /// Appends the values from a head. Their lengths fit, because a header line has at most 16 KiB.
    fn append_facts(&mut self, facts: &Facts<'_>) -> EntryFacts {
        let mut append = |value: Option<&[u8]>| self.append(value.unwrap_or_default()).len();
        EntryFacts {
            fetched_at: facts.fetched_at,
            last_modified: facts.last_modified,
            content_type_length: append(facts.content_type) as u16,
            content_encoding_length: append(facts.content_encoding) as u16,
            etag_length: append(facts.etag) as u16,
            head_length: append(facts.head) as u32,
            forbidding_host_length: 0,
            rest_length: self.append_rest([
                facts.url,
                facts.kept,
                None,
                facts.entry,
                facts.listed,
                facts.replies,
            ]),
        }
    }

    /// Appends values that few targets have, apart from those of lists. If a target has none of these values, this
    /// stores nothing.
    fn append_rest(&mut self, rest: [Option<&[u8]>; 6]) -> u32 {
        if rest == [None; 6] {
            return 0;
        }
        let start = self.bytes.len();
        write_extra(rest.into_iter(), &mut self.bytes);
        (self.bytes.len() - start) as u32
    }

    /// Adds an unfetched target.
    pub fn push_other(
        &mut self,
        sequence: Sequence,
        outcome: Outcome,
        status: u16,
        attempts: u32,
        target: &EntryDescription<'_>,
    ) {
        let name = self.append(target.name);
        let EntryDescription { name: _, url, kept, detail, request, replies } = *target;
        let rest_length = self.append_rest([url, kept, detail, request, None, replies]);
        self.entries.push(BlockEntry {
            sequence,
            outcome,
            status,
            attempts,
            name,
            facts: EntryFacts { rest_length, ..EntryFacts::default() },
            body: BlockBody::Dropped(0),
        });
    }

    /// Adds a target of a check, with its outcome and its row, which is a JSON line.
    pub fn push_row(
        &mut self,
        sequence: Sequence,
        outcome: Outcome,
        status: u16,
        attempts: u32,
        body_bytes: u64,
        line: &[u8],
    ) {
        let name = self.append(line);
        let facts = EntryFacts::default();
        let body = BlockBody::Dropped(body_bytes);
        self.entries.push(BlockEntry { sequence, outcome, status, attempts, name, facts, body });
    }

    /// Adds to the last entry the host whose robots.txt forbids the target. A long host is truncated.
    pub fn note_forbidding_host(&mut self, host: &str) {
        if let Some(entry) = self.entries.last_mut() {
            let host = &host.as_bytes()[..host.floor_char_boundary(OPT_OUT_HOST_BYTES_MAX)];
            entry.facts.forbidding_host_length = host.len() as u16;
            self.bytes.extend_from_slice(host);
        }
    }

    /// Returns the host whose robots.txt forbids the target of an entry.
    pub fn forbidding_host(&self, entry: &BlockEntry) -> Option<&str> {
        let start = entry.name.end as usize + entry.facts.rest_length as usize;
        let host = &self.bytes[start..start + usize::from(entry.facts.forbidding_host_length)];
        std::str::from_utf8(host).ok().filter(|host| !host.is_empty())
    }

    /// Returns the row of an entry in a check.
    pub fn line(&self, entry: &BlockEntry) -> &[u8] {
        self.name(entry)
    }

    fn append(&mut self, bytes: &[u8]) -> Range<u32> {
        if bytes.len() >= LARGE_BYTES {
            // Do not double the capacity.
            self.bytes.reserve_exact(bytes.len());
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len() as u32
    }

    /// Returns the outcomes.
    pub fn entries(&self) -> &[BlockEntry] {
        &self.entries
    }

    /// Iterates over the fetched entries and their positions, starting at position `from`.
    pub fn fetched(&self, from: usize) -> impl Iterator<Item = (usize, &BlockEntry)> {
        let entries = self.entries.iter().enumerate().skip(from);
        entries.filter(|(_, entry)| entry.outcome == Outcome::Fetched)
    }

    /// Returns the name of an entry.
    pub fn name(&self, entry: &BlockEntry) -> &[u8] {
        &self.bytes[entry.name.start as usize..entry.name.end as usize]
    }

    /// Returns the facts about a fetched entry. An empty value means that the field is missing.
    pub fn facts(&self, entry: &BlockEntry) -> Facts<'_> {
        let mut at = entry.name.end as usize;
        let mut next = |length: usize| {
            let value = &self.bytes[at..at + length];
            at += length;
            (length > 0).then_some(value)
        };
        let known = &entry.facts;
        let content_type = next(usize::from(known.content_type_length));
        let content_encoding = next(usize::from(known.content_encoding_length));
        let etag = next(usize::from(known.etag_length));
        let head = next(known.head_length as usize);
        let mut rest = extra_values(next(known.rest_length as usize).unwrap_or_default());
        Facts {
            status: entry.status,
            attempts: entry.attempts,
            fetched_at: known.fetched_at,
            content_type,
            content_encoding,
            etag,
            last_modified: known.last_modified,
            head,
            url: rest.next().flatten(),
            kept: rest.next().flatten(),
            entry: rest.nth(1).flatten(),
            listed: rest.next().flatten(),
            replies: rest.next().flatten(),
        }
    }

    /// Returns the total size of the URL, the kept values, the request, and the replies that are not objects.
    pub fn rest_bytes(&self, entry: &BlockEntry) -> u64 {
        u64::from(entry.facts.rest_length)
    }

    /// Returns the description of an unfetched entry.
    pub fn described(&self, entry: &BlockEntry) -> EntryDescription<'_> {
        let start = entry.name.end as usize;
        let rest = &self.bytes[start..start + entry.facts.rest_length as usize];
        let mut rest = extra_values(rest);
        let mut next = || rest.next().flatten();
        let (url, kept, detail, request, _, replies) = (next(), next(), next(), next(), next(), next());
        EntryDescription { name: self.name(entry), url, kept, detail, request, replies }
    }

    /// Returns the body of an entry, if the body is in this block.
    pub fn body(&self, entry: &BlockEntry) -> &[u8] {
        match &entry.body {
            BlockBody::Inside(range) => &self.bytes[range.start as usize..range.end as usize],
            BlockBody::Spilled(_) | BlockBody::Dropped(_) => &[],
        }
    }

    /// Returns whether the block has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether the block is ready for the sink.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES || self.entries.len() >= BLOCK_OUTCOMES_MAX
    }

    /// Returns how many bytes of memory the block uses.
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<BlockEntry>()
    }

    /// Moves the contents of another block to the end of this one.
    pub fn append_block(&mut self, other: &mut Block) {
        let by = self.bytes.len() as u32;
        let moved = |range: Range<u32>| range.start + by..range.end + by;
        self.append(&other.bytes);
        self.entries.extend(other.entries.drain(..).map(|entry| BlockEntry {
            name: moved(entry.name),
            body: match entry.body {
                BlockBody::Inside(range) => BlockBody::Inside(moved(range)),
                elsewhere => elsewhere,
            },
            ..entry
        }));
        other.bytes.clear();
        if other.bytes.capacity() > LARGE_BYTES {
            // Free all of this memory. If part of it stayed allocated, the gap would be too small for the next buffer
            // of this size.
            other.bytes = Vec::new();
        }
    }

    /// Removes all entries, but keeps as much memory as a full block usually needs.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.bytes.shrink_to(BLOCK_BYTES + BODY_MEMORY_BYTES_MAX);
    }
}

/// Body of a fetched target.
#[derive(Debug, Clone, Copy)]
pub enum FetchedBody<'b> {
    /// The whole body in memory.
    Bytes(&'b [u8]),
    /// See [`BlockBody::Spilled`].
    Spilled(u64),
    /// See [`BlockBody::Dropped`].
    Dropped(u64),
}

impl FetchedBody<'_> {
    /// Returns the length of the body in bytes.
    pub fn length(&self) -> u64 {
        match self {
            FetchedBody::Bytes(bytes) => bytes.len() as u64,
            FetchedBody::Spilled(length) | FetchedBody::Dropped(length) => *length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::outcome::opt_out_rule::OptOutRule;
    use fetchmill_model::outcome::skips::SkipReason;

    #[test]
    fn hosts_that_forbid_come_back() {
        let outcome = Outcome::Skipped(SkipReason::OptedOut(OptOutRule::Robots));
        let mut block = Block::default();
        block.push_row(1, outcome, 0, 0, 0, b"{}");
        block.note_forbidding_host("http://a.test");
        let described = EntryDescription { detail: Some(b"why"), ..EntryDescription::named(b"b") };
        block.push_other(2, outcome, 0, 0, &described);
        block.note_forbidding_host(&"\u{e4}".repeat(200));
        block.push_row(3, outcome, 0, 0, 0, b"{}");

        let mut joined = Block::default();
        joined.append_block(&mut block);
        let hosts: Vec<_> = joined.entries().iter().map(|entry| joined.forbidding_host(entry)).collect();
        let long = "\u{e4}".repeat(OPT_OUT_HOST_BYTES_MAX / 2);
        assert_eq!(hosts, [Some("http://a.test"), Some(&*long), None]);
        assert_eq!(joined.described(&joined.entries()[1]), described);
    }

    #[test]
    fn facts_of_a_list_come_back_and_those_of_others_take_no_byte() {
        let mut block = Block::default();
        let facts = Facts {
            status: 200,
            attempts: 1,
            content_encoding: Some(b"c"),
            etag: Some(b"e"),
            head: Some(b"h"),
            url: Some(b"https://a/"),
            kept: Some(b"\x02a"),
            entry: Some(b"https://b/\0\x02k\0\0\0\0\x02r"),
            listed: Some(b"dir/key"),
            replies: Some(b"replies"),
            ..Facts::default()
        };
        let plain = Facts { url: None, kept: None, entry: None, listed: None, replies: None, ..facts };

        block.push_fetched(1, 1, b"key", FetchedBody::Bytes(b"body"), &facts);
        let length = block.bytes.len();
        block.push_fetched(2, 1, b"key", FetchedBody::Bytes(b"body"), &plain);

        assert_eq!(block.bytes.len() - length, "keycehbody".len());
        let [listed, other] = block.entries() else { panic!("two entries") };
        assert_eq!((block.facts(listed), block.facts(other)), (facts, plain));
        let described = EntryDescription::fetched(b"key", &block.facts(listed));
        assert_eq!((described.name, described.url), (&b"dir/key"[..], Some(&b"https://b/"[..])));
        assert_eq!(described.request, Some(&b"r"[..]));
        assert_eq!((block.body(listed), block.body(other)), (&b"body"[..], &b"body"[..]));
    }
}
