//! The results of lookups, in the form in which a thread receives them.

use std::time::Duration;

use super::cache::Resolution;
use crate::Millis;

/// Result of a request for a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUpStart {
    /// A lookup was started. Its answer will be returned with the token.
    Started,
    /// A lookup for this name was already running. Its answer will be returned with the token.
    Joined,
    /// No fast slot is free, and the token is dropped. Ask again after [`super::Dns::answered`].
    Full,
    /// The answer is already known. The token is dropped.
    Known(Resolution),
}

/// Result that is returned with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUpEnd {
    /// The answer.
    Answer(Resolution),
    /// The name was slow and no slow slot was free, so the result is unknown. Ask again later.
    Deferred,
}

/// Whether a name is looked up for the first time or again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookUpKind {
    /// First lookup, which may use a known answer.
    Usual,
    /// Repeated lookup. It ignores a known answer and starts with another server and socket.
    Again,
}

/// Statistics of lookups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DnsCounts {
    /// Queries sent as datagrams.
    pub queries: u64,
    /// Queries repeated over TCP because the answer did not fit into a datagram.
    pub over_tcp: u64,
    /// Names for which a server gave a definite answer: addresses, no such name, or no address.
    pub answered: u64,
    /// Names that no server could answer.
    pub failed: u64,
    /// Names that no server answered in time.
    pub timeouts: u64,
    /// Names deferred because no slow slot was free.
    pub deferred: u64,
    /// Datagrams that answer no current query, because they are late, malformed or forged.
    pub foreign: u64,
}

pub(super) fn millis(duration: Duration) -> Millis {
    duration.as_millis().try_into().unwrap_or(Millis::MAX / 4)
}
