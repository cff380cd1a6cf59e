//! WARC 1.1: the request and the response of each object as they were sent over the wire, each in a gzip member of its
//! own.
//!
//! # Rules
//! - The two members of an object form one record of a pack, so one never exists without the other. With
//!   `--keep-failed`, the members of the redirects that led to the object follow in the same record.
//! - The head of a reply is kept byte for byte. The client has already removed any chunked framing. If the head
//!   announces chunks, the body is written as a single chunk, so that the message matches its head. Digests cover this
//!   message, as `warcio check` expects.
//! - A reply that arrived in place of an object is not a record of a pack. Such replies are in separate files
//!   ([`crate::results`]). If the body is truncated, the record contains `WARC-Truncated`. A 304 is a `revisit`.
//! - An object whose head is unknown is a `resource` record. Heads are never invented.
//! - No secrets of a request are stored, and untrusted bytes never become part of a field's syntax.
//! - The identifier of a record is computed from its contents, so an object always gets the same identifier.
//!
//! If an object has a URL besides its name, `WARC-Target-URI` and the request record use that URL. `Fetchmill-Url`
//! contains the URL unchanged, so that it can be restored.
//!
//! `Fetchmill-Sequence` and `Fetchmill-Name` (percent-encoded, [`fetchmill_model::name::encode`]) are fetchmill's own
//! fields. To derive the name from a URI, a reader would need to know the prefix and the suffix.

mod cdxj;
mod decode;
mod encode;
mod member;
mod member_reader;
mod message;
mod small_deflate;
mod surt;
#[cfg(test)]
mod tests;

pub use cdxj::CdxjLines;
pub use decode::WarcDecoder;
pub use encode::WarcEncoder;

use sha1::{Digest as _, Sha1};

use fetchmill_model::error::Result;
use fetchmill_model::http1::RequestTemplate;

/// Origin of the objects in a shard.
#[derive(Debug, Clone)]
pub struct WarcOrigin {
    /// Template that reproduces the requests as they were sent, but without secrets in the stored form.
    pub template: RequestTemplate,
    /// Scheme, host and port, as in `http://host:port`, without user and password.
    pub uri_start: String,
    /// Whether an object without a separate URL uses its name as its URL, as in a list. A name that is not a URL is
    /// requested from the origin.
    pub names_are_urls: bool,
}

impl WarcOrigin {
    /// Creates the origin for the objects of a list, each of which has its own origin. All requests have these fields.
    pub fn of_list(fields: &[(&str, &str)]) -> Result<Self> {
        let template = RequestTemplate::new("localhost", "/", "", fields)?;
        Ok(WarcOrigin { template, uri_start: "http://localhost".into(), names_are_urls: true })
    }
}

/// First line of a record.
const VERSION: &[u8] = b"WARC/1.1\r\n";
/// Bytes that follow the block of a record.
const RECORD_END: &[u8] = b"\r\n\r\n";
/// Content type of a resource whose type is unknown.
const UNKNOWN_TYPE: &[u8] = b"application/octet-stream";

/// Returns the digest of some bytes, in the form of a field value.
fn digest(parts: &[&[u8]]) -> DigestText {
    let mut sha1 = Sha1::new();
    for part in parts {
        sha1.update(part);
    }
    digest_text(sha1)
}

/// `sha1:` followed by base32 (RFC 4648), which needs no padding for 20 bytes.
type DigestText = [u8; 37];

fn digest_text(sha1: Sha1) -> DigestText {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let hash: [u8; 20] = sha1.finalize().into();
    let mut text = *b"sha1:00000000000000000000000000000000";
    for (letters, bytes) in text[5..].chunks_exact_mut(8).zip(hash.chunks_exact(5)) {
        let bits = bytes.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        for (position, letter) in letters.iter_mut().enumerate() {
            *letter = ALPHABET[(bits >> (35 - 5 * position) & 31) as usize];
        }
    }
    text
}
