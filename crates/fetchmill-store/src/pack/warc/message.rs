//! A reply as an HTTP message. Parses the head, and handles the single chunk that contains the body if the head
//! announces chunks.

use std::io::Write as _;
use std::mem::MaybeUninit;

use fetchmill_model::http1;
use fetchmill_model::limits::HEAD_FIELDS_MAX;
use fetchmill_model::object::Seconds;
use fetchmill_model::text::dates;

/// Bytes that follow the single chunk: its line ending, and the last chunk.
const CHUNK_END: &[u8] = b"\r\n0\r\n\r\n";
/// The whole chunked body if the body is empty.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// Number of hexadecimal digits of a `u64`.
const CHUNK_DIGITS_MAX: usize = 16;

/// The fields of a head that describe the object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StoredHead<'a> {
    pub(super) status: u16,
    pub(super) is_chunked: bool,
    pub(super) content_type: Option<&'a [u8]>,
    pub(super) content_encoding: Option<&'a [u8]>,
    pub(super) etag: Option<&'a [u8]>,
    pub(super) last_modified: Option<Seconds>,
}

/// Parses the head at the start of a message. Returns the head and its length, or `None` if there is no head. If a
/// field occurs several times, the first one counts.
pub(super) fn parse_head(message: &[u8]) -> Option<(StoredHead<'_>, usize)> {
    let mut fields = [const { MaybeUninit::uninit() }; HEAD_FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        message,
        &mut fields,
    );
    if let Ok(httparse::Status::Complete(length)) = parsed {
        let mut reply = StoredHead { status: response.code?, ..StoredHead::default() };
        for field in response.headers.iter() {
            reply.add(field.name.as_bytes(), field.value);
        }
        return Some((reply, length));
    }
    let (status, length) = http1::odd_head(message)?;
    let mut reply = StoredHead { status, ..StoredHead::default() };
    for field in http1::field_lines(&message[..length]) {
        if let Some(value) = http1::kept_value(field.value) {
            reply.add(field.name, value);
        }
    }
    Some((reply, length))
}

impl<'a> StoredHead<'a> {
    fn add(&mut self, name: &[u8], value: &'a [u8]) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match name.len() {
            4 if is("etag") => self.etag = self.etag.or(Some(value)),
            12 if is("content-type") => self.content_type = self.content_type.or(Some(value)),
            13 if is("last-modified") => {
                self.last_modified = self.last_modified.or(dates::parse_http_date(value));
            }
            16 if is("content-encoding") => {
                self.content_encoding = self.content_encoding.or(Some(value));
            }
            // Replies with these statuses have no body, even if the head announces one.
            17 if is("transfer-encoding") && self.status != 204 && self.status != 304 => {
                self.is_chunked |= value.eq_ignore_ascii_case(b"chunked");
            }
            _ => {}
        }
    }
}

/// Returns the bytes before and after a chunked body of this length. `start` is a buffer for the bytes before the body.
pub(super) fn chunk_around(length: u64, start: &mut Vec<u8>) -> (&[u8], &'static [u8]) {
    start.clear();
    if length == 0 {
        return (start, LAST_CHUNK);
    }
    // Writing to a vector cannot fail.
    let _ = write!(start, "{length:x}\r\n");
    (start, CHUNK_END)
}

/// Returns the body in the single chunk. `None` unless the format is exactly the one that [`chunk_around`] writes.
pub(super) fn unchunked(payload: &[u8]) -> Option<&[u8]> {
    if payload == LAST_CHUNK {
        return Some(b"");
    }
    let digits = payload.iter().take(CHUNK_DIGITS_MAX + 1).position(|byte| *byte == b'\r')?;
    let (digits, behind) = payload.split_at(digits);
    let body = behind.strip_prefix(b"\r\n")?.strip_suffix(CHUNK_END)?;
    let mut start = Vec::with_capacity(CHUNK_DIGITS_MAX + 2);
    let (start, _) = chunk_around(body.len() as u64, &mut start);
    (!body.is_empty() && start.strip_suffix(b"\r\n") == Some(digits)).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_taken_away_as_it_was_put_around() {
        for length in [0, 1, 15, 16, 255, 70_000] {
            let body = vec![b'\r'; length];
            let mut start = Vec::new();
            let (start, end) = chunk_around(length as u64, &mut start);
            assert_eq!(unchunked(&[start, &body, end].concat()), Some(&body[..]));
        }
        for payload in [
            "",
            "0\r\n",
            "0\r\n\r\n\r\n",
            "0\r\n\r\n0\r\n\r\n",
            "1\r\na\r\n",
            "1\r\na\r\n0\r\n\r\n ",
            "2\r\na\r\n0\r\n\r\n",
            "01\r\na\r\n0\r\n\r\n",
            "A\r\n0123456789\r\n0\r\n\r\n",
            "+1\r\na\r\n0\r\n\r\n",
            "1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
            "00000000000000001\r\na\r\n0\r\n\r\n",
        ] {
            assert_eq!(unchunked(payload.as_bytes()), None, "{payload:?}");
        }
    }

    #[test]
    fn a_head_says_what_is_needed() {
        let head = b"HTTP/1.1 200 OK\r\nETAG: \"a\"\r\netag: \"b\"\r\nContent-Type:  text/plain \r\nLast-Modified: Sun, \
                     06 Nov 1994 08:49:37 GMT\r\nTransfer-Encoding: Chunked\r\n\r\nbody";
        let (reply, length) = parse_head(head).unwrap();
        assert_eq!(length, head.len() - 4);
        let expected = StoredHead {
            status: 200,
            is_chunked: true,
            content_type: Some(b"text/plain"),
            content_encoding: None,
            etag: Some(b"\"a\""),
            last_modified: Some(784_111_777),
        };
        assert_eq!(reply, expected);
        let empty = b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(!parse_head(empty).unwrap().0.is_chunked);
        let odd = b"HTTP/1.1 200 OK\r\nnot a field\r\nETag : \"a\"\r\nX: a\r\n b: c\r\nContent-Type: a\x01\r\n\r\nbody";
        let expected = StoredHead { status: 200, etag: Some(b"\"a\""), ..StoredHead::default() };
        assert_eq!(parse_head(odd), Some((expected, odd.len() - 4)));
        for other in
            [&b""[..], b"HTTP/1.1 200 OK\r\n", b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\0\r\n\r\n"]
        {
            assert_eq!(parse_head(other), None);
        }
    }
}
