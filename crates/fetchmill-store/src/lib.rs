//! fetchmill's durable data: journals, shards, manifests and results, and their readers.
//!
//! # Layout, from the bottom up
//! - [`durable`]: the only module that syncs, renames, truncates or removes files
//! - [`journal`]: the durable record of a job; [`manifest`]: the file next to a shard that lists its objects
//! - [`pack`]: converts objects to records and back; [`sink`]: stores outcomes
//! - [`reader`], [`results`]: read stored objects and rows
//! - [`passes`]: compares a destination with its source in a sync, and updates it
//! - [`restart`]: removes the files of a job and then the job
//!
//! # Invariants
//! - A target is finished only after its bytes are durable, its commit record is sent, and the journal is synced, in
//!   this order.
//! - Sinks do not depend on transports.

pub mod background;
mod beneath;
pub mod durable;
mod full_folder;
pub mod journal;
pub mod manifest;
pub mod pack;
pub mod passes;
pub mod reader;
pub mod restart;
pub mod results;
pub mod sink;
