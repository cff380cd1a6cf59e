//! A reply while it is being received: its head, and its body in memory.

use crate::attempt::{Failure, Resumable, ResumableBody};
use fetchmill_model::http1::{BodySink, FieldSpans, Framing, Head};
use fetchmill_model::limits::{HEAD_KEPT_BYTES, MIB};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::content_encoding::{ContentEncoding, DecodeError, not_asked_for};
use fetchmill_model::verdict::fields_in;

/// Number of bytes that a task keeps allocated for its next body.
const KEPT_BYTES: usize = 16 * 1024;

/// Receiver of a task's reply.
pub(super) type StreamBody = Resumable<ReplyBuffer>;

/// Reply in memory. See [`StreamBody`].
#[derive(Default)]
pub(super) struct ReplyBuffer {
    pub(super) head: Vec<u8>,
    pub(super) kept: FieldSpans,
    pub(super) body: Vec<u8>,
    /// Body length according to the head, or `None` if the head does not contain a length.
    length: Option<u64>,
    /// This body's share of the thread's total for large bodies, in bytes.
    pub(super) reserved: usize,
}

impl ReplyBuffer {
    pub(super) fn clear(&mut self) {
        self.head.clear();
        self.head.shrink_to(HEAD_KEPT_BYTES);
        self.body.clear();
        self.body.shrink_to(KEPT_BYTES);
        self.length = None;
    }

    /// Returns the memory in bytes that the whole body needs, or at least the memory that it uses so far.
    pub(super) fn expected(&self) -> usize {
        self.body.len().max(self.length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0))
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.head.capacity() + self.body.capacity()
    }

    /// Decodes the complete body as specified by its head. The decoded body can have up to `bytes_max` bytes.
    pub(super) fn decode(&mut self, bytes_max: u64) -> Result<(), Failure> {
        let encoding = ContentEncoding::of_fields(fields_in(&self.head, b"content-encoding:"))
            .map_err(|name| Failure::new(FailureKind::BadEncoding, not_asked_for(&name)))?;
        let Some(encoding) = encoding else { return Ok(()) };
        let encoded = std::mem::take(&mut self.body);
        let decoded = encoding.decode(encoded.as_slice(), bytes_max, |piece| {
            self.body.extend_from_slice(piece);
            true
        });
        decoded.map_err(|error| match error {
            DecodeError::TooLong => {
                Failure::new(FailureKind::BodyTooLarge, "the decoded body is larger than max_size")
            }
            DecodeError::Malformed(problem) => Failure::new(FailureKind::BadEncoding, problem),
            DecodeError::Storage(error) => Failure::new(FailureKind::BadEncoding, error.to_string()),
        })
    }

    /// Returns the value of the reply's `Location` field.
    pub(super) fn location(&self) -> Option<&[u8]> {
        self.kept.location.map(|span| span.in_head(&self.head))
    }
}

impl ResumableBody for ReplyBuffer {
    fn forget(&mut self) {
        self.clear();
    }

    fn start_again(&mut self) {
        self.clear();
    }
}

impl BodySink for ReplyBuffer {
    fn head(&mut self, head: &Head, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
        self.kept = head.kept;
        if let Framing::Length(length) = head.framing {
            self.length = Some(length);
            // The declared length might be wrong, so more memory is allocated only as the body arrives.
            self.body.reserve(usize::try_from(length).unwrap_or(MIB).min(MIB));
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}
