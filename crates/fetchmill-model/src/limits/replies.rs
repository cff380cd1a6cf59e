//! Bounds of replies: heads, bodies on their way, and bytes that connections hold until replies are confirmed.

use std::time::Duration;

use super::MIB;

/// Maximum bytes of status line and header fields in all heads of one reply, including interim ones.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Memory of a head that a connection keeps for the next one. Usual heads have a few hundred bytes. Longer heads count
/// towards the memory for bodies and are freed with their reply. An unfinished head takes up to `HEAD_BYTES_MAX`: 64
/// MiB for 1,000 requests in flight.
pub const HEAD_KEPT_BYTES: usize = 4096;
/// Maximum bytes of one line of a head.
pub const HEAD_LINE_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of header fields of one head.
pub const HEAD_FIELDS_MAX: usize = 128;
/// Maximum number of interim (1xx) replies before the final one.
pub const INTERIM_REPLIES_MAX: u32 = 8;
/// Maximum bytes of the trailer section of a chunked body.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// Maximum bytes of all chunk extensions of one body.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 4 * 1024;
/// Default maximum size of a body, without `--max-size`.
pub const BODY_BYTES_MAX: u64 = 64 * MIB as u64;
/// Bytes at the start of a body that determine its type for `--accept`. A page may have comments before its first
/// element. Each connection takes this memory.
pub const BODY_START_BYTES: usize = 4096;
/// Number of bodies that each writer and the job count to find the most frequent body of a run. Each takes 32 bytes.
pub const SAME_BODIES_KEPT: usize = 8;
/// Minimum number of objects in a run before a notice says that most of them are the same.
pub const SAME_BODIES_TOLD_MIN: u64 = 100;
/// Maximum size of a body that is compared with others. Login and error pages are smaller. A writer hashes this size in
/// 4 us.
pub const SAME_BODY_BYTES_MAX: usize = 64 * 1024;
/// A larger body goes to a staging file.
pub const BODY_MEMORY_BYTES_MAX: usize = MIB;
/// WARC records up to this size are compressed with a fixed Huffman code. They become 3 to 5 % larger than with a code
/// computed for each of them, but each takes 5 us less. At 4 KiB they would become 7 % larger. Only the first 22
/// distance classes are used: distances up to 2,048.
pub const WARC_SMALL_RECORD_BYTES_MAX: usize = 2048;
/// Maximum bytes of bodies between connections and sinks, for all workers together. It covers bodies that are being
/// received and blocks that are full or wait for their sink. When it is used up, the next body goes directly to a
/// staging file, so no task waits for memory while it holds some.
pub const BODIES_BYTES_MAX: usize = 80 * MIB;
/// Bodies up to this size are never spilled, and do not count until they are in a block. A connection keeps this memory
/// for its next body.
pub const BODY_FREE_BYTES: usize = 16 * 1024;
/// Size of the first piece in which a body is decoded (`--compressed`). After a full piece, the next ones have
/// `READ_BYTES`.
///
/// A fetching thread decodes one body at a time, from memory (up to `BODY_MEMORY_BYTES_MAX`) or from its staging file,
/// and keeps nothing of it afterwards. Meanwhile a decoder takes its window and its tables, in addition to the budget
/// of 192 MiB: 32 + 10 KiB for gzip, 8 + 0.5 MiB for zstd, 16 + 4 MiB for brotli, whose window is the largest without
/// the large-window extension. Together with the encoded body, that is at most 21 MiB per fetching thread.
pub const DECODED_BYTES_FIRST: usize = 8 * 1024;
/// Maximum window of a zstd body: 8 MiB, the maximum for a reply in RFC 9659.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Bytes of a redirect's or an error reply's body that `--keep-failed` stores. The rest is cut off.
pub const KEPT_BODY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a target's redirects that `--keep-failed` stores. All heads of the followed redirects are stored, so each
/// of them takes its memory once more. Bodies get the remaining bytes.
pub const HOPS_KEPT_BYTES_MAX: usize = 16 * 1024;
/// Maximum bytes of a stream's bodies, whether they are still being received or wait to be taken.
pub const REPLIES_BYTES_MAX: usize = 64 * MIB;
/// Maximum number of origins that a thread knows at the same time. Each takes about 1 KiB.
pub const ORIGINS_HELD_MAX: usize = 4096;
/// Number of times that a target's request is sent again without counting as an attempt after the server closed a
/// shared HTTP/2 connection. Such a connection has up to 100 requests, nearly all of which are sent again together, so
/// this may happen to one target repeatedly. For a connection with one request at a time, once is enough.
pub const FORGIVEN_SHARED_MAX: u32 = 16;
/// Maximum number of times that a request is repeated with another region, clock or credentials, because the store
/// asked for it, before it counts as a failure: one of each, and one more. It stops a loop between gateways that
/// contradict each other.
pub const CORRECTIONS_MAX: u32 = 4;
/// Maximum number of repeated requests after a store rejected the credentials. The second such reply stops the job if
/// it certainly answers this request, as it does on a new connection.
pub const REFUSALS_MAX: u32 = 4;
/// Minimum bytes of an interrupted body after which only the rest is requested. Below this, the additional request
/// costs about as much as it saves. An attempt that receives this much does not count, so an object has at most one
/// such attempt per MiB. Meanwhile, the connection's task keeps the start of the body: above `BODY_MEMORY_BYTES_MAX` in
/// a staging file, else in memory that counts towards the memory for bodies. So at most as many such starts are kept as
/// requests are in flight.
pub const RESUMED_BYTES_MIN: u64 = MIB as u64;
/// Maximum number of consecutive attempts that receive less of the rest than this. After one more, the whole object is
/// requested, which counts as an attempt.
pub const RESUMED_IN_VAIN_MAX: u32 = 3;
/// Wait before the first of these attempts. It doubles for each further one: 3.5 s in total. A target that receives
/// nothing stays in flight for this long, plus the deadlines of four requests.
pub const RESUMED_WAIT: Duration = Duration::from_millis(500);
/// Milliseconds that a request waits between polls while credentials are being renewed.
pub const RENEWAL_WAIT: u64 = 200;
/// Largest number of consecutive redirects that a user may allow.
pub const REDIRECTS_MAX: u32 = 20;
/// Size of a worker's read buffer, which its connections share.
pub const READ_BYTES: usize = 64 * 1024;

/// Maximum bytes of bodies that connections hold until replies are confirmed, for all workers together. Each connection
/// has a share.
pub const HELD_BYTES_MAX: usize = 32 * MIB;
/// Minimum share of a connection. It holds a few hundred small objects.
pub const HELD_BYTES_MIN: usize = 16 * 1024;
/// Maximum share of a connection. At 1 Gbit/s, a connection fills it in 34 ms and then rests for 50 ms.
pub const HELD_BYTES_EACH_MAX: usize = 4 * MIB;
/// Maximum number of parts of an object in one request (`--coalesce`). Their entries and their bytes are each limited
/// to what a connection may hold. The bytes are also limited to `BODY_MEMORY_BYTES_MAX`: they count as one additional
/// body in the memory for bodies.
pub const JOINED_TARGETS_MAX: usize = 256;
/// Maximum number of objects whose ETags a worker remembers while it fetches their parts. Each takes 16 bytes.
pub const PART_ETAGS_MAX: usize = 1024;
/// Maximum number of requests that a connection sends together (`--pipeline`). More would save little.
pub const BATCH_REQUESTS_MAX: u32 = 256;
/// Maximum number of requests in flight in batches, over all connections. Each target takes about half a KiB.
pub const BATCHED_REQUESTS_MAX: u32 = 65_536;
/// Maximum bytes of one reply in a batch, head and body. While a larger reply is on its way, a connection works better
/// without batches.
pub const BATCH_REPLY_BYTES_MAX: usize = 64 * 1024;
/// Maximum bytes of all replies of a batch. While the memory for bodies is used up, there are no batches.
pub const BATCH_BYTES_MAX: usize = MIB;
/// Memory of a batch that a connection keeps until the next one.
pub const BATCH_KEPT_BYTES: usize = 16 * 1024;
/// One resting connection may be open per this many active ones. If each connection rests for 50 ms after a reply of
/// 100 ms, this is the share that rests.
const RESTING_SHARE: usize = 2;
/// The same number if the process may open few files: at least one resting connection per this many active ones.
pub const RESTING_SHARE_MIN: usize = 8;

/// Returns how many connections may rest in addition to those that make this many requests.
pub const fn resting_connections(requests: usize) -> usize {
    let resting = requests / RESTING_SHARE;
    if resting == 0 { 1 } else { resting }
}

/// While connections break often, they rest after few replies. Then this many times as many may rest as make requests,
/// but at most [`RESTING_OF_BREAKS_MAX`] or the usual number.
const RESTING_TIMES_OF_BREAKS: usize = 2;
const RESTING_OF_BREAKS_MAX: usize = 1024;

/// Returns how many connections may rest while connections break often, in addition to those that make this many
/// requests.
pub fn resting_connections_of_breaks(requests: usize) -> usize {
    (requests * RESTING_TIMES_OF_BREAKS).min(RESTING_OF_BREAKS_MAX).max(resting_connections(requests))
}

/// Number of connections that may rest between two pages of a listing, or between two requests to a store. Each page
/// uses a connection that has rested. With 1,000 names per page this allows 300,000 names/s.
pub const RESTING_PAGES_MAX: usize = 16;
/// Maximum number of suspect objects that a job names. Further ones are only counted.
pub const DOUBTFUL_NAMES_MAX: usize = 10_000;
