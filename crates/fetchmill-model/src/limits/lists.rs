//! Bounds of listings and lists: pages, batches, names, entries.

use std::time::Duration;

use super::MIB;

/// A page of a listing, as bytes of its reply and as bytes of its names: 16 + 16 MiB while it is parsed.
pub const PAGE_BYTES_MAX: usize = 16 * MIB;
/// Listing stops while this many targets are not yet fetched ...
pub const WINDOW_TARGETS_MAX: usize = 256 * 1024;
/// ... or their names take this much. One page may go over it: 16 + 16 = the 32 MiB of the budget.
pub const WINDOW_NAME_BYTES_MAX: usize = 16 * MIB;
/// Minimum read-ahead of a listing when the job has one origin, in targets. As a rule it is what is fetched in 10 s.
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
/// Indexes of sitemaps that lead to each other, one after the other: real ones have one or two. An index after these fails.
pub const SITEMAP_INDEX_DEPTH_MAX: u64 = 5;
/// Bytes of such a page: 512 for each of its links. It is read as a stream once all of it is there.
pub const INDEX_BYTES_MAX: u64 = 512 << 20;
/// Bytes of such a page that stay in memory until then; the others are in a file without a name.
pub const PAGE_MEMORY_BYTES: usize = MIB;
/// Bytes between two things that a page tells: of a tag without an end.
pub const INDEX_TAG_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a link: a name of 4,096 bytes that is percent-encoded, and some more. A longer link is no entry.
pub const INDEX_HREF_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a robots.txt that are read, as RFC 9309 asks for at least; what is behind them is not.
pub const ROBOTS_BYTES_MAX: usize = 500 * 1024;
/// Redirects of a robots.txt that are followed one after the other (RFC 9309, 2.3.1.2).
pub const ROBOTS_REDIRECTS_MAX: u32 = 5;
/// Hosts of a list whose robots.txt is remembered, by the job and by all its workers together: 40 bytes and a table that is at
/// most half empty, 2 x 2^17 x 41 x 2 = 21 MiB at the worst. After so many other hosts a host is asked again.
pub const ROBOTS_HOSTS_MAX: usize = 128 * 1024;
/// Bytes of their rules, the same: 16 MiB together, and the largest of each worker.
pub const ROBOTS_RULES_BYTES_MAX: usize = 8 * MIB;
/// Bytes of a robots.txt that are received where the budget of bodies has no room for more: it is asked for again later.
pub const ROBOTS_FREE_BYTES: usize = 16 * 1024;
/// A host whose robots.txt another worker has asked for, or that has no room for it, is looked at again after this.
pub const ROBOTS_AWAITED: Duration = Duration::from_millis(100);
/// Bytes at the start of an HTML page that are searched for `meta` with `--opt-out`: its head is there. Memory for each body on
/// its way.
pub const OPT_OUT_HTML_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a field or a `meta` in the detail of an object that has opted out.
pub const OPT_OUT_EVIDENCE_BYTES_MAX: usize = 256;
/// Hosts whose robots.txt forbids objects of a job that are counted each: with [`OPT_OUT_HOST_BYTES_MAX`] 1.3 MiB in a
/// window's receipt, and as many rows in the journal.
pub const OPT_OUT_HOSTS_MAX: usize = 4096;
/// Bytes of such a host, with scheme and port: a name has 253 at most.
pub const OPT_OUT_HOST_BYTES_MAX: usize = 300;
/// Those that a report names.
pub const OPT_OUT_HOSTS_REPORTED: usize = 10;
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
/// Different lines of a list that later ones are compared with: 17 bytes for each, 4.3 MiB of the part for the rest.
pub const LIST_REMEMBERED_LINES: usize = 200_000;
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

/// Names of entries that a page has left out which are kept for each reason, for `status --skipped`.
pub const SKIPPED_NAMES_PAGE: u64 = 16;
/// The same of a job: with six reasons 600 names of at most a KiB.
pub const SKIPPED_NAMES_MAX: usize = 100;
/// Bytes of such a name.
pub const SKIPPED_NAME_BYTES_MAX: usize = 1024;

/// Segments of a name that becomes a path.
pub const NAME_SEGMENTS_MAX: usize = 64;
/// One segment once escaped: `NAME_MAX` of Linux.
pub const NAME_SEGMENT_BYTES_MAX: usize = 255;
/// A whole name as a path: `PATH_MAX` of Linux is 4,096 with the NUL.
pub const NAME_PATH_BYTES_MAX: usize = 4095;

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
