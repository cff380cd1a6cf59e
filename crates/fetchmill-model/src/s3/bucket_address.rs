//! The address of a bucket: an origin, the path before the keys, and the region for signing requests.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::name;
use crate::options::OptionValue;
use crate::origin::OriginKey;
use crate::s3::AwsVariant;
use crate::source::OriginUrl;

/// Default region. Stores without regions expect it. It is also used for buckets for which no other region is known.
pub const REGION_DEFAULT: &str = "us-east-1";
/// Maximum length of a region's name in bytes.
const REGION_BYTES_MAX: usize = 64;

/// Name suffixes of directory buckets and of their access points.
const DIRECTORY_BUCKETS: [&str; 2] = ["--x-s3", "--xa-s3"];

/// Position of the bucket's name in a request.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// In the path if the user has set an endpoint. For AWS, in the host if the name can be part of a host name.
    #[default]
    Auto,
    /// In the path: `https://HOST/BUCKET/KEY`.
    Path,
    /// In the host: `https://BUCKET.HOST/KEY`.
    Virtual,
}

/// These words are also used by boto3. The first one is the default.
impl OptionValue for Addressing {}

/// A store.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// URL of the store. `None` for AWS.
    pub url: Option<OriginUrl>,
    /// Position of the bucket's name in requests.
    pub addressing: Addressing,
    /// Variant of the AWS endpoints.
    pub variant: AwsVariant,
}

impl Endpoint {
    /// Returns whether requests go to the nearest edge (S3 Transfer Acceleration).
    fn is_accelerated(&self) -> bool {
        self.url.is_none() && self.variant.accelerate
    }
}

/// The name of a bucket, in which every character can be part of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketName(String);

impl BucketName {
    /// Parses a name. Only characters that every store accepts are allowed: letters, digits, dots, hyphens and
    /// underscores.
    pub fn parse(text: &str) -> Result<Self> {
        let is_good = (1..=255).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
            && text.bytes().any(|byte| byte != b'.');
        if is_good {
            return Ok(BucketName(text.to_owned()));
        }
        if text.is_empty() {
            return Err(Error::Usage("s3:// does not name a bucket; write s3://BUCKET/PREFIX".to_owned()));
        }
        let shown = name::for_display(text.as_bytes());
        Err(Error::Usage(format!(
            "{shown} is not a valid bucket name; write the source as s3://BUCKET/PREFIX"
        )))
    }

    /// Returns the name as text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns whether this is an AWS directory bucket. Such a bucket lists its keys in no particular order and does
    /// not support `start-after`.
    pub fn is_directory(&self) -> bool {
        DIRECTORY_BUCKETS.iter().any(|end| self.0.ends_with(end))
    }

    /// Returns whether the name can be a single label of a host name, so that a wildcard certificate covers it.
    fn is_label(&self) -> bool {
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (3..=63).contains(&self.0.len())
            && self.0.bytes().all(is_inner)
            && !self.0.starts_with('-')
            && !self.0.ends_with('-')
    }
}

/// Splits a source as users write it, `s3://BUCKET[/PREFIX]`, into bucket and prefix. All bytes of the prefix are
/// literal, because a key can contain `?`, `#` and `%`.
pub fn parse_source(text: &str) -> Result<(BucketName, String)> {
    let Some(rest) = text.strip_prefix("s3://") else {
        return Err(Error::Usage(format!(
            "{} is not a valid bucket name; write the source as s3://BUCKET/PREFIX",
            name::for_display(text.as_bytes())
        )));
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    Ok((BucketName::parse(bucket)?, prefix.to_owned()))
}

/// Splits a normalised `s3://BUCKET/KEY` into bucket and key. The key remains encoded.
pub fn split_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("s3://")?.split_once('/')
}

/// The address of a bucket in requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketAddress {
    /// Scheme, host and port.
    pub key: OriginKey,
    /// Path before a key: `/`, or `/BUCKET/`.
    pub prefix: String,
    /// Region for signing requests.
    pub region: String,
}

impl BucketAddress {
    /// Returns the address of `bucket` in `region`.
    pub fn of(endpoint: &Endpoint, bucket: &BucketName, region: &str) -> Result<Self> {
        let (scheme, authority, path) = match &endpoint.url {
            Some(url) => (url.scheme().to_owned(), url.authority(), url.path().to_owned()),
            None => ("https".to_owned(), endpoint.variant.s3_host(region)?, String::new()),
        };
        let in_host = match endpoint.addressing {
            _ if endpoint.is_accelerated() => must_be_label(bucket, "use_accelerate_endpoint")?,
            Addressing::Auto => endpoint.url.is_none() && bucket.is_label(),
            Addressing::Path => false,
            Addressing::Virtual => must_be_label(bucket, "addressing_style virtual")?,
        };
        let (host, prefix) = if in_host {
            (format!("{}.{authority}", bucket.text()), format!("{path}/"))
        } else {
            (authority, format!("{path}/{}/", bucket.text()))
        };
        let url = format!("{scheme}://{host}/");
        let (key, _) = OriginKey::of_url(&url)
            .ok_or_else(|| Error::Usage(format!("{url} cannot be the address of a bucket")))?;
        Ok(BucketAddress { key, prefix, region: region.to_owned() })
    }

    /// Returns the path of the bucket itself, for listings.
    pub fn bucket_path(&self) -> &str {
        // If the bucket is part of the host, its path is `/`.
        if self.prefix.len() > 1 { self.prefix.trim_end_matches('/') } else { &self.prefix }
    }

    /// Returns the encoded path of a key.
    pub fn key_path(&self, key: &[u8]) -> String {
        let mut path = self.prefix.clone().into_bytes();
        name::encode(key, &mut path);
        String::from_utf8_lossy(&path).into_owned()
    }
}

/// Returns whether a text can be a region. The region becomes part of the field that signs a request. AWS uses only
/// some of the characters that are allowed here.
pub fn is_region(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= REGION_BYTES_MAX && text.bytes().all(is_part)
}

/// Refuses a bucket name that cannot be part of a host name if `option` requires this.
fn must_be_label(bucket: &BucketName, option: &str) -> Result<bool> {
    if bucket.is_label() {
        return Ok(true);
    }
    Err(Error::Usage(format!(
        "the bucket name {} cannot be part of a host name, as {option} requires; use --addressing-style path",
        bucket.text()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(
        endpoint: Option<&str>,
        addressing: Addressing,
        bucket: &str,
        region: &str,
    ) -> Result<(String, String)> {
        let url = endpoint.map(|url| OriginUrl::parse(url).unwrap());
        let place = BucketAddress::of(
            &Endpoint { url, addressing, ..Endpoint::default() },
            &BucketName::parse(bucket)?,
            region,
        )?;
        Ok((place.key.text().to_owned(), place.prefix))
    }

    #[test]
    fn a_bucket_is_in_the_host_at_aws_and_in_the_path_elsewhere() {
        let (auto, path, in_host) = (Addressing::Auto, Addressing::Path, Addressing::Virtual);
        for (endpoint, addressing, bucket, region, origin, prefix) in [
            (None, auto, "abc", "eu-central-1", "https://abc.s3.eu-central-1.amazonaws.com", "/"),
            (None, auto, "a.b.c", "us-east-1", "https://s3.us-east-1.amazonaws.com", "/a.b.c/"),
            (None, auto, "Old_1", "us-east-1", "https://s3.us-east-1.amazonaws.com", "/Old_1/"),
            (None, path, "abc", "cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn", "/abc/"),
            (Some("http://127.0.0.1:7070"), auto, "abc", "x", "http://127.0.0.1:7070", "/abc/"),
            (Some("http://127.0.0.1:7070/s3/"), auto, "abc", "x", "http://127.0.0.1:7070", "/s3/abc/"),
            (Some("https://store.test"), in_host, "abc", "x", "https://abc.store.test", "/"),
        ] {
            let found = place(endpoint, addressing, bucket, region).unwrap();
            assert_eq!(found, (origin.to_owned(), prefix.to_owned()), "{bucket}");
        }
        assert!(
            place(None, in_host, "a.b", "us-east-1").unwrap_err().to_string().contains("--addressing-style")
        );
        assert!(place(None, auto, "abc", "us-east-1.evil.test/").is_err());
    }

    #[test]
    fn an_accelerated_bucket_is_in_the_host_of_the_edge() {
        let variant = AwsVariant { accelerate: true, ..AwsVariant::default() };
        let of = |url: Option<&str>, bucket: &str| {
            let url = url.map(|url| OriginUrl::parse(url).unwrap());
            let endpoint = Endpoint { url, variant, addressing: Addressing::Path };
            BucketAddress::of(&endpoint, &BucketName::parse(bucket).unwrap(), "eu-west-1")
        };

        let place = of(None, "abc").unwrap();
        assert_eq!(
            (place.key.text(), place.prefix.as_str()),
            ("https://abc.s3-accelerate.amazonaws.com", "/")
        );
        assert_eq!(place.region, "eu-west-1");
        assert_eq!(of(Some("http://h"), "abc").unwrap().key.text(), "http://h");
        assert!(of(None, "a.b").unwrap_err().to_string().contains("use_accelerate_endpoint"));
    }

    #[test]
    fn what_cannot_be_a_bucket_is_refused() {
        for bucket in ["", "a/b", "a b", "..", "a%2Fb", "a?b", "a:b", &"x".repeat(256)] {
            assert_eq!(BucketName::parse(bucket).unwrap_err().exit_code(), 2, "{bucket:?}");
        }
    }

    #[test]
    fn keys_are_encoded() {
        let endpoint = Endpoint { url: Some(OriginUrl::parse("http://h").unwrap()), ..Endpoint::default() };
        let place = BucketAddress::of(&endpoint, &BucketName::parse("abc").unwrap(), "r").unwrap();

        assert_eq!(place.bucket_path(), "/abc");
        assert_eq!(place.key_path("a b+%/\u{e9}//x/".as_bytes()), "/abc/a%20b%2B%25/%C3%A9//x/");
    }
}
