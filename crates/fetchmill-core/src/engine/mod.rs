//! The native engine: threads, connections, stop signal; it wires everything else. For other engines it has a desk
//! instead of threads that fetch, or a steward for each of their processes.
//!
//! Threads of a job: one for the job itself, one for the journal, one for the listing, and for each processor a
//! worker that fetches with a writer beside it that has the sink. They meet once a batch (the planner's lock) and
//! once a block or window (channels).

mod control;
mod counters;
mod descriptors;
mod desk;
mod export;
mod gathered;
mod job;
mod listing;
mod lobby;
mod options;
mod pacing;
mod parking;
mod preflight;
mod recorder;
mod recovery;
mod redirect;
mod run;
mod s3;
mod scribe;
mod second_pass;
mod stream;
mod threads;
mod transform;
mod trust;
mod worker;
mod writer;

pub use counters::Sum;
pub use desk::{Answer, AnswerFields, Desk, Handed, Joining, join_job};
pub use export::{Export, ExportOptions};
pub use job::{Job, Report, Snapshot};
pub use listing::open_list;
pub use options::{JobOptions, Listing, RowsOptions, SourceOptions, TransformOptions, Workers};
pub use s3::S3Options;
pub use stream::{
    Advance, Body, Call, Channel, Fetcher, Known, Record, Replies, ReplyRows, Requests, StreamOptions, Taken,
    Times, reply_schema,
};
