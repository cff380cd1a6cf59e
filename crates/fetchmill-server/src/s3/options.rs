//! What a store is asked to be, as it comes in JSON. An unknown field is an error.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use crate::error::Error;
use crate::options::refuse;
use crate::synthetic::SYNTHETIC_COUNT_MAX;

const THREADS_MAX: usize = 256;
/// A synthetic object is made at once.
const SIZE_MAX: usize = 16 * 1024 * 1024;
const SECONDS_MAX: f64 = 1e9;

/// All options of a store at its start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3Options {
    /// Port to listen on at 127.0.0.1; 0, the default, is any that is free.
    pub port: u16,
    /// Threads that serve: 1.
    pub threads: usize,
    /// The region that the endpoint is said to be in.
    pub region: String,
    /// With it, `BUCKET.SUFFIX` in the host names a bucket; without it, any host does that starts with a bucket's name.
    pub virtual_host_suffix: Option<String>,
}

impl Default for S3Options {
    fn default() -> Self {
        S3Options { port: 0, threads: 1, region: "us-east-1".to_owned(), virtual_host_suffix: None }
    }
}

/// What a bucket is asked to be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketOptions {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: String,
    /// Whether anybody may read and list it.
    #[serde(default)]
    pub public: bool,
    /// How many computed objects it has.
    #[serde(default)]
    pub synthetic: u64,
    /// Bytes of each.
    #[serde(default)]
    pub size: usize,
    /// What their keys start with.
    #[serde(default)]
    pub key_prefix: String,
}

/// A pair of keys that may sign.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialOptions {
    /// Which pair it is.
    pub access_key: String,
    /// What signs.
    pub secret_key: String,
    /// What must be sent with it.
    #[serde(default)]
    pub token: Option<String>,
    /// Seconds until it is not valid any more; always valid without them.
    #[serde(default)]
    pub expires_in: Option<f64>,
}

/// How a store behaves. All of it may change while it runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each switches a behaviour of its own")]
pub struct BehaviourOptions {
    /// Seconds that the time of a signature may differ from the store's clock.
    pub max_skew: f64,
    /// Seconds that the store's clock is ahead of the machine's.
    pub clock_offset: f64,
    /// Seconds that each listing waits.
    pub list_latency: f64,
    /// Seconds that each other request waits.
    pub get_latency: f64,
    /// Requests a second; those above are answered 503.
    pub slow_down_above: Option<f64>,
    /// Keys that nobody may read or write.
    pub deny: BTreeSet<String>,
    /// Whether nobody may list.
    pub deny_lists: bool,
    /// Keys that are answered 200 with an `<Error>` document.
    pub errors_with_200: HashMap<String, ErrorWith200>,
    /// A listing ends after so many keys of its prefix, as if there were no more.
    pub truncate_after: Option<u64>,
    /// The page that has the so manieth key ends with it, and says that there are more, but not where.
    pub lose_token_after: Option<u64>,
    /// The second page and its token come for ever.
    pub repeat_token: bool,
    /// Listings start at the first key.
    pub ignore_start_after: bool,
    /// Which checksum is given to who asks for one.
    pub checksum: Option<ChecksumName>,
    /// Whether it is said to be one of the parts' checksums, which it is not.
    pub composite_checksums: bool,
    /// How objects are said to be encrypted.
    pub encryption: Option<String>,
    /// So many replies for these keys have one wrong byte.
    pub damage: HashMap<String, u32>,
    /// So many uploads of objects and parts are answered 503.
    pub fail_uploads: u64,
    /// So many uploads of objects and parts end with a reset in the middle of their body.
    pub drop_uploads: u64,
    /// Whether `If-None-Match: *` is taken and not obeyed.
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

/// The checksums of S3.
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

/// An error in a reply that looks good.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorWith200 {
    /// Its code.
    pub code: String,
    /// How often, before all is well; for ever without it.
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
                "a bucket's name is 3 to 63 of a-z, 0-9, `-` and `.`, not {:?}",
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
                "clock_offset must be seconds below {SECONDS_MAX}, not {}",
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
