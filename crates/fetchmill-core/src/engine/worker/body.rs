//! A body while it is received: in memory while it is small and there is room, else in a staging file.

use std::cell::Cell;
use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;

use super::row::Seen;
use crate::engine::s3::{FAULT_BYTES_MAX, StoreReply, region_in};
use crate::error::{Error, Result};
use crate::http1::{BodySink, Framing, Head, KeptFields};
use crate::limits::BODY_MEMORY_BYTES_MAX;
use crate::object::{Facts, Micros};
use crate::sink::{FetchedBody, Keeps, Properties, Stage};
use crate::target::Sequence;
use crate::time_text::parse_http_date;

/// Memory that a connection keeps for its next body.
const KEPT_BYTES: usize = 16 * 1024;

/// The body that a connection receives.
pub(super) struct Incoming {
    properties: Properties,
    sequence: Sequence,
    /// The head's bytes when they are kept, and where the fields are that matter.
    head: Vec<u8>,
    fields: KeptFields,
    memory: Vec<u8>,
    length: u64,
    spill: Option<File>,
    failed: Option<Error>,
    used: Rc<BodyMemory>,
    /// What a row tells of it, in a check.
    seen: Option<Seen>,
    /// No more of it is read.
    enough: u64,
    /// Of a store: what its listing said of the length, and how a body begins that may be no object.
    expected: Expected,
    start: Vec<u8>,
    is_caught: bool,
}

/// What comes, as far as it is known before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// It is not looked at.
    Anything,
    /// An object of a store, or an error in its place.
    Object,
    /// The same, and so long.
    ObjectOf(u64),
}

/// Memory of all bodies that a worker receives.
pub(super) struct BodyMemory {
    pub(super) bytes: Cell<usize>,
    pub(super) bytes_max: usize,
    /// Where bodies go that are too large for memory: where the sink stages, so that a file is written once. None
    /// when bodies are not kept.
    pub(super) stage: Option<Arc<Stage>>,
}

impl Incoming {
    /// In a check a body is read to `enough` bytes.
    pub(super) fn new(properties: Properties, used: Rc<BodyMemory>, enough: Option<u64>) -> Self {
        Incoming {
            properties,
            sequence: 0,
            head: Vec::new(),
            fields: KeptFields::default(),
            memory: Vec::new(),
            length: 0,
            spill: None,
            failed: None,
            used,
            seen: enough.map(|_| Seen::default()),
            enough: enough.unwrap_or(u64::MAX),
            expected: Expected::Anything,
            start: Vec::new(),
            is_caught: false,
        }
    }

    /// Another body comes, for this target. What is left of the last one is forgotten.
    pub(super) fn start(&mut self, sequence: Sequence) {
        self.discard();
        self.sequence = sequence;
        self.expected = Expected::Anything;
        self.start.clear();
        if let Some(seen) = &mut self.seen {
            seen.clear();
        }
    }

    /// What comes is an object of a store, that its listing has said to be so long, if it has.
    pub(super) fn expect(&mut self, length: Option<u64>) {
        self.expected = length.map_or(Expected::Object, Expected::ObjectOf);
    }

    /// What a store has answered.
    pub(super) fn store_reply(&self, status: u16) -> StoreReply<'_> {
        let etag = self.fields.etag.map(|span| span.in_head(&self.head));
        let region = region_in(if self.is_caught { &self.head } else { &[] });
        StoreReply { status, start: &self.start, length: self.length, etag, region }
    }

    /// Forgets the body; its staging file is removed.
    pub(super) fn discard(&mut self) {
        if self.spill.take().is_some()
            && let Some(stage) = &self.used.stage
            && let Err(error) = stage.remove(self.sequence)
        {
            self.failed = Some(error);
        }
        self.release();
    }

    fn release(&mut self) {
        self.used.bytes.set(self.used.bytes.get() - self.memory.len());
        self.memory.clear();
        if self.memory.capacity() > KEPT_BYTES {
            self.memory = Vec::new();
        }
        self.length = 0;
    }

    /// The body, complete.
    pub(super) fn get(&self) -> FetchedBody<'_> {
        if self.spill.is_some() {
            FetchedBody::Spilled(self.length)
        } else if self.keeps_bodies() {
            FetchedBody::Bytes(&self.memory)
        } else {
            FetchedBody::Dropped(self.length)
        }
    }

    /// What the sink keeps of the head.
    pub(super) fn facts(&self, status: u16) -> Facts<'_> {
        if self.properties.keeps < Keeps::Facts {
            return Facts { status, ..Facts::default() };
        }
        let fields = &self.fields;
        Facts {
            status,
            fetched_at: now(),
            content_type: fields.content_type.map(|span| span.in_head(&self.head)),
            etag: fields.etag.map(|span| span.in_head(&self.head)),
            last_modified: fields.last_modified.and_then(|span| parse_http_date(span.in_head(&self.head))),
            head: (self.properties.keeps >= Keeps::Heads).then_some(&self.head),
            ..Facts::default()
        }
    }

    /// The body has been handed over: its staging file belongs to the sink.
    pub(super) fn handed_over(&mut self) {
        self.spill = None;
        self.release();
    }

    /// Where the reply says that the object is.
    pub(super) fn location(&self) -> Option<&[u8]> {
        self.fields.location.map(|span| span.in_head(&self.head))
    }

    /// What the reply has shown, in a check.
    pub(super) fn seen(&mut self) -> Option<&mut Seen> {
        self.seen.as_mut()
    }

    fn keeps_bodies(&self) -> bool {
        self.properties.keeps >= Keeps::Bodies
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether something went wrong on this machine.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// What went wrong on this machine.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failed.take()
    }

    fn must_spill(&self, more: usize) -> bool {
        let needed = self.memory.len() + more;
        needed > BODY_MEMORY_BYTES_MAX
            || (needed > KEPT_BYTES && self.used.bytes.get() + more > self.used.bytes_max)
    }

    fn spill(&mut self, bytes: &[u8]) -> Result<()> {
        let used = Rc::clone(&self.used);
        let Some(stage) = &used.stage else { return Ok(()) };
        if self.spill.is_none() {
            self.spill = Some(stage.create(self.sequence)?);
            self.spill_memory(stage)?;
        }
        self.spill.as_mut().map_or(Ok(()), |file| stage.append(self.sequence, file, bytes))
    }

    fn spill_memory(&mut self, stage: &Stage) -> Result<()> {
        let memory = std::mem::take(&mut self.memory);
        self.used.bytes.set(self.used.bytes.get() - memory.len());
        self.spill.as_mut().map_or(Ok(()), |file| stage.append(self.sequence, file, &memory))
    }
}

/// Microseconds since 1970 UTC.
pub(in crate::engine) fn now() -> Micros {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as Micros
}

impl BodySink for Incoming {
    fn head(&mut self, head: &Head, bytes: &[u8]) {
        self.is_caught = match self.expected {
            Expected::Anything => false,
            Expected::Object => true,
            Expected::ObjectOf(length) => head.status >= 300 || head.framing != Framing::Length(length),
        };
        if self.properties.keeps >= Keeps::Facts
            || head.kept.location.is_some()
            || self.expected != Expected::Anything
        {
            self.head.clear();
            self.head.extend_from_slice(bytes);
        }
        self.fields = head.kept;
        if let Some(seen) = &mut self.seen {
            seen.head(head, bytes);
        }
    }

    fn wants_more(&self) -> bool {
        self.length < self.enough
    }

    fn piece(&mut self, bytes: &[u8]) {
        if let Some(seen) = &mut self.seen {
            // What came beyond it in the same read does not count.
            seen.piece(bytes.len().min(self.enough.saturating_sub(self.length) as usize));
        }
        self.length += bytes.len() as u64;
        if self.is_caught {
            let room = FAULT_BYTES_MAX - self.start.len();
            self.start.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if !self.keeps_bodies() || self.failed.is_some() {
            return;
        }
        if self.spill.is_some() || self.must_spill(bytes.len()) {
            if let Err(error) = self.spill(bytes) {
                self.failed = Some(error);
            }
            return;
        }
        self.memory.extend_from_slice(bytes);
        self.used.bytes.set(self.used.bytes.get() + bytes.len());
    }
}
