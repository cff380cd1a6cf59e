//! WARC 1.1: for each object the request and the response, as sent over the wire, each in a gzip member.
//!
//! # Rules
//! - The two members of an object are one record of a pack, so neither exists without the other. With `--keep-failed`
//!   the members of the redirects before the object follow in the same record.
//! - Every byte of a reply's head is kept. The client has removed the chunking. If the head announces chunks, the body
//!   is therefore written as one chunk, and the message still matches its head. Digests are computed over that message,
//!   as `warcio check` expects.
//! - A reply that came in place of an object is not a record of a pack. It is in separate files ([`crate::results`]).
//!   If its body is cut, the record has `WARC-Truncated`. A 304 is a `revisit`.
//! - An object whose head is unknown is a `resource` record, and no head is invented.
//! - No secret of a request is stored, and no untrusted byte becomes part of the syntax of a field.
//! - The identifier of a record is computed from its contents, so the same object gets the same identifier again.
//!
//! If an object has a URL in addition to its name, `WARC-Target-URI` contains this URL. `Fetchmill-Url` contains it
//! unchanged, so that it can be restored. The request record is the request for this URL.
//!
//! `Fetchmill-Sequence` and `Fetchmill-Name` (percent-encoded, [`fetchmill_model::name::encode`]) are fetchmill's own
//! fields. Without knowing prefix and suffix, a reader cannot get the name from a URI.

mod cdxj;
mod decode;
mod encode;
mod member;
mod message;
mod small_deflate;
mod surt;
#[cfg(test)]
mod tests;

pub use cdxj::cdxj_lines;
pub use decode::WarcDecoder;
pub use encode::WarcEncoder;

use sha1::{Digest as _, Sha1};

use fetchmill_model::error::Result;
use fetchmill_model::http1::RequestTemplate;

/// Origin of the objects of a shard.
#[derive(Debug, Clone)]
pub struct WarcOrigin {
    /// Template that writes the requests as they were sent. Its secrets are not stored.
    pub template: RequestTemplate,
    /// Scheme, host and port: `http://host:port`, without user and password.
    pub uri_start: String,
    /// Whether the name of an object is its URL unless it has another, as for a list. A name that is not a URL is
    /// requested from the origin.
    pub names_are_urls: bool,
}

impl WarcOrigin {
    /// Creates the origin for objects from a list, each with its own origin. All requests have these fields.
    pub fn of_list(fields: &[(&str, &str)]) -> Result<Self> {
        let template = RequestTemplate::new("localhost", "/", "", fields)?;
        Ok(WarcOrigin { template, uri_start: "http://localhost".into(), names_are_urls: true })
    }
}

/// The first line of a record.
const VERSION: &[u8] = b"WARC/1.1\r\n";
/// Bytes after the block of a record.
const RECORD_END: &[u8] = b"\r\n\r\n";
/// Type of a resource whose type is unknown.
const UNKNOWN_TYPE: &[u8] = b"application/octet-stream";

/// Returns the digest of bytes in field form.
fn digest(parts: &[&[u8]]) -> DigestText {
    let mut sha1 = Sha1::new();
    for part in parts {
        sha1.update(part);
    }
    digest_text(sha1)
}

/// `sha1:` and base32 (RFC 4648), which needs no padding for 20 bytes.
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
