//! Passes of a sync: what a destination holds is compared with what its source lists, and brought up to date.
//!
//! The **base** (`base.sqlite`) is what the last pass has left: a row for each object, changed in one transaction at the
//! end of a pass. The **plan** (`pass.sqlite`) is what differs; it is whole or not there. What is to be fetched goes
//! through an ordinary job into a folder beside them, and from there to its places by rename. So each object is old or
//! new at any moment, and every step can be repeated after a kill ([decision 38](../../../../docs/internals/decisions/0038-a-sync-stages-what-it-fetches.md)).
//!
//! Where objects are in shards, those that hold what is not wanted any more are written again first, and one transaction
//! of the destination's journal swaps them ([decision 47](../../../../docs/internals/decisions/0047-a-sync-exchanges-shards-at-once.md)).

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
pub use plan::{PlanCounts, PlanOptions, PlannedAction};
pub use store::{BaseSummary, PassFailure, SyncDestination, SyncStore};
pub use synced_shards::NextNumbers;
