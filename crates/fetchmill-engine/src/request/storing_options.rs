//! Options for storing objects, except their format: durability, a hash of each body, the user's function, and the pass
//! of a sync.

use serde::{Deserialize, Serialize};

use fetchmill_model::options::words;
use fetchmill_model::target::Sequence;

/// The event that a commit survives.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A power cut.
    #[default]
    Power,
    /// The death of the process.
    Process,
}

/// Algorithm of the hash column, which has the hash of each body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashAlgorithm {
    /// The column is [`HashColumn::NAME`].
    Sha256,
}

words!(Durability, HashAlgorithm);

/// A function that processes fetched replies before they are stored. It runs in one process for each worker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformOptions {
    /// Command of such a process, which communicates over its standard input (`engine::transform`).
    pub command: Vec<String>,
    /// First message to the process, which defines the function.
    pub setup: Vec<u8>,
    /// Image conversion, if the function makes one. Unlike other functions, it is part of the job's identity.
    #[serde(default)]
    pub images: Option<String>,
}

/// Facts about the destination of a sync's pass, which gets the shards of this job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassOptions {
    /// First sequence number of the job.
    pub first_sequence: Sequence,
    /// Whether the rows of the destination have URLs.
    pub has_url: bool,
}
