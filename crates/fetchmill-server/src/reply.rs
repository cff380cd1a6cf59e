//! Heads of replies. They are short: a status line, the type and the length, but no date.

/// Persistence of the connection, as announced in the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// The connection stays open. HTTP/1.1 needs no field for this.
    Keep,
    /// The connection stays open, which must be announced to an HTTP/1.0 client.
    KeepOld,
    /// The connection is closed after this reply.
    Close,
}

impl Persistence {
    fn field(self) -> &'static [u8] {
        match self {
            Persistence::Keep => b"",
            Persistence::KeepOld => b"Connection: keep-alive\r\n",
            Persistence::Close => b"Connection: close\r\n",
        }
    }
}

/// Framing of a body, which marks its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    /// The body ends with the connection, or the status has no body.
    Nothing,
}

/// Appends a head.
pub(crate) fn head(
    status: u16,
    content_type: &str,
    framing: Framing,
    persistence: Persistence,
    extra: &[u8],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"HTTP/1.1 ");
    number(u64::from(status), out);
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\nContent-Type: ");
    out.extend_from_slice(content_type.as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(extra);
    match framing {
        Framing::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            number(length, out);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::Nothing => {}
    }
    out.extend_from_slice(persistence.field());
    out.extend_from_slice(b"\r\n");
}

/// The head of a successful `/get`. Nearly every reply has this head, so everything except the length is prepared.
#[derive(Debug)]
pub(crate) struct GetHead<'a> {
    pub(crate) prepared: &'a [u8],
    pub(crate) persistence: Persistence,
}

impl GetHead<'_> {
    /// Prepares everything that comes before the length.
    pub(crate) fn prepare(content_type: &str) -> Vec<u8> {
        format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: ").into_bytes()
    }

    /// Appends the head of a body of `size` bytes.
    pub(crate) fn write(&self, size: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prepared);
        number(size, out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.persistence.field());
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a number in decimal digits.
pub(crate) fn number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Returns the reason phrase of a status.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        412 => "Precondition Failed",
        416 => "Range Not Satisfiable",
        421 => "Misdirected Request",
        425 => "Too Early",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Scripted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal() {
        for value in [0, 1, 9, 10, 12_345, u64::MAX] {
            let mut out = Vec::new();

            number(value, &mut out);

            assert_eq!(out, value.to_string().into_bytes());
        }
    }

    #[test]
    fn the_prepared_head_is_the_same() {
        for persistence in [Persistence::Keep, Persistence::KeepOld, Persistence::Close] {
            let (mut long, mut short) = (Vec::new(), Vec::new());

            head(200, "text/plain", Framing::Length(100), persistence, b"", &mut long);
            GetHead { prepared: &GetHead::prepare("text/plain"), persistence }.write(100, &mut short);

            assert_eq!(short, long);
        }
    }
}
