//! The first bytes of a body while it is received.

use super::accepted::AcceptedTypes;
use crate::limits::BODY_START_BYTES;

/// The bytes of a body that show its type. Memory: up to [`BODY_START_BYTES`] for each connection, and none unless types are
/// asked for.
#[derive(Debug, Default)]
pub struct BodyStart(Vec<u8>);

impl BodyStart {
    /// Another body comes.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes a piece of the body, decoded.
    pub fn piece(&mut self, bytes: &[u8]) {
        let room = BODY_START_BYTES - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Checks a body that is complete: see [`AcceptedTypes::refusal`].
    pub fn refusal(&self, accepted: &AcceptedTypes) -> Option<String> {
        accepted.refusal(&self.0)
    }
}
