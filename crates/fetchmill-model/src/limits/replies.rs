//! Bounds of replies: heads, bodies in transit, and bytes that connections hold until replies are certain.

use std::time::Duration;

use super::MIB;

/// Maximum total size of the status lines and header fields in all heads of one reply, including interim heads.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Head memory that a connection keeps for the next reply. Most heads take a few hundred bytes. Longer heads count
/// towards the memory for bodies and are freed with their reply. An unfinished head takes up to `HEAD_BYTES_MAX`, which
/// is 64 MiB for 1,000 requests in flight.
pub const HEAD_KEPT_BYTES: usize = 4096;
/// Maximum size of one line of a head.
pub const HEAD_LINE_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of header fields of one head.
pub const HEAD_FIELDS_MAX: usize = 128;
/// Maximum number of interim (1xx) replies before the final one.
pub const INTERIM_REPLIES_MAX: u32 = 8;
/// Maximum size of the trailer section of a chunked body.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// Maximum total size of all chunk extensions of one body.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 4 * 1024;
/// Default maximum size of a body, without `--max-size`.
pub const BODY_BYTES_MAX: u64 = 64 * MIB as u64;
/// Number of bytes at the start of a body that determine its type for `--accept`. A page can have comments before its
/// first element. Each connection needs this much memory.
pub const BODY_START_BYTES: usize = 4096;
/// Number of distinct bodies that each writer and the job count to find the most frequent body of a run. Each body
/// takes 32 bytes.
pub const SAME_BODIES_KEPT: usize = 8;
/// Minimum number of objects in a run before a notice can say that most of them are the same.
pub const SAME_BODIES_TOLD_MIN: u64 = 100;
/// Maximum size of a body that is compared with others. Login and error pages are smaller. A writer takes 4 us to hash
/// a body of this size.
pub const SAME_BODY_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of a body in memory. A larger body goes to a staging file.
pub const BODY_MEMORY_BYTES_MAX: usize = MIB;
/// WARC records up to this size are compressed with a fixed Huffman code. They become 3 to 5 % larger than with a code
/// computed for each record, but compressing a record takes 5 us less. Records of 4 KiB would become 7 % larger. Only
/// the first 22 distance classes are used, for distances up to 2,048.
pub const WARC_SMALL_RECORD_BYTES_MAX: usize = 2048;
/// Maximum total size of bodies between connections and sinks, for all workers together. It covers bodies that are
/// being received, and blocks that are full or are waiting for their sink. When the memory is used up, the next body
/// goes directly to a staging file, so no task that holds memory ever waits for more.
pub const BODIES_BYTES_MAX: usize = 80 * MIB;
/// Bodies up to this size are never spilled. They count towards the memory for bodies only once they are in a block. A
/// connection keeps this memory for its next body.
pub const BODY_FREE_BYTES: usize = 16 * 1024;
/// Size of the first piece in which a body is decoded (`--compressed`). If the first piece is full, the next pieces
/// have a size of `READ_BYTES`.
///
/// A fetching thread decodes one body at a time, from memory (up to `BODY_MEMORY_BYTES_MAX`) or from its staging file.
/// The thread keeps nothing afterwards. During decoding, the window and the tables take memory in addition to the
/// budget of 192 MiB: 32 + 10 KiB for gzip, 8 + 0.5 MiB for zstd, and 16 + 4 MiB for brotli without large windows.
/// Together with the encoded body, that is at most 21 MiB per fetching thread.
pub const DECODED_BYTES_FIRST: usize = 8 * 1024;
/// Maximum window of a zstd body: 8 MiB, the maximum that RFC 9659 allows for a reply.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Maximum number of body bytes that `--keep-failed` stores for a redirect or an error reply. Any further bytes are
/// discarded.
pub const KEPT_BODY_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes that `--keep-failed` stores for a target's redirects. The heads of all followed redirects
/// are stored, so each head is in memory once more. The bodies share the remaining bytes.
pub const HOPS_KEPT_BYTES_MAX: usize = 16 * 1024;
/// Maximum total size of a stream's bodies, whether they are still being received or are waiting to be taken.
pub const REPLIES_BYTES_MAX: usize = 64 * MIB;
/// Maximum number of origins whose state a thread keeps at the same time. Each origin takes about 1 KiB.
pub const ORIGINS_HELD_MAX: usize = 4096;
/// Maximum number of times that a target's request is sent again, without counting as an attempt, after the server
/// closed a shared HTTP/2 connection. Such a connection carries up to 100 requests. Nearly all of them are sent again
/// together, so one target can be affected repeatedly. For a connection with one request at a time, once is enough.
pub const FORGIVEN_SHARED_MAX: u32 = 16;
/// Maximum number of times that a request is repeated with another region, clock or credentials because the store's
/// reply calls for it: once for each reason, and once more. After that, the request counts as a failure. The limit
/// stops a loop between gateways that contradict each other.
pub const CORRECTIONS_MAX: u32 = 4;
/// Maximum number of repeated requests after a store rejected the credentials. The second rejection stops the job if it
/// certainly answers this request, which is always the case on a new connection.
pub const REFUSALS_MAX: u32 = 4;
/// Minimum number of bytes of an interrupted body that must have arrived before only the missing bytes are requested.
/// For fewer bytes, the additional request costs about as much as it saves. An attempt that receives this many bytes
/// does not count, so an object has at most one such attempt per MiB. Meanwhile, the connection's task keeps the start
/// of the body: in a staging file if it is larger than `BODY_MEMORY_BYTES_MAX`, and otherwise in memory that counts
/// towards the memory for bodies. The number of kept starts therefore never exceeds the number of requests in flight.
pub const RESUMED_BYTES_MIN: u64 = MIB as u64;
/// Maximum number of consecutive attempts that receive less than `RESUMED_BYTES_MIN` of the missing bytes. After one
/// more such attempt, the whole object is requested, which counts as an attempt.
pub const RESUMED_IN_VAIN_MAX: u32 = 3;
/// Wait after an attempt that received less than `RESUMED_BYTES_MIN`. It doubles with each such attempt in a row, which
/// makes 3.5 s in total. A target that receives nothing stays in flight for 3.5 s plus the deadlines of four requests.
pub const RESUMED_WAIT: Duration = Duration::from_millis(500);
/// Milliseconds that a request waits between polls while credentials are being renewed.
pub const RENEWAL_WAIT: u64 = 200;
/// Maximum number of consecutive redirects that a user may allow.
pub const REDIRECTS_MAX: u32 = 20;
/// Size of a worker's read buffer, which its connections share.
pub const READ_BYTES: usize = 64 * 1024;

/// Maximum total size of bodies that connections hold until replies are certain, for all workers together. Each
/// connection gets a share.
pub const HELD_BYTES_MAX: usize = 32 * MIB;
/// Minimum number of bytes that a connection can hold until replies are certain. This is enough for a few hundred small
/// objects.
pub const HELD_BYTES_MIN: usize = 16 * 1024;
/// Maximum number of bytes that a connection can hold until replies are certain. At 1 Gbit/s, a connection receives
/// this many bytes in 34 ms and then rests for 50 ms.
pub const HELD_BYTES_EACH_MAX: usize = 4 * MIB;
/// Maximum number of an object's parts in one request (`--coalesce`). The parts' entries and the parts' bytes are each
/// limited to the bytes that a connection may hold. The bytes are also limited to `BODY_MEMORY_BYTES_MAX`, because they
/// count as one additional body in the memory for bodies.
pub const JOINED_TARGETS_MAX: usize = 256;
/// Maximum number of objects whose ETags a worker remembers while it fetches their parts. Each object takes 16 bytes.
pub const PART_ETAGS_MAX: usize = 1024;
/// Maximum number of requests that a connection sends together (`--pipeline`). Larger batches would save little more.
pub const BATCH_REQUESTS_MAX: u32 = 256;
/// Maximum number of requests in flight in batches, over all connections. Each target takes about 0.5 KiB.
pub const BATCHED_REQUESTS_MAX: u32 = 65_536;
/// Maximum size of one reply in a batch, including its head. If replies are larger, a connection works better without
/// batches.
pub const BATCH_REPLY_BYTES_MAX: usize = 64 * 1024;
/// Maximum total size of the replies in a batch. While the memory for bodies is used up, there are no batches.
pub const BATCH_BYTES_MAX: usize = MIB;
/// Memory of a batch that a connection keeps until the next one.
pub const BATCH_KEPT_BYTES: usize = 16 * 1024;
/// Number of active connections per allowed resting connection. If each connection rests for 50 ms after a reply of 100
/// ms, one connection rests for every two active ones.
pub(crate) const RESTING_SHARE: usize = 2;
/// Number of active connections per allowed resting connection, if the process can open only a few files.
pub const RESTING_SHARE_MIN: usize = 8;

/// Returns how many connections may rest, in addition to the connections that carry `requests` requests.
pub const fn resting_connections(requests: usize) -> usize {
    let resting = requests / RESTING_SHARE;
    if resting == 0 { 1 } else { resting }
}

/// Maximum number of resting connections per active one while connections break often and therefore rest after few
/// replies. The total is also limited by [`RESTING_OF_BREAKS_MAX`] or the usual number, whichever is larger.
const RESTING_TIMES_OF_BREAKS: usize = 2;
const RESTING_OF_BREAKS_MAX: usize = 1024;

/// Returns how many connections may rest while connections break often, in addition to the connections that carry
/// `requests` requests.
pub fn resting_connections_of_breaks(requests: usize) -> usize {
    (requests * RESTING_TIMES_OF_BREAKS).min(RESTING_OF_BREAKS_MAX).max(resting_connections(requests))
}

/// Number of connections that may rest between two pages of a listing, or between two requests to a store. Each page
/// uses a connection that has rested. With 1,000 names per page, this allows 1,200,000 names/s. If pages arrive faster,
/// each page opens a new connection. If they arrive more slowly, fewer connections are used.
pub const RESTING_PAGES_MAX: usize = 64;
/// Maximum number of suspect objects that a job names. Further suspect objects are only counted.
pub const DOUBTFUL_NAMES_MAX: usize = 10_000;
