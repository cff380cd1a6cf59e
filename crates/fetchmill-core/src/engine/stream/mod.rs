//! Requests of a program, and their replies: a thread that fetches, and between it and the program whole batches.
//!
//! The program fills [`Requests`] and submits them (one lock, one wake); the thread answers with [`Replies`], handed
//! over at the end of a turn of its event loop or when there are enough. Nothing here is stored, so nothing is
//! journaled but how far the program has come ([`crate::journal::Progress`]).
//!
//! What is in memory: `limit` requests in flight, a window of others and their replies, and bodies up to
//! `STREAM_BYTES_MAX`, as long as no single one is larger.

mod advance;
mod attempt;
mod batch;
mod channel;
mod exchange;
mod fetcher;
mod incoming;
mod options;
mod outlet;
mod queue;
mod rows;
mod store;

pub use advance::{Advance, Known};
pub use batch::{Body, Call, Record, Replies, Requests, Times};
pub use channel::{Channel, Taken};
pub use fetcher::Fetcher;
pub use options::StreamOptions;
pub use rows::{ReplyRows, reply_schema};
