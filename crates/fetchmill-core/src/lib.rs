//! The engine of fetchmill: fetches huge numbers of small HTTP objects, crash-safe, in flat memory.
//!
//! # Invariants
//! - Nothing is done before its bytes are durable, its receipt given and the journal synced, in this order.
//! - A sink knows no transport and a transport no sink.

pub mod engine;
