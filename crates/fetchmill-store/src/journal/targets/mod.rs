//! States of targets: finished, waiting, begun, doubtful, or waiting again after a loss (tables `staged`, `failures`,
//! `waiting`, `begun`, `doubtful`).

mod begun;
pub(super) mod doubtful;
pub(super) mod receipts;
mod repair;
mod waiting;
