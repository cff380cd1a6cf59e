//! The reason why a reply is refused.

use crate::outcome::FailureKind;

/// A refused reply. Its connection must not be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", .kind.name())]
pub struct MalformedReply {
    /// Failure kind of the target.
    pub kind: FailureKind,
    /// Reason as text.
    pub reason: &'static str,
}

impl MalformedReply {
    pub(super) fn new(kind: FailureKind, reason: &'static str) -> Self {
        MalformedReply { kind, reason }
    }

    pub(super) fn framing(reason: &'static str) -> Self {
        MalformedReply::new(FailureKind::Framing, reason)
    }
}

pub(super) fn body_too_large() -> MalformedReply {
    MalformedReply::new(FailureKind::BodyTooLarge, "the body is larger than --max-size")
}
