//! The native engine: threads, connections and the stop signal. It connects all other parts. For other engines, a
//! dispatcher or one supervisor per process replaces the fetching threads.
//!
//! A job has one thread each for itself, the journal, the listing, checks of the origin, and samples. Each processor
//! has a worker that fetches, and a writer that owns the worker's sink. The threads meet at the planner's lock once per
//! batch, and communicate through channels once per block or window.

mod access;
mod attempt;
mod control;
mod event_queues;
mod fetch;
mod job;
mod list_input;
mod listing;
mod plan;
mod request;
mod writer;

pub use access::s3::S3Options;
pub use control::counters::Sum;
pub use control::telemetry::{Latency, LimitKind, LimitedBy, OriginLatency, Sample};
pub use fetch::dispatch::{
    AnswerFields, Arrivals, DispatchedTarget, Dispatcher, WorkerAnswer, WorkerProcessOptions, join_job,
};
pub use fetch::stream::{
    Channel, Fetcher, InputState, NoReply, ReplyBatch, ReplyBody, ReplyRecord, ReplyRows, RequestBatch,
    RequestTimes, StreamProgress, StreamWindow, TakenReplies, reply_schema,
};
pub use job::{
    Export, ExportOptions, ExportSource, Interruption, Job, JobReport, RangeCopies, SkippedByReason, Snapshot,
};
pub use list_input::{ListFile, check_list, list_files, open_decoded, open_list, split_parquet};
pub use request::custom_request::CustomRequest;
pub use request::http_options::{HttpOptions, Resolvers};
pub use request::job_request::JobRequest;
pub use request::name_scheme::NameScheme;
pub use request::option_reader::option_tables;
pub use request::retry_failed::RetryFailed;
pub use request::rows_options::RowsOptions;
pub use request::source_options::{Listing, SourceOptions};
pub use request::stop_rules::{MaxFailed, StopReason};
pub use request::storing_options::{Durability, TransformOptions};
pub use request::stream_options::StreamOptions;
pub use request::workers::Workers;
pub use writer::upload::{Bucket, BucketObject, BucketPage, StoredKey};
