//! What goes to the thread that fetches and what comes back: many at once, their texts and bodies in one piece each.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::http1::{KeptFields, Span};
use crate::limits;
use crate::outcome::FailureKind;

/// What a request says that is not a plain `GET`.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// In capitals, as `GET`.
    pub method: String,
    /// Its own fields, checked by [`crate::http1::check_field`].
    pub fields: Vec<(String, String)>,
    /// Its body.
    pub body: Option<Vec<u8>>,
    /// Whether it may be made twice: only then it is ever made again.
    pub is_idempotent: bool,
}

/// A request within a batch.
#[derive(Debug)]
pub(super) struct Requested {
    pub(super) slot: u32,
    url_end: usize,
    pub(super) call: Option<Arc<Call>>,
}

/// Requests that are submitted together.
#[derive(Debug, Default)]
pub struct Requests {
    urls: String,
    requested: Vec<Requested>,
    pub(super) submitted: Option<Instant>,
}

impl Requests {
    /// Adds a request; its reply has the same `slot`.
    pub fn push(&mut self, slot: u32, url: &str, call: Option<Arc<Call>>) {
        self.urls.push_str(url);
        self.requested.push(Requested { slot, url_end: self.urls.len(), call });
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.requested.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.requested.is_empty()
    }

    /// Forgets all of them and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.urls.clear();
        self.requested.clear();
    }

    /// One of them, with its URL.
    pub(super) fn get(&self, position: usize) -> Option<(&Requested, &str)> {
        let start = position.checked_sub(1).map_or(0, |before| self.requested[before].url_end);
        let requested = self.requested.get(position)?;
        Some((requested, &self.urls[start..requested.url_end]))
    }
}

/// Where the time of a request went, in microseconds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// From its submission to the start of its last attempt.
    pub queue: u64,
    /// Making the connection of that attempt, unless it was there.
    pub connect: u64,
    /// From the start of that attempt to the first bytes of the reply.
    pub first_byte: u64,
    /// From its submission to the end of the reply.
    pub total: u64,
}

/// Where a body is.
#[derive(Debug)]
pub enum Body {
    /// Among the bytes of its batch.
    Inside(Range<usize>),
    /// By itself.
    Large(Vec<u8>),
}

/// A reply, or what came instead of one.
#[derive(Debug)]
pub struct Record {
    /// Whose.
    pub slot: u32,
    /// Of a complete reply; 0 for none.
    pub status: u16,
    /// Why there is no complete reply, and the same for people.
    pub failure: Option<(FailureKind, &'static str)>,
    /// Where it came from, when it was redirected there.
    pub url: Option<Box<str>>,
    /// See [`Times`].
    pub times: Times,
    /// See [`Body`].
    pub body: Body,
    head: Range<usize>,
    kept: KeptFields,
}

/// Replies that are handed over together.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// Bytes of all bodies.
    pub(super) body_bytes: usize,
}

impl Replies {
    /// How many.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// One of them.
    pub fn get(&self, position: usize) -> Option<&Record> {
        self.records.get(position)
    }

    /// The same, to take what it owns.
    pub fn get_mut(&mut self, position: usize) -> Option<&mut Record> {
        self.records.get_mut(position)
    }

    /// The head of a reply, as it was sent.
    pub fn head(&self, record: &Record) -> &[u8] {
        &self.bytes[record.head.clone()]
    }

    /// The body of a reply.
    pub fn body<'a>(&'a self, record: &'a Record) -> &'a [u8] {
        match &record.body {
            Body::Inside(range) => &self.bytes[range.clone()],
            Body::Large(bytes) => bytes,
        }
    }

    /// The value of `Content-Type`.
    pub fn content_type(&self, record: &Record) -> Option<&[u8]> {
        record.kept.content_type.map(|span: Span| span.in_head(self.head(record)))
    }

    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= limits::STREAM_BATCH_REPLIES || self.body_bytes >= limits::STREAM_BATCH_BYTES
    }

    /// Adds a complete reply. A large body is taken, another one is copied.
    pub(super) fn push_reply(
        &mut self,
        (slot, status): (u32, u16),
        (head, kept): (&[u8], KeptFields),
        body: &mut Vec<u8>,
        url: Option<Box<str>>,
        times: Times,
    ) {
        let head = self.append(head);
        self.body_bytes += body.len();
        let body = if body.len() < limits::STREAM_BODY_COPIED_BYTES {
            Body::Inside(self.append(body))
        } else {
            body.shrink_to_fit();
            Body::Large(std::mem::take(body))
        };
        self.records.push(Record { slot, status, failure: None, url, times, body, head, kept });
    }

    /// Adds what came instead of a reply.
    pub(super) fn push_failure(&mut self, slot: u32, failure: (FailureKind, &'static str), times: Times) {
        self.records.push(Record {
            slot,
            status: 0,
            failure: Some(failure),
            url: None,
            times,
            body: Body::Inside(0..0),
            head: 0..0,
            kept: KeptFields::default(),
        });
    }

    fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Forgets all of them and keeps the memory, unless it is much.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
        self.bytes.shrink_to(limits::STREAM_BATCH_BYTES);
        self.body_bytes = 0;
    }
}
