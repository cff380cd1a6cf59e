//! Parser of request heads. It keeps all fields, because a signature can cover any field.

use memchr::memchr;

use crate::request::{BadRequest, HEAD_BYTES_MAX};

/// Maximum number of fields. S3 clients send about ten fields, and one more for each additional fact that they request.
const FIELDS_MAX: usize = 64;

/// A head, borrowed from the input.
#[derive(Debug)]
pub(crate) struct RequestHead<'a> {
    pub(crate) method: &'a [u8],
    /// Path, which is still encoded.
    pub(crate) path: &'a [u8],
    /// Everything after the first `?`.
    pub(crate) query: &'a [u8],
    fields: [(&'a [u8], &'a [u8]); FIELDS_MAX],
    count: usize,
    pub(crate) keep_alive: bool,
    /// Size of the body in bytes.
    pub(crate) length: u64,
    /// Whether the client waits for permission to send the body.
    pub(crate) expects: bool,
}

impl<'a> RequestHead<'a> {
    /// Returns all fields in order.
    pub(crate) fn fields(&self) -> &[(&'a [u8], &'a [u8])] {
        &self.fields[..self.count]
    }

    /// Returns the value of a field. The name must be in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&'a [u8]> {
        let is_it = |(other, _): &&(&[u8], &[u8])| other.eq_ignore_ascii_case(name.as_bytes());
        self.fields().iter().find(is_it).map(|(_, value)| *value)
    }
}

/// Parses the first head in the input. Returns the head and its length. `None` if the head is incomplete.
pub(crate) fn parse(input: &[u8]) -> Result<Option<(RequestHead<'_>, usize)>, BadRequest> {
    let mut position = 0;
    let Some(first) = line(input, &mut position)? else { return incomplete(input) };
    let mut head = request_line(first)?;
    loop {
        let Some(field) = line(input, &mut position)? else { return incomplete(input) };
        if field.is_empty() {
            break;
        }
        let colon = memchr(b':', field).filter(|colon| *colon > 0).ok_or(BadRequest::Malformed)?;
        let (name, value) = (&field[..colon], field[colon + 1..].trim_ascii());
        if name.iter().any(u8::is_ascii_whitespace) {
            return Err(BadRequest::Malformed);
        }
        if head.count == FIELDS_MAX {
            return Err(BadRequest::TooLarge);
        }
        head.fields[head.count] = (name, value);
        head.count += 1;
        understand(name, value, &mut head)?;
    }
    Ok(Some((head, position)))
}

fn incomplete(input: &[u8]) -> Result<Option<(RequestHead<'_>, usize)>, BadRequest> {
    if input.len() > HEAD_BYTES_MAX { Err(BadRequest::TooLarge) } else { Ok(None) }
}

/// Returns the line at a position, without its line ending, and advances the position to the next line.
fn line<'a>(input: &'a [u8], position: &mut usize) -> Result<Option<&'a [u8]>, BadRequest> {
    let rest = &input[*position..];
    let Some(end) = memchr(b'\n', rest) else { return Ok(None) };
    *position += end + 1;
    rest[..end].strip_suffix(b"\r").map(Some).ok_or(BadRequest::Malformed)
}

fn request_line(line: &[u8]) -> Result<RequestHead<'_>, BadRequest> {
    let rest = line.strip_suffix(b" HTTP/1.1").ok_or(BadRequest::Malformed)?;
    let space = memchr(b' ', rest).ok_or(BadRequest::Malformed)?;
    let (method, target) = (&rest[..space], &rest[space + 1..]);
    if method.is_empty() || target.first() != Some(&b'/') || !target.iter().all(u8::is_ascii_graphic) {
        return Err(BadRequest::Malformed);
    }
    let (path, query) = match memchr(b'?', target) {
        Some(mark) => (&target[..mark], &target[mark + 1..]),
        None => (target, &[][..]),
    };
    let fields = [(&[][..], &[][..]); FIELDS_MAX];
    Ok(RequestHead { method, path, query, fields, count: 0, keep_alive: true, length: 0, expects: false })
}

/// Extracts the values that the connection needs from a field.
fn understand(name: &[u8], value: &[u8], head: &mut RequestHead<'_>) -> Result<(), BadRequest> {
    if name.eq_ignore_ascii_case(b"content-length") {
        let text = std::str::from_utf8(value).map_err(|_| BadRequest::Malformed)?;
        head.length = text.parse().map_err(|_| BadRequest::Malformed)?;
    } else if name.eq_ignore_ascii_case(b"connection") {
        head.keep_alive = !value.eq_ignore_ascii_case(b"close");
    } else if name.eq_ignore_ascii_case(b"expect") {
        head.expects = value.eq_ignore_ascii_case(b"100-continue");
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        // S3 requires a length even for chunked bodies, and its clients never send such bodies.
        return Err(BadRequest::Malformed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read() {
        let input =
            b"PUT /a/b?c=d HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello";

        let (head, length) = parse(input).expect("well-formed").expect("whole");

        assert_eq!((head.method, head.path, head.query), (&b"PUT"[..], &b"/a/b"[..], &b"c=d"[..]));
        assert_eq!((head.length, head.expects, head.keep_alive), (5, true, true));
        assert_eq!(head.field("host"), Some(&b"x"[..]));
        assert_eq!(&input[length..], b"hello");
    }

    #[test]
    fn every_prefix_is_incomplete() {
        let input = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        for length in 0..input.len() {
            assert!(parse(&input[..length]).expect("no mistake yet").is_none(), "cut at {length}");
        }
    }

    #[test]
    fn malformed_heads_are_refused() {
        for head in [
            "GET / HTTP/1.0\r\n\r\n",
            "GET http://x/ HTTP/1.1\r\n\r\n",
            "GET /a b HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\n\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\na : b\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert_eq!(parse(head.as_bytes()).expect_err("refused"), BadRequest::Malformed, "{head:?}");
        }
    }
}
