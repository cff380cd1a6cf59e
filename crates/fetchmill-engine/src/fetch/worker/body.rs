//! Receives bodies. A small body stays in memory if there is room. All other bodies go to staging files.

use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::attempt::{RedirectHead, Resumable, ResumableBody};
use crate::control::body_memory::BodyMemory;
use crate::control::body_meter::BodyMeter;
use crate::control::clock::unix_micros;
use crate::fetch::target::{CurrentTarget, ObservedReply};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::byte_range::ByteRange;
use fetchmill_model::http1::{BodySink, FieldSpans, Framing, Head};
use fetchmill_model::limits::{
    BODY_FREE_BYTES, BODY_MEMORY_BYTES_MAX, HEAD_KEPT_BYTES, KEPT_BODY_BYTES_MAX, READ_BYTES,
};
use fetchmill_model::object::Facts;
use fetchmill_model::object::kept_reply::KeptReply;
use fetchmill_model::opt_out::{OptOut, OptOutReader};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::body_type::{AcceptedTypes, BodyStart};
use fetchmill_model::reply::content_encoding::{
    ContentEncoding, DecodeError, NamedEncoding, is_identity, not_asked_for,
};
use fetchmill_model::s3::BodyChecksum;
use fetchmill_model::target::Sequence;
use fetchmill_model::target::expected_hash::ExpectedHash;
use fetchmill_model::target::source_metadata::ListedKey;
use fetchmill_model::text::dates::parse_http_date;
use fetchmill_model::verdict::failure_detail::changed_detail;
use fetchmill_model::verdict::{
    ERROR_BYTES_MAX, ExpectedPart, ReplyFacts, StoreReply, field_in, fields_in, is_redirect,
};
use fetchmill_net::is_verified;
use fetchmill_store::sink::{FetchedBody, Properties, Stage, StoredParts};

/// Reason why a complete body cannot be stored, and a detail for the user.
type BodyProblem = (FailureKind, Option<Box<str>>);
/// Whether a complete body can be stored.
pub(super) type Completion = std::result::Result<(), BodyProblem>;

/// Body that a worker's task is receiving.
pub(super) type WorkerBody = Resumable<BodyReceiver>;

/// Receiver of one body at a time. See [`WorkerBody`].
pub(super) struct BodyReceiver {
    properties: Properties,
    sequence: Sequence,
    /// Bytes of the head, if it is kept.
    head: Vec<u8>,
    fields: FieldSpans,
    memory: Vec<u8>,
    length: u64,
    spill: Option<File>,
    failed: Option<Error>,
    budget: Arc<BodyMemory>,
    meter: Option<Arc<BodyMeter>>,
    /// Bytes reserved in the memory budget.
    reserved: usize,
    /// Stage of the sink, for bodies that are too large for memory. The sink takes over the staging file, so that each
    /// body is written only once. `None` if bodies are not kept.
    stage: Option<Arc<Stage>>,
    /// Observations for the target's row, in a check.
    seen: Option<ObservedReply>,
    /// Body size at which reading stops, in bytes.
    enough: u64,
    /// Kind of body that is expected from a store. `start` contains the first bytes of a body that might be an error
    /// instead of an object.
    expected: ExpectedBody,
    start: Vec<u8>,
    is_caught: bool,
    /// Part of the object that was requested.
    part: Option<ExpectedPart>,
    /// See [`ReplyFacts::is_conditional`].
    is_conditional: bool,
    /// Whether to verify the checksum that the store sends.
    wants_checksum: bool,
    checksum: Option<BodyChecksum>,
    /// Checksum of the stored body, from the list.
    hash: Option<BodyChecksum>,
    /// Whether and how the body is decoded.
    decoding: Decoding,
    /// Number of received bytes, before any decoding.
    received: u64,
    expected_hash: Option<ExpectedHash>,
    /// Reader that detects opt-outs, if `--opt-out` is used.
    opt_out: Option<OptOutReader>,
    /// Start of the body, if `--accept` is used.
    type_start: Option<BodyStart>,
}

/// Whether and how the body is decoded.
#[derive(Debug, PartialEq, Eq)]
enum Decoding {
    /// The body is stored as received.
    Off,
    /// The body is decoded once it is complete. The head names the encoding.
    Due(NamedEncoding),
    Done,
}

impl Decoding {
    /// Returns the encoding if the body is not decoded yet.
    fn take(&mut self) -> NamedEncoding {
        let Decoding::Due(encoding) = self else { return Ok(None) };
        let encoding = std::mem::replace(encoding, Ok(None));
        *self = Decoding::Done;
        encoding
    }
}

/// Expected kind of body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedBody {
    /// The body is not inspected.
    Anything,
    /// The body is an object from a store, or an error message in its place.
    Object,
    /// The body is an object of this length, or an error message in its place.
    ObjectOf(u64),
}

impl BodyReceiver {
    /// Creates the receiver. In a check, it reads up to `enough` bytes of each body. With `opts_out`, it searches
    /// bodies for an opt-out. With `shows_type`, it keeps the first bytes of each body.
    pub(super) fn new(
        properties: Properties,
        budget: Arc<BodyMemory>,
        meter: Option<Arc<BodyMeter>>,
        stage: Option<Arc<Stage>>,
        enough: Option<u64>,
        opts_out: bool,
        shows_type: bool,
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
            decoding: Decoding::Off,
            received: 0,
            expected_hash: None,
            opt_out: opts_out.then(OptOutReader::default),
            type_start: shows_type.then(BodyStart::default),
        }
    }

    /// Returns the header field or `meta` element of a complete reply that opts out. Returns `None` without
    /// `--opt-out`.
    pub(super) fn opt_out(&mut self) -> Option<OptOut> {
        self.opt_out.as_mut()?.found()
    }

    /// Checks whether the type of a complete body is accepted.
    pub(super) fn check_type(&self, accepted: &AcceptedTypes) -> Completion {
        match self.type_start.as_ref().and_then(|start| start.refusal(accepted)) {
            Some(refusal) => Err((FailureKind::UnexpectedType, Some(refusal.into()))),
            None => Ok(()),
        }
    }

    /// Resets the receiver for its next body, which belongs to this target.
    pub(super) fn start(&mut self, sequence: Sequence) {
        self.forget();
        self.release_head();
        self.sequence = sequence;
        self.expected = ExpectedBody::Anything;
        (self.wants_checksum, self.checksum, self.hash, self.part) = (false, None, None, None);
        (self.is_conditional, self.decoding) = (false, Decoding::Off);
        self.expected_hash = None;
        self.start.clear();
        self.forget_evidence();
        if let Some(seen) = &mut self.seen {
            seen.clear();
        }
    }

    /// Expects an object from a store. `length` is its size according to the listing, if known.
    pub(super) fn expect(&mut self, length: Option<u64>) {
        self.expected = length.map_or(ExpectedBody::Object, ExpectedBody::ObjectOf);
    }

    /// Expects this part of the object.
    pub(super) fn expect_part(&mut self, range: ByteRange) {
        self.part = Some(ExpectedPart::new(range));
    }

    /// Expects the reply to a conditional request, which can be "not modified".
    pub(super) fn expect_condition(&mut self) {
        self.is_conditional = true;
    }

    /// Expects a body that might be encoded and stores it decoded.
    pub(super) fn expect_encoding(&mut self) {
        self.decoding = Decoding::Due(Ok(None));
    }

    /// Returns the facts about the reply that the verdict is based on.
    pub(super) fn reply_facts<'r>(
        &'r self,
        head: &Head,
        is_of_store: bool,
        listed: Option<ListedKey<'r>>,
    ) -> ReplyFacts<'r> {
        let mut facts = ReplyFacts {
            status: head.status,
            asks_to_wait: head.retry_after.is_some(),
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
                asks_to_wait: facts.asks_to_wait,
            });
        }
        facts
    }

    /// Verifies the body against the checksum that the store sends, if any.
    pub(super) fn expect_checksum(&mut self) {
        self.wants_checksum = true;
    }

    /// Also verifies the body against this hash.
    pub(super) fn expect_hash(&mut self, hash: &ExpectedHash) {
        self.hash = Some(BodyChecksum::of_hash(hash));
        self.expected_hash = Some(*hash);
    }

    /// Decodes and verifies the complete body. Returns an error if the body cannot be stored. A decoded body can have
    /// up to `bytes_max` bytes. If the source lists a size (`listed`), the decoded body must have that size.
    pub(super) fn complete(&mut self, bytes_max: u64, listed: Option<u64>) -> Completion {
        // The checksum of a store covers the bytes as sent, and the checksum of a list covers the stored bytes.
        let differs = |said: Option<BodyChecksum>| said.is_some_and(|checksum| !checksum.matches());
        if differs(self.checksum.take()) {
            return Err((FailureKind::Checksum, Some("the body does not match the store's checksum".into())));
        }
        if let Some(encoding) = self
            .decoding
            .take()
            .map_err(|name| (FailureKind::BadEncoding, Some(not_asked_for(&name).into())))?
        {
            self.decode(encoding, bytes_max)?;
            if let Some(size) = listed.filter(|size| *size != self.length && !self.has_failed()) {
                let listed = ListedKey { size: Some(size), ..ListedKey::default() };
                return Err((FailureKind::Changed, Some(changed_detail(&listed, self.length, None).into())));
            }
        }
        if differs(self.hash.take()) && !self.has_failed() {
            return Err((FailureKind::Checksum, Some("the body does not match the hash in the list".into())));
        }
        Ok(())
    }

    /// Replaces the body with its decoded content. A staged body is read from its file, which has already been
    /// unlinked.
    fn decode(&mut self, encoding: ContentEncoding, bytes_max: u64) -> Completion {
        let memory = std::mem::take(&mut self.memory);
        self.reserve_memory();
        self.length = 0;
        let decoded = match (self.spill.take(), &self.stage) {
            (Some(_), Some(stage)) => match stage.take_out(self.sequence) {
                Ok(file) => {
                    let encoded = BufReader::with_capacity(READ_BYTES, file);
                    encoding.decode(encoded, bytes_max, |piece| self.take_decoded(piece))
                }
                Err(error) => {
                    self.failed = Some(error);
                    return Ok(());
                }
            },
            _ => encoding.decode(memory.as_slice(), bytes_max, |piece| self.take_decoded(piece)),
        };
        match decoded {
            Ok(()) => Ok(()),
            Err(DecodeError::TooLong) => Err((FailureKind::BodyTooLarge, None)),
            Err(DecodeError::Malformed(problem)) => Err((FailureKind::BadEncoding, Some(problem.into()))),
            Err(DecodeError::Storage(error)) => {
                self.failed = Some(Error::storage("read", "a body in a staging file", error));
                Ok(())
            }
        }
    }

    /// Adds a decoded piece. Returns whether decoding should continue.
    fn take_decoded(&mut self, piece: &[u8]) -> bool {
        self.length += piece.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(piece);
        }
        self.note_evidence(piece);
        self.keep(piece);
        !self.has_failed()
    }

    /// Discards the evidence collected so far, before the next body or the decoded one arrives.
    fn forget_evidence(&mut self) {
        if let Some(opt_out) = &mut self.opt_out {
            opt_out.start();
        }
        if let Some(start) = &mut self.type_start {
            start.clear();
        }
    }

    /// Examines a piece of the stored body for evidence.
    fn note_evidence(&mut self, piece: &[u8]) {
        if let Some(opt_out) = &mut self.opt_out {
            opt_out.piece(piece);
        }
        if let Some(start) = &mut self.type_start {
            start.piece(piece);
        }
    }

    fn release(&mut self) {
        self.memory.clear();
        if self.memory.capacity() > BODY_FREE_BYTES {
            self.memory = Vec::new();
        }
        self.reserve_memory();
        (self.length, self.received) = (0, 0);
    }

    /// Returns the complete body.
    pub(super) fn get(&self) -> FetchedBody<'_> {
        if self.spill.is_some() {
            FetchedBody::Spilled(self.length)
        } else if self.keeps_bodies() {
            FetchedBody::Bytes(&self.memory)
        } else {
            FetchedBody::Dropped(self.length)
        }
    }

    /// Returns the ETag of an object that was announced with [`BodyReceiver::expect`].
    pub(super) fn etag(&self) -> Option<&[u8]> {
        self.fields.etag.map(|span| span.in_head(&self.head))
    }

    /// Returns a range of the body, or `None` if the body is not in memory.
    pub(super) fn cut(&self, position: Range<usize>) -> Option<FetchedBody<'_>> {
        if self.spill.is_some() {
            None
        } else if self.keeps_bodies() {
            self.memory.get(position).map(FetchedBody::Bytes)
        } else {
            Some(FetchedBody::Dropped(position.len() as u64))
        }
    }

    /// Returns the number of head bytes that are kept.
    pub(super) fn head_bytes(&self) -> usize {
        self.head.len()
    }

    /// Returns the parts of the head that the sink stores.
    pub(super) fn facts(&self, status: u16) -> Facts<'_> {
        if self.properties.keeps < StoredParts::Facts {
            return Facts { status, content_encoding: self.content_encoding(), ..Facts::default() };
        }
        let fields = &self.fields;
        Facts {
            status,
            fetched_at: unix_micros(),
            content_type: fields.content_type.map(|span| span.in_head(&self.head)),
            content_encoding: self.content_encoding(),
            etag: fields.etag.map(|span| span.in_head(&self.head)),
            last_modified: fields.last_modified.and_then(|span| parse_http_date(span.in_head(&self.head))),
            head: (self.properties.keeps >= StoredParts::Heads).then_some(&self.head),
            ..Facts::default()
        }
    }

    /// Returns the `Content-Encoding` of the stored body. The request did not ask for any encoding.
    fn content_encoding(&self) -> Option<&[u8]> {
        let encoding = self.fields.content_encoding?.in_head(&self.head);
        (self.decoding == Decoding::Off && !is_identity(encoding)).then_some(encoding)
    }

    /// Adds this reply, which is not the object, to the replies kept for the target.
    pub(super) fn keep_reply(&mut self, target: &mut CurrentTarget, is_hop: bool) {
        let in_stage = match (&self.spill, &self.stage) {
            (Some(_), Some(stage)) => match stage.read_start(self.sequence, KEPT_BODY_BYTES_MAX) {
                Ok(start) => Some(start),
                Err(error) => {
                    self.failed = Some(error);
                    return;
                }
            },
            _ => None,
        };
        let CurrentTarget { at, replies, .. } = target;
        let body = in_stage.as_ref().unwrap_or(&self.memory);
        let reply = KeptReply {
            url: Some(at.url.as_bytes()).filter(|url| !url.is_empty()),
            fetched_at: unix_micros(),
            head: &self.head,
            body,
            is_cut: self.length > body.len() as u64,
        };
        if is_hop { reply.write_hop(replies) } else { reply.cut_to(KEPT_BODY_BYTES_MAX).write(replies) }
    }

    /// Records that the sink took over the body and its staging file.
    pub(super) fn handed_over(&mut self) {
        self.spill = None;
        self.release();
        self.release_head();
    }

    /// Returns the value of the reply's `Location` field.
    pub(super) fn location(&self) -> Option<&[u8]> {
        self.fields.location.map(|span| span.in_head(&self.head))
    }

    /// Returns the head of a redirect.
    pub(super) fn redirect_head(&self, now: Millis) -> RedirectHead<'_> {
        RedirectHead { location: self.location(), head: &self.head, now }
    }

    /// Returns the `WWW-Authenticate` field of a reply with this status.
    pub(super) fn challenge(&self, status: u16) -> Option<&[u8]> {
        // If a reply was discarded, the head still belongs to the reply before it.
        field_in(&self.head, b"www-authenticate:").filter(|_| is_refusal(status))
    }

    /// Returns the observations of a check.
    pub(super) fn seen(&mut self) -> Option<&mut ObservedReply> {
        self.seen.as_mut()
    }

    fn keeps_bodies(&self) -> bool {
        self.properties.keeps >= StoredParts::Bodies
    }

    /// Returns the number of received body bytes, before decoding.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Takes the error if something failed on this machine.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// Keeps the needed parts of the head. If the head is long, keeps only the needed values.
    fn keep_head(&mut self, head: &Head, bytes: &[u8]) {
        self.fields = head.kept;
        let is_wanted = self.properties.keeps >= StoredParts::Facts
            || head.kept.location.is_some()
            || head.kept.content_encoding.is_some()
            || self.part.is_some()
            || self.is_conditional
            || is_refusal(head.status)
            || self.expected != ExpectedBody::Anything;
        if !is_wanted {
            return;
        }
        self.head.clear();
        let is_whole = self.properties.keeps >= StoredParts::Heads
            || self.is_caught
            || self.part.is_some()
            || is_redirect(head.status);
        if is_whole || bytes.len() <= HEAD_KEPT_BYTES {
            self.head.extend_from_slice(bytes);
        } else {
            self.fields = head.kept.copy_values(bytes, &mut self.head);
        }
        self.reserve_memory();
    }

    /// Frees the buffer of a large head. The connection's next head is probably shorter.
    fn release_head(&mut self) {
        if self.head.capacity() > HEAD_KEPT_BYTES {
            self.head = Vec::new();
            self.reserve_memory();
        }
    }

    fn must_spill(&self, more: usize) -> bool {
        let needed = self.memory.len() + more;
        needed > BODY_MEMORY_BYTES_MAX || (needed > BODY_FREE_BYTES && !self.budget.has_room(more))
    }

    /// Reserves as much memory as the body now uses.
    fn reserve_memory(&mut self) {
        let held = self.memory.len() + self.head.len();
        let needed = if held > BODY_FREE_BYTES { held } else { 0 };
        if needed > self.reserved {
            self.budget.reserve(needed - self.reserved);
        } else if needed < self.reserved {
            self.budget.release(self.reserved - needed);
        }
        self.reserved = needed;
    }

    /// Appends a piece, in memory or in the staging file.
    fn keep(&mut self, bytes: &[u8]) {
        if self.spill.is_some() || self.must_spill(bytes.len()) {
            if let Err(error) = self.spill(bytes) {
                self.failed = Some(error);
            }
            return;
        }
        self.memory.extend_from_slice(bytes);
        self.reserve_memory();
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

impl ResumableBody for BodyReceiver {
    /// Removes the staging file.
    fn forget(&mut self) {
        if self.spill.take().is_some()
            && let Some(stage) = &self.stage
            && let Err(error) = stage.remove(self.sequence)
        {
            self.failed = Some(error);
        }
        self.release();
    }

    fn start_again(&mut self) {
        self.forget();
        self.hash = self.expected_hash.as_ref().map(BodyChecksum::of_hash);
        self.start.clear();
        self.forget_evidence();
    }

    fn has_failed(&self) -> bool {
        self.failed.is_some()
    }
}

impl BodySink for BodyReceiver {
    fn head(&mut self, head: &Head, bytes: &[u8]) {
        self.is_caught = match self.expected {
            ExpectedBody::Anything => false,
            ExpectedBody::Object => true,
            ExpectedBody::ObjectOf(length) => head.status >= 300 || head.framing != Framing::Length(length),
        };
        self.keep_head(head, bytes);
        self.checksum =
            if self.wants_checksum && head.status == 200 { BodyChecksum::of_head(bytes) } else { None };
        if let Decoding::Due(encoding) = &mut self.decoding
            && head.framing != Framing::None
        {
            *encoding = ContentEncoding::of_fields(fields_in(bytes, b"content-encoding:"));
        }
        if let Some(seen) = &mut self.seen {
            seen.head(head, bytes);
        }
        if let Some(part) = &mut self.part {
            part.head(head, bytes);
        }
        if let Some(opt_out) = &mut self.opt_out {
            opt_out.head(bytes);
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
            // The bytes after `enough` that the same read returned are not counted.
            seen.piece(bytes.len().min(self.enough.saturating_sub(self.length) as usize));
        }
        self.length += bytes.len() as u64;
        self.received += bytes.len() as u64;
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes);
        }
        if let Decoding::Off | Decoding::Due(Ok(None)) = &self.decoding {
            if let Some(hash) = &mut self.hash {
                hash.update(bytes);
            }
            self.note_evidence(bytes);
        }
        if self.is_caught {
            let room = ERROR_BYTES_MAX - self.start.len();
            self.start.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if self.keeps_bodies() && self.failed.is_none() {
            self.keep(bytes);
        }
    }
}

/// Returns whether a status indicates missing or insufficient credentials.
fn is_refusal(status: u16) -> bool {
    matches!(status, 401 | 403)
}

impl Drop for BodyReceiver {
    fn drop(&mut self) {
        self.budget.release(self.reserved);
    }
}
