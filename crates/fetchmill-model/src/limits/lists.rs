//! Bounds of listings and lists: pages, batches, names, entries.

use std::time::Duration;

use super::MIB;

/// Maximum size of a listing page, for the bytes of its reply and for the bytes of its names. Both together take 32 MiB
/// while it is parsed.
pub const PAGE_BYTES_MAX: usize = 16 * MIB;
/// The listing pauses while this many listed targets are not yet fetched.
pub const WINDOW_TARGETS_MAX: usize = 256 * 1024;
/// The listing also pauses while their names take this many bytes. One page may exceed the limit by up to 16 MiB, so
/// both together take the whole budget of 32 MiB.
pub const WINDOW_NAME_BYTES_MAX: usize = 16 * MIB;
/// Minimum read-ahead of a listing, in targets, if the job has one origin. Usually the read-ahead is the number of
/// targets fetched in 10 s.
pub const READ_AHEAD_TARGETS_MIN: usize = 64 * 1024;
/// A divisible listing is divided while fewer listed targets than this wait to be handed out: a few batches per worker.
pub const HUNGRY_TARGETS: usize = 32 * 1024;
/// Maximum number of key ranges of a bucket that are listed at the same time. Each has a page of up to 1,000 keys in
/// memory, in the worst case 16 x 2 MiB of the budget for pages.
pub const S3_LISTERS_MAX: usize = 16;
/// Maximum number of buckets, or origins of buckets, that a job knows. A list may name any number. Each takes 200 bytes
/// of the general budget, 2 MiB in total. Targets in further buckets are `failed(url)`.
pub const S3_BUCKETS_MAX: usize = 10_000;
/// Keys per page: the maximum that stores return.
pub const S3_PAGE_KEYS: u32 = 1000;
/// Maximum number of targets in a batch. Within this limit, a batch has as many targets as a worker should finish in a
/// second.
pub const BATCH_TARGETS_MAX: usize = 4096;
/// Maximum number of folder entries in a page. A folder is split while it is read, so its size costs no memory.
pub const FOLDER_PAGE_TARGETS: usize = 1000;
/// Maximum number of links of an HTML index page, and of URLs of a sitemap. Each is remembered, so none is taken twice.
/// A digest takes 16 bytes plus one byte, in a table that is at most half empty. In total this is 36 MiB of the budget
/// for pages.
pub const INDEX_ENTRIES_MAX: usize = 1_000_000;
/// Maximum length of a chain of sitemap indexes, in which each leads to the next. Real chains have one or two. A deeper
/// index fails.
pub const SITEMAP_INDEX_DEPTH_MAX: u64 = 5;
/// Maximum size of such a page: 512 bytes per link. It is parsed as a stream after all of it has arrived.
pub const INDEX_BYTES_MAX: u64 = 512 << 20;
/// Bytes of such a page that are kept in memory until it has arrived. The rest is in an unnamed file.
pub const PAGE_MEMORY_BYTES: usize = MIB;
/// Maximum number of bytes between two tokens of a page, for example of a tag without an end.
pub const INDEX_TAG_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of a link: a percent-encoded name of 4,096 bytes, and some more. A longer link is not an entry.
pub const INDEX_HREF_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a robots.txt that are read, the minimum that RFC 9309 requires. Later bytes are ignored.
pub const ROBOTS_BYTES_MAX: usize = 500 * 1024;
/// Maximum number of consecutive redirects that are followed for a robots.txt (RFC 9309, 2.3.1.2).
pub const ROBOTS_REDIRECTS_MAX: u32 = 5;
/// Maximum number of hosts of a list whose robots.txt is remembered, by the job and by all its workers together. Each
/// takes 41 bytes in a table that is at most half empty: 2 x 2^17 x 41 x 2 = 21 MiB in the worst case. If a host was
/// forgotten in favour of others, its robots.txt is requested again.
pub const ROBOTS_HOSTS_MAX: usize = 128 * 1024;
/// Maximum bytes of their rules, also for the job and for all workers together: 16 MiB in total, plus the largest rules
/// of each worker.
pub const ROBOTS_RULES_BYTES_MAX: usize = 8 * MIB;
/// Bytes of a robots.txt that are received even while the budget for bodies is used up. If it is longer, it is
/// requested again later.
pub const ROBOTS_FREE_BYTES: usize = 16 * 1024;
/// Delay before a host is checked again if another worker has requested its robots.txt, or if there is no room for it.
pub const ROBOTS_AWAITED: Duration = Duration::from_millis(100);
/// Bytes at the start of an HTML page, where its head is, that `--opt-out` searches for `meta`. Each body on its way
/// takes this memory.
pub const OPT_OUT_HTML_BYTES_MAX: usize = 64 * 1024;
/// Maximum bytes of a header field or a `meta` that is quoted in the detail of an opted-out object.
pub const OPT_OUT_EVIDENCE_BYTES_MAX: usize = 256;
/// Maximum number of hosts with separate counts of objects that their robots.txt forbids. With
/// [`OPT_OUT_HOST_BYTES_MAX`] they take 1.3 MiB in a window's commit record, and one journal row each.
pub const OPT_OUT_HOSTS_MAX: usize = 4096;
/// Maximum bytes of the name of such a host, with scheme and port. A host name has at most 253.
pub const OPT_OUT_HOST_BYTES_MAX: usize = 300;
/// Maximum number of such hosts that a report names.
pub const OPT_OUT_HOSTS_REPORTED: usize = 10;
/// Number of consecutive pages without a name after which a listing counts as endless.
pub const EMPTY_PAGES_MAX: u32 = 1000;
/// Maximum nesting of folders. A link to a parent folder would otherwise be listed forever.
pub const FOLDER_DEPTH_MAX: usize = 64;
/// Number of targets in the first page of a list. The page is small, so that its requests start soon. Each page has
/// twice as many targets as the one before it.
pub const LIST_FIRST_PAGE_TARGETS: usize = 64;
/// Maximum number of targets in a page of a list.
pub const LIST_PAGE_TARGETS: usize = 4096;
/// Maximum bytes of names in a page of a list. One more entry may exceed it.
pub const LIST_PAGE_BYTES: usize = MIB;
/// Maximum number of entries that are read for a page of a list, including those that a filter excludes. It makes pages
/// appear at regular intervals.
pub const LIST_PAGE_ENTRIES: u64 = 64 * 1024;
/// Number of different lines of a list that later lines are compared with. Each takes 17 bytes, 4.3 MiB in total of the
/// general budget.
pub const LIST_REMEMBERED_LINES: usize = 200_000;
/// Maximum size of a line or record of a list. A longer one is a failed target. The read buffer grows up to this size
/// plus one read. The record without quotes, its values and its entry bring the total to 5 MiB of the general budget.
pub const LIST_LINE_BYTES_MAX: usize = MIB;
/// Maximum number of lines of one record with quoted newlines. A closing quote is searched for in this many lines. If
/// it is missing, the search is repeated from each line.
pub const LIST_RECORD_LINES_MAX: usize = 1000;
/// Maximum number of columns of a record that are read. Each takes 16 bytes, 256 KiB in total.
pub const LIST_COLUMNS_MAX: usize = 16 * 1024;
/// Bytes of a list that are read before control returns to the caller, which then checks its stop signal.
pub const LIST_STRETCH_BYTES: usize = 16 * MIB;
/// Window of a .zst list: 128 MiB, as `zstd --long` (27) needs. `zstd -19` and lower levels need at most 8 MiB. The
/// decoder allocates the window size in the list's header, in addition to the budget of 192 MiB. `docs/guide/lists.md`
/// says how much memory such a list takes.
pub const LIST_ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Maximum memory of the decoder of a .xz list, in KiB. `xz -9` has a dictionary of 64 MiB. A larger one is refused.
pub const LIST_XZ_KIB_MAX: u32 = 72 * 1024;
/// Maximum decompressed bytes of a Parquet list in memory: dictionaries and pages of the columns that are read, all
/// pages of one batch, and the compressed bytes of the current page. Usually they take 1 MiB. What they take beyond
/// that is in addition to the budget of 192 MiB.
pub const LIST_PARQUET_BYTES_MAX: u64 = 96 * MIB as u64;
/// Maximum size of the `manifest.json` of an S3 Inventory: 100,000 data files with 335 bytes each. It is parsed as a
/// stream. For each file, its key and 48 bytes are kept. In the document it takes at least 70 bytes. The vector is at
/// most half empty. In the worst case 32 MiB of keys or 44 MiB of files with short keys remain, in addition to the
/// budget of 192 MiB.
pub const INVENTORY_MANIFEST_BYTES_MAX: u64 = 32 * MIB as u64;
/// Maximum size of a key in a bucket, as in S3.
pub const S3_KEY_BYTES_MAX: usize = 1024;
/// Maximum bytes of a Parquet page header. It may contain statistics with a smallest and a largest value.
pub const LIST_PARQUET_HEADER_BYTES_MAX: u64 = 4 * MIB as u64;
/// Maximum number of targets of `--sample`. Each takes 8 bytes while the list is read: 8 MiB.
pub const SAMPLE_TARGETS_MAX: u64 = 1_000_000;
/// Maximum number of hosts with untrusted certificates that a notice names. The targets of all such hosts are also in
/// the list of failures.
pub const DISTRUSTED_TOLD_MAX: usize = 10;
/// Maximum size of a listing's marker.
pub const MARKER_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of parts of a field path in a JSON page. Each part names a field in the object of the part before it.
pub const FIELD_PATH_PARTS_MAX: usize = 32;
/// Number of a list's targets that must all lead to one origin before it is taken for the job's only origin.
pub const LIST_OF_ONE_ORIGIN: u64 = 4096;
/// Maximum nesting of elements in a bucket's page or in a store's error document. A key in a page is at level 3.
pub const XML_DEPTH_MAX: usize = 16;
/// Maximum number of attempts at the first page. Later pages are retried until the job abandons the origin.
pub const FIRST_PAGE_ATTEMPTS_MAX: u32 = 5;

/// Number of names of excluded entries that a page keeps per reason, for `status --skipped`.
pub const SKIPPED_NAMES_PAGE: u64 = 16;
/// The same number for a job. With six reasons these are 600 names of at most 1 KiB.
pub const SKIPPED_NAMES_MAX: usize = 100;
/// Maximum bytes of such a name.
pub const SKIPPED_NAME_BYTES_MAX: usize = 1024;

/// Maximum number of segments of a name that becomes a path.
pub const NAME_SEGMENTS_MAX: usize = 64;
/// Maximum size of one escaped segment: `NAME_MAX` of Linux.
pub const NAME_SEGMENT_BYTES_MAX: usize = 255;
/// Maximum size of a whole name as a path. `PATH_MAX` of Linux is 4,096 including the NUL.
pub const NAME_PATH_BYTES_MAX: usize = 4095;

/// Maximum number of columns in `--keep-columns`. Blocks bound their values, which count towards a row group's bytes.
/// Each column also costs an open column writer: 64 x about 16 KiB = 1 MiB per sink.
pub const KEPT_COLUMNS_MAX: usize = 64;
/// Maximum bytes of one target's values in the kept columns.
pub const KEPT_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of sidecars per object in a tar shard. Each may be as long as a kept value, so they take at most 8
/// times [`KEPT_BYTES_MAX`].
pub const SIDECARS_MAX: usize = 8;
/// Maximum bytes of a list target's own request: body, method and header fields. They are in memory once in the
/// target's page, and twice more while the request is in flight.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a body that are read although it is not stored, after a request for a part of an object. If the body is
/// longer, the connection is closed: a new connection costs about as much as reading this many bytes.
pub const REFUSED_BODY_BYTES_MAX: u64 = 64 * 1024;
/// Maximum size of a URL. No server accepts a longer one.
pub const URL_BYTES_MAX: usize = 64 * 1024;
