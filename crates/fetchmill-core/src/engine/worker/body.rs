//! A body while it is received: in memory while it is small and there is room, else in a staging file.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::byte_range::ByteRange;
use crate::engine::body_memory::BodyMemory;
use crate::engine::body_meter::BodyMeter;
use crate::engine::clock::unix_micros;
use crate::engine::target::ObservedReply;
use crate::error::{Error, Result};
use crate::expected_hash::ExpectedHash;
use crate::http1::{BodySink, FieldSpans, Framing, Head};
use crate::limits::{BODY_FREE_BYTES, BODY_MEMORY_BYTES_MAX};
use crate::object::Facts;
use crate::s3::BodyChecksum;
use crate::sink::{FetchedBody, Properties, Stage, StoredParts};
use crate::source_metadata::ListedKey;
use crate::target::Sequence;
use crate::time_text::parse_http_date;
use crate::transport::is_verified;
use crate::verdict::{ERROR_BYTES_MAX, ExpectedPart, ReplyFacts, StoreReply, field_in};

/// The body that a connection receives.
pub(super) struct BodyReceiver {
    properties: Properties,
    sequence: Sequence,
    /// The head's bytes when they are kept, and where the fields are that matter.
    head: Vec<u8>,
    fields: FieldSpans,
    memory: Vec<u8>,
    length: u64,
    spill: Option<File>,
    failed: Option<Error>,
    budget: Arc<BodyMemory>,
    meter: Option<Arc<BodyMeter>>,
    /// What is reserved of it.
    reserved: usize,
    /// Where bodies go that are too large for memory: where the sink stages, so that a file is written once. None when
    /// bodies are not kept.
    stage: Option<Arc<Stage>>,
    /// What a row tells of it, in a check.
    seen: Option<ObservedReply>,
    /// No more of it is read.
    enough: u64,
    /// Of a store: what its listing said of the length, and how a body begins that may be no object.
    expected: ExpectedBody,
    start: Vec<u8>,
    is_caught: bool,
    /// The part of an object that was asked for.
    part: Option<ExpectedPart>,
    /// See [`ReplyFacts::is_conditional`].
    is_conditional: bool,
    /// Whether the store's checksum of it is wanted, and that of what comes.
    wants_checksum: bool,
    checksum: Option<BodyChecksum>,
    /// The same of what a list says.
    hash: Option<BodyChecksum>,
}

/// What comes, as far as it is known before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedBody {
    /// It is not looked at.
    Anything,
    /// An object of a store, or an error in its place.
    Object,
    /// The same, and so long.
    ObjectOf(u64),
}

impl BodyReceiver {
    /// In a check a body is read to `enough` bytes.
    pub(super) fn new(
        properties: Properties,
        budget: Arc<BodyMemory>,
        meter: Option<Arc<BodyMeter>>,
        stage: Option<Arc<Stage>>,
        enough: Option<u64>,
    ) -> Self {
        BodyReceiver {
            properties,
            sequence: 0,
            head: Vec::new(),
            fields: FieldSpans::default(),
            memory: Vec::new(),
            length: 0,
            spill: None,
            failed: None,
            budget,
            meter,
            reserved: 0,
            stage,
            seen: enough.map(|_| ObservedReply::default()),
            enough: enough.unwrap_or(u64::MAX),
            expected: ExpectedBody::Anything,
            start: Vec::new(),
            is_caught: false,
            part: None,
            is_conditional: false,
            wants_checksum: false,
            checksum: None,
            hash: None,
        }
    }

    /// Another body comes, for this target. What is left of the last one is forgotten.
    pub(super) fn start(&mut self, sequence: Sequence) {
        self.discard();
        self.sequence = sequence;
        self.expected = ExpectedBody::Anything;
        (self.wants_checksum, self.checksum, self.hash, self.part) = (false, None, None, None);
        self.is_conditional = false;
        self.start.clear();
        if let Some(seen) = &mut self.seen {
            seen.clear();
        }
    }

    /// What comes is an object of a store, that its listing has said to be so long, if it has.
    pub(super) fn expect(&mut self, length: Option<u64>) {
        self.expected = length.map_or(ExpectedBody::Object, ExpectedBody::ObjectOf);
    }

    /// What comes is to be this part of an object.
    pub(super) fn expect_part(&mut self, range: ByteRange) {
        self.part = Some(ExpectedPart::new(range));
    }

    /// The object is asked for on a condition: that it has not changed is an answer.
    pub(super) fn expect_condition(&mut self) {
        self.is_conditional = true;
    }

    /// What has come, for the verdict.
    pub(super) fn reply_facts<'r>(
        &'r self,
        head: &Head,
        is_of_store: bool,
        listed: Option<ListedKey<'r>>,
    ) -> ReplyFacts<'r> {
        let mut facts = ReplyFacts {
            status: head.status,
            is_verified: is_verified(head),
            length: self.length,
            listed,
            part: self.part.as_ref(),
            is_conditional: self.is_conditional,
            ..ReplyFacts::default()
        };
        if self.expected != ExpectedBody::Anything {
            let caught = if self.is_caught { self.head.as_slice() } else { &[] };
            facts.etag = self.etag();
            facts.is_encoded = field_in(caught, b"content-encoding:").is_some();
            facts.store = is_of_store.then(|| StoreReply {
                start: &self.start,
                region: field_in(caught, b"x-amz-bucket-region:"),
                date: field_in(caught, b"date:"),
                signed_for: None,
            });
        }
        facts
    }

    /// What comes is compared with the checksum that the store gives, if it gives one.
    pub(super) fn expect_checksum(&mut self) {
        self.wants_checksum = true;
    }

    /// What comes is compared with this, too.
    pub(super) fn expect_hash(&mut self, hash: &ExpectedHash) {
        self.hash = Some(BodyChecksum::of_hash(hash));
    }

    /// Whether the body, which is complete, is not what the store's checksum, or its list, says.
    pub(super) fn is_damaged(&mut self) -> bool {
        let said = [self.checksum.take(), self.hash.take()];
        said.into_iter().flatten().any(|checksum| !checksum.matches())
    }

    /// Forgets the body; its staging file is removed.
    pub(super) fn discard(&mut self) {
        if self.spill.take().is_some()
            && let Some(stage) = &self.stage
            && let Err(error) = stage.remove(self.sequence)
        {
            self.failed = Some(error);
        }
        self.release();
    }

    fn release(&mut self) {
        self.memory.clear();
        if self.memory.capacity() > BODY_FREE_BYTES {
            self.memory = Vec::new();
        }
        self.reserve_memory();
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

    /// The ETag of an object that was said what to be: see [`BodyReceiver::expect`].
    pub(super) fn etag(&self) -> Option<&[u8]> {
        self.fields.etag.map(|span| span.in_head(&self.head))
    }

    /// These bytes of it; none when it is not in memory.
    pub(super) fn cut(&self, position: Range<usize>) -> Option<FetchedBody<'_>> {
        if self.spill.is_some() {
            None
        } else if self.keeps_bodies() {
            self.memory.get(position).map(FetchedBody::Bytes)
        } else {
            Some(FetchedBody::Dropped(position.len() as u64))
        }
    }

    /// How long the head is, as far as it is kept.
    pub(super) fn head_bytes(&self) -> usize {
        self.head.len()
    }

    /// What the sink keeps of the head.
    pub(super) fn facts(&self, status: u16) -> Facts<'_> {
        if self.properties.keeps < StoredParts::Facts {
            return Facts { status, ..Facts::default() };
        }
        let fields = &self.fields;
        Facts {
            status,
            fetched_at: unix_micros(),
            content_type: fields.content_type.map(|span| span.in_head(&self.head)),
            etag: fields.etag.map(|span| span.in_head(&self.head)),
            last_modified: fields.last_modified.and_then(|span| parse_http_date(span.in_head(&self.head))),
            head: (self.properties.keeps >= StoredParts::Heads).then_some(&self.head),
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
    pub(super) fn seen(&mut self) -> Option<&mut ObservedReply> {
        self.seen.as_mut()
    }

    fn keeps_bodies(&self) -> bool {
        self.properties.keeps >= StoredParts::Bodies
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
        needed > BODY_MEMORY_BYTES_MAX || (needed > BODY_FREE_BYTES && !self.budget.has_room(more))
    }

    /// Reserves what is in memory now, in place of what was.
    fn reserve_memory(&mut self) {
        let needed = if self.memory.len() > BODY_FREE_BYTES { self.memory.len() } else { 0 };
        if needed > self.reserved {
            self.budget.reserve(needed - self.reserved);
        } else if needed < self.reserved {
            self.budget.release(self.reserved - needed);
        }
        self.reserved = needed;
    }

    fn spill(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(stage) = &self.stage else { return Ok(()) };
        let file = match &mut self.spill {
            Some(file) => file,
            None => self.spill.insert(stage.create(self.sequence)?),
        };
        let memory = std::mem::take(&mut self.memory);
        if !memory.is_empty() {
            stage.append(self.sequence, file, &memory)?;
        }
        stage.append(self.sequence, file, bytes)?;
        self.reserve_memory();
        Ok(())
    }
}

impl BodySink for BodyReceiver {
    fn head(&mut self, head: &Head, bytes: &[u8]) {
        self.is_caught = match self.expected {
            ExpectedBody::Anything => false,
            ExpectedBody::Object => true,
            ExpectedBody::ObjectOf(length) => head.status >= 300 || head.framing != Framing::Length(length),
        };
        if self.properties.keeps >= StoredParts::Facts
            || head.kept.location.is_some()
            || self.part.is_some()
            || self.expected != ExpectedBody::Anything
        {
            self.head.clear();
            self.head.extend_from_slice(bytes);
        }
        self.fields = head.kept;
        self.checksum =
            if self.wants_checksum && head.status == 200 { BodyChecksum::of_head(bytes) } else { None };
        if let Some(seen) = &mut self.seen {
            seen.head(head, bytes);
        }
        if let Some(part) = &mut self.part {
            part.head(head, bytes);
        }
    }

    fn wants_more(&self) -> bool {
        self.length < self.enough && self.part.as_ref().is_none_or(|part| part.wants_more(self.length))
    }

    fn pause(&self) -> Option<Duration> {
        self.meter.as_ref()?.wait()
    }

    fn piece(&mut self, bytes: &[u8]) {
        if let Some(meter) = &self.meter {
            meter.take(bytes.len());
        }
        if let Some(seen) = &mut self.seen {
            // What came beyond it in the same read does not count.
            seen.piece(bytes.len().min(self.enough.saturating_sub(self.length) as usize));
        }
        self.length += bytes.len() as u64;
        for checksum in [&mut self.checksum, &mut self.hash].into_iter().flatten() {
            checksum.update(bytes);
        }
        if self.is_caught {
            let room = ERROR_BYTES_MAX - self.start.len();
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
        self.reserve_memory();
    }
}

impl Drop for BodyReceiver {
    fn drop(&mut self) {
        self.budget.release(self.reserved);
    }
}
