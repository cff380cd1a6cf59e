//! Bounds of replies: heads, bodies on their way, what connections hold until it is certain.

use std::time::Duration;

use super::MIB;

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
/// Bytes at the start of a body that show its type with `--accept`: a page may have comments before its first element. Memory for
/// each connection.
pub const BODY_START_BYTES: usize = 4096;
/// Bodies that are counted to find the one that most objects of a run are, by each writer and by the job: 32 bytes each.
pub const SAME_BODIES_KEPT: usize = 8;
/// Objects of a run before most of them are called the same.
pub const SAME_BODIES_TOLD_MIN: u64 = 100;
/// Bytes of a body that is compared with others: login and error pages are smaller. A writer hashes one of this size in 4 us.
pub const SAME_BODY_BYTES_MAX: usize = 64 * 1024;
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
/// The bytes of a body that `--keep-failed` stores of a redirect or an error reply; the rest is cut off.
pub const KEPT_BODY_BYTES_MAX: usize = 64 * 1024;
/// Of the redirects of a target, with `--keep-failed`: bodies have what heads leave of it. Of heads there are as many as
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
