//! Bounds of listings and lists: pages, batches, names and entries.

use std::time::Duration;

use super::MIB;

/// Maximum size of a listing page. The limit applies separately to the reply and to the names. Together they take up to
/// 32 MiB while the page is parsed.
pub const PAGE_BYTES_MAX: usize = 16 * MIB;
/// Maximum number of listed targets that are not fetched yet. At this number the listing pauses.
pub const WINDOW_TARGETS_MAX: usize = 256 * 1024;
/// Maximum total size of the names of listed targets that are not fetched yet. At this size the listing also pauses.
/// One page can exceed the limit by up to 16 MiB, which brings the total to the whole budget of 32 MiB.
pub const WINDOW_NAME_BYTES_MAX: usize = 16 * MIB;
/// Minimum read-ahead of a listing in targets, if the job has only one origin. Usually the read-ahead is the number of
/// targets fetched in 10 s.
pub const READ_AHEAD_TARGETS_MIN: usize = 64 * 1024;
/// If fewer listed targets than this are waiting to be handed out, a divisible listing is divided. This number is a few
/// batches per worker.
pub const HUNGRY_TARGETS: usize = 32 * 1024;
/// Maximum number of a bucket's key ranges that are listed in parallel. Each range has a page of up to 1,000 keys in
/// memory: in the worst case, 16 x 2 MiB of the budget for pages.
pub const S3_LISTERS_MAX: usize = 16;
/// Maximum number of buckets, or of their origins, that a job keeps track of. A list can name any number of buckets.
/// Each bucket takes 200 bytes of the general budget, or 2 MiB in total. Targets in further buckets become
/// `failed(url)`.
pub const S3_BUCKETS_MAX: usize = 10_000;
/// Number of keys per page, the maximum that stores return.
pub const S3_PAGE_KEYS: u32 = 1000;
/// Maximum number of targets in a batch. Within this limit, a batch has as many targets as a worker should finish in a
/// second.
pub const BATCH_TARGETS_MAX: usize = 4096;
/// Maximum number of folder entries in a page. A folder is split while it is read, so memory does not depend on its
/// size.
pub const FOLDER_PAGE_TARGETS: usize = 1000;
/// Maximum number of links on an HTML index page, or of URLs in a sitemap. A digest of each entry is kept, so that no
/// entry is used twice. The table of digests has up to 2^21 slots with 17 bytes each: 34 MiB of the budget for pages.
pub const INDEX_ENTRIES_MAX: usize = 1_000_000;
/// Maximum number of sitemap indexes in a chain in which each index refers to the next. Real chains consist of one or
/// two indexes. A deeper index fails.
pub const SITEMAP_INDEX_DEPTH_MAX: u64 = 5;
/// Maximum size of an HTML index page or a sitemap: 512 bytes per link. The page is parsed as a stream after all of it
/// has arrived.
pub const INDEX_BYTES_MAX: u64 = 512 << 20;
/// Number of bytes of an index page or a sitemap that are kept in memory until the whole page has arrived. Further
/// bytes are written to an unnamed file.
pub const PAGE_MEMORY_BYTES: usize = MIB;
/// Maximum number of bytes between two tokens of a page, for example in an unclosed tag.
pub const INDEX_TAG_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of a link, which leaves room for a percent-encoded name of 4,096 bytes. A longer link is not an entry.
pub const INDEX_HREF_BYTES_MAX: usize = 16 * 1024;
/// Number of bytes that are read from a robots.txt. This is the minimum that RFC 9309 requires. Later bytes are
/// ignored.
pub const ROBOTS_BYTES_MAX: usize = 500 * 1024;
/// Maximum number of consecutive redirects that are followed for a robots.txt (RFC 9309, 2.3.1.2).
pub const ROBOTS_REDIRECTS_MAX: u32 = 5;
/// Maximum number of a list's hosts whose robots.txt is remembered. The limit applies to the job, and separately to all
/// workers together. Each host takes a slot of 41 bytes, and about half of the slots can be empty: 2 x 2^18 x 41 bytes,
/// or 21 MiB, in the worst case. If a host was forgotten to make room for others, its robots.txt is requested again.
pub const ROBOTS_HOSTS_MAX: usize = 128 * 1024;
/// Maximum total size of the robots.txt rules that are remembered for the hosts of a list. The limit applies to the
/// job, and separately to all workers together: 16 MiB in total, plus the largest set of rules for each worker.
pub const ROBOTS_RULES_BYTES_MAX: usize = 8 * MIB;
/// Number of bytes of a robots.txt that are received even while the budget for bodies is used up. A longer robots.txt
/// is requested again later.
pub const ROBOTS_FREE_BYTES: usize = 16 * 1024;
/// Delay before a host is checked again if another worker has requested its robots.txt, or if there is no room for the
/// robots.txt.
pub const ROBOTS_AWAITED: Duration = Duration::from_millis(100);
/// Number of bytes at the start of an HTML page, where its head is, that `--opt-out` searches for `meta`. Each body in
/// transit needs this much memory.
pub const OPT_OUT_HTML_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes that are quoted from a header field or `meta` in the detail of an opted-out object.
pub const OPT_OUT_EVIDENCE_BYTES_MAX: usize = 256;
/// Maximum number of hosts with a separate count of the objects that their robots.txt forbids. With
/// [`OPT_OUT_HOST_BYTES_MAX`], the counts take up to 1.3 MiB in a window's commit record. Each host also takes one
/// journal row.
pub const OPT_OUT_HOSTS_MAX: usize = 4096;
/// Maximum size of the name of a host with a separate count, including its scheme and port. The host name alone has at
/// most 253 bytes.
pub const OPT_OUT_HOST_BYTES_MAX: usize = 300;
/// Maximum number of hosts with a separate count that a report names.
pub const OPT_OUT_HOSTS_REPORTED: usize = 10;
/// A listing counts as endless after this number of consecutive pages without names.
pub const EMPTY_PAGES_MAX: u32 = 1000;
/// Maximum nesting of folders. A link to a parent folder would otherwise be listed forever.
pub const FOLDER_DEPTH_MAX: usize = 64;
/// Number of targets in the first page of a list. The page is small so that its requests start soon. Each further page
/// has twice as many targets as the page before it.
pub const LIST_FIRST_PAGE_TARGETS: usize = 64;
/// Maximum number of targets in a page of a list.
pub const LIST_PAGE_TARGETS: usize = 4096;
/// Maximum total size of the names in a page of a list. The last entry can exceed the limit.
pub const LIST_PAGE_BYTES: usize = MIB;
/// Maximum number of entries that are read for a page of a list, including those that a filter excludes. The limit
/// makes pages appear at regular intervals.
pub const LIST_PAGE_ENTRIES: u64 = 64 * 1024;
/// Number of distinct lines of a list with which later lines are compared. Their table has up to 2^18 slots with 17
/// bytes each: 4.3 MiB of the general budget.
pub const LIST_REMEMBERED_LINES: usize = 200_000;
/// Maximum size of a line or record of a list. A longer line becomes a failed target. The read buffer grows up to this
/// size plus one read. With the unquoted record, its values and its entry, the total is 5 MiB of the general budget.
pub const LIST_LINE_BYTES_MAX: usize = MIB;
/// Maximum number of lines in a record with quoted newlines. The closing quote must be within this number of lines. If
/// the quote is missing, the search is repeated from each line, so the limit also bounds the work.
pub const LIST_RECORD_LINES_MAX: usize = 1000;
/// Maximum number of columns that are read from a record. Each column takes 16 bytes, or 256 KiB in total.
pub const LIST_COLUMNS_MAX: usize = 16 * 1024;
/// Number of bytes that are read from a list before control returns to the caller, which then checks its stop signal.
pub const LIST_STRETCH_BYTES: usize = 16 * MIB;
/// Maximum window of a .zst list: 128 MiB, which `zstd --long` (27) needs. `zstd -19` and lower levels need at most 8
/// MiB. The decoder allocates the window size stated in the list's header, in addition to the budget of 192 MiB.
/// `docs/guide/lists.md` says how much memory such a list takes.
pub const LIST_ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Maximum memory of the decoder for a .xz list, in KiB. `xz -9` uses a dictionary of 64 MiB. A list with a larger
/// dictionary is refused.
pub const LIST_XZ_KIB_MAX: u32 = 72 * 1024;
/// Maximum memory of a Parquet list: dictionaries and pages of the columns that are read, all pages of one batch, and
/// the compressed bytes of the current page. Usually they take 1 MiB. Anything beyond that is in addition to the budget
/// of 192 MiB.
pub const LIST_PARQUET_BYTES_MAX: u64 = 96 * MIB as u64;
/// Maximum size of the `manifest.json` of an S3 Inventory: 100,000 data files with 335 bytes each. It is parsed as a
/// stream. For each file, the key and 48 bytes are kept, in a vector that is at most half empty. In the document, a
/// file takes at least 70 bytes. In the worst case, 32 MiB of keys or 44 MiB of files with short keys remain in memory.
/// This is in addition to the budget of 192 MiB.
pub const INVENTORY_MANIFEST_BYTES_MAX: u64 = 32 * MIB as u64;
/// Maximum size of a key in a bucket, as in S3.
pub const S3_KEY_BYTES_MAX: usize = 1024;
/// Maximum size of a Parquet page header, which can contain statistics such as the smallest and the largest value.
pub const LIST_PARQUET_HEADER_BYTES_MAX: u64 = 4 * MIB as u64;
/// Maximum number of targets in a `--sample`. Each target takes 8 bytes while the list is read, or 8 MiB
/// in total.
pub const SAMPLE_TARGETS_MAX: u64 = 1_000_000;
/// Maximum number of hosts with untrusted certificates that a notice names. The targets on all such hosts are also in
/// the list of failures.
pub const DISTRUSTED_TOLD_MAX: usize = 10;
/// Maximum size of a listing's marker.
pub const MARKER_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of parts in a field path for a JSON page. Each part names a field in the object that the part before
/// it selects.
pub const FIELD_PATH_PARTS_MAX: usize = 32;
/// Number of targets of a list that must all be at one origin before that origin counts as the job's only one.
pub const LIST_OF_ONE_ORIGIN: u64 = 4096;
/// Maximum nesting of elements in a bucket's page or in a store's error document. A key in a page is at level 3.
pub const XML_DEPTH_MAX: usize = 16;
/// Maximum number of attempts at the first page. Later pages are retried until the job abandons the origin.
pub const FIRST_PAGE_ATTEMPTS_MAX: u32 = 5;

/// Number of skipped entries per reason whose names a page keeps for `status --skipped`.
pub const SKIPPED_NAMES_PAGE: u64 = 16;
/// Number of skipped entries per reason whose names a whole job keeps. With six reasons, that is 600 names of at most 1
/// KiB each.
pub const SKIPPED_NAMES_MAX: usize = 100;
/// Maximum size of the name of a skipped entry.
pub const SKIPPED_NAME_BYTES_MAX: usize = 1024;

/// Maximum number of segments in a name that becomes a path.
pub const NAME_SEGMENTS_MAX: usize = 64;
/// Maximum size of one escaped segment: `NAME_MAX` of Linux.
pub const NAME_SEGMENT_BYTES_MAX: usize = 255;
/// Maximum size of a whole name as a path. `PATH_MAX` of Linux is 4,096 including the NUL.
pub const NAME_PATH_BYTES_MAX: usize = 4095;

/// Maximum number of columns in `--keep-columns`. The values of these columns are bounded by the blocks and count
/// towards a row group's bytes. Each column also needs an open column writer: 64 x about 16 KiB = 1 MiB per sink.
pub const KEPT_COLUMNS_MAX: usize = 64;
/// Maximum total size of a target's values in the kept columns.
pub const KEPT_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of sidecars per object in a tar shard. A sidecar can be as long as a kept value, so the sidecars of
/// an object take at most 8 times [`KEPT_BYTES_MAX`].
pub const SIDECARS_MAX: usize = 8;
/// Maximum size of a list target's own request: body, method and header fields. The request is in memory once in the
/// target's page, and twice more while it is in flight.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes that are read from a body that is not stored, if a part of an object was requested. If the
/// body is longer, the connection is closed, because opening a new connection costs about as much as reading this many
/// bytes.
pub const REFUSED_BODY_BYTES_MAX: u64 = 64 * 1024;
/// Maximum size of a URL. No server accepts a longer one.
pub const URL_BYTES_MAX: usize = 64 * 1024;
