//! Outcomes of targets, failure kinds, counters that always balance, and receipts (the commit records of sinks).

pub mod answer_pattern;
pub mod opt_out_rule;
pub mod same_bodies;
pub mod skips;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::outcome::same_bodies::SameBodies;
use crate::outcome::skips::{SkipReason, Skips};
use crate::text::file_name::FileName;

/// Number of a target, in the order in which targets became durable in the journal. It identifies the target only
/// within its job.
pub type Sequence = u64;

/// Outcome of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The server sent a complete 2xx reply.
    Fetched,
    /// The server replied with 404 or 410.
    Absent,
    /// The target ended with any other final result. Contains the failure kind.
    Failed(FailureKind),
    /// The target was skipped on purpose.
    Skipped(SkipReason),
}

impl Outcome {
    /// Name of [`Outcome::Skipped`] in rows.
    pub const SKIPPED: &str = "skipped";

    /// Returns the name used in rows.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Fetched => "fetched",
            Outcome::Absent => "absent",
            Outcome::Failed(_) => "failed",
            Outcome::Skipped(_) => Self::SKIPPED,
        }
    }
}

macro_rules! failure_kinds {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $class:ident;)*) => {
        /// Reason why an attempt failed. The list is closed: no other kinds exist.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum FailureKind { $($(#[doc = $doc])* $variant,)* }

        impl FailureKind {
            /// All kinds.
            pub const ALL: &[FailureKind] = &[$(FailureKind::$variant),*];

            /// Returns the name used in reports, the journal and the docs.
            pub fn name(self) -> &'static str {
                match self { $(FailureKind::$variant => $name,)* }
            }

            /// Returns whether the target is tried again, and how.
            pub fn class(self) -> FailureClass {
                match self { $(FailureKind::$variant => FailureClass::$class,)* }
            }
        }
    };
}

/// How targets with a failure kind are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// The target is tried again soon.
    Transient,
    /// The target is tried again after the pause that the server requests.
    Throttle,
    /// The target fails immediately.
    Final,
}

failure_kinds! {
    /// The connection was refused.
    Refused = "refused", Transient;
    /// There is no route, or the network refused the connection.
    Unreachable = "unreachable", Transient;
    /// The name lookup failed for a reason not listed below.
    Dns = "dns", Transient;
    /// The lookup was not answered in time.
    DnsTimeout = "dns-timeout", Transient;
    /// The name server reported a failure (SERVFAIL).
    DnsServfail = "dns-servfail", Transient;
    /// The name does not exist (NXDOMAIN).
    DnsNotFound = "dns-not-found", Final;
    /// The name exists but has no address.
    DnsEmpty = "dns-empty", Final;
    /// The address is not public, but the target may use only public addresses (`--allow-private`).
    PrivateAddress = "private-address", Final;
    /// The proxy cannot be reached, could not reach the origin, or is overloaded (408, 429, 5xx).
    Proxy = "proxy", Transient;
    /// The proxy refuses to connect to the origin, or its reply is not HTTP.
    ProxyRefused = "proxy-refused", Final;
    /// The configured credentials for the store cannot be obtained.
    Credentials = "credentials", Transient;
    /// The TLS handshake was not completed in time.
    TlsTimeout = "tls-timeout", Transient;
    /// The TLS handshake failed for a reason not listed below.
    Tls = "tls", Final;
    /// The certificate, or another one in its chain, has expired or is not yet valid.
    TlsExpired = "tls-expired", Final;
    /// The certificate belongs to a different host.
    TlsWrongName = "tls-wrong-name", Final;
    /// The certificate is self-signed.
    TlsSelfSigned = "tls-self-signed", Final;
    /// The certificate is not signed by a trusted certificate authority.
    TlsUnknownCa = "tls-unknown-ca", Final;
    /// The certificate, or another one in its chain, must not be used: its key or signature is too weak, it is not
    /// meant for servers, or it breaks a rule of its chain.
    TlsCertificate = "tls-certificate", Final;
    /// The connection broke before the head of the reply was complete.
    Reset = "reset", Transient;
    /// The connection was not established in time.
    ConnectTimeout = "connect-timeout", Transient;
    /// The head did not arrive in time.
    HeadTimeout = "head-timeout", Transient;
    /// The body stalled for too long.
    IdleTimeout = "idle-timeout", Transient;
    /// The whole attempt took too long.
    TotalTimeout = "total-timeout", Transient;
    /// The body ended before its stated length.
    Truncated = "truncated", Transient;
    /// The body does not match the store's checksum.
    Checksum = "checksum", Transient;
    /// The status is 408, 425, or any 5xx except 503.
    ServerError = "server-error", Transient;
    /// The status is 429 or 503.
    Throttled = "throttled", Throttle;
    /// The reply is not HTTP/1.x.
    NotHttp = "not-http", Final;
    /// The message's framing is wrong or ambiguous.
    Framing = "framing", Final;
    /// The head is larger than its limits, or there are too many interim replies.
    HeadTooLarge = "head-too-large", Final;
    /// The body is larger than `--max-size`.
    BodyTooLarge = "body-too-large", Final;
    /// The body has no stated length, so it is impossible to tell whether it is complete.
    UnverifiedLength = "unverified-length", Final;
    /// The object's size or `ETag` differs from the listing, so the object was replaced in the meantime.
    Changed = "changed", Final;
    /// The server ignored `Range`: a part of the object was requested, but the successful reply contains something
    /// else.
    RangeIgnored = "range-ignored", Final;
    /// The object does not have the requested part (416).
    RangeUnsatisfied = "range-unsatisfied", Final;
    /// The reply contains a part other than the requested one.
    BadRange = "bad-range", Final;
    /// The body has an encoding that was not requested, or it does not match its encoding.
    BadEncoding = "bad-encoding", Final;
    /// The first bytes of the body show that it is none of the types in `--accept`.
    UnexpectedType = "unexpected-type", Final;
    /// The reply is a 3xx that is not followed.
    Redirect = "redirect", Final;
    /// There were more consecutive redirects than `--redirects` allows.
    RedirectLimit = "redirect-limit", Final;
    /// A redirect leads back to an earlier URL of the target.
    RedirectLoop = "redirect-loop", Final;
    /// A redirect is not followed, because it leads from https to http or to something that is not a URL.
    RedirectRefused = "redirect-refused", Final;
    /// The reply is a 4xx that is not retried and does not mean that the object is absent.
    Status = "status", Final;
    /// A line of a list has no valid URL.
    Url = "url", Final;
    /// The name cannot be a file name.
    Name = "name", Final;
    /// The user's function raised an exception.
    Function = "function", Transient;
    /// The process that handled the target ended.
    Worker = "worker", Transient;
    /// Another object already has the file's path.
    NameTaken = "name-taken", Final;
    /// A folder could not be listed.
    Listing = "listing", Final;
    /// The function that transforms replies before they are stored raised an exception or ended its process.
    Transform = "transform", Final;
}

impl FailureKind {
    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Returns whether the server could not prove its identity.
    pub fn is_untrusted(self) -> bool {
        use FailureKind::{TlsCertificate, TlsExpired, TlsSelfSigned, TlsUnknownCa, TlsWrongName};
        matches!(self, TlsExpired | TlsSelfSigned | TlsUnknownCa | TlsWrongName | TlsCertificate)
    }

    /// Returns whether another attempt can help.
    pub fn is_retryable(self) -> bool {
        self.class() != FailureClass::Final
    }

    /// Returns the meaning of a complete reply with this status: a final outcome or a failure.
    pub fn of_status(status: u16) -> Result<Outcome, FailureKind> {
        match status {
            200..=299 => Ok(Outcome::Fetched),
            404 | 410 => Ok(Outcome::Absent),
            429 | 503 => Err(FailureKind::Throttled),
            408 | 425 | 500..=599 => Err(FailureKind::ServerError),
            300..=399 => Err(FailureKind::Redirect),
            _ => Err(FailureKind::Status),
        }
    }
}

/// The counters of a job. `listed = fetched + absent + failed + skipped` once nothing is pending.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Targets that the source returned.
    pub listed: u64,
    /// See [`Outcome::Fetched`].
    pub fetched: u64,
    /// See [`Outcome::Absent`].
    pub absent: u64,
    /// See [`Outcome::Failed`].
    pub failed: u64,
    /// See [`Outcome::Skipped`].
    pub skipped: u64,
    /// Total size of the fetched bodies in bytes.
    pub bytes: u64,
}

impl Tally {
    /// Returns the number of targets with an outcome.
    pub fn settled(&self) -> u64 {
        self.fetched + self.absent + self.failed + self.skipped
    }

    /// Returns the number of targets without an outcome.
    pub fn pending(&self) -> u64 {
        self.listed.saturating_sub(self.settled())
    }

    /// Adds the counters of another tally.
    pub fn add(&mut self, other: &Tally) {
        self.listed += other.listed;
        self.fetched += other.fetched;
        self.absent += other.absent;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.bytes += other.bytes;
    }

    /// Counts one outcome.
    pub fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Fetched => self.fetched += 1,
            Outcome::Absent => self.absent += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
        }
    }
}

/// Number of failed targets by kind.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCounts(BTreeMap<FailureKind, u64>);

impl KindCounts {
    /// Adds `count` failures of a kind.
    pub fn add(&mut self, kind: FailureKind, count: u64) {
        *self.0.entry(kind).or_default() += count;
    }

    /// Adds the counts of another value.
    pub fn add_all(&mut self, other: &KindCounts) {
        other.iter().for_each(|(kind, count)| self.add(kind, count));
    }

    /// Returns the number of failures of a kind.
    pub fn count(&self, kind: FailureKind) -> u64 {
        self.0.get(&kind).copied().unwrap_or_default()
    }

    /// Iterates over the kinds that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (FailureKind, u64)> {
        self.0.iter().map(|(kind, count)| (*kind, *count))
    }
}

/// Number of failed targets by status, for targets that failed only because of their status. There are up to 900
/// entries, because a status has three digits.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCounts(BTreeMap<u16, u64>);

impl StatusCounts {
    /// Counts this status, which is that of the outcome's last reply, if it made the target fail.
    pub fn note(&mut self, outcome: Outcome, status: u16) {
        if let Outcome::Failed(kind) = outcome
            && (100..1000).contains(&status)
            && FailureKind::of_status(status) == Err(kind)
        {
            self.add(status, 1);
        }
    }

    /// Adds `count` failures with a status.
    pub fn add(&mut self, status: u16, count: u64) {
        *self.0.entry(status).or_default() += count;
    }

    /// Iterates over the statuses that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        self.0.iter().map(|(status, count)| (*status, *count))
    }
}

/// Sequence numbers as runs (first number and length). The runs are in ascending order and never adjacent.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs(Vec<(Sequence, u64)>);

impl Runs {
    /// Creates runs from numbers in any order, without duplicates.
    pub fn from_unsorted(numbers: &mut [Sequence]) -> Self {
        numbers.sort_unstable();
        let mut runs: Vec<(Sequence, u64)> = Vec::new();
        for &number in &*numbers {
            match runs.last_mut() {
                Some((first, length)) if *first + *length == number => *length += 1,
                _ => runs.push((number, 1)),
            }
        }
        Runs(runs)
    }

    /// Iterates over the runs.
    pub fn iter(&self) -> impl Iterator<Item = (Sequence, u64)> {
        self.0.iter().copied()
    }

    /// Iterates over the numbers.
    pub fn numbers(&self) -> impl Iterator<Item = Sequence> {
        self.iter().flat_map(|(first, length)| first..first + length)
    }

    /// Returns whether the runs contain a number.
    pub fn contains(&self, number: Sequence) -> bool {
        let behind = self.0.partition_point(|(first, _)| *first <= number);
        behind > 0 && number - self.0[behind - 1].0 < self.0[behind - 1].1
    }

    /// Returns the number of sequence numbers.
    pub fn count(&self) -> u64 {
        self.iter().map(|(_, length)| length).sum()
    }

    /// Returns whether there are no sequence numbers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Encodes the runs for the journal, as pairs of little-endian u64.
    pub fn to_blob(&self) -> Vec<u8> {
        self.iter()
            .flat_map(|(first, length)| [first.to_le_bytes(), length.to_le_bytes()])
            .flatten()
            .collect()
    }

    /// Decodes the output of [`Runs::to_blob`]. Returns `None` if the blob is malformed.
    pub fn from_blob(blob: &[u8]) -> Option<Self> {
        let (words, []) = blob.as_chunks::<8>() else {
            return None;
        };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (pairs, []) = words.as_chunks::<2>() else {
            return None;
        };
        let runs: Vec<_> = pairs.iter().map(|[first, length]| (*first, *length)).collect();
        let apart =
            runs.windows(2).all(|pair| pair[0].0.checked_add(pair[0].1).is_some_and(|end| end < pair[1].0));
        apart.then_some(Runs(runs))
    }
}

/// A shard file and the position up to which it is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEnd {
    /// Path of the shard file, relative to the state folder for files of this kind.
    pub path: FileName,
    /// Number of valid bytes. Everything after them is ignored.
    pub end: u64,
    /// CRC-32C of the valid bytes.
    pub crc32c: u32,
}

/// Number of a sealed shard. Shards are numbered in the order in which they are sealed.
pub type ShardNumber = u64;

/// A shard that is being written, up to its durable end. Paths are relative to the folder of open shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenShard {
    /// The shard.
    pub data: ShardEnd,
    /// Its manifest.
    pub manifest: ShardEnd,
}

/// A complete and durable shard. Paths are relative to the folder of open shards until the shard is renamed to its
/// number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedShard {
    /// The shard.
    pub data: ShardEnd,
    /// Its manifest.
    pub manifest: ShardEnd,
    /// Number of objects in the shard.
    pub objects: u64,
    /// Total size of the objects' bodies in bytes.
    pub bytes: u64,
    /// Shards whose objects this shard also contains. The transaction that seals this shard removes those shards.
    pub replaces: Vec<ShardNumber>,
}

/// A complete and durable file that lists the targets without an object. Its path is relative to the folder of open
/// shards until the file is renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfetchedFile {
    /// The file.
    pub data: ShardEnd,
    /// Number of rows in the file.
    pub rows: u64,
    /// Final name of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<FileName>,
}

/// A receipt: the commit record in which a sink states what is durable.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Receipt {
    /// Worker of the sink.
    pub worker: u32,
    /// Sequence numbers that are now finished.
    pub settled: Runs,
    /// Counts of the outcomes of the settled targets. `listed` is 0.
    pub tally: Tally,
    /// Failed targets among the settled ones, by kind.
    pub kinds: KindCounts,
    /// Settled targets that failed because of their status, counted by status.
    #[serde(default)]
    pub statuses: StatusCounts,
    /// Skipped targets among the settled ones, by reason.
    #[serde(default)]
    pub skips: Skips,
    /// Sequence numbers that are now staged. The next receipt finishes them (`files` only).
    pub staged: Runs,
    /// The worker's failures shard, if it has grown.
    pub failures: Option<ShardEnd>,
    /// The worker's open shard, if it has grown.
    pub open: Option<OpenShard>,
    /// A complete shard. The transaction assigns its number.
    pub sealed: Option<SealedShard>,
    /// Replaced shards whose files were removed.
    pub removed: Vec<ShardNumber>,
    /// The manifest of `files`, if it has grown.
    pub manifest: Option<ShardEnd>,
    /// Counts of bodies since the last receipt, taken before any transform. They are not stored in the journal.
    #[serde(default)]
    pub same_bodies: SameBodies,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_neighbours_and_survive_the_journal() {
        let runs = Runs::from_unsorted(&mut [7, 3, 5, 4, 9]);

        assert_eq!(runs.iter().collect::<Vec<_>>(), [(3, 3), (7, 1), (9, 1)]);
        assert_eq!(runs.count(), 5);
        assert_eq!((0..11).filter(|number| runs.contains(*number)).collect::<Vec<_>>(), [3, 4, 5, 7, 9]);
        assert_eq!(Runs::from_blob(&runs.to_blob()), Some(runs));
    }

    #[test]
    fn overlapping_runs_are_refused() {
        assert_eq!(Runs::from_blob(&Runs(vec![(3, 3), (5, 1)]).to_blob()), None);
        assert_eq!(Runs::from_blob(&[0; 9]), None);
    }

    #[test]
    fn kinds_have_distinct_names() {
        for kind in FailureKind::ALL {
            assert_eq!(FailureKind::from_name(kind.name()), Some(*kind));
        }
    }
}
