//! What has come on a connection that is not used.

/// How every reply starts.
pub(super) const REPLY_START: &[u8; 5] = b"HTTP/";

/// What a look at an unused connection tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleState {
    /// Nothing has come: it may be used.
    Quiet,
    /// Bytes that nobody asked for,
    Unsolicited,
    /// and that look like the start of a reply: read as one, they would be another target's.
    SecondReply,
    /// The server has closed it.
    Closed,
}

impl IdleState {
    /// Whether bytes have come that nobody asked for.
    pub fn is_surplus(self) -> bool {
        matches!(self, IdleState::Unsolicited | IdleState::SecondReply)
    }

    /// Of the first bytes that came.
    pub(super) fn of(bytes: &[u8]) -> Self {
        match &bytes[..bytes.len().min(REPLY_START.len())] {
            [] => IdleState::Quiet,
            start if REPLY_START.starts_with(start) => IdleState::SecondReply,
            _ => IdleState::Unsolicited,
        }
    }
}
