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
/// A listing of the only origin reads ahead by what is fetched in ten seconds, and by this at least.
pub const READ_AHEAD_TARGETS_MIN: usize = 64 * 1024;
/// A listing that can be divided is, while fewer targets than this are listed and not handed out: some batches for each
/// worker.
pub const HUNGRY_TARGETS: usize = 32 * 1024;
/// Ranges of a bucket's keys that are listed at the same time. Each has a page of at most 1,000 keys in memory: 16 x
/// 2 MiB at the worst, of the part for pages.
pub const S3_LISTERS_MAX: usize = 16;
/// Buckets, or origins of buckets, that a job knows: a list may name any number. 200 bytes for each, 2 MiB, of the part
/// for the rest. Targets of a bucket beyond these are failed(url).
pub const S3_BUCKETS_MAX: usize = 10_000;
/// Keys of a page: what stores give at most.
pub const S3_PAGE_KEYS: u32 = 1000;
/// Targets in a batch: what a worker should finish in a second, within these.
pub const BATCH_TARGETS_MAX: usize = 4096;
/// Entries of one folder in a page: a folder is cut as it is read, so that its size costs no memory.
pub const FOLDER_PAGE_TARGETS: usize = 1000;
/// Links of an index page in HTML, and URLs of a sitemap: each is remembered, so that none is taken twice. Digests of 16 bytes and a byte of the
/// table for each, which is at most half empty: 36 MiB, of the part for pages.
pub const INDEX_ENTRIES_MAX: usize = 1_000_000;
/// Bytes of such a page: 512 for each of its links. It is read as a stream.
pub const INDEX_BYTES_MAX: u64 = 512 << 20;
/// Bytes between two things that a page tells: of a tag without an end.
pub const INDEX_TAG_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a link: a name of 4,096 bytes that is percent-encoded, and some more. A longer link is no entry.
pub const INDEX_HREF_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a robots.txt that are read, as RFC 9309 asks for at least; what is behind them is not.
pub const ROBOTS_BYTES_MAX: usize = 500 * 1024;
/// Pages one after the other that brought no name, before the listing is called endless.
pub const EMPTY_PAGES_MAX: u32 = 1000;
/// Nesting of folders: a link to a folder above it lists for ever.
pub const FOLDER_DEPTH_MAX: usize = 64;
/// Targets of the first page of a list, so that its requests go out at once; each page has twice as many as the one
/// before it, ...
pub const LIST_FIRST_PAGE_TARGETS: usize = 64;
/// ... up to this,
pub const LIST_PAGE_TARGETS: usize = 4096;
/// or up to these bytes of names; one entry more may be in it.
pub const LIST_PAGE_BYTES: usize = MIB;
/// Entries of a page, with those that a filter leaves out: a page must come now and then.
pub const LIST_PAGE_ENTRIES: u64 = 64 * 1024;
/// A line or record of a list: a longer one is a failed target. The buffer that it is read into grows up to it and
/// one read more; with the record without its quotes, its values and its entry, 5 MiB in all, of the part for the
/// rest.
pub const LIST_LINE_BYTES_MAX: usize = MIB;
/// Lines of one record with quoted newlines: a quote that is never closed is looked for so far, in each line anew.
pub const LIST_RECORD_LINES_MAX: usize = 1000;
/// Columns of a record that are looked at: 16 bytes for each, 256 KiB.
pub const LIST_COLUMNS_MAX: usize = 16 * 1024;
/// What is read of a list without an answer to the caller, that looks at its stop signal then.
pub const LIST_STRETCH_BYTES: usize = 16 * MIB;
/// Window of a .zst: 128 MiB, what `zstd --long` (27) needs; `zstd -19` and all below it need 8 MiB at most. The decoder
/// takes what the list's own header names, beside the budget of 192 MiB: docs/guide/lists.md says what such a list costs.
pub const LIST_ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// What the decoder of a .xz may take, in KiB: `xz -9` has a dictionary of 64 MiB. A larger one is refused.
pub const LIST_XZ_KIB_MAX: u32 = 72 * 1024;
/// What a Parquet list may take at once, decompressed: dictionaries and pages of the columns that are read, all pages of
/// one batch, and what the page that is being read has on disk. 1 MiB is usual, beside the budget of 192 MiB for more.
pub const LIST_PARQUET_BYTES_MAX: u64 = 96 * MIB as u64;
/// A `manifest.json` of an S3 Inventory: 100,000 data files of 335 bytes each. It is read as a stream; what stays of a file
/// is its key and 48 bytes for at least 70, in a vector that is at most half empty: 32 MiB of keys, or 44 MiB of files
/// with none to speak of, beside the budget of 192 MiB.
pub const INVENTORY_MANIFEST_BYTES_MAX: u64 = 32 * MIB as u64;
/// A key of a bucket: S3 has no longer ones.
pub const S3_KEY_BYTES_MAX: usize = 1024;
/// Bytes of a page's header that are looked at: it may have statistics with a smallest and a largest value.
pub const LIST_PARQUET_HEADER_BYTES_MAX: u64 = 4 * MIB as u64;
/// Targets of `--sample`: 8 bytes for each, 8 MiB, while the list is read for them.
pub const SAMPLE_TARGETS_MAX: u64 = 1_000_000;
/// Hosts of a list whose certificates are not to be trusted that a notice tells of; the others' targets are among the
/// failures as well.
pub const DISTRUSTED_TOLD_MAX: usize = 10;
/// A marker of a listing.
pub const MARKER_BYTES_MAX: usize = 64 * 1024;
/// Parts of the path of a field in a page of JSON: each is an object in which the next is looked for.
pub const FIELD_PATH_PARTS_MAX: usize = 32;
/// So many targets of a list that all lead to one origin: it is taken for the job's only one.
pub const LIST_OF_ONE_ORIGIN: u64 = 4096;
/// Nesting of elements in a bucket's page or a store's error document: a key of a page stands at 3.
pub const XML_DEPTH_MAX: usize = 16;
/// Attempts at the first page. Later pages are tried until the origin is given up.
pub const FIRST_PAGE_ATTEMPTS_MAX: u32 = 5;

// --- names ---------------------------------------------------------------------------------------------------

/// Segments of a name that becomes a path.
pub const NAME_SEGMENTS_MAX: usize = 64;
/// One segment once escaped: `NAME_MAX` of Linux.
pub const NAME_SEGMENT_BYTES_MAX: usize = 255;
/// A whole name as a path: `PATH_MAX` of Linux is 4,096 with the NUL.
pub const NAME_PATH_BYTES_MAX: usize = 4095;

// --- lists ---------------------------------------------------------------------------------------------------

/// Columns that `--keep-columns` may name. What they hold is bounded by a block and counts in a row group's bytes; each
/// costs an open column beside it, 64 x about 16 KiB = 1 MiB a sink.
pub const KEPT_COLUMNS_MAX: usize = 64;
/// Values of the kept columns of one target, as bytes.
pub const KEPT_BYTES_MAX: usize = 64 * 1024;
/// Sidecars of an object in a tar shard: each may be as long as a kept value, so they take 8 times [`KEPT_BYTES_MAX`] at
/// most.
pub const SIDECARS_MAX: usize = 8;
/// What one target of a list is asked with: body, method and header fields. It stands in the target's page, and twice more
/// while its request is in flight.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Of a body that is not stored, a reply to a request for a part of the object: one that is longer is not read to its end.
/// To close the connection and open another costs about as much as this takes.
pub const REFUSED_BODY_BYTES_MAX: u64 = 64 * 1024;
/// A URL: no server takes a longer one.
pub const URL_BYTES_MAX: usize = 64 * 1024;

// --- replies -------------------------------------------------------------------------------------------------

/// Status line and header fields of all heads of one reply, interim ones included.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// What a connection keeps of a head's memory for the next one: usual heads have some hundred bytes. Longer ones are counted
/// where bodies are, and given back with their reply. One whose end has not come takes `HEAD_BYTES_MAX`: 64 MiB for 1,000
/// requests in flight.
pub const HEAD_KEPT_BYTES: usize = 4096;
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
/// A WARC record up to this is packed with a code that is always the same, which makes it 3 to 5 % larger than one of
/// its own and saves 5 us; at 4 KiB it would be 7 %. Distances in it are of the first 22 classes: up to 2,048.
pub const WARC_SMALL_RECORD_BYTES_MAX: usize = 2048;
/// Bodies on their way from a connection to the sink, of all workers together: being received, and in blocks that are
/// full or wait for their sink. When it is used up the next body goes to a staging file at once: nothing waits for memory
/// while it holds some.
pub const BODIES_BYTES_MAX: usize = 80 * MIB;
/// A body up to this is never spilled, and not counted before it is in a block: it is the memory that a connection keeps
/// for its next body.
pub const BODY_FREE_BYTES: usize = 16 * 1024;
/// A body is decoded in pieces (`--compressed`), the first one of this size, those behind a full one of `READ_BYTES`. A thread
/// that fetches decodes one body at a time, from memory (up to `BODY_MEMORY_BYTES_MAX`) or its staging file, and holds
/// nothing of it afterwards. While it does, a decoder has its window and its tables, beside the budget of 192 MiB: gzip
/// 32 KiB and 10, zstd 8 MiB and 0.5, brotli 16 MiB, the most there is without large windows, and 4. With the encoded body
/// that is at most 21 MiB for each thread that fetches.
pub const DECODED_BYTES_FIRST: usize = 8 * 1024;
/// Window of a body in zstd: 8 MiB, which RFC 9659 sets as the most for a reply.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Of the body of a reply that is no object, with `--warc-all`: more is cut off.
pub const KEPT_BODY_BYTES_MAX: usize = 64 * 1024;
/// Of the redirects of a target, with `--warc-all`: bodies have what heads leave of it. Of heads there are as many as
/// redirects are followed, and each is in memory once more than it would be without.
pub const HOPS_KEPT_BYTES_MAX: usize = 16 * 1024;
/// Bodies of a stream, received or not yet taken.
pub const REPLIES_BYTES_MAX: usize = 64 * MIB;
/// Origins that a thread knows at once: about 1 KiB each.
pub const ORIGINS_HELD_MAX: usize = 4096;
/// A connection of HTTP/2 that the server closes has up to a hundred requests on it, and all but a few are sent again
/// together: a target may meet that more than once. For one with a request at a time, once is enough.
pub const FORGIVEN_SHARED_MAX: u32 = 16;
/// Requests that are made again with another region, clock or credentials, because a store has said so, before that counts
/// as a failure: one of each, and one more. A store whose gateways contradict each other has no end.
pub const CORRECTIONS_MAX: u32 = 4;
/// Requests that are made again because a store has taken one for nobody's. The second such reply stops the job, once it is
/// certain whose it is; that of a fresh connection is.
pub const REFUSALS_MAX: u32 = 4;
/// Bytes of a body that broke off, from which on the rest is asked for instead of all of it: below, a request more costs about
/// as much as what it saves. An attempt that brings so many does not count, so there are at most as many of these as an
/// object has MiB. What waits for its rest is at its connection's task: a staging file above `BODY_MEMORY_BYTES_MAX`, else
/// memory that is counted where bodies are. So there are at most as many as requests in flight.
pub const RESUMED_BYTES_MIN: u64 = MIB as u64;
/// Attempts one after the other that may bring less of the rest; after one more all of the object is asked for, which counts.
pub const RESUMED_IN_VAIN_MAX: u32 = 3;
/// The first of them waits so long, each of the others twice as long as the one before: 3.5 s together. For so long, and
/// for the deadlines of four requests, a target that brings nothing keeps its place.
pub const RESUMED_WAIT: Duration = Duration::from_millis(500);
/// While credentials are being renewed a request waits so long, milliseconds, before it looks again.
pub const RENEWAL_WAIT: u64 = 200;
/// Redirects one after the other that can be asked for.
pub const REDIRECTS_MAX: u32 = 20;
/// The buffer that one worker reads into: shared by its connections.
pub const READ_BYTES: usize = 64 * 1024;

// --- transforms ----------------------------------------------------------------------------------------------

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
/// Bytes of bodies that connections hold until it is certain whose they are, of all workers together. Each has its share,
pub const HELD_BYTES_MAX: usize = 32 * MIB;
/// and at least this: with it a connection holds some hundred small objects.
pub const HELD_BYTES_MIN: usize = 16 * 1024;
/// No connection needs more: at a gigabit a second that is a rest of 50 ms after each 34 ms.
pub const HELD_BYTES_EACH_MAX: usize = 4 * MIB;
/// Parts of an object that are asked for together (`--coalesce`). Their entries and their bytes are within what a connection may
/// hold each, and the bytes within `BODY_MEMORY_BYTES_MAX`: the one body more that is counted where bodies are.
pub const JOINED_TARGETS_MAX: usize = 256;
/// Objects whose ETags a worker remembers while parts of them are fetched: 16 bytes for each.
pub const PART_ETAGS_MAX: usize = 1024;
/// Requests that are sent at once on a connection (`--pipeline`): more would save little.
pub const BATCH_REQUESTS_MAX: u32 = 256;
/// Requests in flight in batches, of all connections: about half a KiB each for its target.
pub const BATCHED_REQUESTS_MAX: u32 = 65_536;
/// Bytes of one reply in a batch, head and body: with a larger one on the way, a connection is better off alone.
pub const BATCH_REPLY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of all replies of a batch. While bodies have used up their memory there are no batches.
pub const BATCH_BYTES_MAX: usize = MIB;
/// What a connection keeps of that between two batches.
pub const BATCH_KEPT_BYTES: usize = 16 * 1024;
/// Of connections that make requests, one in so many more may be open and rest: where each rests for 50 ms after a reply
/// of 100 ms, these are as many as rest.
const RESTING_SHARE: usize = 2;
/// Where few files may be open, one in so many at least.
pub const RESTING_SHARE_MIN: usize = 8;

/// Connections that may rest beside so many that make requests.
pub const fn resting_connections(requests: usize) -> usize {
    let resting = requests / RESTING_SHARE;
    if resting == 0 { 1 } else { resting }
}

/// Connections that rest between two pages of a listing, or two requests to a store: each page comes on one that has
/// rested. With pages of a thousand names these are 300,000 names a second.
pub const RESTING_PAGES_MAX: usize = 16;
/// Names of objects in doubt that a job tells; of more it tells how many.
pub const DOUBTFUL_NAMES_MAX: usize = 10_000;

// --- sinks ---------------------------------------------------------------------------------------------------

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

/// Equal answers of 401 or 403 in a row after which a job stops that had no success.
pub const REFUSED_TARGETS_MAX: u64 = 200;
/// How long an answer is waited for that shows whether all is refused.
pub const ACCESS_CHECK: Duration = Duration::from_secs(30);
/// Names of entries that a page has left out which are kept for each reason, for `status --skipped`.
pub const SKIPPED_NAMES_PAGE: u64 = 16;
/// The same of a job: with six reasons 600 names of at most a KiB.
pub const SKIPPED_NAMES_MAX: usize = 100;
/// Bytes of such a name.
pub const SKIPPED_NAME_BYTES_MAX: usize = 1024;
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
/// What the first transient failure of a target takes out of them.
pub const RETRY_COST_TRANSIENT: u32 = 14;
/// What a throttling status takes out of them while nothing succeeds.
pub const RETRY_COST_THROTTLE: u32 = 5;
/// What a success puts back: with the costs above, an origin of which up to half the replies fail keeps its tokens
/// (docs/internals/decisions/0002, 0025).
pub const RETRY_REFUND: u32 = 14;
/// A target that fails again is a reason to ask whether its origin is well, unless that was seen to be in this time.
pub const HEALTHY_FOR: Duration = Duration::from_millis(100);
/// Refusals and nothing else for this long are an outage, if they are as many as take all tokens.
pub const REFUSED_ONLY: Duration = Duration::from_secs(1);
/// For this long if they name a time (`Retry-After`).
pub const ASKED_TO_WAIT_ONLY: Duration = Duration::from_millis(300);
/// Origins that refuse requests of a stream whose pace is kept: some 4 KiB each, with four seconds of replies in slots of
/// 50 ms; others are asked as if they did not.
pub const STREAM_THROTTLED_MAX: usize = 4096;
/// One that has given nothing but refusals for so long has no pace: the program gets them.
pub const STREAM_REFUSED_ONLY: Duration = Duration::from_secs(2);
/// A pace is kept for so long after the last refusal.
pub const STREAM_THROTTLED_FOR: Duration = Duration::from_secs(60);
/// Requests a second that an origin gets at least, however much it refuses.
pub const PACE_MIN: f64 = 1.0;
/// What comes at once after a quiet time when an origin has a pace: a few turns of a timer, so that it is not refused.
pub const PACE_BURST: Duration = Duration::from_millis(20);
/// An origin out of tokens rests this long, twice as long each time, ...
pub const REST_BASE: Duration = Duration::from_secs(5);
/// ... up to this,
pub const REST_CAP: Duration = Duration::from_secs(120);
/// and the job is given up (exit 5) after this long without any success.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(900);

/// The pace of an origin that throttled is kept for a run that resumes the job so soon.
pub const PACE_KEPT: Duration = Duration::from_secs(900);

// --- ways to an origin ---------------------------------------------------------------------------------------

/// The file of `--ca-file`: a bundle of all public authorities has 220 KiB.
pub const CA_FILE_BYTES_MAX: u64 = 4 * MIB as u64;
/// TLS sessions that a worker keeps to resume: usually below 5 KiB each, 1.3 MiB. A ticket has at most 64 KiB, so
/// servers that mean harm get 16 MiB out of a worker.
pub const TLS_SESSIONS_MAX: usize = 256;
/// Requests in flight on one HTTP/2 connection, whatever the server allows.
pub const HTTP2_STREAMS_MAX: usize = 256;
/// The same until the server has said what it allows: what the standard asks every server to allow.
pub const HTTP2_STREAMS_FIRST: usize = 100;
/// What one HTTP/2 stream may send ahead. Bodies are taken as they come, so this much is only on its way.
pub const HTTP2_STREAM_WINDOW: u32 = MIB as u32;
/// The same for all streams of a connection. It is large, for it also bounds how many small frames may be unread
/// (docs/internals/decisions/0010).
pub const HTTP2_CONNECTION_WINDOW: u32 = 5 * MIB as u32;
/// Names that are looked up at the same time, one thread each: a thread that hangs counts too.
pub const DNS_THREADS_MAX: usize = 64;
/// Names that wait for one of these threads or are being looked up: 255 bytes and about as much again, 4 MiB.
pub const DNS_ASKED_MAX: usize = 8192;
/// Addresses of a name that are tried.
pub const DNS_ADDRESSES_MAX: usize = 8;
/// The next address of a host is tried beside those that have not answered in this time. So one connection in the
/// making has up to `DNS_ADDRESSES_MAX` descriptors for a moment; when there is none left it ends, and is made again.
pub const CONNECT_ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Names whose addresses are known: 255 bytes, 8 addresses of 17 and their upkeep, below 0.6 KiB each, 10 MiB.
pub const DNS_CACHE_NAMES_MAX: usize = 16 * 1024;
/// How long addresses are believed: the system's look-up does not tell what the name's owner thinks.
pub const DNS_TTL: Duration = Duration::from_secs(60);
/// How long a look-up that failed is not made again.
pub const DNS_NEGATIVE_TTL: Duration = Duration::from_secs(5);

// --- many hosts ----------------------------------------------------------------------------------------------

/// Requests in flight to one host of a job over many, unless `--limit-per-host` says otherwise.
pub const HOST_CONNECTIONS: u32 = 4;
/// Requests a second to one host of such a job, unless `--rate-per-host` says otherwise.
pub const HOST_RATE: f64 = 50.0;
/// A host whose last reply came sooner than this is prompt: slow ones leave places to it.
pub const PROMPT_WITHIN: Duration = Duration::from_secs(1);
/// Failures to reach a host one after the other, before it rests.
pub const HOST_FAILURES_MAX: u32 = 5;
/// A host that is dead is not asked again for this long.
pub const HOST_DEAD_FOR: Duration = Duration::from_secs(900);
/// Hosts whose state is kept, of all workers together: 56 bytes and a table that is at most half empty, 2^18 x 57 x 2
/// = 28 MiB at the worst, 14 usually. A host of which nothing bad is known is forgotten first.
pub const HOSTS_HELD_MAX: usize = 224 * 1024;
/// Targets that wait in memory for their host or for its address, of all workers together: about 0.5 KiB each, 8 MiB;
/// beyond it they are deferred: they wait on disk.
pub const HOST_TARGETS_MAX: usize = 16 * 1024;
/// What one host may have of that: one host must not crowd out the others.
pub const HOST_TARGETS_SHARE: usize = 8;
/// Targets that are deferred because there is no place for them come back after this long at the earliest.
pub const DEFERRED_FOR: Duration = Duration::from_secs(2);
/// A target that seems dead is looked at once more after this long: whatever it was may have passed.
pub const SECOND_LOOK_AFTER: Duration = Duration::from_secs(20);
/// Unused connections that are kept in a job over many hosts, of all workers together: about 40 KiB each with TLS,
/// 10 MiB.
pub const HOST_IDLE_CONNECTIONS: usize = 256;
/// Targets on their way into the journal's table: no more are deferred while it has so many to write.
pub const DEFERRED_QUEUED_MAX: usize = 32 * 1024;
// --- our own look-ups ----------------------------------------------------------------------------------------

/// Names that are being looked up and are not slow yet, of all workers together.
pub const DNS_FAST_MAX: usize = 256;
/// Names that are being looked up and are slow, of all workers together. A look-up is at most 2 KiB: its name twice (2
/// x 255 bytes), two questions of 8 tries (2 x 8 x 56), its entries in the tables of its sockets (16 x 24); (8,192 +
/// 256) x 2 KiB = 16.5 MiB of the part for the rest when all names are as long as can be, 5 MiB with usual ones.
pub const DNS_SLOW_MAX: usize = 8192;
/// A look-up that takes longer is slow.
pub const DNS_FAST: Duration = Duration::from_millis(300);
/// How long the first try waits for an answer; each one waits half as long again as the one before it: 1.5 + 2.25 +
/// 3.4 = 7.1 s.
pub const DNS_TRY_TIMEOUT: Duration = Duration::from_millis(1500);
/// The same when the system says otherwise, at most.
pub const DNS_TRY_TIMEOUT_MAX: Duration = Duration::from_secs(5);
/// Tries of a look-up.
pub const DNS_TRIES: u32 = 3;
/// The same when the system says otherwise, at most.
pub const DNS_TRIES_MAX: u32 = 5;
/// A whole look-up, with all its tries and all domains that a short name is looked for in.
pub const DNS_LOOK_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// When one family of addresses is there, how much longer the other one is waited for (RFC 8305, section 3).
pub const DNS_FAMILY_DELAY: Duration = Duration::from_millis(50);
/// The same for addresses of IPv4 beside those of IPv6: a second try has its answer by then.
pub const DNS_FAMILY_DELAY_V4: Duration = Duration::from_secs(2);
/// Servers that are asked.
pub const DNS_UPSTREAMS_MAX: usize = 8;
/// Domains that a short name is looked for in.
pub const DNS_SEARCH_MAX: usize = 6;
/// What is read of a system file about names.
pub const DNS_FILE_BYTES_MAX: u64 = MIB as u64;
/// Sockets of a worker to one server, each with its own random port.
pub const DNS_SOCKETS: usize = 4;
/// What a socket may receive before it is read: an answer for each fast slot, with the kernel's upkeep 256
/// x 2 x 2 KiB = 1 MiB, in the kernel.
pub const DNS_RECEIVE_BYTES: usize = MIB;
/// An answer by UDP: what we say that we take (no fragments on the way), and the buffer for it, one for each socket: 8
/// servers x 4 x 2 KiB = 64 KiB a worker.
pub const DNS_UDP_PAYLOAD: u16 = 1232;
/// See [`DNS_UDP_PAYLOAD`]: a longer answer than this is cut and so malformed.
pub const DNS_UDP_BUFFER_BYTES: usize = 2048;
/// Answers that a socket gives before others get their turn.
pub const DNS_UDP_BURST: usize = 64;
/// Look-ups of a worker that are made again over TCP at the same time: an answer is up to 64 KiB, 2 MiB.
pub const DNS_TCP_MAX: usize = 32;
/// Names that lead to names, one after the other.
pub const DNS_CHAIN_MAX: usize = 16;
/// How long addresses are believed: what their owner says, within these.
pub const DNS_TTL_MIN: Duration = Duration::from_secs(1);
/// See [`DNS_TTL_MIN`].
pub const DNS_TTL_MAX: Duration = Duration::from_secs(300);
/// How long it is believed that there is no such name: what the owner of the zone says, from 1 s to this.
pub const DNS_ABSENT_TTL_MAX: Duration = Duration::from_secs(60);
/// Random bytes that are fetched at once: those of about 50 queries.
pub const DNS_RANDOM_BYTES: usize = 1024;

// --- timeouts ------------------------------------------------------------------------------------------------

/// Name look-up.
pub const DNS_TIMEOUT: Duration = Duration::from_secs(5);
/// TCP connection, over all addresses of a host; and as much for the handshake of TLS.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a page waits for a descriptor or a port of this machine, and how long between two tries: with five attempts
/// longer than the minute that a port rests behind its connection.
pub const EXHAUSTED_WAIT: Duration = Duration::from_secs(15);
/// See [`EXHAUSTED_WAIT`].
pub const EXHAUSTED_PAUSE: Duration = Duration::from_millis(200);
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
/// The same of more connections to one origin than requests may be in flight: some servers are slow because of how many
/// there are. As long as replies are collected before a connection rests, so what only others' rests need stays.
pub const SURPLUS_CONNECTION_IDLE: Duration = Duration::from_secs(1);
/// The same right behind a lower number.
pub const LOWERED_CONNECTION_IDLE: Duration = Duration::from_millis(250);
/// How often deadlines are looked at: they are exact to this.
pub const TICK: Duration = Duration::from_millis(50);
/// Requests in flight when the job is asked to stop may take this long.
pub const DRAIN: Duration = Duration::from_secs(3);
/// A percentage of failures is judged before a job's end once so many targets have an outcome: of fewer, a few say
/// nothing of the rest.
pub const FAILED_SHARE_TARGETS_MIN: u64 = 1000;
/// After a panic the other threads have this to end; those that wait for one that is gone are left behind.
pub const PANIC_END: Duration = Duration::from_secs(3);

// --- descriptors ---------------------------------------------------------------------------------------------

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

// --- checks and their results --------------------------------------------------------------------------------

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

// --- credentials of a store ----------------------------------------------------------------------------------

/// A file of profiles, a token, an answer with credentials, what a command writes: each is far below it.
pub const CREDENTIALS_BYTES_MAX: usize = MIB;
/// From the question for credentials to the whole answer, connecting included.
pub const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(10);
/// Tries to get credentials before it has failed; the wait between them doubles from `CREDENTIALS_WAIT`.
pub const CREDENTIALS_TRIES: u32 = 3;
/// See `CREDENTIALS_TRIES`.
pub const CREDENTIALS_WAIT: Duration = Duration::from_millis(200);
/// A machine without a metadata service is known by its silence: the first question has this long, and one try.
pub const METADATA_TIMEOUT: Duration = Duration::from_secs(1);
/// A `credential_process`, or `--bearer-command`: it may ask somebody for a password.
pub const CREDENTIAL_PROCESS_TIMEOUT: Duration = Duration::from_secs(60);
/// A token that a command prints: it goes into the head of a request, for which servers rarely take more than 16 KiB.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;
/// Tokens that a server may refuse one after the other; the job stops then. Fewer than `CORRECTIONS_MAX`, so that no target
/// has failed by then.
pub const TOKENS_REFUSED_MAX: u32 = 3;
/// Profiles whose roles are assumed one with the credentials of the next.
pub const PROFILES_CHAINED_MAX: usize = 8;
/// Credentials are replaced so long before they expire, or when a quarter of their life is left.
pub const CREDENTIALS_AHEAD: Duration = Duration::from_secs(300);
/// Between two tries to replace them: the first wait, which doubles, ...
pub const CREDENTIALS_RETRY_MIN: Duration = Duration::from_secs(1);
/// ... and the last. Who asks again within it hears what came of the last try.
pub const CREDENTIALS_RETRY_MAX: Duration = Duration::from_secs(30);

// --- what is measured of a job -------------------------------------------------------------------------------

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

// --- streams -------------------------------------------------------------------------------------------------

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

const _: () = {
    assert!(WINDOW_NAME_BYTES_MAX + PAGE_BYTES_MAX <= 32 * MIB);
    assert!(BLOCKS_QUEUED_MAX * (BODY_MEMORY_BYTES_MAX + BLOCK_BYTES) <= BODIES_BYTES_MAX);
    // A block holds at most its bytes, what a connection held, and one outcome: it is addressed by u32.
    assert!(
        BLOCK_BYTES
            + HELD_BYTES_EACH_MAX
            + BODY_MEMORY_BYTES_MAX
            + HEAD_BYTES_MAX
            + URL_BYTES_MAX
            + KEPT_BYTES_MAX
            + REQUEST_BYTES_MAX
            < u32::MAX as usize
    );
    assert!(HEAD_LINE_BYTES_MAX <= HEAD_BYTES_MAX);
    assert!(BODY_MEMORY_BYTES_MAX <= REPLIES_BYTES_MAX);
    assert!(BLOCK_OUTCOMES_MAX <= COMMIT_WINDOW_OUTCOMES_MAX);
    // A page of names is addressed by u32.
    assert!(PAGE_BYTES_MAX < u32::MAX as usize);
};
