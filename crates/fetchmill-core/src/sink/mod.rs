//! Sinks: what stores outcomes, and the proof that they are durable.
//!
//! A sink lives on a thread of its own beside a worker's and takes whole blocks. Its life is a repetition of
//! [`Sink::write`] (some blocks: no sync), [`Sink::checkpoint`] (sync: what is durable now) and [`Sink::committed`]
//! (the receipt of that checkpoint is in the journal). Bytes durable, then receipt, then journal.

mod block;
pub mod failures;
mod files;
mod null;
mod stage;

pub use block::{Block, Body, Entry, FetchedBody};
pub use files::{FilesSink, Placed, Places};
pub use null::NullSink;
pub use stage::Stage;

use crate::error::Result;
use crate::outcome::{FailureKind, Runs};
use crate::target::Sequence;

/// What an engine must know of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// Bodies are stored; otherwise they need not be kept.
    pub keeps_bodies: bool,
    /// Names become paths: one that cannot is failed(name) without a request.
    pub names_are_paths: bool,
}

/// What a checkpoint has made durable.
#[derive(Debug, Default)]
pub struct Durable {
    /// Objects that are stored for good.
    pub settled: Runs,
    /// How many bytes they have.
    pub bytes: u64,
    /// Objects that are safe but not yet in their place; a later checkpoint settles them.
    pub staged: Runs,
}

/// An object that could not be put in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Which target.
    pub sequence: Sequence,
    /// Its name.
    pub name: Box<[u8]>,
    /// Why.
    pub kind: FailureKind,
}

/// Stores fetched objects. All calls come from one thread, in the order that the module tells. An error stops the
/// job: what has no receipt in the journal is fetched again by the next run.
pub trait Sink: Send {
    /// Stores the fetched objects of a block. No sync. Called some thousand times a second at most.
    fn write(&mut self, block: &mut Block) -> Result<()>;

    /// Makes durable what was written. Called once a commit window, and until nothing is staged at the end.
    fn checkpoint(&mut self) -> Result<Durable>;

    /// The receipt of the last checkpoint is in the journal: objects that it staged may be put in their place. Those
    /// that cannot are returned; the next receipt must settle them as failed.
    fn committed(&mut self) -> Result<Vec<Refused>>;

    /// Whether something is written that no checkpoint has settled.
    fn has_unsettled(&self) -> bool;
}
