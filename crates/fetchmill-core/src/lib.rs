//! The engine of fetchmill: fetches huge numbers of small HTTP objects, crash-safe, in flat memory.
//!
//! # Layout, from the bottom up
//! - [`limits`], [`error`]: bounds, and what stops a job; [`options`]: rows with defaults and bounds
//! - [`target`]: names, pages, batches
//! - [`outcome`]: outcomes, failure kinds, tally, receipts
//! - [`extra_columns`]: what a list says of its targets besides their URLs
//! - [`entry`]: an entry of a list as bytes, and how its object is called
//! - [`object`]: a fetched object as packs store it; [`pack`]: how it becomes a record of a shard
//! - [`source_metadata`]: what a listing says of an object, as bytes
//! - [`s3`]: where buckets are, signatures, what listings and error documents say; no I/O, no clock
//! - `verdict`: what follows from an attempt; no I/O, no clock
//! - [`row`]: what one site answered, of a check; [`results`]: the file of all rows, and how two compare
//! - [`manifest`]: the file beside a shard that names every object in it
//! - [`passes`]: what a sync compares, and how it brings a destination up to date
//!
//! # Invariants
//! - Nothing is done before its bytes are durable, its receipt given and the journal synced, in this order.
//! - `http1`, `planner` and `source` do no I/O and read no clock.
//! - A sink knows no transport and a transport no sink.

pub mod answer_pattern;
pub mod background;
pub mod byte_range;
pub mod certainty;
mod content_encoding;
pub mod durable;
pub mod engine;
pub mod entry;
pub mod error;
pub mod expected_hash;
mod extension;
pub mod extra_columns;
pub mod file_name;
pub mod header_field;
pub mod hidden_text;
pub mod http1;
pub mod journal;
pub mod kept_reply;
pub mod limits;
pub mod manifest;
pub mod name;
pub mod object;
pub mod options;
pub mod origin;
pub mod outcome;
pub mod pack;
pub mod panics;
pub mod passes;
pub mod planner;
pub mod reader;
pub mod results;
pub mod row;
pub mod s3;
pub mod sink;
pub mod source;
pub mod source_metadata;
pub mod stored_name;
mod sync;
pub mod target;
pub mod target_request;
mod time_text;
pub mod transport;
mod verdict;
