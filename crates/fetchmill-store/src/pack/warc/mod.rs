//! WARC 1.1: for each object the request and the response, as they went over the wire, each in a gzip member.
//!
//! # Rules
//! - The two members of an object are one record of a pack: neither is there without the other. With `--warc-all` those of
//!   the redirects that led to it stand behind them, in the same record.
//! - Every byte of a reply's head is kept. The client has taken the chunks away: where the head announces them the body
//!   is written as one chunk, so that it stays the message that the head describes. Digests are of that message, as
//!   `warcio check` wants them.
//! - What came in place of an object is no record of a pack, and stands in files of its own ([`crate::results`]). Where its
//!   body is cut, `WARC-Truncated` says so; a 304 is a `revisit`.
//! - An object whose head is not known is a `resource` record: no head is made up.
//! - No secret of a request is stored, and no byte from outside becomes part of the syntax of a field.
//! - The identifier of a record is made of what it holds: the same object gets the same one again.
//!
//! An object that has a URL besides its name has it in `WARC-Target-URI` and, so that it comes back as it was, in
//! `Fetchmill-Url`; its request is that of this URL.
//!
//! `Fetchmill-Sequence` and `Fetchmill-Name` (percent-encoded, [`fetchmill_model::name::encode`]) are fields of our own: a URI
//! does not give the name back where prefix or suffix are not known.

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

/// Where the objects of a shard are from.
#[derive(Debug, Clone)]
pub struct WarcOrigin {
    /// Writes the requests as they were sent; what is secret in them is not stored.
    pub template: RequestTemplate,
    /// Scheme, host and port: `http://host:port`, without a user and a password.
    pub uri_start: String,
    /// Whether a name is a URL, unless an object says another: that of a list. What is no URL is asked of the origin.
    pub names_are_urls: bool,
}

impl WarcOrigin {
    /// Of objects from a list, each of an origin of its own; all requests have these fields.
    pub fn of_list(fields: &[(&str, &str)]) -> Result<Self> {
        let template = RequestTemplate::new("localhost", "/", "", fields)?;
        Ok(WarcOrigin { template, uri_start: "http://localhost".into(), names_are_urls: true })
    }
}

/// The first line of a record.
const VERSION: &[u8] = b"WARC/1.1\r\n";
/// Behind the block of a record.
const RECORD_END: &[u8] = b"\r\n\r\n";
/// Of a resource of which no type is known.
const UNKNOWN_TYPE: &[u8] = b"application/octet-stream";

/// The digest of bytes as a field has it.
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
