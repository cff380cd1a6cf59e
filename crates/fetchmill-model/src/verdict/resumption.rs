//! Resumption of an object whose body was cut off, and the check that a reply contains the missing bytes. No other
//! module defines this rule.
//!
//! The missing bytes are requested with `Range` and `If-Range` (RFC 9110, 13.1.5). They are appended only if the reply
//! states that it contains exactly these bytes. The object must also have the same length and the same strong ETag. Two
//! replies from one URL with the same strong ETag have the same bytes (8.8.1).

use super::head_fields::fields_in;
use super::part::difference;
use crate::http1::byte_range::ByteRange;
use crate::http1::{Framing, Head, Version};
use crate::limits::RESUMED_BYTES_MIN;

/// Facts from the head of a reply whose body broke off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumption {
    head: Head,
    etag: String,
    length: u64,
}

/// Meaning of the reply to a request for the missing bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumedReply {
    /// The reply contains the missing bytes.
    Rest,
    /// The reply contains the whole object, which may have changed.
    Whole,
    /// The reply is anything else.
    Other,
}

impl Resumption {
    /// Reads the bytes of a head. Returns `None` if the remaining bytes of its body cannot be requested, or if
    /// requesting them is not worthwhile.
    pub fn of_head(head: &Head, bytes: &[u8]) -> Option<Self> {
        let Framing::Length(length) = head.framing else { return None };
        if head.status != 200 || head.version == Version::Http10 || length <= RESUMED_BYTES_MIN {
            return None;
        }
        let is_refused = fields_in(bytes, b"accept-ranges:").any(|unit| unit.eq_ignore_ascii_case(b"none"));
        let is_encoded =
            fields_in(bytes, b"content-encoding:").any(|name| !name.eq_ignore_ascii_case(b"identity"));
        let etag = only_etag(bytes).filter(|etag| is_strong(etag))?;
        let etag = String::from_utf8(etag.to_vec()).ok()?;
        (!is_refused && !is_encoded).then_some(Resumption { head: *head, etag, length })
    }

    /// Returns the range that is missing after `came` bytes. The range includes its end, so a server that supports
    /// `Range` but not `If-Range` cannot send more bytes than are missing.
    pub fn rest(&self, came: u64) -> Option<ByteRange> {
        ByteRange::new(came, self.length.checked_sub(came)?).ok()
    }

    /// Returns the strong ETag of the object.
    pub fn etag(&self) -> &str {
        &self.etag
    }

    /// Returns the head of the whole object, based on the head of the last reply.
    pub fn head_of_whole(&self, last: &Head) -> Head {
        let Head { keep_alive, is_suspect, retry_after, .. } = *last;
        Head { keep_alive, is_suspect, retry_after, ..self.head }
    }

    /// Returns the meaning of a reply with this head if `came` bytes were received before.
    pub fn reply(&self, came: u64, head: &Head, bytes: &[u8]) -> ResumedReply {
        match head.status {
            206 if self.is_rest(came, head, bytes) => ResumedReply::Rest,
            200 => ResumedReply::Whole,
            _ => ResumedReply::Other,
        }
    }

    fn is_rest(&self, came: u64, head: &Head, bytes: &[u8]) -> bool {
        let Some(rest) = self.rest(came) else { return false };
        difference(rest, bytes).is_none()
            && fields_in(bytes, b"content-range:").all(|range| rest.is_content_range_of(range, self.length))
            && head.framing == Framing::Length(rest.length())
            && only_etag(bytes) == Some(self.etag.as_bytes())
    }
}

/// Returns the ETag in a head, if there is exactly one.
fn only_etag(head: &[u8]) -> Option<&[u8]> {
    let mut etags = fields_in(head, b"etag:");
    etags.next().filter(|_| etags.next().is_none())
}

/// Returns whether an ETag is strong and can be sent in a request. Its characters must be visible (RFC 9110, 8.8.3). As
/// a stricter rule, they must also be ASCII.
fn is_strong(etag: &[u8]) -> bool {
    let inside = etag.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    inside.is_some_and(|inside| inside.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::{ReplyProgress, ReplyReader};

    const LENGTH: u64 = RESUMED_BYTES_MIN + 1000;
    const CAME: u64 = RESUMED_BYTES_MIN + 10;

    fn head_of(text: &str) -> Head {
        let mut reader = ReplyReader::new(u64::MAX);
        reader.start_partial();
        let progress = reader.read(text.as_bytes(), &mut Vec::<u8>::new()).unwrap();
        assert!(matches!(progress, ReplyProgress::NeedMore { .. } | ReplyProgress::Done { .. }));
        *reader.head().unwrap()
    }

    fn resumption(start: &str, fields: &str) -> Option<Resumption> {
        let text = format!("HTTP/1.{start} X\r\n{fields}\r\n");
        Resumption::of_head(&head_of(&text), text.as_bytes())
    }

    #[test]
    fn only_what_can_be_proved_to_be_the_same_object_goes_on() {
        let length = format!("Content-Length: {LENGTH}\r\n");
        let small = format!("Content-Length: {RESUMED_BYTES_MIN}\r\n");
        for (start, fields, goes_on) in [
            ("1 200", format!("{length}ETag: \"a\"\r\n"), true),
            ("1 200", format!("{length}etag:\"a\"\r\nAccept-Ranges: bytes\r\n"), true),
            ("1 200", format!("{length}ETag: \"a\"\r\nContent-Encoding: identity\r\n"), true),
            ("1 200", length.clone(), false),
            ("1 200", format!("{length}ETag: W/\"a\"\r\n"), false),
            ("1 200", format!("{length}ETag: a\r\n"), false),
            ("1 200", format!("{length}ETag: \"a b\"\r\n"), false),
            ("1 200", format!("{length}ETag: \"\u{e4}\"\r\n"), false),
            ("1 200", format!("{length}ETag: \"a\"\r\nETag: \"a\"\r\n"), false),
            ("1 200", format!("{length}ETag: \"a\"\r\nAccept-Ranges: None\r\n"), false),
            ("1 200", format!("{length}ETag: \"a\"\r\nContent-Encoding: gzip\r\n"), false),
            ("1 200", format!("{small}ETag: \"a\"\r\n"), false),
            ("1 200", "Transfer-Encoding: chunked\r\nETag: \"a\"\r\n".into(), false),
            ("1 200", "ETag: \"a\"\r\n".into(), false),
            ("0 200", format!("{length}ETag: \"a\"\r\n"), false),
            ("1 203", format!("{length}ETag: \"a\"\r\n"), false),
            ("1 206", format!("{length}ETag: \"a\"\r\n"), false),
            ("1 404", format!("{length}ETag: \"a\"\r\n"), false),
        ] {
            assert_eq!(resumption(start, &fields).is_some(), goes_on, "{start} {fields}");
        }
    }

    /// Returns the meaning of a reply to the request for the missing bytes. The reply has this range, these fields and
    /// a body of this length.
    fn reply(status: &str, range: &str, fields: &str, length: u64) -> ResumedReply {
        let begun = resumption("1 200", &format!("Content-Length: {LENGTH}\r\nETag: \"a\"\r\n")).unwrap();
        assert_eq!(begun.rest(CAME).unwrap().to_string(), format!("bytes={CAME}-{}", LENGTH - 1));
        let text = format!(
            "HTTP/1.1 {status} X\r\nContent-Range: {range}\r\n{fields}Content-Length: {length}\r\n\r\n"
        );
        begun.reply(CAME, &head_of(&text), text.as_bytes())
    }

    #[test]
    fn only_the_rest_of_the_same_object_is_appended() {
        use ResumedReply::{Other, Rest, Whole};
        let (left, last) = (LENGTH - CAME, LENGTH - 1);
        let right = format!("bytes {CAME}-{last}/{LENGTH}");
        let same = "ETag: \"a\"\r\n";
        for (status, range, fields, length, expected) in [
            ("206", right.clone(), same, left, Rest),
            ("206", right.clone(), "ETag: \"b\"\r\n", left, Other),
            ("206", right.clone(), "ETag: W/\"a\"\r\n", left, Other),
            ("206", right.clone(), "", left, Other),
            ("206", right.clone(), "ETag: \"a\"\r\nETag: \"b\"\r\n", left, Other),
            ("206", right.clone(), "ETag: \"a\"\r\nContent-Range: bytes 0-1/2\r\n", left, Other),
            ("206", right.clone(), "ETag: \"a\"\r\nContent-Encoding: gzip\r\n", left, Other),
            (
                "206",
                right.clone(),
                "ETag: \"a\"\r\nContent-Type: multipart/byteranges; boundary=x\r\n",
                left,
                Other,
            ),
            ("206", right.clone(), same, left - 1, Other),
            ("206", right.clone(), same, left + 1, Other),
            ("206", format!("bytes {CAME}-{last}/*"), same, left, Other),
            ("206", format!("bytes {CAME}-{last}/{}", LENGTH + 1), same, left, Other),
            ("206", format!("bytes {}-{last}/{LENGTH}", CAME + 1), same, left - 1, Other),
            ("206", format!("bytes {CAME}-{}/{LENGTH}", last - 1), same, left - 1, Other),
            ("206", format!("bytes 0-{last}/{LENGTH}"), same, LENGTH, Other),
            ("200", right.clone(), same, LENGTH, Whole),
            ("200", right.clone(), "ETag: \"b\"\r\n", 7, Whole),
            ("203", right.clone(), same, LENGTH, Other),
            ("302", right.clone(), same, 0, Other),
            ("416", format!("bytes */{LENGTH}"), same, 0, Other),
            ("503", right.clone(), same, 0, Other),
        ] {
            assert_eq!(reply(status, &range, fields, length), expected, "{status} {range} {fields} {length}");
        }
    }

    #[test]
    fn the_whole_has_the_first_reply_s_head() {
        let begun = resumption("1 200", &format!("Content-Length: {LENGTH}\r\nETag: \"a\"\r\n")).unwrap();
        let last = head_of("HTTP/1.1 206 X\r\nConnection: close\r\nContent-Length: 5\r\n\r\n");

        let whole = begun.head_of_whole(&last);
        assert_eq!((whole.status, whole.framing, whole.keep_alive), (200, Framing::Length(LENGTH), false));
        assert_eq!(begun.rest(LENGTH), None);
        assert_eq!(begun.rest(LENGTH + 1), None);
    }
}
