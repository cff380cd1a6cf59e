//! The durable data of fetchmill: journals, shards, manifests and results, and the readers for them.
//!
//! # Layout, from the bottom up
//! - [`durable`]: the only module that syncs, renames, truncates and removes files
//! - [`journal`]: the durable record of a job; [`manifest`]: the file next to a shard that names every object in it
//! - [`pack`]: converts an object to a record of a shard, and back; [`sink`]: stores outcomes
//! - [`reader`], [`results`]: read stored objects and rows
//! - [`passes`]: compares a destination with its source in a sync, and brings the destination up to date
//!
//! # Invariants
//! - A target is done only after its bytes are durable, its receipt is given and the journal is synced, in this
//!   order.
//! - A sink knows no transport.

pub mod background;
mod beneath;
pub mod durable;
mod full_folder;
pub mod journal;
pub mod manifest;
pub mod pack;
pub mod passes;
pub mod reader;
pub mod results;
pub mod sink;
