//! Interface for the receiver of a body.

use std::time::Duration;

use super::head::Head;

/// Receives the bytes of a body as they arrive, without the chunked framing. Pieces are never empty.
pub trait BodySink {
    /// Receives the final head before the body, in parsed form and as the bytes that were sent.
    fn head(&mut self, _head: &Head, _bytes: &[u8]) {}

    /// Receives the next bytes.
    fn piece(&mut self, bytes: &[u8]);

    /// Returns whether the rest of the body is wanted. If not, the connection is closed. It is called after the head
    /// and after each group of bytes that arrived together.
    fn wants_more(&self) -> bool {
        true
    }

    /// Returns how long to wait before reading more of the body. `None` for no wait. It is called after each group of
    /// bytes that arrived together.
    fn pause(&self) -> Option<Duration> {
        None
    }
}

/// A sink that discards everything.
#[derive(Debug, Default)]
pub struct DiscardedBody;

impl BodySink for DiscardedBody {
    fn piece(&mut self, _bytes: &[u8]) {}
}

impl BodySink for Vec<u8> {
    fn piece(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
