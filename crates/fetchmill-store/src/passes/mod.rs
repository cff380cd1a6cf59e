//! Passes of a sync: compare the contents of a destination with the listing of its source, and bring the destination up
//! to date.
//!
//! The **base** (`base.sqlite`) records the contents after the last pass. It has one row per object, and is updated in
//! one transaction at the end of a pass. The **plan** (`pass.sqlite`) contains the differences. Its file is complete or
//! absent. An ordinary job fetches the objects into a folder next to these files, and renames move them to their
//! places. At any moment, each object is therefore either old or new, and every step can be repeated after a kill
//! ([decision 38](../../../../docs/internals/decisions/0038-a-sync-stages-what-it-fetches.md)).
//!
//! If objects are in shards, the shards with unwanted objects are first rewritten. Then one transaction of the
//! destination's journal swaps them ([decision
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
