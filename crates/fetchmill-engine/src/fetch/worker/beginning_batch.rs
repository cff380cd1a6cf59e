//! A batch with requests that must not be made twice, while the journal does not yet know of them.

use std::sync::mpsc::Receiver;

use fetchmill_model::outcome::ShardNumber;
use fetchmill_model::target::Batch;

/// See the module.
pub(super) struct BeginningBatch {
    pub(super) batch: Batch,
    /// Tells that the journal knows of it; no shard has anything to do with that.
    pub(super) noted: Receiver<Option<ShardNumber>>,
}
