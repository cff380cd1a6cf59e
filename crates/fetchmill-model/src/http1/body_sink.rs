//! Where a body goes.

use std::time::Duration;

use super::head::Head;

/// Gets the bytes of a body as they come, chunking removed. Never called with nothing.
pub trait BodySink {
    /// The final head, before the body: what was understood, and its bytes as they were sent.
    fn head(&mut self, _head: &Head, _bytes: &[u8]) {}

    /// The next bytes.
    fn piece(&mut self, bytes: &[u8]);

    /// Whether the rest of the body is wanted. Asked behind the head and behind what came at once: who says no has had
    /// enough, and the connection is given up for it.
    fn wants_more(&self) -> bool {
        true
    }

    /// How long to wait before more of the body is read; none: not at all. Asked behind what came at once.
    fn pause(&self) -> Option<Duration> {
        None
    }
}

impl BodySink for Vec<u8> {
    fn piece(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
