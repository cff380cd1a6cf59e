//! Results that a thread gets from its look-ups.

use std::time::Duration;

use super::cache::Resolution;
use crate::Millis;

/// Result of asking for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUpStart {
    /// A look-up has begun: the token comes back with its answer.
    Started,
    /// A look-up for this name was already running. The token comes back with its answer.
    Joined,
    /// No fast slot is free. The token does not come back. Ask again after [`super::Dns::answered`].
    Full,
    /// The answer is already known. The token does not come back.
    Known(Resolution),
}

/// Result that comes back with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUpEnd {
    /// The answer.
    Answer(Resolution),
    /// The name was slow and no slow slot was free, so nothing is known. Ask again later.
    Deferred,
}

/// Whether a name is looked up for the first time or rechecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookUpKind {
    /// First look-up. A known answer is used.
    Usual,
    /// Recheck. A known answer is ignored, and another server and another socket are tried first.
    Again,
}

/// Counters of look-ups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DnsCounts {
    /// Queries sent as datagrams.
    pub queries: u64,
    /// Queries repeated over TCP because the answer was too long.
    pub over_tcp: u64,
    /// Names that a server has answered for: addresses, no such name, or no address.
    pub answered: u64,
    /// Names that no server could answer for.
    pub failed: u64,
    /// Names that no server answered for in time.
    pub timeouts: u64,
    /// Names deferred because no slow slot was free.
    pub deferred: u64,
    /// Datagrams that did not answer a query: late, malformed or forged.
    pub foreign: u64,
}

pub(super) fn millis(duration: Duration) -> Millis {
    duration.as_millis().try_into().unwrap_or(Millis::MAX / 4)
}
