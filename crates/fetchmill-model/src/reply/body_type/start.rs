//! The first bytes of a body while the body is being received.

use super::accepted::AcceptedTypes;
use crate::limits::BODY_START_BYTES;

/// The first bytes of a body, which show its type. They take up to [`BODY_START_BYTES`] of memory per connection, but
/// only with `--accept`.
#[derive(Debug, Default)]
pub struct BodyStart(Vec<u8>);

impl BodyStart {
    /// Resets the buffer for the next body.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a piece of the decoded body.
    pub fn piece(&mut self, bytes: &[u8]) {
        let room = BODY_START_BYTES - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Checks a complete body (see [`AcceptedTypes::refusal`]).
    pub fn refusal(&self, accepted: &AcceptedTypes) -> Option<String> {
        accepted.refusal(&self.0)
    }
}
