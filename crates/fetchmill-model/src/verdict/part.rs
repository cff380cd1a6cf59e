//! Checks whether a reply is the requested part of an object. No other module defines this rule.
//!
//! The status must be 206, and a single `Content-Range` field must state exactly the requested bytes. The body must
//! have that length and must not be encoded. A part is never extracted from another kind of reply.

use super::head_fields::fields_in;
use crate::http1::byte_range::ByteRange;
use crate::http1::{Framing, Head};
use crate::limits::REFUSED_BODY_BYTES_MAX;
use crate::name::for_display;
use crate::outcome::FailureKind;

/// A requested part of an object, and the result of checking the head of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedPart {
    asked: ByteRange,
    reply: PartReply,
}

/// Result of checking the head of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PartReply {
    /// There is no head yet, or the head says nothing about the part, as with an error or a redirect.
    Neither,
    /// The reply contains the part.
    Part,
    /// The reply does not contain the part. If `is_short` is set, the body is read to its end so that the connection
    /// can be reused.
    Other { kind: FailureKind, detail: Box<str>, is_short: bool },
}

impl ExpectedPart {
    /// Creates the part of an object that consists of the bytes in `asked`.
    pub fn new(asked: ByteRange) -> Self {
        ExpectedPart { asked, reply: PartReply::Neither }
    }

    /// Interprets the head of the reply.
    pub fn head(&mut self, head: &Head, bytes: &[u8]) {
        let (asked, status) = (self.asked, head.status);
        let trouble = match status {
            206 => difference(asked, bytes).map(|said| (FailureKind::BadRange, format!("but {said}"))),
            200..=299 => Some((FailureKind::RangeIgnored, format!("but the reply is {status}, not 206"))),
            416 => Some((
                FailureKind::RangeUnsatisfied,
                "but the requested bytes are beyond the object's end".to_owned(),
            )),
            _ => {
                self.reply = PartReply::Neither;
                return;
            }
        };
        let is_short = match head.framing {
            Framing::None => true,
            Framing::Length(length) => length <= REFUSED_BODY_BYTES_MAX,
            Framing::Chunked | Framing::Eof | Framing::EndOfStream => false,
        };
        self.reply = trouble.map_or(PartReply::Part, |(kind, said)| {
            let detail = format!("requested {asked}, {said}").into();
            PartReply::Other { kind, detail, is_short }
        });
    }

    /// Returns whether to read more of a body after `length` bytes.
    pub fn wants_more(&self, length: u64) -> bool {
        match &self.reply {
            PartReply::Neither => true,
            PartReply::Part => length <= self.asked.length(),
            PartReply::Other { is_short, .. } => *is_short,
        }
    }

    /// Returns the reason why a reply with a body of this length is not the part. Returns `None` if the status already
    /// gives the reason.
    pub(super) fn trouble(&self, length: u64) -> Option<(FailureKind, Box<str>)> {
        match &self.reply {
            PartReply::Neither => None,
            PartReply::Other { kind, detail, .. } => Some((*kind, detail.clone())),
            PartReply::Part if length == self.asked.length() => None,
            PartReply::Part => {
                let more = if length > self.asked.length() { "or more " } else { "" };
                let detail = format!("requested {}, but the body has {length} {more}bytes", self.asked);
                Some((FailureKind::BadRange, detail.into()))
            }
        }
    }
}

/// Returns the problem with the head of a 206 reply.
pub(super) fn difference(asked: ByteRange, head: &[u8]) -> Option<String> {
    let mut content_types = fields_in(head, b"content-type:");
    if content_types.any(|kind| kind.get(..10).is_some_and(|kind| kind.eq_ignore_ascii_case(b"multipart/"))) {
        return Some("the reply has several parts (multipart)".to_owned());
    }
    let mut ranges = fields_in(head, b"content-range:");
    let Some(range) = ranges.next() else { return Some("the reply has no Content-Range".to_owned()) };
    if ranges.next().is_some() {
        return Some("the reply has several Content-Range fields".to_owned());
    }
    if !asked.is_content_range(range) {
        return Some(format!("the Content-Range is {}", for_display(range)));
    }
    let encoding = fields_in(head, b"content-encoding:").find(|name| !name.eq_ignore_ascii_case(b"identity"));
    encoding.map(|name| {
        format!("the Content-Encoding is {}, so the bytes are not those of the object", for_display(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::{ReplyProgress, ReplyReader};

    /// Returns the result of a request for `bytes=10-14` whose reply has this status, these fields and this length.
    fn outcome(status: &str, fields: &str, length: u64) -> Option<FailureKind> {
        let mut part = ExpectedPart::new(ByteRange::new(10, 5).unwrap());
        let text = format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {length}\r\n\r\n");
        let mut reader = ReplyReader::new(u64::MAX);
        reader.start_partial();
        let progress = reader.read(text.as_bytes(), &mut Vec::<u8>::new()).unwrap();
        assert!(matches!(progress, ReplyProgress::NeedMore { .. } | ReplyProgress::Done { .. }));
        part.head(reader.head().unwrap(), text.as_bytes());
        part.trouble(length).map(|(kind, _)| kind)
    }

    #[test]
    fn only_the_part_that_was_asked_for_is_stored() {
        use FailureKind::{BadRange, RangeIgnored, RangeUnsatisfied};
        let right = "Content-Range: bytes 10-14/100\r\n";
        for (status, fields, length, expected) in [
            ("206", right, 5, None),
            ("206", "CONTENT-RANGE:bytes 10-14/*\r\nContent-Encoding: identity\r\n", 5, None),
            ("206", right, 4, Some(BadRange)),
            ("206", right, 6, Some(BadRange)),
            ("206", "", 5, Some(BadRange)),
            (
                "206",
                "Content-Range: bytes 10-14/100\r\nContent-Range: bytes 10-14/100\r\n",
                5,
                Some(BadRange),
            ),
            ("206", "Content-Range: bytes 11-15/100\r\n", 5, Some(BadRange)),
            ("206", "Content-Range: bytes 10-14/100\r\nContent-Encoding: gzip\r\n", 5, Some(BadRange)),
            (
                "206",
                "Content-Range: bytes 10-14/100\r\nContent-Type: Multipart/byteranges; boundary=x\r\n",
                5,
                Some(BadRange),
            ),
            ("200", right, 5, Some(RangeIgnored)),
            ("203", right, 5, Some(RangeIgnored)),
            ("416", "Content-Range: bytes */3\r\n", 0, Some(RangeUnsatisfied)),
            ("404", right, 5, None),
            ("503", "", 5, None),
        ] {
            assert_eq!(outcome(status, fields, length), expected, "{status} {fields} {length}");
        }
    }

    #[test]
    fn no_more_is_read_of_what_is_not_stored() {
        let mut part = ExpectedPart::new(ByteRange::new(10, 5).unwrap());
        assert!(part.wants_more(u64::MAX));
        part.reply = PartReply::Part;
        assert!(part.wants_more(5) && !part.wants_more(6));
        let other =
            |is_short| PartReply::Other { kind: FailureKind::RangeIgnored, detail: "".into(), is_short };
        part.reply = other(true);
        assert!(part.wants_more(u64::MAX));
        part.reply = other(false);
        assert!(!part.wants_more(0));
    }
}
