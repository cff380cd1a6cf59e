//! WARC 1.1: the request and the response of each object as sent over the wire, each in a gzip member.
//!
//! # Rules
//! - An object's two members form one record of a pack, so neither exists without the other. With `--keep-failed`, the
//!   members of the redirects before the object follow in the same record.
//! - The head of a reply is kept byte for byte. The client has removed any chunking. If the head announces chunks, the
//!   body is written as a single chunk, so that the message matches its head. Digests cover that message, as `warcio
//!   check` expects.
//! - A reply received instead of an object is not a record of a pack. Such replies are in separate files
//!   ([`crate::results`]). If the body is truncated, the record has `WARC-Truncated`. A 304 is a `revisit`.
//! - An object with an unknown head is a `resource` record. No head is invented.
//! - No secrets of a request are stored, and untrusted bytes never become part of a field's syntax.
//! - A record's identifier is computed from its contents, so an object always gets the same identifier.
//!
//! If an object has a URL besides its name, `WARC-Target-URI` contains that URL. `Fetchmill-Url` contains it unchanged,
//! so that it can be restored. The request record is for this URL.
//!
//! `Fetchmill-Sequence` and `Fetchmill-Name` (percent-encoded, [`fetchmill_model::name::encode`]) are fetchmill's own
//! fields. A reader cannot derive the name from a URI without knowing the prefix and suffix.

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

/// Origin of a shard's objects.
#[derive(Debug, Clone)]
pub struct WarcOrigin {
    /// Template that reproduces the requests as sent. Its secrets are not stored.
    pub template: RequestTemplate,
    /// Scheme, host and port, as `http://host:port` without user and password.
    pub uri_start: String,
    /// Whether an object's name is its URL unless the object has a separate URL, as for a list. A name that is not a
    /// URL is requested from the origin.
    pub names_are_urls: bool,
}

impl WarcOrigin {
    /// Creates the origin for the objects of a list, which have their own origins. All requests have these fields.
    pub fn of_list(fields: &[(&str, &str)]) -> Result<Self> {
        let template = RequestTemplate::new("localhost", "/", "", fields)?;
        Ok(WarcOrigin { template, uri_start: "http://localhost".into(), names_are_urls: true })
    }
}

/// First line of a record.
const VERSION: &[u8] = b"WARC/1.1\r\n";
/// Bytes after a record's block.
const RECORD_END: &[u8] = b"\r\n\r\n";
/// Content type of a resource with an unknown type.
const UNKNOWN_TYPE: &[u8] = b"application/octet-stream";

/// Returns the digest of bytes as a field value.
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
