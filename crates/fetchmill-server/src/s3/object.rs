//! Objects in one piece: get, head, put and delete.

use std::ops::Range;

use bytes::Bytes;

use super::behaviour::StoreBehaviour;
use super::checksum;
use super::failure::Failure;
use super::head::RequestHead;
use super::reply::{BINARY, Reply};
use super::store::{self, Bucket, Object, Store, StoredObject};
use crate::reply::number;

/// A request for an object.
pub(crate) struct ObjectRequest<'a> {
    pub(crate) store: &'a Store,
    pub(crate) behaviour: &'a StoreBehaviour,
    pub(crate) bucket: &'a Bucket,
    pub(crate) key: &'a str,
    /// Time of the request in milliseconds since 1970.
    pub(crate) now: i64,
}

impl ObjectRequest<'_> {
    /// Writes the object or the requested range. Returns whether the reply contains these bytes.
    pub(crate) fn get(
        &self,
        head: &RequestHead<'_>,
        buffer: &mut Vec<u8>,
        reply: &mut Reply<'_>,
    ) -> Result<bool, Failure> {
        buffer.clear();
        let found = self.bucket.get(self.key, buffer).ok_or_else(|| Failure::no_such_key(self.key))?;
        if let Some(code) = self.behaviour.error_with_200(self.key) {
            reply.failure(&error_with_200(code));
            return Ok(false);
        }
        let modified = Bucket::modified(&found);
        match (self.behaviour.changed.get(self.key), &found) {
            (Some(body), _) => self.send(head, body, &store::etag(body), self.now, reply)?,
            (None, StoredObject::Put(object)) => {
                self.send(head, &object.body, object.etag.as_bytes(), modified, reply)?;
            }
            (None, StoredObject::Computed) => {
                self.send(head, buffer, &store::etag(buffer), modified, reply)?;
            }
        }
        Ok(true)
    }

    fn send(
        &self,
        head: &RequestHead<'_>,
        body: &[u8],
        etag: &[u8],
        modified: i64,
        reply: &mut Reply<'_>,
    ) -> Result<(), Failure> {
        let options = &self.behaviour.options;
        let mut fields = Vec::new();
        if let Some(name) = options.checksum
            && head.field("x-amz-checksum-mode").is_some_and(|mode| mode == b"ENABLED")
        {
            fields.extend(checksum::fields(name, options.composite_checksums, body));
        }
        if let Some(encryption) = &options.encryption {
            fields.push(("x-amz-server-side-encryption", encryption.clone()));
        }
        if self.behaviour.damages(self.key) {
            let mut damaged = body.to_vec();
            if let Some(last) = damaged.last_mut() {
                *last ^= 1;
            }
            return send(head, &damaged, etag, (modified, &fields), reply);
        }
        send(head, body, etag, (modified, &fields), reply)
    }

    /// Puts an object. If the request has `If-None-Match: *`, the object must not exist yet.
    pub(crate) fn put(
        &self,
        head: &RequestHead<'_>,
        body: &Bytes,
        reply: &mut Reply<'_>,
    ) -> Result<(), Failure> {
        if self.behaviour.fails_upload() {
            return Err(Failure::new(503, "ServiceUnavailable", "Please reduce your request rate."));
        }
        let etag = store::etag_text(body);
        let object = Object { body: body.clone(), etag: etag.clone(), modified: self.now };
        let once = only_once(head)? && !self.behaviour.options.ignore_conditions;
        self.store.put(self.bucket, self.key, object, once)?;
        reply.status(200);
        reply.etag(etag.as_bytes());
        reply.empty(200);
        Ok(())
    }

    /// Deletes an object. Succeeds even if the object does not exist.
    pub(crate) fn delete(&self, reply: &mut Reply<'_>) -> Result<(), Failure> {
        if self.bucket.is_computed(self.key) {
            return Err(Failure::new(405, "MethodNotAllowed", "A computed object cannot be deleted."));
        }
        self.store.delete(self.bucket, self.key);
        reply.status(204);
        reply.empty(204);
        Ok(())
    }
}

/// Returns whether the request's condition allows a write only if the object does not exist.
pub(crate) fn only_once(head: &RequestHead<'_>) -> Result<bool, Failure> {
    match head.field("if-none-match") {
        None => Ok(false),
        Some(b"*") => Ok(true),
        Some(_) => Err(Failure::not_implemented("If-None-Match")),
    }
}

/// Returns the error document for a reply whose status means success.
pub(crate) fn error_with_200(code: &str) -> Failure {
    let mut failure = Failure::new(200, "", "We encountered an internal error. Please try again.");
    failure.code = code.to_owned().into();
    failure
}

fn send(
    head: &RequestHead<'_>,
    body: &[u8],
    etag: &[u8],
    (modified, fields): (i64, &[(&str, String)]),
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let is_it = |value: &[u8]| {
        value == b"*" || value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) == Some(etag)
    };
    if head.field("if-match").is_some_and(|value| !is_it(value)) {
        return Err(Failure::precondition("If-Match"));
    }
    let range = head.field("range").map_or(Ok(None), |range| range_of(range, body.len()))?;
    reply.status(if range.is_some() { 206 } else { 200 });
    reply.last_modified(modified);
    reply.etag(etag);
    reply.field("Accept-Ranges", b"bytes");
    for (name, value) in fields {
        reply.field(name, value.as_bytes());
    }
    if let Some(range) = &range {
        content_range(range, body.len(), reply);
    }
    reply.body(BINARY, &body[range.unwrap_or(0..body.len())]);
    Ok(())
}

fn content_range(range: &Range<usize>, size: usize, reply: &mut Reply<'_>) {
    reply.out.extend_from_slice(b"Content-Range: bytes ");
    number(range.start as u64, reply.out);
    reply.out.push(b'-');
    number(range.end as u64 - 1, reply.out);
    reply.out.push(b'/');
    number(size as u64, reply.out);
    reply.out.extend_from_slice(b"\r\n");
}

/// Parses a single range of bytes. `None` for any other value, which S3 ignores.
fn range_of(text: &[u8], size: usize) -> Result<Option<Range<usize>>, Failure> {
    let Some((first, last)) =
        std::str::from_utf8(text).ok().and_then(|text| text.strip_prefix("bytes=")?.split_once('-'))
    else {
        return Ok(None);
    };
    let range = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) if first <= last => first..size.min(last.saturating_add(1)),
        (Ok(first), Err(_)) if last.is_empty() => first..size,
        (Err(_), Ok(count)) if first.is_empty() => size.saturating_sub(count)..size,
        _ => return Ok(None),
    };
    if range.is_empty() {
        let message = "The requested range is not satisfiable";
        return Err(Failure::new(416, "InvalidRange", message).with("ActualObjectSize", size.to_string()));
    }
    Ok(Some(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_the_end() {
        for (text, expected) in [
            ("bytes=0-9", Some(0..10)),
            ("bytes=5-", Some(5..100)),
            ("bytes=-7", Some(93..100)),
            ("bytes=-700", Some(0..100)),
            ("bytes=90-18446744073709551615", Some(90..100)),
            ("bytes=9-0", None),
            ("bytes=0-1,3-4", None),
            ("lines=0-9", None),
            ("bytes=-", None),
        ] {
            assert_eq!(range_of(text.as_bytes(), 100).expect("satisfiable"), expected, "{text}");
        }
        for text in ["bytes=100-", "bytes=100-200", "bytes=-0"] {
            assert_eq!(range_of(text.as_bytes(), 100).expect_err("refused").code, "InvalidRange", "{text}");
        }
        assert!(range_of(b"bytes=0-9", 0).is_err());
    }
}
