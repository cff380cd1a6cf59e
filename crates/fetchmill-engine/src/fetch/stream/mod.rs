//! Fetches the requests of a program. A thread sends them, and exchanges whole batches with the program.
//!
//! The program fills a [`RequestBatch`] and submits it, which takes one lock and one wake-up. The thread answers with a
//! [`ReplyBatch`]. It hands the batch over at the end of a turn of its event loop, or earlier if the batch is large.
//! Replies are not stored. The journal contains only the program's progress
//! ([`fetchmill_store::journal::ProgressStore`]).
//!
//! Memory use: the requests in flight, a window of other requests and their replies, and up to `STREAM_BYTES_MAX` of
//! bodies in total. A single body can exceed this limit.

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
