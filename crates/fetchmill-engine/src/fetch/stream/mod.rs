//! Requests of a program and their replies. A thread fetches, and whole batches pass between the thread and the
//! program.
//!
//! The program fills a [`RequestBatch`] and submits it (one lock, one wake). The thread answers with a [`ReplyBatch`].
//! It hands this batch over at the end of a turn of its event loop, or earlier if the batch is large. Nothing is
//! stored, so the journal has only the progress of the program ([`fetchmill_store::journal::ProgressStore`]).
//!
//! Memory: the requests in flight, a window of other requests and their replies, and bodies up to `STREAM_BYTES_MAX`. A
//! single larger body exceeds this limit.

mod batch;
mod channel;
mod concurrency;
mod exchange;
mod fetcher;
mod held_replies;
mod progress;
mod queue;
mod reply_buffer;
mod reply_collector;
mod requester;
mod rests;
mod rows;
mod throttling;
mod verdict;

pub use batch::{NoReply, ReplyBatch, ReplyBody, ReplyRecord, RequestBatch, RequestTimes};
pub use channel::{Channel, StreamWindow, TakenReplies};
pub use fetcher::Fetcher;
pub use progress::{InputState, StreamProgress};
pub use rows::{ReplyRows, reply_schema};
