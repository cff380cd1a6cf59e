//! What fetchmill makes durable: journals, shards, manifests, results; and what reads them again.
//!
//! # Layout, from the bottom up
//! - [`durable`]: the only file that syncs, renames, truncates and removes
//! - [`journal`]: a job's durable record; [`manifest`]: the file beside a shard that names every object in it
//! - [`pack`]: how an object becomes a record of a shard, and a record an object; [`sink`]: what stores outcomes
//! - [`reader`], [`results`]: stored objects and rows, read again
//! - [`passes`]: what a sync compares, and how it brings a destination up to date
//!
//! # Invariants
//! - Nothing is done before its bytes are durable, its receipt given and the journal synced, in this order.
//! - A sink knows no transport.

pub mod background;
pub mod durable;
mod full_folder;
pub mod journal;
pub mod manifest;
pub mod pack;
pub mod passes;
pub mod reader;
pub mod results;
pub mod sink;
