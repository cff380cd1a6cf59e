//! Bounds of sinks: blocks, commit windows, shards, uploads, transforms and results.

use std::time::Duration;

use super::MIB;

/// Size at which a block is passed to the sink's thread. The last body can exceed it, up to 2 MiB in total.
pub const BLOCK_BYTES: usize = 256 * 1024;
/// Maximum number of outcomes in a block.
pub const BLOCK_OUTCOMES_MAX: usize = 4096;
/// Maximum number of blocks between workers and sinks. Further full blocks wait at their worker, which takes no new
/// targets in the meantime. All of them count towards `BODIES_BYTES_MAX`.
pub const BLOCKS_QUEUED_MAX: usize = 24;
/// Number of empty blocks that a worker keeps for reuse: 4 x (1 MiB + 256 KiB) = 5 MiB.
pub const BLOCKS_KEPT: usize = 4;
/// Maximum size of a commit window.
pub const COMMIT_WINDOW_BYTES: u64 = 64 * MIB as u64;
/// Maximum number of outcomes in a commit window. A sink keeps the sequence number of each outcome and, for `files`,
/// the name.
pub const COMMIT_WINDOW_OUTCOMES_MAX: usize = 100_000;
/// Default duration of a commit window, without `--commit-window`.
pub const COMMIT_WINDOW: Duration = Duration::from_secs(1);

/// Default size of a shard, without `--shard-size`.
pub const SHARD_BYTES: u64 = 1024 * MIB as u64;
/// Default size of a Parquet shard. It is smaller because a Parquet shard can be read only after it is complete.
pub const PARQUET_SHARD_BYTES: u64 = 128 * MIB as u64;
/// Maximum number of a worker's shards that wait for their upload to a bucket. At this number, the worker begins no new
/// shard until one is uploaded.
pub const SHARDS_WAITING_MAX: usize = 2;
/// Shards larger than this are uploaded in parts of this size. A shard is also read in pieces of this size.
pub const UPLOAD_PART_BYTES: usize = 8 * MIB;
/// Maximum number of parts in flight. Each part is in memory twice, in its own buffer and in the unsent data of its
/// socket. All parts share one buffer for the request: 8 MiB x (2 x 2 + 1) = 40 MiB.
pub const UPLOAD_PARTS_IN_FLIGHT: usize = 2;
/// Maximum size of an uploaded shard. A store accepts 10,000 parts per object, which is 80 GiB. A shard can exceed its
/// configured size by its last window.
pub const UPLOAD_SHARD_BYTES_MAX: u64 = 64 * 1024 * MIB as u64;
/// Maximum total size of the index lines that are sorted in memory. If there are more lines, they are sorted in parts,
/// which are stored in a file in the meantime.
pub const INDEX_SORT_BYTES: usize = 16 * MIB;
/// Number of bytes that are read at a time from each part when the parts are merged.
pub const INDEX_PART_READ_BYTES: usize = 16 * 1024;
/// Default age at which a Parquet shard is sealed, without `--seal-after`. Until then, readers cannot see its rows, and
/// each commit window adds a row group.
pub const SEAL_AFTER: Duration = Duration::from_secs(15);
/// Number of bytes that are appended to a shard at a time. The last record can exceed it.
pub const SHARD_BUFFER_BYTES: usize = MIB;
/// Maximum total size of encoded row groups that are not written yet, for all workers together. A single row group has
/// at most 16 MiB.
pub const ROW_GROUPS_BYTES: usize = 16 * MIB;
/// Maximum number of column chunks in the open shards of all workers together. Each chunk takes about 0.6 KiB for the
/// footer, or 10 MiB in total. A shard with too many column chunks is sealed. With ten columns and two workers, this
/// happens at 819 row groups.
pub const COLUMN_CHUNKS_MAX: usize = 16 * 1024;

/// Returns the maximum number of row groups in a shard with these columns, for this number of workers.
pub const fn row_groups_max(workers: usize, columns: usize) -> usize {
    let all = workers.saturating_mul(columns);
    let share = COLUMN_CHUNKS_MAX / if all == 0 { 1 } else { all };
    if share == 0 { 1 } else { share }
}

/// Maximum number of objects in a shard. Its manifest numbers rows with 20 bits.
pub const SHARD_ROWS_MAX: u64 = 1 << 20;
/// Maximum number of objects in the open shards of all workers together. For each object, a hash (8 bytes) and a
/// sequence number (8 bytes) are in memory, which is 32 MiB in total. For tar, a hash of each member is also stored, in
/// tables that take up to 57 MiB while they grow.
pub const OPEN_ROWS_MAX: u64 = 1 << 21;

/// Returns the maximum number of objects in one shard. One more block may be added before the shard is sealed.
pub const fn shard_rows_max(workers: usize) -> u64 {
    let share = OPEN_ROWS_MAX / if workers == 0 { 1 } else { workers as u64 };
    let share = if share > SHARD_ROWS_MAX { SHARD_ROWS_MAX } else { share };
    share.saturating_sub(BLOCK_OUTCOMES_MAX as u64)
}

/// Number of files in a folder of the stage. The files have adjacent sequence numbers.
pub const STAGE_FOLDER_FILES: u64 = 64;
/// Number of folders of a stage. A window has up to 100,000 outcomes.
pub const STAGE_FOLDERS: u64 = 1024;
/// Number of fetched targets after which their mean size is trusted.
pub const PREFLIGHT_SAMPLE_MIN: u64 = 1000;

/// Default number of replies that a transform's function receives together, without `--transform-batch`.
pub const TRANSFORM_BATCH: usize = 256;
/// Maximum total size of the bodies that a transform's function receives together. The last body can exceed it. While a
/// worker sends the bodies, they are in memory twice.
pub const TRANSFORM_BATCH_BYTES: u64 = 4 * MIB as u64;
/// Maximum number of bytes that a transform can return for the columns of one reply.
pub const TRANSFORM_COLUMNS_BYTES_MAX: usize = MIB;
/// Maximum size of a transform process's failure message. A longer message is cut off.
pub const TRANSFORM_DETAIL_BYTES_MAX: usize = 4096;
/// Maximum number of times that a transform process is started if it always ends before it is ready.
pub const TRANSFORM_STARTS_MAX: u32 = 3;
/// Time in which a transform process must end by itself after the job has ended.
pub const TRANSFORM_END_WAIT: Duration = Duration::from_secs(1);

/// Default number of requests in flight of a check, without `--concurrency`.
pub const CHECK_CONCURRENCY: u32 = 4000;
/// Default timeout of an attempt in a check, including the time to connect, without `--timeout`.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of bytes that a check reads from a body: enough for a page's head, and few enough for a million pages.
pub const CHECK_BODY_BYTES: u64 = 64 * 1024;
/// Maximum number of failed rows that a check shows at its end, with all their columns. A row has at most 64 KiB for
/// its URL and 64 KiB for each of 20 redirects. If all have the maximum length, the rows take 27 MiB.
pub const CHECK_FAILED_SHOWN: usize = 20;
/// Total size of list lines that are formatted and passed to the program together.
pub const ROWS_CHUNK_BYTES: usize = 64 * 1024;
/// Maximum number of chunks of formatted list lines that wait for the program. Together with one more chunk in
/// preparation, they take 5 x (64 + 256 KiB) = 1.6 MiB, where 256 KiB is the longest line.
pub const ROWS_CHUNKS_QUEUED_MAX: usize = 4;
/// Maximum number of result rows in a batch of columns.
pub const RESULTS_BATCH_ROWS: usize = 4096;
/// Maximum size of a batch of columns with result rows. The last row can exceed it.
pub const RESULTS_BATCH_BYTES: usize = MIB;
/// Maximum number of rows of the first file that `diff` keeps in memory. Each row takes 16 bytes, or 128 MiB in total.
/// If there are more rows, both files are read several times. Each time, only some of the rows are compared.
pub const DIFF_ROWS_HELD_MAX: usize = 8 << 20;
/// Maximum number of distinct answers, statuses and kinds together. Each of them is represented by a 16-bit number, and
/// its text has at most 64 bytes.
pub const DIFF_ANSWERS_MAX: usize = 16 * 1024;
