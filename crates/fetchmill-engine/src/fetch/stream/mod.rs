//! Requests of a program, and their replies: a thread that fetches, and between it and the program whole batches.
//!
//! The program fills [`RequestBatch`] and submits them (one lock, one wake); the thread answers with [`ReplyBatch`],
//! handed over at the end of a turn of its event loop or when there are enough. Nothing here is stored, so nothing is
//! journaled but how far the program has come ([`fetchmill_store::journal::ProgressStore`]).
//!
//! What is in memory: requests in flight, as many as may be, a window of others and their replies, and bodies up to
//! `STREAM_BYTES_MAX`, as long as no single one is larger.

mod batch;
mod channel;
mod concurrency;
mod exchange;
mod fetcher;
mod progress;
mod queue;
mod reply_buffer;
mod reply_collector;
mod requester;
mod rests;
mod rows;
mod throttling;
mod uncertain;
mod verdict;

pub use batch::{NoReply, ReplyBatch, ReplyBody, ReplyRecord, RequestBatch, RequestTimes};
pub use channel::{Channel, StreamWindow, TakenReplies};
pub use fetcher::Fetcher;
pub use progress::{InputState, StreamProgress};
pub use rows::{ReplyRows, reply_schema};
