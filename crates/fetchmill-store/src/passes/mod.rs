//! Passes of a sync: compare the contents of a destination with the listing of its source, and bring the destination up
//! to date.
//!
//! The **base** (`base.sqlite`) records the contents after the last pass. It has one row per object, and one
//! transaction updates it at the end of a pass. The **plan** (`pass.sqlite`) contains the differences. Its file is
//! either complete or absent. An ordinary job fetches the objects into a folder next to these files, and renames move
//! them into place. As a result, each object is either the old or the new version at any time, and every step can be
//! repeated after a kill ([decision 38](../../../../docs/internals/decisions/0038-a-sync-stages-what-it-fetches.md)).
//!
//! If objects are in shards, shards with unwanted objects are rewritten first. After that, a single transaction of the
//! destination's journal swaps the shards ([decision
//! 47](../../../../docs/internals/decisions/0047-a-sync-exchanges-shards-at-once.md)).

mod adopt;
mod applied;
mod apply;
mod compare;
mod conclude;
mod copies;
mod database;
mod listing;
mod local;
mod outcomes;
mod placed_files;
mod plan;
mod requests;
mod rewrites;
mod store;
mod synced_shards;
#[cfg(test)]
mod tests;

pub use conclude::SyncLedger;
pub(crate) use local::LocalFolder;
pub use plan::{PlanCounts, PlanOptions, PlannedAction};
pub use store::{BaseSummary, PassFailure, SyncDestination, SyncStore};
pub use synced_shards::NextNumbers;
