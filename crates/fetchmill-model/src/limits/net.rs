//! Bounds of connections to an origin: TLS, HTTP/2, hosts, lookups, timeouts, credentials.

use std::time::Duration;

use super::MIB;

/// Maximum size of a `--ca-file`. A bundle of all public authorities takes 220 KiB.
pub const CA_FILE_BYTES_MAX: u64 = 4 * MIB as u64;
/// Number of TLS sessions that a worker keeps for resumption. A session usually takes less than 5 KiB, or 1.3 MiB in
/// total. A ticket can be up to 64 KiB long, so malicious servers can make a worker use 16 MiB.
pub const TLS_SESSIONS_MAX: usize = 256;
/// Maximum number of requests in flight on one HTTP/2 connection, even if the server allows more.
pub const HTTP2_STREAMS_MAX: usize = 256;
/// Maximum number of requests in flight on one HTTP/2 connection until the server announces its own maximum. The
/// standard recommends that every server allow this number.
pub const HTTP2_STREAMS_FIRST: usize = 100;
/// Flow-control window of an HTTP/2 stream. Bodies are read as they arrive, so these bytes are in transit, not in
/// memory.
pub const HTTP2_STREAM_WINDOW: u32 = MIB as u32;
/// Flow-control window of all streams of an HTTP/2 connection together. It is large because it also bounds the number
/// of unread small frames (`docs/internals/decisions/0010`).
pub const HTTP2_CONNECTION_WINDOW: u32 = 5 * MIB as u32;
/// Maximum number of simultaneous lookups, each of which uses one thread. A hanging thread also counts.
pub const DNS_THREADS_MAX: usize = 64;
/// Maximum number of names that the lookup threads are looking up or that are waiting for a thread. Each name takes 255
/// bytes and about as much again in overhead, or 4 MiB in total.
pub const DNS_ASKED_MAX: usize = 8192;
/// Maximum number of addresses that are tried for a name.
pub const DNS_ADDRESSES_MAX: usize = 8;
/// Delay before the next address of a host is tried in parallel with earlier ones that have not answered. Opening a
/// connection may therefore briefly take up to `DNS_ADDRESSES_MAX` descriptors. If no descriptor is left, the
/// connection attempt ends and is repeated.
pub const CONNECT_ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Maximum number of names whose addresses are cached. Each name takes less than 0.6 KiB (255 bytes, 8 addresses of 17
/// bytes, and overhead), or 10 MiB in total.
pub const DNS_CACHE_NAMES_MAX: usize = 16 * 1024;
/// Lifetime of cached addresses. The system's lookup does not report the TTL set by the name's owner.
pub const DNS_TTL: Duration = Duration::from_secs(60);
/// Time for which a failed lookup is not repeated.
pub const DNS_NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// Default maximum number of requests in flight per host in a multi-host job, without `--limit-per-host`.
pub const HOST_CONNECTIONS: u32 = 4;
/// Default maximum number of requests/s per host in a multi-host job, without `--rate-per-host`.
pub const HOST_RATE: f64 = 50.0;
/// A host counts as prompt if its last reply took less than this time. Slow hosts yield request slots to prompt hosts.
pub const PROMPT_WITHIN: Duration = Duration::from_secs(1);
/// Number of consecutive connection failures after which a host rests.
pub const HOST_FAILURES_MAX: u32 = 5;
/// Time during which a dead host gets no requests.
pub const HOST_DEAD_FOR: Duration = Duration::from_secs(900);
/// Maximum number of hosts whose state is kept, for all workers together. Each host takes 57 bytes in a table that is
/// at most half empty: 2^18 x 57 x 2 = 28 MiB in the worst case, usually 14 MiB. Hosts without known problems are
/// forgotten first.
pub const HOSTS_HELD_MAX: usize = 224 * 1024;
/// Maximum number of targets that wait in memory for their host or its address, for all workers together. Each target
/// takes about 0.5 KiB, or 8 MiB in total. Further targets are deferred: they wait on disk.
pub const HOST_TARGETS_MAX: usize = 16 * 1024;
/// The maximum for a single host is [`HOST_TARGETS_MAX`] divided by this number, so that no host crowds out the others.
pub const HOST_TARGETS_SHARE: usize = 8;
/// Minimum time for which a target is deferred if there is no room for it in memory.
pub const DEFERRED_FOR: Duration = Duration::from_secs(2);
/// Delay before a target that seems dead is checked again. By then, the cause may be gone.
pub const SECOND_LOOK_AFTER: Duration = Duration::from_secs(20);
/// Maximum number of idle connections that a multi-host job keeps, for all workers together. With TLS, each takes about
/// 40 KiB, or 10 MiB in total.
pub const HOST_IDLE_CONNECTIONS: usize = 256;
/// Maximum number of deferred targets that wait to be written to the journal. No more are deferred until some are
/// written.
pub const DEFERRED_QUEUED_MAX: usize = 32 * 1024;

/// Maximum number of names that are being looked up and are not slow yet, for all workers together.
pub const DNS_FAST_MAX: usize = 256;
/// Maximum number of names that are being looked up and are slow, for all workers together. A lookup takes at most 2
/// KiB. Two copies of its name take 2 x 255 bytes. Two questions with 8 tries take 2 x 8 x 56 bytes, and the lookup's
/// entries in the socket tables take 16 x 24 bytes. If all names have the maximum length, the total is (8,192 + 256) x
/// 2 KiB = 16.5 MiB of the general budget. With usual names it is 5 MiB.
pub const DNS_SLOW_MAX: usize = 8192;
/// A lookup that takes longer than this counts as slow.
pub const DNS_FAST: Duration = Duration::from_millis(300);
/// Timeout of a lookup's first try. Each further try has 1.5 times the timeout of the previous one: 1.5 + 2.25 + 3.4 =
/// 7.1 s.
pub const DNS_TRY_TIMEOUT: Duration = Duration::from_millis(1500);
/// Upper bound for the timeout of a lookup's first try, if the system's configuration sets this timeout.
pub const DNS_TRY_TIMEOUT_MAX: Duration = Duration::from_secs(5);
/// Number of tries per lookup.
pub const DNS_TRIES: u32 = 3;
/// Upper bound for the number of tries per lookup, if the system's configuration sets this number.
pub const DNS_TRIES_MAX: u32 = 5;
/// Timeout of a whole lookup, including all its tries and all search domains of a short name.
pub const DNS_LOOK_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// Extra wait for the addresses of the second family after those of the first family have arrived (RFC 8305, section
/// 3).
pub const DNS_FAMILY_DELAY: Duration = Duration::from_millis(50);
/// Extra wait for IPv4 addresses after the IPv6 addresses have arrived. It is long enough for the answer to a second
/// try.
pub const DNS_FAMILY_DELAY_V4: Duration = Duration::from_secs(2);
/// Maximum number of name servers that are queried.
pub const DNS_UPSTREAMS_MAX: usize = 8;
/// Maximum number of search domains for a short name.
pub const DNS_SEARCH_MAX: usize = 6;
/// Maximum number of bytes that are read from a system file for name lookups.
pub const DNS_FILE_BYTES_MAX: u64 = MIB as u64;
/// Number of sockets per worker and server, each with its own random port.
pub const DNS_SOCKETS: usize = 4;
/// Receive buffer of a socket in the kernel. It has room for the answers to all fast lookups: with the kernel's
/// overhead, 256 x 2 x 2 KiB = 1 MiB.
pub const DNS_RECEIVE_BYTES: usize = MIB;
/// Maximum size of a UDP answer. Queries announce this size, so that answers are not fragmented. Each socket has one
/// buffer: 8 servers x 4 x 2 KiB = 64 KiB per worker.
pub const DNS_UDP_PAYLOAD: u16 = 1232;
/// Size of the buffer for a UDP answer (see [`DNS_UDP_PAYLOAD`]). A longer answer is cut off and therefore malformed.
pub const DNS_UDP_BUFFER_BYTES: usize = 2048;
/// Maximum number of answers that are read from one socket before the other sockets are served.
pub const DNS_UDP_BURST: usize = 64;
/// Maximum number of lookups that a worker repeats over TCP at the same time. An answer has up to 64 KiB, or 2 MiB in
/// total.
pub const DNS_TCP_MAX: usize = 32;
/// Maximum number of names in a chain (CNAME) in which each name refers to the next.
pub const DNS_CHAIN_MAX: usize = 16;
/// Minimum lifetime of cached addresses. Between the minimum and the maximum, the TTL set by the name's owner applies.
pub const DNS_TTL_MIN: Duration = Duration::from_secs(1);
/// Maximum lifetime of cached addresses. See [`DNS_TTL_MIN`].
pub const DNS_TTL_MAX: Duration = Duration::from_secs(300);
/// Maximum time for which a missing name is cached. From 1 s up to this time, the TTL set by the zone's owner applies.
pub const DNS_ABSENT_TTL_MAX: Duration = Duration::from_secs(60);
/// Number of random bytes that are fetched at a time, enough for about 50 queries.
pub const DNS_RANDOM_BYTES: usize = 1024;

/// Timeout of a name lookup.
pub const DNS_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for opening a TCP connection, over all addresses of a host. The TLS handshake has a separate timeout of the
/// same length.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a page waits for a free descriptor or local port. Five attempts together last longer than the minute
/// for which a port stays blocked after its connection has ended.
pub const EXHAUSTED_WAIT: Duration = Duration::from_secs(15);
/// Pause between two tries during [`EXHAUSTED_WAIT`].
pub const EXHAUSTED_PAUSE: Duration = Duration::from_millis(200);
/// Timeout from the request to the end of the reply's head.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of a body from which no byte arrives.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of a whole attempt. One second is added for each 64 KiB of the body.
pub const TOTAL_TIMEOUT: Duration = Duration::from_secs(60);
/// Slowest body that `TOTAL_TIMEOUT` allows, in bytes/s.
pub const BODY_RATE_MIN: u64 = 64 * 1024;
/// Timeout of a listing page of any size.
pub const PAGE_TIMEOUT: Duration = Duration::from_secs(120);
/// Timeout of the head of a store's reply to a request for a small object of a job directory. After this time, the
/// object is requested again.
pub const RECORD_TIMEOUT: Duration = Duration::from_secs(15);
/// Time after which an idle connection is closed.
pub const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);
/// Time after which an idle connection is closed if more connections to an origin are open than requests may be in
/// flight. It is shorter than [`KEEP_ALIVE_IDLE`] because some servers are slow if they have many connections. Before a
/// connection rests, it collects replies for the same time. Connections that are needed only while others rest
/// therefore stay open.
pub const SURPLUS_CONNECTION_IDLE: Duration = Duration::from_secs(1);
/// Time after which an idle connection is closed if the number of requests in flight has just been lowered.
pub const LOWERED_CONNECTION_IDLE: Duration = Duration::from_millis(250);
/// Interval between checks of deadlines, which determines their precision.
pub const TICK: Duration = Duration::from_millis(50);
/// Time in which requests in flight can finish after the job was asked to stop.
pub const DRAIN: Duration = Duration::from_secs(3);
/// Minimum number of targets with an outcome before `--max-failed` with a percentage stops a job early. A smaller
/// sample says little about the remaining targets.
pub const FAILED_SHARE_TARGETS_MIN: u64 = 1000;
/// Time in which other threads can end after a panic. A thread that waits for the panicked thread is abandoned.
pub const PANIC_END: Duration = Duration::from_secs(3);

/// Maximum size of a profile file, a token, a reply with credentials, or a command's output. In practice they are far
/// smaller.
pub const CREDENTIALS_BYTES_MAX: usize = MIB;
/// Timeout for obtaining credentials, from connecting to the end of the reply.
pub const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of tries to obtain credentials before giving up. The wait between tries starts at `CREDENTIALS_WAIT` and
/// doubles each time.
pub const CREDENTIALS_TRIES: u32 = 3;
/// Wait before the second try. See [`CREDENTIALS_TRIES`].
pub const CREDENTIALS_WAIT: Duration = Duration::from_millis(200);
/// Timeout of the first request to the metadata service. The request is sent only once, because on a machine without
/// the service, nothing answers.
pub const METADATA_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of a `credential_process` or `--bearer-command`. The command may prompt for a password.
pub const CREDENTIAL_PROCESS_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a token that a command prints. The token is part of a request's head, for which servers rarely
/// accept more than 16 KiB.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;
/// The job stops after this number of consecutive refused tokens. The number is less than `CORRECTIONS_MAX`, so no
/// target has failed by then.
pub const TOKENS_REFUSED_MAX: u32 = 3;
/// Maximum length of a chain of profiles. The role of each profile is assumed with the credentials of the next one.
pub const PROFILES_CHAINED_MAX: usize = 8;
/// Credentials are renewed this long before they expire, or when a quarter of their lifetime is left, whichever is
/// later.
pub const CREDENTIALS_AHEAD: Duration = Duration::from_secs(300);
/// First wait between two tries to renew credentials. The wait doubles each time.
pub const CREDENTIALS_RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest wait between two tries. A caller that requests credentials during the wait gets the result of the last try.
pub const CREDENTIALS_RETRY_MAX: Duration = Duration::from_secs(30);

/// Maximum number of cookies that replies may set while the redirects of one target are followed.
pub const CHAIN_COOKIES_MAX: usize = 50;
/// Maximum total size of the cookies that replies may set while the redirects of one target are followed. Only
/// redirected targets have such cookies: 16 MiB if 1,024 of these targets are in flight.
pub const CHAIN_COOKIE_BYTES_MAX: usize = 16 << 10;
/// Maximum number of `Set-Cookie` fields of one reply that are read.
pub const SET_COOKIES_MAX: usize = 100;
/// Maximum size of a cookie's name and value together (RFC 6265, 6.1).
pub const COOKIE_BYTES_MAX: usize = 4096;
/// Maximum size of a cookie's path.
pub const COOKIE_PATH_BYTES_MAX: usize = 1024;
/// Maximum size of a request's `Cookie` field. Cookies that do not fit are omitted. Servers accept about 8 to 32 KiB.
pub const COOKIE_FIELD_BYTES_MAX: usize = 16 << 10;
/// Maximum size of a cookie file.
pub const COOKIE_FILE_BYTES_MAX: u64 = 4 << 20;
