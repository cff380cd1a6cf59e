//! Bounds of sinks: blocks, commit windows, shards, uploads, transforms, results.

use std::time::Duration;

use super::MIB;

/// A block is handed to the sink's thread at this size; one body more may be in it: 2 MiB at most.
pub const BLOCK_BYTES: usize = 256 * 1024;
/// Outcomes in a block.
pub const BLOCK_OUTCOMES_MAX: usize = 4096;
/// Blocks between all workers and their sinks; what is full beyond them waits at its worker, which takes no new target
/// meanwhile. All of them count in `BODIES_BYTES_MAX`.
pub const BLOCKS_QUEUED_MAX: usize = 24;
/// Empty blocks that a worker keeps to fill again: 4 x (1 MiB + 256 KiB) = 5 MiB.
pub const BLOCKS_KEPT: usize = 4;
/// Bytes in a commit window.
pub const COMMIT_WINDOW_BYTES: u64 = 64 * MIB as u64;
/// Outcomes in a commit window: a sink keeps a sequence number and, for files, a name of each.
pub const COMMIT_WINDOW_OUTCOMES_MAX: usize = 100_000;
/// Time of a commit window unless `--commit-window` says otherwise.
pub const COMMIT_WINDOW: Duration = Duration::from_secs(1);

/// Bytes of a shard unless `--shard-size` says otherwise.
pub const SHARD_BYTES: u64 = 1024 * MIB as u64;
/// The same for Parquet, whose shards are read only as a whole.
pub const PARQUET_SHARD_BYTES: u64 = 128 * MIB as u64;
/// Shards of a worker that wait for their upload when the destination is a bucket: it begins no other one meanwhile.
pub const SHARDS_WAITING_MAX: usize = 2;
/// A shard that is larger is uploaded in parts of this size, which is also what is read of one at once.
pub const UPLOAD_PART_BYTES: usize = 8 * MIB;
/// Parts in flight: each is in memory twice, in its buffer and behind what the socket has taken, and the request is
/// written into one that they share: 8 MiB x (2 x 2 + 1) = 40 MiB.
pub const UPLOAD_PARTS_IN_FLIGHT: usize = 2;
/// A store takes 10,000 parts of an object: 80 GiB. A shard may be larger than its size by its last window.
pub const UPLOAD_SHARD_BYTES_MAX: u64 = 64 * 1024 * MIB as u64;
/// Lines of an index that are sorted in memory at once; more are sorted in parts, which a file holds meanwhile.
pub const INDEX_SORT_BYTES: usize = 16 * MIB;
/// What is read at once of each part when they become one.
pub const INDEX_PART_READ_BYTES: usize = 16 * 1024;
/// A Parquet shard is sealed after this long: until then no reader sees its rows, and it gets a row group for each
/// commit window. `--seal-after` says otherwise.
pub const SEAL_AFTER: Duration = Duration::from_secs(15);
/// What is appended to a shard at once; one record more may be in it.
pub const SHARD_BUFFER_BYTES: usize = MIB;
/// Row groups of all workers together, encoded and not yet written: at most 16 MiB in one.
pub const ROW_GROUPS_BYTES: usize = 16 * MIB;
/// Columns of the row groups of the open shards of all workers together: what the footer will say of one has about 0.6
/// KiB, 10 MiB. A shard with too many is sealed: one of ten columns at 819 row groups when there are two workers.
pub const COLUMN_CHUNKS_MAX: usize = 16 * 1024;

/// Row groups of a shard with so many columns when there are so many workers.
pub const fn row_groups_max(workers: usize, columns: usize) -> usize {
    let all = workers.saturating_mul(columns);
    let share = COLUMN_CHUNKS_MAX / if all == 0 { 1 } else { all };
    if share == 0 { 1 } else { share }
}

/// Objects of a shard: its manifest numbers rows with 20 bits.
pub const SHARD_ROWS_MAX: u64 = 1 << 20;
/// Objects of the open shards of all workers together: a hash (8 bytes) and a sequence number (8) of each are in
/// memory, 32 MiB; with tar a hash of its member as well, in tables of at most 57 MiB while they grow.
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

/// Replies that a transform's function is given at once, unless `--transform-batch` says otherwise, ...
pub const TRANSFORM_BATCH: usize = 256;
/// ... or their bodies: one body more may be in it. A worker has them once more as they are sent.
pub const TRANSFORM_BATCH_BYTES: u64 = 4 * MIB as u64;
/// What a transform gives for the columns of one reply.
pub const TRANSFORM_COLUMNS_BYTES_MAX: usize = MIB;
/// What a transform process says of a failure; the rest is cut off.
pub const TRANSFORM_DETAIL_BYTES_MAX: usize = 4096;
/// A transform process that ends before it is ready is started so often.
pub const TRANSFORM_STARTS_MAX: u32 = 3;
/// What a transform process may take to end by itself once the job has ended.
pub const TRANSFORM_END_WAIT: Duration = Duration::from_secs(1);

/// Requests in flight of a check unless `--concurrency` says otherwise.
pub const CHECK_CONCURRENCY: u32 = 4000;
/// An attempt of a check, from the start of its connection to its end, unless `--timeout` says otherwise.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read of a body in a check: enough for a page's head, and little enough for a million of them.
pub const CHECK_BODY_BYTES: u64 = 64 * 1024;
/// Rows of targets that failed, with all they have, that a check tells at its end: a row has at most 64 KiB of
/// URL and 64 KiB of each of 20 redirects, 27 MiB when all are as long as they can be.
pub const CHECK_FAILED_SHOWN: usize = 20;
/// Lines of a list that is written out and given to the program, at once, ...
pub const ROWS_CHUNK_BYTES: usize = 64 * 1024;
/// ... and how often before it takes one: with one more in the making 5 x (64 + 256 KiB), the longest line, 1.6 MiB.
pub const ROWS_CHUNKS_QUEUED_MAX: usize = 4;
/// Rows of results that are made into a batch of columns, ...
pub const RESULTS_BATCH_ROWS: usize = 4096;
/// ... or their bytes: one row more may be in it.
pub const RESULTS_BATCH_BYTES: usize = MIB;
/// Rows that `diff` holds of the first file, 16 bytes for each: 8 M x 16 bytes = 128 MiB. With more of them both files
/// are read several times, each time for a part of the rows.
pub const DIFF_ROWS_HELD_MAX: usize = 8 << 20;
/// Answers that differ, status and kind together: a number of 16 bits stands for each, 64 bytes of text at most.
pub const DIFF_ANSWERS_MAX: usize = 16 * 1024;
