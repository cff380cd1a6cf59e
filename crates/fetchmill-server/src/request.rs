//! Parses request heads and request targets.
//!
//! Reads the request line, `Host`, `Connection`, `Content-Length` and `Transfer-Encoding`. All other fields only have
//! to be well-formed (RFC 9112, section 5.1). If one parser skipped bytes that another parser reads, the two would see
//! different requests. Nothing is copied. This code is independent of the client, because it must reveal the client's
//! mistakes.

use memchr::memchr;

/// Maximum size of a head in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A request, borrowed from the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) target: &'a [u8],
    /// Whether the version is HTTP/1.0. This version does not support chunks, and keeps connections open only on
    /// request.
    pub(crate) old: bool,
    pub(crate) keep_alive: bool,
    /// Whether the request announces a body. Such a request is rejected.
    pub(crate) body: bool,
    /// Value of the `Host` field.
    pub(crate) host: Option<&'a [u8]>,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Method {
    Get,
    Head,
    Other,
}

/// Reason why a head is rejected. The connection ends after that.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum BadRequest {
    Malformed,
    TooLarge,
}

/// Parses the first request in the input. Returns the request and the length of its head, or `None` if the head is
/// incomplete.
pub(crate) fn parse(input: &[u8]) -> Result<Option<(Request<'_>, usize)>, BadRequest> {
    // An empty line before a request is ignored (RFC 9112, section 2.2).
    let start = if input.starts_with(b"\r\n") { 2 } else { 0 };
    let Some((line, mut position)) = line(input, start)? else {
        return incomplete(input);
    };
    let mut request = request_line(line)?;
    loop {
        let Some((field, next)) = self::line(input, position)? else {
            return incomplete(input);
        };
        position = next;
        if field.is_empty() {
            break;
        }
        read_field(field, &mut request)?;
    }
    if position > HEAD_BYTES_MAX {
        return Err(BadRequest::TooLarge);
    }
    Ok(Some((request, position)))
}

fn incomplete(input: &[u8]) -> Result<Option<(Request<'_>, usize)>, BadRequest> {
    // Reject early. A TLS client, for example, waits for an answer before it sends a line.
    if input.first().is_some_and(|byte| !byte.is_ascii_alphabetic() && *byte != b'\r') {
        return Err(BadRequest::Malformed);
    }
    if input.len() > HEAD_BYTES_MAX { Err(BadRequest::TooLarge) } else { Ok(None) }
}

/// Returns the line that starts here, without its line ending, and the start of the next line.
fn line(input: &[u8], start: usize) -> Result<Option<(&[u8], usize)>, BadRequest> {
    let rest = &input[start..];
    match memchr(b'\n', rest) {
        None => Ok(None),
        Some(end) if end > 0 && rest[end - 1] == b'\r' => Ok(Some((&rest[..end - 1], start + end + 1))),
        Some(_) => Err(BadRequest::Malformed),
    }
}

fn request_line(line: &[u8]) -> Result<Request<'_>, BadRequest> {
    let (rest, version) = line.split_last_chunk::<9>().ok_or(BadRequest::Malformed)?;
    let old = match version {
        b" HTTP/1.1" => false,
        b" HTTP/1.0" => true,
        _ => return Err(BadRequest::Malformed),
    };
    let (method, target) = if let Some(target) = rest.strip_prefix(b"GET ") {
        (Method::Get, target)
    } else if let Some(target) = rest.strip_prefix(b"HEAD ") {
        (Method::Head, target)
    } else {
        let space = memchr(b' ', rest).ok_or(BadRequest::Malformed)?;
        let token = &rest[..space];
        if token.is_empty() || !token.iter().all(u8::is_ascii_alphanumeric) {
            return Err(BadRequest::Malformed);
        }
        (Method::Other, &rest[space + 1..])
    };
    // Check all bytes without stopping early, so that the compiler can vectorise the loop.
    let printable = target.iter().fold(true, |printable, byte| printable & (byte.wrapping_sub(0x21) < 0x5e));
    if target.is_empty() || !printable {
        return Err(BadRequest::Malformed);
    }
    Ok(Request { method, target, old, keep_alive: !old, body: false, host: None })
}

/// Bytes allowed in field names.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

/// Parses a field: a token immediately followed by a colon, and a value without control characters. A continuation line
/// is rejected, because it starts with a blank, which a token must not contain.
fn read_field<'a>(field: &'a [u8], request: &mut Request<'a>) -> Result<(), BadRequest> {
    let colon = memchr(b':', field).ok_or(BadRequest::Malformed)?;
    let (name, value) = (&field[..colon], &field[colon + 1..]);
    let is_name = !name.is_empty() && name.iter().all(|byte| TOKEN[*byte as usize]);
    let is_value = !value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
    if !(is_name && is_value) {
        return Err(BadRequest::Malformed);
    }
    match name[0] {
        b'c' | b'C' | b'h' | b'H' | b't' | b'T' => read_known_field(name, value.trim_ascii(), request),
        _ => Ok(()),
    }
}

fn read_known_field<'a>(name: &[u8], value: &'a [u8], request: &mut Request<'a>) -> Result<(), BadRequest> {
    if name.eq_ignore_ascii_case(b"connection") {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                request.keep_alive = false;
                return Ok(());
            }
            request.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    } else if name.eq_ignore_ascii_case(b"content-length") {
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(BadRequest::Malformed);
        }
        request.body |= value.iter().any(|digit| *digit != b'0');
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        request.body = true;
    } else if name.eq_ignore_ascii_case(b"host") && request.host.replace(value).is_some() {
        return Err(BadRequest::Malformed);
    }
    Ok(())
}

/// Meaning of a request target. Strings are still percent-encoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    Get(&'a [u8]),
    List(Option<&'a [u8]>),
    Stats,
    Unknown,
}

/// Parses a target, which is a path or a whole URL.
pub(crate) fn route(target: &[u8]) -> Route<'_> {
    let target = if target.first() == Some(&b'/') { target } else { path_of_url(target) };
    if let Some(name) = target.strip_prefix(b"/get/") {
        return Route::Get(memchr(b'?', name).map_or(name, |query| &name[..query]));
    }
    let (path, query) = match memchr(b'?', target) {
        Some(position) => (&target[..position], &target[position + 1..]),
        None => (target, &[][..]),
    };
    match path {
        b"/list" => Route::List(
            query.split(|byte| *byte == b'&').find_map(|parameter| parameter.strip_prefix(b"next-marker=")),
        ),
        b"/stats" => Route::Stats,
        _ => Route::Unknown,
    }
}

/// Returns the host of a target that is a whole URL. It takes precedence over the `Host` field.
pub(crate) fn host_of_target(target: &[u8]) -> Option<&[u8]> {
    let rest = target.strip_prefix(b"http://")?;
    Some(rest.split(|byte| matches!(byte, b'/' | b'?')).next().unwrap_or(rest))
}

fn path_of_url(target: &[u8]) -> &[u8] {
    let Some(rest) = target.strip_prefix(b"http://") else {
        return &[];
    };
    memchr(b'/', rest).map_or(&[], |path| &rest[path..])
}

/// Reason why a string is rejected.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum BadText {
    /// A `%` that is not followed by two hexadecimal digits.
    Escape,
    /// The decoded string is not UTF-8.
    NotUtf8,
}

/// Decodes percent escapes once, so that `%2541` becomes `%41`. Uses the buffer only if there are escapes.
pub(crate) fn decode<'a>(text: &'a [u8], buffer: &'a mut Vec<u8>) -> Result<&'a str, BadText> {
    let Some(first) = memchr(b'%', text) else {
        return std::str::from_utf8(text).map_err(|_| BadText::NotUtf8);
    };
    buffer.clear();
    let mut rest = text;
    let mut escape = Some(first);
    while let Some(position) = escape {
        buffer.extend_from_slice(&rest[..position]);
        let digits = rest.get(position + 1..position + 3).ok_or(BadText::Escape)?;
        buffer.push(hex_digit(digits[0])? << 4 | hex_digit(digits[1])?);
        rest = &rest[position + 3..];
        escape = memchr(b'%', rest);
    }
    buffer.extend_from_slice(rest);
    std::str::from_utf8(buffer).map_err(|_| BadText::NotUtf8)
}

fn hex_digit(byte: u8) -> Result<u8, BadText> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        b'A'..=b'F' => Ok(byte - b'A' + 10),
        _ => Err(BadText::Escape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> Request<'_> {
        let (request, length) = parse(head.as_bytes()).expect("well-formed").expect("complete");
        assert_eq!(length, head.len());
        request
    }

    #[test]
    fn a_request_is_read() {
        assert_eq!(
            parsed("GET /get/a HTTP/1.1\r\nHost: x\r\n\r\n"),
            Request {
                method: Method::Get,
                target: b"/get/a",
                old: false,
                keep_alive: true,
                body: false,
                host: Some(b"x"),
            }
        );
        assert_eq!(parsed("HEAD / HTTP/1.1\r\n\r\n").method, Method::Head);
        assert_eq!(parsed("POST / HTTP/1.1\r\n\r\n").method, Method::Other);
        assert_eq!(parsed("GETS / HTTP/1.1\r\n\r\n").method, Method::Other);
        assert_eq!(parsed("\r\nGET /x HTTP/1.1\r\n\r\n").target, b"/x");
    }

    #[test]
    fn the_connection_stays_or_not() {
        for (head, expected) in [
            ("GET / HTTP/1.1\r\n\r\n", true),
            ("GET / HTTP/1.0\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", false),
            ("GET / HTTP/1.1\r\ncoNNection:\tCLOSE \r\n\r\n", false),
            ("GET / HTTP/1.1\r\nConnection: keep-alive, close\r\n\r\n", false),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nConnection: closed\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nX-Connection: close\r\n\r\n", true),
        ] {
            assert_eq!(parsed(head).keep_alive, expected, "{head:?}");
        }
    }

    #[test]
    fn a_body_is_noticed() {
        for (field, expected) in [
            ("Content-Length: 0", false),
            ("Content-Length: 10", true),
            ("content-length:5", true),
            ("Transfer-Encoding: chunked", true),
            ("Transfer-Encoding: identity", true),
            ("Content-Length: 0\r\nTransfer-Encoding: chunked", true),
            ("Content-Length: 0\r\nContent-Length: 5", true),
            ("Content-Type: text/plain", false),
        ] {
            assert_eq!(parsed(&format!("GET / HTTP/1.1\r\n{field}\r\n\r\n")).body, expected, "{field}");
        }
    }

    #[test]
    fn every_prefix_is_incomplete() {
        let head = b"GET /get/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        for length in 0..head.len() {
            assert_eq!(parse(&head[..length]), Ok(None), "cut at {length}");
        }
    }

    #[test]
    fn malformed_heads_are_refused() {
        for head in [
            "GET\r\n\r\n",
            "GET /\r\n\r\n",
            "GET  HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\n\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET / http/1.1\r\n\r\n",
            "GET /a b HTTP/1.1\r\n\r\n",
            "GET /\u{7f} HTTP/1.1\r\n\r\n",
            "GET /ü HTTP/1.1\r\n\r\n",
            " GET / HTTP/1.1\r\n\r\n",
            "G@T / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\ncolon\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\n: no name\r\n\r\n",
            "GET / HTTP/1.1\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\n\tfolded: x\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length : 27\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length\t: 27\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding\u{b}: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding\0: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\n\u{b}Transfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nX: a\rContent-Length: 27\r\n\r\n",
            "GET / HTTP/1.1\r\nX: a\nContent-Length: 27\r\n\r\n",
            "GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
            "GET / HTTP/1.1\r\nX(y): a\r\n\r\n",
            "GET / HTTP/1.1\r\nX\u{fc}: a\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: +5\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 0x5\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length:\r\n\r\n",
            "\x16\x03\x01\x02",
        ] {
            assert_eq!(parse(head.as_bytes()), Err(BadRequest::Malformed), "{head:?}");
        }
    }

    #[test]
    fn a_head_has_a_limit() {
        let endless = vec![b'a'; HEAD_BYTES_MAX + 1];
        assert_eq!(parse(&endless), Err(BadRequest::TooLarge));

        let whole = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(HEAD_BYTES_MAX));
        assert_eq!(parse(whole.as_bytes()), Err(BadRequest::TooLarge));
    }

    #[test]
    fn targets_are_routed() {
        for (target, expected) in [
            ("/get/a", Route::Get(b"a")),
            ("/get/a/b%20c", Route::Get(b"a/b%20c")),
            ("/get/a?b", Route::Get(b"a")),
            ("/get/", Route::Get(b"")),
            ("/get", Route::Unknown),
            ("/list", Route::List(None)),
            ("/list?", Route::List(None)),
            ("/list?next-marker=x", Route::List(Some(b"x"))),
            ("/list?a=b&next-marker=x%26&c", Route::List(Some(b"x%26"))),
            ("/list?next-marker=", Route::List(Some(b""))),
            ("/list/", Route::Unknown),
            ("/stats", Route::Stats),
            ("/", Route::Unknown),
            ("*", Route::Unknown),
            ("http://host:1/get/a", Route::Get(b"a")),
            ("http://host", Route::Unknown),
            ("ftp://host/list", Route::Unknown),
        ] {
            assert_eq!(route(target.as_bytes()), expected, "{target}");
        }
    }

    #[test]
    fn escapes_are_decoded_once() {
        let buffer = &mut Vec::new();
        for (text, expected) in [
            ("plain", Ok("plain")),
            ("%41%2f%2F", Ok("A//")),
            ("%2541", Ok("%41")),
            ("a%20b+c", Ok("a b+c")),
            ("%C3%BC", Ok("ü")),
            ("%00", Ok("\0")),
            ("%", Err(BadText::Escape)),
            ("a%4", Err(BadText::Escape)),
            ("%4g", Err(BadText::Escape)),
            ("%+1", Err(BadText::Escape)),
            ("%FF", Err(BadText::NotUtf8)),
            ("%C3", Err(BadText::NotUtf8)),
        ] {
            assert_eq!(decode(text.as_bytes(), buffer), expected, "{text}");
        }
    }
}
