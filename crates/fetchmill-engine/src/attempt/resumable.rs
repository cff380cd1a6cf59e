//! Bodies that can be resumed. If a body is truncated, only the missing part is requested.
//!
//! The received bytes stay in place, so the usual limits on bodies apply. [`fetchmill_model::verdict`] decides whether
//! to request the missing part, and judges the reply.

use std::time::Duration;

use fetchmill_model::http1::{BodySink, Head};
use fetchmill_model::verdict::{ResumedReply, Resumption};
use fetchmill_net::{IF_RANGE, RANGE};

/// Receiver of the replies to a request.
pub(crate) trait ResumableBody: BodySink {
    /// Discards the received bytes.
    fn forget(&mut self);

    /// Prepares for a reply that contains the whole object or something unusable, instead of the requested rest.
    fn start_again(&mut self);

    /// Returns whether this machine failed to store the bytes.
    fn has_failed(&self) -> bool {
        false
    }
}

/// A body and its transfer progress. Counts the bytes passed to `inner`.
#[derive(Debug, Default)]
pub(crate) struct Resumable<B> {
    pub(crate) inner: B,
    /// Whether the rest can be requested if the body is truncated.
    may_break: bool,
    /// Values from the head that a request for the rest needs.
    resumption: Option<Resumption>,
    phase: BodyPhase,
    /// Number of bytes of the object received so far.
    came: u64,
    /// Number of bytes received from the last request.
    brought: u64,
}

/// State of the transfer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum BodyPhase {
    /// Receiving the whole object.
    #[default]
    First,
    /// Truncated. The rest is requested next.
    BrokenOff,
    /// Receiving the rest.
    Rest,
    /// Receiving the whole object, although the rest was requested.
    Anew,
    /// Receiving something else, although the rest was requested.
    Other,
}

impl<B> Resumable<B> {
    pub(crate) fn new(inner: B) -> Self {
        Resumable { inner, may_break: false, resumption: None, phase: BodyPhase::First, came: 0, brought: 0 }
    }

    /// Prepares for another body and resets the progress.
    pub(crate) fn start(&mut self, may_break: bool) {
        self.may_break = may_break;
        self.forget_progress();
    }

    /// Records that `inner` was handed over to the sink.
    pub(crate) fn handed_over(&mut self) {
        self.forget_progress();
    }

    fn forget_progress(&mut self) {
        (self.resumption, self.phase) = (None, BodyPhase::First);
        (self.came, self.brought) = (0, 0);
    }

    /// Keeps the received bytes because the rest will be requested.
    pub(crate) fn break_off(&mut self) {
        (self.phase, self.brought) = (BodyPhase::BrokenOff, 0);
    }

    /// Returns whether the rest can be requested if the body is truncated here. If the whole object arrived instead of
    /// the rest, the body cannot be resumed, because that attempt is over.
    pub(crate) fn can_be_resumed(&self) -> bool {
        let may = matches!(self.phase, BodyPhase::First | BodyPhase::BrokenOff | BodyPhase::Rest);
        may && self.resumption.is_some()
    }

    /// Returns whether the rest has not been received yet.
    pub(crate) fn is_broken_off(&self) -> bool {
        self.phase == BodyPhase::BrokenOff
    }

    /// Returns whether the last reply cannot be used as the rest.
    pub(crate) fn is_no_rest(&self) -> bool {
        self.phase == BodyPhase::Other
    }

    /// Returns the number of bytes received from the last request.
    pub(crate) fn brought(&self) -> u64 {
        self.brought
    }

    /// Returns the header fields that request the rest (`Range` and `If-Range`), if it is missing.
    pub(crate) fn rest_fields(&self) -> Option<[(String, String); 2]> {
        let resumption = self.resumption.as_ref().filter(|_| self.is_broken_off())?;
        let range = resumption.rest(self.came)?.to_string();
        Some([(RANGE.to_owned(), range), (IF_RANGE.to_owned(), resumption.etag().to_owned())])
    }

    /// Returns the head of the whole object. `last` is the head of the last reply.
    pub(crate) fn head_of_whole(&self, last: Head) -> Head {
        let resumption = self.resumption.as_ref().filter(|_| self.phase == BodyPhase::Rest);
        resumption.map_or(last, |resumption| resumption.head_of_whole(&last))
    }
}

impl<B: ResumableBody> Resumable<B> {
    /// Discards the received bytes.
    pub(crate) fn discard(&mut self) {
        self.inner.forget();
        self.forget_progress();
    }

    /// Handles the head of the reply to a request for the rest. Returns whether the body starts with the object's first
    /// byte.
    fn begins_anew(&mut self, head: &Head, bytes: &[u8]) -> bool {
        let resumption = self.resumption.as_ref();
        let reply =
            resumption.map_or(ResumedReply::Other, |resumption| resumption.reply(self.came, head, bytes));
        let phase = match reply {
            ResumedReply::Rest => BodyPhase::Rest,
            ResumedReply::Whole => BodyPhase::Anew,
            ResumedReply::Other => BodyPhase::Other,
        };
        if phase != BodyPhase::Rest {
            self.forget_progress();
            self.inner.start_again();
        }
        self.phase = phase;
        phase == BodyPhase::Anew
    }
}

impl<B: ResumableBody> BodySink for Resumable<B> {
    fn head(&mut self, head: &Head, bytes: &[u8]) {
        if self.is_broken_off() && !self.begins_anew(head, bytes) {
            return;
        }
        self.resumption = if self.may_break { Resumption::of_head(head, bytes) } else { None };
        self.inner.head(head, bytes);
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.came += bytes.len() as u64;
        self.brought += bytes.len() as u64;
        if !self.is_no_rest() {
            self.inner.piece(bytes);
        }
    }

    fn wants_more(&self) -> bool {
        !self.is_no_rest() && self.inner.wants_more()
    }

    fn pause(&self) -> Option<Duration> {
        self.inner.pause()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::http1::{ReplyProgress, ReplyReader};
    use fetchmill_model::limits::RESUMED_BYTES_MIN;

    impl ResumableBody for Vec<u8> {
        fn forget(&mut self) {
            self.clear();
        }

        fn start_again(&mut self) {
            self.clear();
        }
    }

    const LENGTH: u64 = RESUMED_BYTES_MIN + 10;

    fn receive(body: &mut Resumable<Vec<u8>>, head: &str, bytes: &[u8]) {
        let mut reader = ReplyReader::new(u64::MAX);
        reader.start_partial();
        let text = format!("HTTP/1.1 {head}\r\n\r\n");
        let progress = reader.read(&[text.as_bytes(), bytes].concat(), body).unwrap();
        assert!(matches!(progress, ReplyProgress::NeedMore { .. } | ReplyProgress::Done { .. }));
    }

    fn broken_off() -> Resumable<Vec<u8>> {
        let mut body = Resumable::new(Vec::new());
        body.start(true);
        let head = format!("200 OK\r\nContent-Length: {LENGTH}\r\nETag: \"a\"");
        receive(&mut body, &head, &vec![b'x'; LENGTH as usize - 3]);
        assert!(body.can_be_resumed() && !body.is_broken_off());
        body.break_off();
        body
    }

    #[test]
    fn the_rest_is_appended() {
        let mut body = broken_off();
        let [(range, bytes), (condition, etag)] = body.rest_fields().unwrap();
        assert_eq!((range.as_str(), condition.as_str(), etag.as_str()), (RANGE, IF_RANGE, "\"a\""));
        assert_eq!(bytes, format!("bytes={}-{}", LENGTH - 3, LENGTH - 1));

        let range = format!("{}-{}/{LENGTH}", LENGTH - 3, LENGTH - 1);
        let head = format!("206 Partial\r\nContent-Length: 3\r\nETag: \"a\"\r\nContent-Range: bytes {range}");
        receive(&mut body, &head, b"abc");

        assert!(body.inner.ends_with(b"xabc") && body.inner.len() as u64 == LENGTH);
        assert_eq!(body.brought(), 3);
    }

    #[test]
    fn another_object_takes_the_place_of_the_first_one() {
        let mut body = broken_off();
        receive(&mut body, "200 OK\r\nContent-Length: 3\r\nETag: \"b\"", b"abc");
        assert_eq!(
            (body.inner.as_slice(), body.can_be_resumed(), body.is_no_rest()),
            (&b"abc"[..], false, false)
        );
    }

    #[test]
    fn anything_else_is_dropped() {
        let mut body = broken_off();
        receive(&mut body, "503 Busy\r\nContent-Length: 3", b"abc");
        assert_eq!((body.inner.as_slice(), body.is_no_rest(), body.wants_more()), (&b""[..], true, false));
    }
}
