//! How objects are stored, apart from their format: durability, a hash of each body, the user's function, and the pass of a
//! sync.

use serde::{Deserialize, Serialize};

use fetchmill_model::options::words;
use fetchmill_model::target::Sequence;

/// What a commit survives.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A power cut.
    #[default]
    Power,
    /// The death of the process.
    Process,
}

/// Of which hash of each body rows have a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashAlgorithm {
    /// The column is [`HashColumn::NAME`].
    Sha256,
}

words!(Durability, HashAlgorithm);

/// A function that is given the fetched replies before they are stored. It runs in processes: one for each worker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformOptions {
    /// The command of such a process, which speaks over its standard input (`engine::transform`).
    pub command: Vec<String>,
    /// What it is sent first: it tells the process what the function is.
    pub setup: Vec<u8>,
    /// What is made of images, if that is what it does. Unlike a function it identifies the job.
    #[serde(default)]
    pub images: Option<String>,
}

/// What a job that fetches for a pass of a sync must know of the destination, which gets its shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassOptions {
    /// Its sequence numbers go on from here.
    pub first_sequence: Sequence,
    /// Whether the rows there have URLs.
    pub has_url: bool,
}
