//! The engine of fetchmill: fetches huge numbers of small HTTP objects, crash-safe, in flat memory.
//!
//! # Layout, from the bottom up
//! - [`limits`], [`error`]: bounds, and what stops a job
//! - [`target`]: names, pages, batches
//! - [`outcome`]: outcomes, failure kinds, tally, receipts
//!
//! # Invariants
//! - Nothing is done before its bytes are durable, its receipt given and the journal synced, in this order.
//! - `http1`, `planner` and `source` do no I/O and read no clock.
//! - A sink knows no transport and a transport no sink.

pub mod durable;
pub mod engine;
pub mod error;
pub mod http1;
pub mod journal;
pub mod limits;
pub mod name;
pub mod outcome;
pub mod planner;
pub mod sink;
pub mod source;
pub mod target;
mod time_text;
pub mod transport;
