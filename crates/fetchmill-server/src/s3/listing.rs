//! `ListObjectsV2`: a page of keys, and the start of the next page.

use std::ops::Bound;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::behaviour::StoreBehaviour;
use super::clock;
use super::failure::Failure;
use super::reply::Reply;
use super::store::{Bucket, KeyWalk, ListedObject};
use super::uri::Query;
use super::xml;
use crate::reply::number;

/// Maximum number of keys per page, as in AWS.
const KEYS_MAX: u64 = 1000;
/// Mask for the keys in tokens, so that no client is tempted to create a token itself.
const TOKEN_MASK: u8 = 0x5a;

/// Parameters of a requested page.
struct PageQuery<'a> {
    prefix: &'a [u8],
    delimiter: &'a [u8],
    start_after: Option<&'a [u8]>,
    token: Option<&'a [u8]>,
    /// Key after which the page starts, according to the token.
    behind: Option<Vec<u8>>,
    keys_max: u64,
    encoded: bool,
}

impl<'a> PageQuery<'a> {
    fn of(query: &'a Query) -> Result<Self, Failure> {
        let keys_max = match query.get("max-keys") {
            None => KEYS_MAX,
            Some(text) => {
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u32>().ok());
                let wrong =
                    || Failure::invalid_argument("Provided max-keys not an integer or within integer range");
                u64::from(number.ok_or_else(wrong)?).min(KEYS_MAX)
            }
        };
        let encoded = match query.get("encoding-type") {
            None => false,
            Some(b"url") => true,
            Some(_) => return Err(Failure::invalid_argument("Invalid Encoding Method specified in Request")),
        };
        let token = query.get("continuation-token");
        let behind = match token {
            None => None,
            Some(token) => {
                let wrong = || Failure::invalid_argument("The continuation token provided is incorrect");
                Some(from_token(token).ok_or_else(wrong)?)
            }
        };
        Ok(PageQuery {
            prefix: query.get("prefix").unwrap_or_default(),
            delimiter: query.get("delimiter").unwrap_or_default(),
            start_after: query.get("start-after"),
            token,
            behind,
            keys_max,
            encoded,
        })
    }

    /// Returns the position at which the keys start. As in AWS, a token takes precedence over start-after.
    fn start(&self, behaviour: &StoreBehaviour) -> Bound<Vec<u8>> {
        let start_after = self.start_after.filter(|_| !behaviour.options.ignore_start_after);
        match self.behind.as_deref().or(start_after) {
            Some(key) if key >= self.prefix => self.behind_key(key),
            _ => Bound::Included(self.prefix.to_vec()),
        }
    }

    /// Returns the position after a key. If the key is a common prefix, the page starts after all keys that have this
    /// prefix.
    fn behind_key(&self, key: &[u8]) -> Bound<Vec<u8>> {
        let is_common = self.behind.is_some() && !self.delimiter.is_empty() && key.ends_with(self.delimiter);
        if is_common { Bound::Included(successor(key)) } else { Bound::Excluded(key.to_vec()) }
    }

    /// Returns the common prefix that stands for a key.
    fn common<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        if self.delimiter.is_empty() {
            return None;
        }
        let rest = &key[self.prefix.len()..];
        let position = memchr::memmem::find(rest, self.delimiter)?;
        Some(&key[..self.prefix.len() + position + self.delimiter.len()])
    }
}

/// Returns the first string that comes after all strings with this prefix. The prefix is UTF-8, so its last byte can be
/// incremented.
fn successor(text: &[u8]) -> Vec<u8> {
    let mut next = text.to_vec();
    if let Some(last) = next.last_mut() {
        *last += 1;
    }
    next
}

/// Writes a page.
pub(crate) fn page(
    bucket: &Bucket,
    behaviour: &StoreBehaviour,
    query: &Query,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let asked = PageQuery::of(query)?;
    let found = found(bucket, behaviour, &asked);
    reply.document(&document(bucket, behaviour, &asked, &found));
    Ok(())
}

/// The keys of a page.
#[derive(Default)]
struct KeyPage {
    contents: Vec<u8>,
    commons: Vec<u8>,
    count: u64,
    /// The last key or common prefix on the page.
    last: Vec<u8>,
    truncated: bool,
    /// Whether a fault has ended the page. If so, the page claims that more keys follow, but does not contain a token.
    token_lost: bool,
    /// Modification time of the previous object as text. It is kept because most objects have the same time.
    modified: (i64, String),
}

fn found(bucket: &Bucket, behaviour: &StoreBehaviour, asked: &PageQuery<'_>) -> KeyPage {
    let mut found = KeyPage::default();
    if asked.keys_max == 0 {
        return found;
    }
    let start = asked.start(behaviour);
    let options = &behaviour.options;
    let end_after = |limit: Option<u64>| limit.and_then(|limit| keys_left(bucket, asked, &start, limit));
    let (truncate_at, lose_at) = (end_after(options.truncate_after), end_after(options.lose_token_after));
    bucket.walk(start.clone(), &mut |listed| {
        if !listed.key.starts_with(asked.prefix) {
            return KeyWalk::Stop;
        }
        if truncate_at == Some(found.count) {
            return KeyWalk::Stop;
        }
        if found.count == asked.keys_max || lose_at == Some(found.count) {
            found.truncated = true;
            found.token_lost = lose_at == Some(found.count);
            return KeyWalk::Stop;
        }
        found.count += 1;
        if let Some(common) = asked.common(listed.key) {
            xml::open("CommonPrefixes", &mut found.commons);
            xml::key("Prefix", common, asked.encoded, &mut found.commons);
            xml::close("CommonPrefixes", &mut found.commons);
            found.last = common.to_vec();
            return KeyWalk::To(successor(common));
        }
        found.content(listed, asked.encoded);
        found.last.clear();
        found.last.extend_from_slice(listed.key);
        KeyWalk::Next
    });
    found
}

/// Returns how many of the first `limit` keys with the prefix are at or after `start`, or `None` if none are.
fn keys_left(bucket: &Bucket, asked: &PageQuery<'_>, start: &Bound<Vec<u8>>, limit: u64) -> Option<u64> {
    let mut before = 0;
    bucket.walk(Bound::Included(asked.prefix.to_vec()), &mut |listed| {
        let is_before = match start {
            Bound::Unbounded => false,
            Bound::Included(start) => listed.key < start.as_slice(),
            Bound::Excluded(start) => listed.key <= start.as_slice(),
        };
        if !is_before || before == limit {
            return KeyWalk::Stop;
        }
        before += 1;
        KeyWalk::Next
    });
    (before < limit).then(|| limit - before)
}

impl KeyPage {
    fn content(&mut self, listed: &ListedObject<'_>, encoded: bool) {
        if self.modified.0 != listed.modified || self.modified.1.is_empty() {
            self.modified = (listed.modified, clock::iso(listed.modified));
        }
        let out = &mut self.contents;
        xml::open("Contents", out);
        xml::key("Key", listed.key, encoded, out);
        xml::element("LastModified", &self.modified.1, out);
        out.extend_from_slice(b"<ETag>&quot;");
        out.extend_from_slice(listed.etag);
        out.extend_from_slice(b"&quot;</ETag><Size>");
        number(listed.size, out);
        out.extend_from_slice(b"</Size><StorageClass>STANDARD</StorageClass></Contents>");
    }
}

fn document(bucket: &Bucket, behaviour: &StoreBehaviour, asked: &PageQuery<'_>, found: &KeyPage) -> Vec<u8> {
    let mut out = Vec::with_capacity(found.contents.len() + found.commons.len() + 1024);
    xml::root("ListBucketResult", &mut out);
    xml::element("Name", &bucket.name, &mut out);
    xml::key("Prefix", asked.prefix, asked.encoded, &mut out);
    if found.truncated && !found.token_lost {
        match asked.token {
            Some(token) if behaviour.options.repeat_token => {
                xml::element("NextContinuationToken", token, &mut out);
            }
            _ => xml::element("NextContinuationToken", to_token(&found.last), &mut out),
        }
    }
    if let Some(token) = asked.token {
        xml::element("ContinuationToken", token, &mut out);
    }
    if let Some(start_after) = asked.start_after {
        xml::key("StartAfter", start_after, asked.encoded, &mut out);
    }
    xml::element("KeyCount", found.count.to_string(), &mut out);
    xml::element("MaxKeys", asked.keys_max.to_string(), &mut out);
    if !asked.delimiter.is_empty() {
        xml::key("Delimiter", asked.delimiter, asked.encoded, &mut out);
    }
    if asked.encoded {
        xml::element("EncodingType", "url", &mut out);
    }
    xml::element("IsTruncated", if found.truncated { "true" } else { "false" }, &mut out);
    out.extend_from_slice(&found.contents);
    out.extend_from_slice(&found.commons);
    xml::close("ListBucketResult", &mut out);
    out
}

fn masked(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ TOKEN_MASK).collect()
}

/// Converts a key to a token in Base64. The token contains `+`, `/` and `=`, which clients must encode.
fn to_token(key: &[u8]) -> String {
    STANDARD.encode(masked(key))
}

fn from_token(token: &[u8]) -> Option<Vec<u8>> {
    let key = masked(&STANDARD.decode(token).ok()?);
    (!key.is_empty() && std::str::from_utf8(&key).is_ok()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_back() {
        for key in ["a", "a/b c", "ü", "\u{1}"] {
            assert_eq!(from_token(to_token(key.as_bytes()).as_bytes()), Some(key.as_bytes().to_vec()));
        }
        for other in ["", "a", "not a token", "pA=="] {
            assert_eq!(from_token(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_common_prefix_ends_with_the_first_delimiter_behind_the_prefix() {
        let query = Query::parse(b"prefix=a/&delimiter=/").expect("whole");
        let asked = PageQuery::of(&query).expect("well-formed");

        assert_eq!(asked.common(b"a/b/c/d"), Some(&b"a/b/"[..]));
        assert_eq!(asked.common(b"a//d"), Some(&b"a//"[..]));
        assert_eq!(asked.common(b"a/b"), None);
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for query in ["max-keys=-1", "max-keys=x", "encoding-type=xml", "continuation-token=x"] {
            let query = Query::parse(query.as_bytes()).expect("whole");
            assert_eq!(PageQuery::of(&query).err().expect("refused").code, "InvalidArgument");
        }
    }
}
