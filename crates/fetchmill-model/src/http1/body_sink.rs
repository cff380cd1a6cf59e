//! Interface for the receiver of a body.

use std::time::Duration;

use super::head::Head;

/// Receives the bytes of a body as they come, without chunking. Pieces are never empty.
pub trait BodySink {
    /// Receives the final head before the body: its parsed form, and its bytes as sent.
    fn head(&mut self, _head: &Head, _bytes: &[u8]) {}

    /// Receives the next bytes.
    fn piece(&mut self, bytes: &[u8]);

    /// Returns whether the rest of the body is wanted. It is called after the head, and after the bytes that came
    /// together. If the answer is no, the connection is closed.
    fn wants_more(&self) -> bool {
        true
    }

    /// Returns how long to wait before reading more of the body. `None` for no wait. It is called after the bytes that
    /// came together.
    fn pause(&self) -> Option<Duration> {
        None
    }
}

impl BodySink for Vec<u8> {
    fn piece(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
