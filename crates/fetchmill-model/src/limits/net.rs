//! Bounds of ways to an origin: TLS, HTTP/2, hosts, look-ups, timeouts, credentials.

use std::time::Duration;

use super::MIB;

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
/// The head of a store's reply for a small object of a job directory: then it is asked again.
pub const RECORD_TIMEOUT: Duration = Duration::from_secs(15);
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

/// Cookies that replies set while the redirects of one target are followed, ...
pub const CHAIN_COOKIES_MAX: usize = 50;
/// ... and their bytes. Only targets that are redirected have any: 16 MiB for 1,024 of them in flight.
pub const CHAIN_COOKIE_BYTES_MAX: usize = 16 << 10;
/// Fields `Set-Cookie` of one reply that are looked at.
pub const SET_COOKIES_MAX: usize = 100;
/// Bytes of a cookie's name and value (RFC 6265, 6.1).
pub const COOKIE_BYTES_MAX: usize = 4096;
/// Bytes of a cookie's path.
pub const COOKIE_PATH_BYTES_MAX: usize = 1024;
/// Bytes of the field `Cookie` of a request; what does not fit is left out. Servers take about 8 to 32 KiB.
pub const COOKIE_FIELD_BYTES_MAX: usize = 16 << 10;
/// Bytes of a file of cookies.
pub const COOKIE_FILE_BYTES_MAX: u64 = 4 << 20;
