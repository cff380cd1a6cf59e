//! Input on an unused connection.

/// First bytes of every reply.
pub(super) const REPLY_START: &[u8; 5] = b"HTTP/";

/// State of an unused connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleState {
    /// Nothing has come. The connection can be used.
    Quiet,
    /// Unsolicited bytes came.
    Unsolicited,
    /// Unsolicited bytes came that look like the start of a reply. Read as a reply, they would answer another target's
    /// request.
    SecondReply,
    /// The server has closed the connection.
    Closed,
}

impl IdleState {
    /// Returns whether unsolicited bytes came.
    pub fn is_surplus(self) -> bool {
        matches!(self, IdleState::Unsolicited | IdleState::SecondReply)
    }

    /// Returns the state for the first bytes that came.
    pub(super) fn of(bytes: &[u8]) -> Self {
        match &bytes[..bytes.len().min(REPLY_START.len())] {
            [] => IdleState::Quiet,
            start if REPLY_START.starts_with(start) => IdleState::SecondReply,
            _ => IdleState::Unsolicited,
        }
    }
}
