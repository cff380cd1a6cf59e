//! Results of lookups for a thread.

use std::time::Duration;

use super::cache::Resolution;
use crate::Millis;

/// Result of requesting a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUpStart {
    /// A lookup was started. The token comes back with its answer.
    Started,
    /// A lookup for this name was already running. Its answer returns the token.
    Joined,
    /// No fast slot is free, so the token will not be returned. Ask again after [`super::Dns::answered`].
    Full,
    /// The answer is already known, so the token will not be returned.
    Known(Resolution),
}

/// Result that comes back with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUpEnd {
    /// The answer.
    Answer(Resolution),
    /// The name was slow and no slow slot was free, so the result is unknown. Ask again later.
    Deferred,
}

/// Whether a name is looked up for the first time or rechecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookUpKind {
    /// First lookup, which may use a known answer.
    Usual,
    /// Recheck, which ignores a known answer and first tries another server and socket.
    Again,
}

/// Statistics of lookups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DnsCounts {
    /// Queries sent as datagrams.
    pub queries: u64,
    /// Queries repeated over TCP because the answer was too long.
    pub over_tcp: u64,
    /// Names answered by a server: addresses, no such name, or no address.
    pub answered: u64,
    /// Names that no server could answer.
    pub failed: u64,
    /// Names that no server answered in time.
    pub timeouts: u64,
    /// Names deferred because no slow slot was free.
    pub deferred: u64,
    /// Datagrams that answer no query: late, malformed or forged.
    pub foreign: u64,
}

pub(super) fn millis(duration: Duration) -> Millis {
    duration.as_millis().try_into().unwrap_or(Millis::MAX / 4)
}
