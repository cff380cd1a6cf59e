//! What a thread is told of its look-ups.

use std::time::Duration;

use super::cache::Resolution;
use crate::Millis;

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUpStart {
    /// A look-up has begun: the token comes back with its answer.
    Started,
    /// One for this name was running: the token comes back with its answer.
    Joined,
    /// No fast slot is free; the token does not come back. Ask again after [`super::Dns::answered`].
    Full,
    /// It is known: the token does not come back.
    Known(Resolution),
}

/// What comes back with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUpEnd {
    /// What is known now.
    Answer(Resolution),
    /// This name was slow when no slow slot was free: nothing is known. Ask again later.
    Deferred,
}

/// Which look at a name this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookUpKind {
    /// What is known counts.
    Usual,
    /// A second look: what is known does not count, and another server and another socket come first.
    Again,
}

/// How much was looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DnsCounts {
    /// Queries sent as datagrams.
    pub queries: u64,
    /// Queries made again over TCP, because the answer was too long.
    pub over_tcp: u64,
    /// Names that a server has told about: addresses, no such name, no address.
    pub answered: u64,
    /// Names that no server could tell about.
    pub failed: u64,
    /// Names that no server has answered for in time.
    pub timeouts: u64,
    /// Names given up because no slow slot was free.
    pub deferred: u64,
    /// Datagrams that were no answer to a query: late, malformed or forged.
    pub foreign: u64,
}

pub(super) fn millis(duration: Duration) -> Millis {
    duration.as_millis().try_into().unwrap_or(Millis::MAX / 4)
}
