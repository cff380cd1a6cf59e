//! Every bound of the engine, with its arithmetic.
//!
//! The budget is 192 MiB at any number of objects: pages 32, sinks 64, replies 64, the rest for the journal and
//! the tables. What has no named bound here must not grow.

use std::time::Duration;

/// One mebibyte.
pub const MIB: usize = 1 << 20;

// --- pages and batches ---------------------------------------------------------------------------------------

/// A page of a listing, as bytes of its reply and as bytes of its names: 16 + 16 MiB while it is parsed.
pub const PAGE_BYTES_MAX: usize = 16 * MIB;
/// Listing stops while this many targets are not yet fetched ...
pub const WINDOW_TARGETS_MAX: usize = 256 * 1024;
/// ... or their names take this much. One page may go over it: 16 + 16 = the 32 MiB of the budget.
pub const WINDOW_NAME_BYTES_MAX: usize = 16 * MIB;
/// Targets in a batch: what a worker should finish in a second, within these.
pub const BATCH_TARGETS_MAX: usize = 4096;
/// Entries of one folder in a page: a folder is cut as it is read, so that its size costs no memory.
pub const FOLDER_PAGE_TARGETS: usize = 1000;
/// Pages one after the other that brought no name, before the listing is called endless.
pub const EMPTY_PAGES_MAX: u32 = 1000;
/// Nesting of folders: a link to a folder above it lists for ever.
pub const FOLDER_DEPTH_MAX: usize = 64;
/// A marker of a listing.
pub const MARKER_BYTES_MAX: usize = 64 * 1024;
/// Attempts at the first page. Later pages are tried until the origin is given up.
pub const FIRST_PAGE_ATTEMPTS_MAX: u32 = 5;

// --- names ---------------------------------------------------------------------------------------------------

/// Segments of a name that becomes a path.
pub const NAME_SEGMENTS_MAX: usize = 64;
/// One segment once escaped: `NAME_MAX` of Linux.
pub const NAME_SEGMENT_BYTES_MAX: usize = 255;
/// A whole name as a path: `PATH_MAX` of Linux is 4,096 with the NUL.
pub const NAME_PATH_BYTES_MAX: usize = 4095;

// --- replies -------------------------------------------------------------------------------------------------

/// Status line and header fields of all heads of one reply, interim ones included.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// One line of a head.
pub const HEAD_LINE_BYTES_MAX: usize = 16 * 1024;
/// Header fields of one head.
pub const HEAD_FIELDS_MAX: usize = 128;
/// Interim (1xx) replies before the final one.
pub const INTERIM_REPLIES_MAX: u32 = 8;
/// Trailer section of a chunked body.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// Chunk extensions of one body, all together.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 4 * 1024;
/// A body, unless `--max-size` says otherwise.
pub const BODY_BYTES_MAX: u64 = 64 * MIB as u64;
/// A body above this goes to a staging file.
pub const BODY_MEMORY_BYTES_MAX: usize = MIB;
/// Bodies being read, of all workers together. When it is used up the next body goes to a staging file at once:
/// nothing waits for memory while it holds some.
pub const REPLIES_BYTES_MAX: usize = 64 * MIB;
/// The buffer that one worker reads into: shared by its connections.
pub const READ_BYTES: usize = 64 * 1024;

// --- sinks ---------------------------------------------------------------------------------------------------

/// A block is handed to the sink's thread at this size; one body more may be in it: 2 MiB at most.
pub const BLOCK_BYTES: usize = 256 * 1024;
/// Outcomes in a block.
pub const BLOCK_OUTCOMES_MAX: usize = 4096;
/// Blocks between all workers and their sinks: 24 x (1 MiB + 256 KiB) = 30 MiB.
pub const BLOCKS_QUEUED_MAX: usize = 24;
/// Bytes in a commit window.
pub const COMMIT_WINDOW_BYTES: u64 = 64 * MIB as u64;
/// Outcomes in a commit window: a sink keeps a sequence number and, for files, a name of each.
pub const COMMIT_WINDOW_OUTCOMES_MAX: usize = 100_000;
/// Time of a commit window unless `--commit-window` says otherwise.
pub const COMMIT_WINDOW: Duration = Duration::from_secs(1);

/// Bytes of a shard unless `--shard-size` says otherwise.
pub const SHARD_BYTES: u64 = 1024 * MIB as u64;
/// The same for Parquet, whose shards are durable only as a whole.
pub const PARQUET_SHARD_BYTES: u64 = 128 * MIB as u64;
/// A Parquet shard is sealed after this long: what a crash costs at most. `--seal-after` says otherwise.
pub const SEAL_AFTER: Duration = Duration::from_secs(15);
/// What is appended to a shard at once; one record more may be in it.
pub const SHARD_BUFFER_BYTES: usize = MIB;
/// Row groups of all workers together, encoded and not yet written: at most 16 MiB in one.
pub const ROW_GROUPS_BYTES: usize = 16 * MIB;
/// Objects of a shard: its manifest numbers rows with 20 bits.
pub const SHARD_ROWS_MAX: u64 = 1 << 20;
/// Objects of the open shards of all workers together: a hash (8 bytes) and a sequence number (8) of each are in
/// memory, 32 MiB.
pub const OPEN_ROWS_MAX: u64 = 1 << 21;

/// Objects of one shard when there are so many workers; a block more may come before it is sealed.
pub const fn shard_rows_max(workers: usize) -> u64 {
    let share = OPEN_ROWS_MAX / if workers == 0 { 1 } else { workers as u64 };
    let share = if share > SHARD_ROWS_MAX { SHARD_ROWS_MAX } else { share };
    share.saturating_sub(BLOCK_OUTCOMES_MAX as u64)
}

/// Neighbours by sequence number that share a folder of the stage.
pub const STAGE_FOLDER_FILES: u64 = 64;
/// Folders of a stage: a window has up to 100,000 outcomes.
pub const STAGE_FOLDERS: u64 = 1024;
/// Targets that were fetched before their mean size is believed.
pub const PREFLIGHT_SAMPLE_MIN: u64 = 1000;

// --- retries -------------------------------------------------------------------------------------------------

/// Attempts at one target: one and four more.
pub const ATTEMPTS_MAX: u32 = 5;
/// Attempts answered by a throttling status that do not count, for this long after the first.
pub const THROTTLE_FREE: Duration = Duration::from_secs(600);
/// Waiting targets that the planner holds; the rest stay in the journal.
pub const WAITING_HELD_MAX: usize = 100_000;
/// Full jitter: a random part of base x 2^attempt, at most the cap.
pub const BACKOFF_BASE: Duration = Duration::from_millis(50);
/// Cap of the above.
pub const BACKOFF_CAP: Duration = Duration::from_secs(20);
/// Base after 429 or 503.
pub const THROTTLE_BASE: Duration = Duration::from_secs(1);
/// Cap after 429 or 503.
pub const THROTTLE_CAP: Duration = Duration::from_secs(60);
/// Longest `Retry-After` that is followed.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Retry tokens of an origin.
pub const RETRY_TOKENS_MAX: u32 = 500;
/// What a transient failure takes out of them.
pub const RETRY_COST_TRANSIENT: u32 = 14;
/// What a throttling status takes out of them.
pub const RETRY_COST_THROTTLE: u32 = 5;
/// What a success puts back: with the costs above, an origin of which up to half the replies fail keeps its tokens
/// (docs/decisions/0002).
pub const RETRY_REFUND: u32 = 14;
/// An origin out of tokens rests this long, twice as long each time, ...
pub const REST_BASE: Duration = Duration::from_secs(5);
/// ... up to this,
pub const REST_CAP: Duration = Duration::from_secs(120);
/// and the job is given up (exit 5) after this long without any success.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(900);

// --- timeouts ------------------------------------------------------------------------------------------------

/// Name look-up.
pub const DNS_TIMEOUT: Duration = Duration::from_secs(5);
/// TCP connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// From the request to the end of the reply's head.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Without a byte of the body.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// A whole attempt, plus a second for each 64 KiB of the body.
pub const TOTAL_TIMEOUT: Duration = Duration::from_secs(60);
/// The slowest body that `TOTAL_TIMEOUT` allows, bytes a second.
pub const BODY_RATE_MIN: u64 = 64 * 1024;
/// A page of the listing, whatever its size.
pub const PAGE_TIMEOUT: Duration = Duration::from_secs(120);
/// A connection that has been unused for this long is closed.
pub const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);
/// How often deadlines are looked at: they are exact to this.
pub const TICK: Duration = Duration::from_millis(50);
/// Requests in flight when the job is asked to stop may take this long.
pub const DRAIN: Duration = Duration::from_secs(3);

// --- descriptors ---------------------------------------------------------------------------------------------

/// Descriptors of the process: standard streams, journal (4), listing (4), lock, and some for Python.
pub const DESCRIPTORS_RESERVED: u64 = 24;
/// Descriptors of a worker and its sink: three event queues of two, 16 folders kept open, stage, destination,
/// failures, and the three that are open for a moment.
pub const DESCRIPTORS_A_WORKER: u64 = 28;
/// With few descriptors there are rather fewer workers than fewer connections for each.
pub const WORKER_CONNECTIONS_MIN: u64 = 8;
/// Requests in flight unless `--limit` says otherwise.
pub const LIMIT_DEFAULT: u32 = 64;

const _: () = {
    assert!(WINDOW_NAME_BYTES_MAX + PAGE_BYTES_MAX <= 32 * MIB);
    assert!(BLOCKS_QUEUED_MAX * (BODY_MEMORY_BYTES_MAX + BLOCK_BYTES) <= 32 * MIB);
    assert!(HEAD_LINE_BYTES_MAX <= HEAD_BYTES_MAX);
    assert!(BODY_MEMORY_BYTES_MAX <= REPLIES_BYTES_MAX);
    assert!(BLOCK_OUTCOMES_MAX <= COMMIT_WINDOW_OUTCOMES_MAX);
    // A page of names is addressed by u32.
    assert!(PAGE_BYTES_MAX < u32::MAX as usize);
};
