//! The request for a target if it is not a plain `GET` of its URL, as bytes in its entry and in failure rows. Any bytes
//! can be parsed, because a journal can be damaged or come from another person.

use crate::http1::byte_range::ByteRange;
use crate::http1::header_field::{check_field, is_token};
use crate::target::expected_hash::ExpectedHash;
use crate::target::extra_columns::{extra_values, write_extra};

/// The request for a target. See the module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TargetRequest<'a> {
    /// Method in upper case. `None` for the job's method. Other values that are missing also come from the job.
    pub method: Option<&'a str>,
    /// Whether a request that has its own method may be sent twice.
    pub is_idempotent: bool,
    /// Body of the request.
    pub body: Option<&'a [u8]>,
    /// The requested part of the object. `None` for the whole object.
    pub range: Option<ByteRange>,
    /// Expected hash of the object's body. `None` if it is unknown.
    pub hash: Option<ExpectedHash>,
    /// Header fields that belong only to this request. [`check_field`] must allow each of them.
    pub fields: Vec<(&'a str, &'a str)>,
}

impl<'a> TargetRequest<'a> {
    /// Creates a plain `GET`, which needs nothing but the URL.
    pub fn plain() -> Self {
        TargetRequest { method: Some("GET"), is_idempotent: true, ..TargetRequest::default() }
    }

    /// Returns whether the request is the same as [`TargetRequest::plain`].
    pub fn is_plain(&self) -> bool {
        *self == TargetRequest::plain()
    }

    /// Returns whether the request specifies at most a part of the object and an expected hash. If so, everything else
    /// comes from the job.
    pub fn is_plain_part(&self) -> bool {
        let TargetRequest { range, hash, .. } = *self;
        *self == TargetRequest { range, hash, ..TargetRequest::default() }
    }

    /// Appends the request.
    pub fn write(&self, out: &mut Vec<u8>) {
        let idempotent = self.is_idempotent.then_some(&b""[..]);
        let range = self.range.map(|range| range.to_string());
        let range = range.as_deref().map(str::as_bytes);
        let start = [self.method.map(str::as_bytes), idempotent, self.body, range];
        let fields = self.fields.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        // `None` stands for the hash, because every field has a name.
        let hash = self.hash.iter().flat_map(|hash| [None, Some(hash.bytes())]);
        write_extra(start.into_iter().chain(fields.map(Some)).chain(hash), out);
    }

    /// Reads the output of [`TargetRequest::write`]. Returns `None` for any other bytes, and for a method or a field
    /// that could change the meaning of a request.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut values = extra_values(bytes);
        let text = |value: &'a [u8]| std::str::from_utf8(value).ok();
        let method = match values.next()? {
            Some(method) => Some(text(method).filter(|method| method.bytes().all(is_token))?),
            None => None,
        };
        let (is_idempotent, body) = (values.next()?.is_some(), values.next()?);
        let range = match values.next()? {
            Some(range) => Some(ByteRange::parse(range)?),
            None => None,
        };
        let (mut hash, mut fields) = (None, Vec::new());
        while let Some(name) = values.next() {
            let value = values.next()??;
            match name {
                Some(name) => {
                    let field = (text(name)?, text(value)?);
                    check_field(field.0, field.1).ok()?;
                    fields.push(field);
                }
                None => hash = Some(ExpectedHash::of_bytes(value)?),
            }
        }
        Some(TargetRequest { method, is_idempotent, body, range, hash, fields })
    }

    /// Returns the requested part from the bytes of a request. The other values are not checked.
    pub fn range_of(bytes: &[u8]) -> Option<ByteRange> {
        ByteRange::parse(extra_values(bytes).nth(3)??)
    }
}

/// Returns whether a field makes a request conditional (RFC 9110, 13.1). The server then answers 304 if the object has
/// not changed.
pub fn is_condition(name: &str) -> bool {
    [IF_NONE_MATCH, "if-modified-since"].iter().any(|condition| condition.eq_ignore_ascii_case(name))
}

/// Name of the field with the ETags of the versions that the client already has.
pub const IF_NONE_MATCH: &str = "if-none-match";

/// Returns whether the value of an `If-None-Match` field contains this ETag, either strong or weak (RFC 9110, 13.1.2).
pub fn names_etag(etags: &str, etag: &[u8]) -> bool {
    let etag = etag.strip_prefix(b"W/").unwrap_or(etag);
    etags.trim() == "*" || memchr::memmem::find(etags.as_bytes(), etag).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_version_is_named_strong_or_weak_among_others() {
        for (etags, etag, is_named) in [
            ("\"a\"", "\"a\"", true),
            ("W/\"a\"", "\"a\"", true),
            ("\"a\"", "W/\"a\"", true),
            ("\"b\", \"a\"", "\"a\"", true),
            ("*", "\"a\"", true),
            ("\"a\"", "\"b\"", false),
            ("\"ab\"", "\"a\"", false),
            ("", "\"a\"", false),
        ] {
            assert_eq!(names_etag(etags, etag.as_bytes()), is_named, "{etags} {etag}");
        }
    }

    #[test]
    fn a_request_comes_back() {
        for request in [
            TargetRequest::default(),
            TargetRequest { body: Some(b""), ..TargetRequest::default() },
            TargetRequest {
                method: Some("POST"),
                is_idempotent: true,
                body: Some(b"\0\xff{}"),
                range: None,
                hash: Some(ExpectedHash::Md5([7; 16])),
                fields: vec![("X-Id", "7"), ("X-Empty", "")],
            },
            TargetRequest { range: ByteRange::new(7, 1).ok(), ..TargetRequest::default() },
            TargetRequest { hash: Some(ExpectedHash::Sha256([7; 32])), ..TargetRequest::default() },
        ] {
            let mut bytes = Vec::new();
            request.write(&mut bytes);
            assert_eq!(TargetRequest::range_of(&bytes), request.range);
            assert_eq!(TargetRequest::read(&bytes), Some(request));
        }
    }

    #[test]
    fn what_would_be_another_request_cannot_be_read() {
        for (method, name, value) in [
            ("GET", "X-Id", "1\r\nAuthorization: Bearer forged"),
            ("GET", "X-Id", "\0"),
            ("GET", "X-Id: 1\r\nX", "2"),
            ("GET", "Transfer-Encoding", "chunked"),
            ("GET / HTTP/1.1\r\nX:", "X-Id", "1"),
        ] {
            let mut bytes = Vec::new();
            let request = TargetRequest {
                method: Some(method),
                fields: vec![(name, value)],
                ..TargetRequest::default()
            };
            request.write(&mut bytes);
            assert_eq!(TargetRequest::read(&bytes), None, "{request:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..60)) {
            TargetRequest::read(&bytes);
            TargetRequest::range_of(&bytes);
        }
    }
}
