//! The native engine: threads, connections, stop signal; it wires everything else. For other engines it has a
//! dispatcher instead of threads that fetch, or a supervisor for each of their processes.
//!
//! Threads of a job: one for the job itself, one for the journal, one for the listing, one that asks whether the origin
//! is well, one that samples, and for each processor a worker that fetches with a writer beside it that has the sink. They meet once a batch
//! (the planner's lock) and once a block or window (channels).

mod bearer;
mod block_sender;
mod body_memory;
mod body_meter;
mod cdxj;
mod clock;
mod coalescing;
mod connect_probe;
mod control;
mod counters;
mod courtesy;
mod custom_request;
mod descriptors;
mod dispatch;
mod event_queues;
mod export;
mod health_check;
mod health_check_link;
mod host_gate;
mod http_options;
mod idle_connections;
mod job;
mod job_identity;
mod job_origins;
mod job_state;
mod journal_link;
mod list_worker;
mod listing;
mod load_counter;
mod memory_limits;
mod option_checks;
mod option_reader;
mod options;
mod pipeline;
mod preflight;
mod rate_wait;
mod recorder;
mod recovery;
mod redirect;
mod refusals;
mod renewal;
mod resting;
mod retry_failed;
mod run;
mod s3;
mod sampler;
mod second_pass;
mod shared_plan;
mod skipped;
mod stop;
mod stop_rules;
mod stop_watch;
mod stray_replies;
mod stream;
mod sync_thread;
mod target;
mod telemetry;
mod threads;
mod tls_errors;
mod transform;
mod upload;
mod waits;
mod window_outcomes;
mod worker;
mod worker_registry;
mod writer;

pub use counters::Sum;
pub use custom_request::CustomRequest;
pub use dispatch::{
    AnswerFields, Arrivals, DispatchedTarget, Dispatcher, WorkerAnswer, WorkerProcessOptions, join_job,
};
pub use export::{Export, ExportOptions};
pub use http_options::{HttpOptions, Resolvers};
pub use job::{Job, Snapshot};
pub use job_state::{Interruption, JobReport};
pub use listing::open_list;
pub use option_reader::option_tables;
pub use options::{
    Durability, JobOptions, Listing, NameScheme, RowsOptions, SourceOptions, TransformOptions, Workers,
};
pub use retry_failed::RetryFailed;
pub use s3::S3Options;
pub use skipped::SkippedByReason;
pub use stop_rules::{MaxFailed, StopReason};
pub use stream::{
    Channel, Fetcher, InputState, ReplyBatch, ReplyBody, ReplyRecord, ReplyRows, RequestBatch, RequestTimes,
    StreamOptions, StreamProgress, StreamWindow, TakenReplies, reply_schema,
};
pub use telemetry::{Latency, LimitKind, LimitedBy, OriginLatency, Sample};
