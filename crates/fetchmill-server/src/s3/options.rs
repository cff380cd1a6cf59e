//! Options of a store as JSON. Unknown fields are errors.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use crate::error::Error;
use crate::options::refuse;
use crate::synthetic::SYNTHETIC_COUNT_MAX;

const THREADS_MAX: usize = 256;
/// Maximum size of a synthetic object in bytes. It is limited because objects are computed in one piece.
const SIZE_MAX: usize = 16 * 1024 * 1024;
const SECONDS_MAX: f64 = 1e9;

/// Initial options of a store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3Options {
    /// Port to listen on at 127.0.0.1. 0 (the default) picks any free port.
    pub port: u16,
    /// Number of threads that serve. Default: 1.
    pub threads: usize,
    /// Region of the endpoint.
    pub region: String,
    /// Suffix of hosts that name a bucket, as in `BUCKET.SUFFIX`. Without a suffix, any host that starts with the name
    /// of a bucket addresses this bucket.
    pub virtual_host_suffix: Option<String>,
}

impl Default for S3Options {
    fn default() -> Self {
        S3Options { port: 0, threads: 1, region: "us-east-1".to_owned(), virtual_host_suffix: None }
    }
}

/// Options of a bucket.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketOptions {
    /// Name of the bucket.
    pub name: String,
    /// Region of the bucket.
    pub region: String,
    /// Whether anyone can read and list the bucket.
    #[serde(default)]
    pub public: bool,
    /// Number of computed objects.
    #[serde(default)]
    pub synthetic: u64,
    /// Size of each computed object in bytes.
    #[serde(default)]
    pub size: usize,
    /// Prefix of the keys of computed objects.
    #[serde(default)]
    pub key_prefix: String,
}

/// A pair of keys for signing.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialOptions {
    /// Access key, which identifies the pair.
    pub access_key: String,
    /// Secret key, which is used for signing.
    pub secret_key: String,
    /// Token that requests must contain. `None` if they need none.
    #[serde(default)]
    pub token: Option<String>,
    /// Number of seconds until the pair expires. `None` means never.
    #[serde(default)]
    pub expires_in: Option<f64>,
}

/// Behaviour of a store. All values can change while the store runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each switches a behaviour of its own")]
pub struct BehaviourOptions {
    /// Maximum difference in seconds between the time of a signature and the store's clock.
    pub max_skew: f64,
    /// Number of seconds by which the store's clock is ahead of the machine's.
    pub clock_offset: f64,
    /// Delay of each listing, in seconds.
    pub list_latency: f64,
    /// Delay of all other requests, in seconds.
    pub get_latency: f64,
    /// Number of requests per second above which the store replies with 503.
    pub slow_down_above: Option<f64>,
    /// Keys that cannot be read or written.
    pub deny: BTreeSet<String>,
    /// Whether listings are denied.
    pub deny_lists: bool,
    /// Keys for which the reply is an `<Error>` document with status 200.
    pub errors_with_200: HashMap<String, ErrorWith200>,
    /// Number of matching keys after which a listing falsely claims to be complete.
    pub truncate_after: Option<u64>,
    /// Position of a key among those that have the prefix, from 1. A page ends at this key and claims that more keys
    /// follow, but does not contain a token.
    pub lose_token_after: Option<u64>,
    /// Whether the second page and its token are repeated forever.
    pub repeat_token: bool,
    /// Whether listings ignore `start-after` and start at the first key.
    pub ignore_start_after: bool,
    /// Checksum to send on request.
    pub checksum: Option<ChecksumName>,
    /// Whether the checksum of the whole object is falsely labelled as a composite of the checksums of its parts.
    pub composite_checksums: bool,
    /// Encryption that replies claim to use.
    pub encryption: Option<String>,
    /// Number of replies whose body contains a wrong byte, by key.
    pub damage: HashMap<String, u32>,
    /// Number of uploads of objects and parts that fail with 503.
    pub fail_uploads: u64,
    /// Number of uploads of objects and parts that are reset in the middle of the body.
    pub drop_uploads: u64,
    /// Whether `If-None-Match: *` is accepted but ignored.
    pub ignore_conditions: bool,
}

impl Default for BehaviourOptions {
    fn default() -> Self {
        BehaviourOptions {
            max_skew: 900.0,
            clock_offset: 0.0,
            list_latency: 0.0,
            get_latency: 0.0,
            slow_down_above: None,
            deny: BTreeSet::new(),
            deny_lists: false,
            errors_with_200: HashMap::new(),
            truncate_after: None,
            lose_token_after: None,
            repeat_token: false,
            ignore_start_after: false,
            checksum: None,
            composite_checksums: false,
            encryption: None,
            damage: HashMap::new(),
            fail_uploads: 0,
            drop_uploads: 0,
            ignore_conditions: false,
        }
    }
}

/// S3 checksum algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumName {
    /// CRC-64/NVME.
    Crc64nvme,
    /// CRC-32C.
    Crc32c,
    /// CRC-32.
    Crc32,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
}

/// An error in a reply with status 200.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorWith200 {
    /// Code of the error.
    pub code: String,
    /// Number of such replies before the correct ones. `None` means unlimited.
    pub times: Option<u32>,
}

impl S3Options {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=THREADS_MAX).contains(&self.threads) {
            return refuse(format!("threads must be 1 to {THREADS_MAX}, not {}", self.threads));
        }
        Ok(())
    }
}

impl BucketOptions {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_fine =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
        if !(3..=63).contains(&self.name.len()) || !self.name.bytes().all(is_fine) {
            return refuse(format!(
                "a bucket name must have 3 to 63 characters of a-z, 0-9, `-` and `.`, not {:?}",
                self.name
            ));
        }
        if self.synthetic > SYNTHETIC_COUNT_MAX {
            return refuse(format!(
                "synthetic must be at most {SYNTHETIC_COUNT_MAX}, not {}",
                self.synthetic
            ));
        }
        if self.size > SIZE_MAX {
            return refuse(format!("size must be at most {SIZE_MAX}, not {}", self.size));
        }
        Ok(())
    }
}

impl BehaviourOptions {
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (name, value) in [
            ("max_skew", self.max_skew),
            ("list_latency", self.list_latency),
            ("get_latency", self.get_latency),
        ] {
            if !(0.0..=SECONDS_MAX).contains(&value) {
                return refuse(format!("{name} must be 0 to {SECONDS_MAX} seconds, not {value}"));
            }
        }
        if !(-SECONDS_MAX..=SECONDS_MAX).contains(&self.clock_offset) {
            return refuse(format!(
                "clock_offset must be below {SECONDS_MAX} seconds, not {}",
                self.clock_offset
            ));
        }
        if self.truncate_after == Some(0) || self.lose_token_after == Some(0) {
            return refuse("truncate_after and lose_token_after must be above 0".to_owned());
        }
        match self.slow_down_above {
            Some(rate) if !(rate > 0.0 && rate.is_finite()) => {
                refuse(format!("slow_down_above must be above 0, not {rate}"))
            }
            _ => Ok(()),
        }
    }
}
