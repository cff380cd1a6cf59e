//! Options for storing objects, except for the format: durability, hashes of bodies, transforms, and the pass of a
//! sync.

use serde::{Deserialize, Serialize};

use fetchmill_model::options::words;
use fetchmill_model::target::Sequence;

/// Kind of crash that a commit must survive.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A power cut of the machine.
    #[default]
    Power,
    /// A crash of the process.
    Process,
}

/// Algorithm of the hash column, which contains the hash of each body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashAlgorithm {
    /// SHA-256. The column is [`HashColumn::NAME`].
    Sha256,
}

words!(Durability, HashAlgorithm);

/// A function that processes replies before they are stored. It runs in one process per worker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformOptions {
    /// Command that starts one of these processes, which communicates over its standard input (`engine::transform`).
    pub command: Vec<String>,
    /// First message to the process. It defines the function.
    pub setup: Vec<u8>,
    /// Image conversion, if the function performs one. It is part of the job's identity, unlike other functions.
    #[serde(default)]
    pub images: Option<String>,
}

/// Facts about the destination of a sync pass that receives the shards of this job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassOptions {
    /// First sequence number of the job.
    pub first_sequence: Sequence,
    /// Whether the rows in the destination have URLs.
    pub has_url: bool,
}
