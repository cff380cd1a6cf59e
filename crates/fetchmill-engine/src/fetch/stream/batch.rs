//! Batches of requests to the fetching thread, and batches of its replies. Each batch keeps its strings and bodies in
//! one buffer.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::request::custom_request::CustomRequest;
use fetchmill_model::http1::{FieldSpans, Span};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::outcome::skips::SkipReason;

/// A request in a batch.
#[derive(Debug)]
pub(super) struct BatchedRequest {
    pub(super) slot: u32,
    pub(super) index: u64,
    url_end: usize,
    pub(super) call: Option<Arc<CustomRequest>>,
}

/// Requests that are submitted together.
#[derive(Debug, Default)]
pub struct RequestBatch {
    urls: String,
    requested: Vec<BatchedRequest>,
    pub(super) submitted: Option<Instant>,
}

impl RequestBatch {
    /// Adds a request. Its reply carries the same `slot`. `index` is its position in the input.
    pub fn push(&mut self, (slot, index): (u32, u64), url: &str, call: Option<Arc<CustomRequest>>) {
        self.urls.push_str(url);
        self.requested.push(BatchedRequest { slot, index, url_end: self.urls.len(), call });
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.requested.len()
    }

    /// Returns whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.requested.is_empty()
    }

    /// Removes all requests and keeps the allocated memory.
    pub(super) fn clear(&mut self) {
        self.urls.clear();
        self.requested.clear();
    }

    /// Returns a request and its URL.
    pub(super) fn get(&self, position: usize) -> Option<(&BatchedRequest, &str)> {
        let start = position.checked_sub(1).map_or(0, |before| self.requested[before].url_end);
        let requested = self.requested.get(position)?;
        Some((requested, &self.urls[start..requested.url_end]))
    }
}

/// Timings of a request in microseconds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimes {
    /// Time from the submission of the request to the start of the last attempt.
    pub queue: u64,
    /// Time to open the connection for the last attempt. 0 if the connection was already open.
    pub connect: u64,
    /// Time from the start of the last attempt to the first byte of the reply.
    pub first_byte: u64,
    /// Time from the submission of the request to the end of the reply.
    pub total: u64,
}

/// Location of a body.
#[derive(Debug)]
pub enum ReplyBody {
    /// In the buffer of the batch.
    Inside(Range<usize>),
    /// In a separate buffer.
    Large(Vec<u8>),
}

/// Reason why there is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoReply {
    /// No complete reply was received.
    Failed(FailureKind),
    /// The reply forbids the use of its content (`opt_out`).
    OptedOut,
}

impl NoReply {
    /// Returns the name that programs and rows use.
    pub fn name(self) -> &'static str {
        match self {
            NoReply::Failed(kind) => kind.name(),
            NoReply::OptedOut => SkipReason::OPTED_OUT,
        }
    }

    /// Parses a name that [`NoReply::name`] returned.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == SkipReason::OPTED_OUT {
            return Some(NoReply::OptedOut);
        }
        FailureKind::from_name(name).map(NoReply::Failed)
    }
}

/// A reply, or the reason why there is none.
#[derive(Debug)]
pub struct ReplyRecord {
    /// Slot of the request that this record answers.
    pub slot: u32,
    /// Status of a complete reply. 0 if there is none.
    pub status: u16,
    /// Reason why there is no reply, and a text for the user.
    pub failure: Option<(NoReply, Cow<'static, str>)>,
    /// Final URL, if there were redirects.
    pub url: Option<Box<str>>,
    /// Timings of the request.
    pub times: RequestTimes,
    /// Location of the body.
    pub body: ReplyBody,
    head: Range<usize>,
    kept: FieldSpans,
}

/// Replies that are handed over together.
#[derive(Debug, Default)]
pub struct ReplyBatch {
    bytes: Vec<u8>,
    records: Vec<ReplyRecord>,
    /// Total size of all bodies in bytes.
    pub(super) body_bytes: usize,
}

impl ReplyBatch {
    /// Returns the number of replies.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns a reply.
    pub fn get(&self, position: usize) -> Option<&ReplyRecord> {
        self.records.get(position)
    }

    /// Returns a mutable reference to a reply, so that the caller can take values from it.
    pub fn get_mut(&mut self, position: usize) -> Option<&mut ReplyRecord> {
        self.records.get_mut(position)
    }

    /// Returns the head of a reply as the server sent it.
    pub fn head(&self, record: &ReplyRecord) -> &[u8] {
        &self.bytes[record.head.clone()]
    }

    /// Returns the body of a reply.
    pub fn body<'a>(&'a self, record: &'a ReplyRecord) -> &'a [u8] {
        match &record.body {
            ReplyBody::Inside(range) => &self.bytes[range.clone()],
            ReplyBody::Large(bytes) => bytes,
        }
    }

    /// Returns the value of `Content-Type`.
    pub fn content_type(&self, record: &ReplyRecord) -> Option<&[u8]> {
        record.kept.content_type.map(|span: Span| span.in_head(self.head(record)))
    }

    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= limits::STREAM_BATCH_REPLIES || self.body_bytes >= limits::STREAM_BATCH_BYTES
    }

    /// Adds a complete reply. A large body is moved, and a small one is copied.
    pub(super) fn push_reply(
        &mut self,
        (slot, status): (u32, u16),
        (head, kept): (&[u8], FieldSpans),
        body: &mut Vec<u8>,
        url: Option<Box<str>>,
        times: RequestTimes,
    ) {
        let head = self.append(head);
        self.body_bytes += body.len();
        let body = if body.len() < limits::STREAM_BODY_COPIED_BYTES {
            ReplyBody::Inside(self.append(body))
        } else {
            body.shrink_to_fit();
            ReplyBody::Large(std::mem::take(body))
        };
        self.records.push(ReplyRecord { slot, status, failure: None, url, times, body, head, kept });
    }

    /// Adds a failure instead of a reply.
    pub(super) fn push_failure(
        &mut self,
        slot: u32,
        failure: (NoReply, Cow<'static, str>),
        times: RequestTimes,
    ) {
        self.records.push(ReplyRecord {
            slot,
            status: 0,
            failure: Some(failure),
            url: None,
            times,
            body: ReplyBody::Inside(0..0),
            head: 0..0,
            kept: FieldSpans::default(),
        });
    }

    fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Removes all replies. Keeps the allocated memory unless it is large.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
        self.bytes.shrink_to(limits::STREAM_BATCH_BYTES);
        self.body_bytes = 0;
    }
}
