//! The trait for receivers of a reply's body.

use std::time::Duration;

use super::head::Head;

/// Receives the bytes of a body as they arrive, without the chunked framing. Pieces are never empty.
pub trait BodySink {
    /// Receives the final head before the body, both parsed and as the raw bytes.
    fn head(&mut self, _head: &Head, _bytes: &[u8]) {}

    /// Receives the next bytes.
    fn piece(&mut self, bytes: &[u8]);

    /// Returns whether to read the rest of the body. If not, the connection is closed. This method is called after the
    /// head and after each group of bytes that arrived together.
    fn wants_more(&self) -> bool {
        true
    }

    /// Returns how long to wait before reading more of the body. `None` means no wait. This method is called after each
    /// group of bytes that arrived together.
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
