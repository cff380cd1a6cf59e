//! Input that arrives on an unused connection.

/// First bytes of every reply.
pub(super) const REPLY_START: &[u8; 5] = b"HTTP/";

/// State of an unused connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleState {
    /// Nothing arrived, so the connection can be used.
    Quiet,
    /// Unsolicited bytes arrived.
    Unsolicited,
    /// Unsolicited bytes arrived that look like a reply. Reading them as a reply would assign them to the wrong
    /// target's request.
    SecondReply,
    /// The server has closed the connection.
    Closed,
}

impl IdleState {
    /// Returns whether unsolicited bytes arrived.
    pub fn is_surplus(self) -> bool {
        matches!(self, IdleState::Unsolicited | IdleState::SecondReply)
    }

    /// Derives the state from the first bytes that arrived.
    pub(super) fn of(bytes: &[u8]) -> Self {
        match &bytes[..bytes.len().min(REPLY_START.len())] {
            [] => IdleState::Quiet,
            start if REPLY_START.starts_with(start) => IdleState::SecondReply,
            _ => IdleState::Unsolicited,
        }
    }
}
