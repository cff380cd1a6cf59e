//! Bounds of jobs and streams: descriptors, requests in flight, samples.

use std::time::Duration;

use super::MIB;
use super::replies::REPLIES_BYTES_MAX;

/// Descriptors of the process: standard streams, journal (4), listing (4), lock, and some for Python.
pub const DESCRIPTORS_RESERVED: u64 = 24;
/// Descriptors of a transform process more: its socket, and while one is started the other end and a pipe of two.
pub const DESCRIPTORS_OF_TRANSFORM: u64 = 4;
/// Descriptors of a worker and its sink: three event queues of two, 16 folders kept open, stage, destination,
/// failures, and the three that are open for a moment.
pub const DESCRIPTORS_A_WORKER: u64 = 28;
/// Descriptors of a worker for names that it looks up itself: some sockets to two or three servers, and a few over TCP.
pub const DESCRIPTORS_OF_NAMES: u64 = 16;
/// With few descriptors there are rather fewer workers than fewer connections for each.
pub const WORKER_CONNECTIONS_MIN: u64 = 8;
/// Requests in flight unless `--concurrency` says otherwise.
pub const CONCURRENCY_DEFAULT: u32 = 64;

/// Where `--concurrency auto` begins, ...
pub const AUTO_CONCURRENCY_FIRST: u32 = 32;
/// ... and where it ends, if bodies are small: with larger ones there is memory for fewer (planner/concurrency.rs has that
/// bound: 128 MiB). They and those that rest need 24,576 local ports of the usual 28,232.
pub const AUTO_CONCURRENCY_MAX: u32 = 16_384;

/// Where it ends for an origin at a public address, unless `--concurrency-max` says otherwise: as many as a fixed number has
/// that nobody chose.
pub const COURTESY_PUBLIC: u32 = 64;
/// The same for AWS's S3, which is made for many.
pub const COURTESY_AWS: u32 = 256;
/// Ports that a machine has for connections as a rule.
pub const LOCAL_PORTS: u64 = 28_232;

/// A sample of a running job is made this often; ...
pub const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// ... what changes faster is looked at this often.
pub const SAMPLE_LOOK: Duration = Duration::from_millis(100);
/// Samples of a job that are kept, of a second each or of longer: 200 bytes each in memory, 300 in the journal.
pub const SAMPLES_MAX: usize = 720;
/// Connecting to a server that seems to be at its limit is tried after this, then after twice that, ...
pub const CONNECT_PROBE_FIRST: Duration = Duration::from_secs(1);
/// ... and at last this often: it tells whether the queue is in the network, and a server may log such connections.
pub const CONNECT_PROBE_EVERY: Duration = Duration::from_secs(10);
/// One that takes longer counts as one that takes this.
pub const CONNECT_PROBE_MAX: Duration = Duration::from_secs(1);

/// Requests that a stream has taken from its input beyond those in flight: what is on its way to the thread that
/// fetches or back from it, a few batches each way.
pub const STREAM_WINDOW: usize = 256;
/// The same when replies are held until they are certain: what is taken in while connections rest for 50 ms.
pub const STREAM_CERTAIN_WINDOW: usize = 4096;
/// Replies that a connection has handed over before they are certain: their places in the input are remembered. It rests
/// when there are so many.
pub const STREAM_UNCERTAIN_MAX: usize = 16 * 1024;
/// Replies handed over at once, ...
pub const STREAM_BATCH_REPLIES: usize = 64;
/// ... or their bytes.
pub const STREAM_BATCH_BYTES: usize = MIB;
/// A body of this size is handed over as it is; a smaller one is copied, so that keeping it keeps nothing else.
pub const STREAM_BODY_COPIED_BYTES: usize = 64 * 1024;
/// Bodies of streams in memory, received or not yet taken: no request is started while they are more, and no body
/// above `STREAM_BODY_COPIED_BYTES` goes on that would be the second above it.
pub const STREAM_BYTES_MAX: usize = REPLIES_BYTES_MAX;
/// Tries to get a descriptor or port, 200 ms apart, before a reply is called unreachable: 10 s.
pub const STREAM_EXHAUSTED_TRIES_MAX: u32 = 50;
/// Requests in flight of one stream: a task and a connection each, about 4 KiB.
pub const STREAM_CONCURRENCY_MAX: u32 = 65_536;
/// What a thread of a server keeps decoded of a destination that it serves: a quarter frames of manifests, some 400 KiB
/// each, the rest rows of Parquet files, some 300 KiB a batch where bodies are small. A scan that is open has some MiB
/// besides, and of these are two.
pub const LOOKUP_CACHE_BYTES: usize = 32 * MIB;
