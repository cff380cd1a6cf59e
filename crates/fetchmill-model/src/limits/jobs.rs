//! Bounds of jobs and streams: descriptors, requests in flight and samples.

use std::time::Duration;

use super::MIB;
use super::replies::REPLIES_BYTES_MAX;

/// Descriptors of the process itself: standard streams, journal (4), listing (4), the lock, and some for Python.
pub const DESCRIPTORS_RESERVED: u64 = 24;
/// Additional descriptors per transform process: its socket and, while the process starts, the other end of the socket
/// and both ends of a pipe.
pub const DESCRIPTORS_OF_TRANSFORM: u64 = 4;
/// Descriptors per worker and its sink: two for each of three event queues, 16 open folders, the stage, the
/// destination, the failures file, and three that are open briefly.
pub const DESCRIPTORS_A_WORKER: u64 = 28;
/// Descriptors per worker that looks up names itself: a few sockets for each of two or three servers, and a few TCP
/// connections.
pub const DESCRIPTORS_OF_NAMES: u64 = 16;
/// Minimum number of connections per worker. If descriptors are scarce, a job uses fewer workers rather than fewer
/// connections per worker.
pub const WORKER_CONNECTIONS_MIN: u64 = 8;
/// Default number of requests in flight, without `--concurrency`.
pub const CONCURRENCY_DEFAULT: u32 = 64;

/// Initial number of requests in flight with `--concurrency auto`.
pub const AUTO_CONCURRENCY_FIRST: u32 = 32;
/// Maximum number of requests in flight with `--concurrency auto` and small bodies. With larger bodies, memory sets a
/// lower limit (128 MiB, see `planner/concurrency.rs`). Active and resting connections together use up to 24,576 of the
/// usual 28,232 local ports.
pub const AUTO_CONCURRENCY_MAX: u32 = 16_384;

/// Maximum number of requests in flight to an origin at a public address with `--concurrency auto` and without
/// `--concurrency-max`. It equals [`CONCURRENCY_DEFAULT`].
pub const COURTESY_PUBLIC: u32 = 64;
/// Maximum number of requests in flight to AWS S3 with `--concurrency auto` and without `--concurrency-max`. It is
/// higher because S3 is built for large numbers of requests.
pub const COURTESY_AWS: u32 = 256;
/// Number of local ports that Linux usually offers for connections.
pub const LOCAL_PORTS: u64 = 28_232;

/// Interval between samples of a running job.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Interval between polls of values that change faster than once per sample.
pub const SAMPLE_LOOK: Duration = Duration::from_millis(100);
/// Maximum number of stored samples per job. Each sample covers one second or more and takes 200 bytes in memory and
/// 300 in the journal.
pub const SAMPLES_MAX: usize = 720;
/// Delay before the first test connection to a server that seems to be at its limit. The delay doubles each time.
pub const CONNECT_PROBE_FIRST: Duration = Duration::from_secs(1);
/// Longest delay between test connections, which show whether requests queue in the network. It is long because servers
/// may log each connection.
pub const CONNECT_PROBE_EVERY: Duration = Duration::from_secs(10);
/// Upper bound for a measured connection time. Longer times are capped at this value.
pub const CONNECT_PROBE_MAX: Duration = Duration::from_secs(1);

/// Maximum number of requests that a stream can take from its input in addition to the requests in flight. These
/// requests are on their way to the fetching thread or back, a few batches in each direction.
pub const STREAM_WINDOW: usize = 256;
/// Maximum number of requests that a stream can take from its input if replies are held until they are certain. The
/// limit includes requests that are taken while connections rest for 50 ms.
pub const STREAM_CERTAIN_WINDOW: usize = 4096;
/// Maximum number of replies that a connection passes on before they are certain. The stream remembers their positions
/// in the input. At this number the connection rests.
pub const STREAM_UNCERTAIN_MAX: usize = 16 * 1024;
/// Maximum number of replies in one batch of a stream.
pub const STREAM_BATCH_REPLIES: usize = 64;
/// Maximum total size of the replies in one batch of a stream.
pub const STREAM_BATCH_BYTES: usize = MIB;
/// Bodies of at least this size are passed on without a copy. Smaller bodies are copied, so that a small body that the
/// program keeps does not keep a whole buffer alive.
pub const STREAM_BODY_COPIED_BYTES: usize = 64 * 1024;
/// Maximum total size of stream bodies in memory, whether they are still being received or are waiting to be taken.
/// Above this limit, no request starts. A body larger than `STREAM_BODY_COPIED_BYTES` waits until it fits or is the
/// only one.
pub const STREAM_BYTES_MAX: usize = REPLIES_BYTES_MAX;
/// Maximum number of tries to get a descriptor or a port before the origin counts as unreachable. The tries are 200 ms
/// apart, so they take 10 s in total.
pub const STREAM_EXHAUSTED_TRIES_MAX: u32 = 50;
/// Maximum number of requests in flight per stream. Each request needs a task and a connection, which take about 4 KiB.
pub const STREAM_CONCURRENCY_MAX: u32 = 65_536;
/// Cache per thread of a server that serves a destination. A quarter of it is for decoded manifest frames of about 400
/// KiB each. The rest is for rows of Parquet files, about 300 KiB per batch if bodies are small. Each of the two open
/// scans takes a few MiB more.
pub const LOOKUP_CACHE_BYTES: usize = 32 * MIB;
