//! Interpretation of a head: its status, the framing of the body, and whether the connection can be reused.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use super::date::RetryAfter;
use super::malformed::MalformedReply;
use super::odd_head::{check, field_lines, kept_value};
use crate::limits::HEAD_FIELDS_MAX;
use crate::outcome::FailureKind;

/// How the end of a body is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body, even if header fields describe one.
    None,
    /// The body has the stated length.
    Length(u64),
    /// The last chunk ends the body.
    Chunked,
    /// The end of the stream ends the body. A broken connection looks the same.
    Eof,
    /// The last frame of an HTTP/2 stream ends the body. A broken connection looks different.
    EndOfStream,
}

/// HTTP version of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2. The reply arrived in frames.
    Http2,
}

impl Version {
    /// Returns the version as it is displayed.
    pub fn text(self) -> &'static str {
        match self {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
            Version::Http2 => "2",
        }
    }
}

/// Parsed parts of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Version in the status line.
    pub version: Version,
    /// Status code, from 200 to 999.
    pub status: u16,
    /// How the end of the body is marked.
    pub framing: Framing,
    /// Whether the server keeps the connection open for another request.
    pub keep_alive: bool,
    /// Whether other parsers could find a different end of the reply, although RFC 9112, 6.3, defines that end. Such a
    /// reply is accepted only if it is the first one on its connection. The connection is then closed.
    pub is_suspect: bool,
    /// Earliest time for the next attempt, as stated by the server.
    pub retry_after: Option<RetryAfter>,
    /// Positions of the field values that are stored with an object.
    pub kept: FieldSpans,
    /// Size of the head in bytes.
    pub length: u32,
}

/// Positions of field values in the bytes of the head.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FieldSpans {
    /// `Content-Type`.
    pub content_type: Option<Span>,
    /// `Content-Encoding`.
    pub content_encoding: Option<Span>,
    /// `ETag`.
    pub etag: Option<Span>,
    /// `Last-Modified`.
    pub last_modified: Option<Span>,
    /// `Location`, the target of a redirect.
    pub location: Option<Span>,
}

impl FieldSpans {
    /// Copies the values from `head` to the end of `to`, which must be empty. The returned spans refer to `to`.
    #[must_use]
    pub fn copy_values(self, head: &[u8], to: &mut Vec<u8>) -> Self {
        let mut copy = |span: Option<Span>| {
            let value = span?.in_head(head);
            let start = u16::try_from(to.len()).ok()?;
            to.extend_from_slice(value);
            Some(Span { start, length: u16::try_from(value.len()).ok()? })
        };
        FieldSpans {
            content_type: copy(self.content_type),
            content_encoding: copy(self.content_encoding),
            etag: copy(self.etag),
            last_modified: copy(self.last_modified),
            location: copy(self.location),
        }
    }
}

/// A range of bytes in a head, which is at most 64 KiB long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: u16,
    length: u16,
}

impl Head {
    /// Returns this head as the head of a message in HTTP/2 frames. If no length is stated, the frames mark the end of
    /// the body.
    pub(super) fn of_frames(self) -> Self {
        let head = Head { version: Version::Http2, ..self };
        match self.framing {
            Framing::Eof => Head { framing: Framing::EndOfStream, keep_alive: true, ..head },
            _ => head,
        }
    }
}

impl Span {
    /// Returns the span of a value, which must be a slice of `head`.
    fn of(value: &[u8], head: &[u8]) -> Option<Self> {
        let start = (value.as_ptr() as usize).checked_sub(head.as_ptr() as usize)?;
        Some(Span { start: u16::try_from(start).ok()?, length: u16::try_from(value.len()).ok()? })
    }

    /// Returns the bytes of the span in `head`, or an empty slice if the span does not fit into `head`.
    pub fn in_head(self, head: &[u8]) -> &[u8] {
        let start = usize::from(self.start);
        head.get(start..start + usize::from(self.length)).unwrap_or_default()
    }
}

/// A parsed head.
#[derive(Clone, Copy)]
pub(super) enum Message {
    /// A 1xx head. The final head follows.
    Interim,
    /// The reply's head.
    Final(Head),
}

/// Number of bytes that [`check_start`] checks.
pub(super) const START_BYTES: usize = 9;

/// Number of bytes before the reason in a status line.
const STATUS_BYTES: usize = START_BYTES + 4;

/// Refuses a reply as soon as its first bytes show that it is neither HTTP/1.0 nor HTTP/1.1. `input` may contain fewer
/// than [`START_BYTES`] bytes.
pub(super) fn check_start(input: &[u8]) -> Result<(), MalformedReply> {
    let start = &input[..input.len().min(START_BYTES)];
    if b"HTTP/1.1 ".starts_with(start) || b"HTTP/1.0 ".starts_with(start) {
        Ok(())
    } else {
        Err(MalformedReply::new(FailureKind::NotHttp, "the reply is not HTTP/1.x"))
    }
}

/// Parses the head at the start of `input`. Returns the head and its length, or `None` if it is not complete. If
/// `bodiless` is set, the reply answers a `HEAD` request, so no body follows.
pub(super) fn parse(input: &[u8], bodiless: bool) -> Result<Option<(Message, usize)>, MalformedReply> {
    #[cfg(test)]
    super::tests::count_parse();
    let mut fields = [const { MaybeUninit::uninit() }; HEAD_FIELDS_MAX];
    let mut reply = httparse::Response::new(&mut []);
    let parsed =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut reply, input, &mut fields);
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(refused(error)),
    };
    let (Some(version), Some(status)) = (reply.version, reply.code) else {
        return Err(MalformedReply::framing("the status line is incomplete"));
    };
    let fields = HeadFields::of(reply.headers)?;
    Ok(Some((fields.message(version, status, &input[..length], bodiless)?, length)))
}

/// Parses a complete head, including its empty line. The head can contain odd lines (see
/// [`odd_head`](super::odd_head)).
pub(super) fn parse_whole(head: &[u8], bodiless: bool) -> Result<Option<(Message, usize)>, MalformedReply> {
    let strict = parse(head, bodiless);
    if strict.is_ok() {
        return strict;
    }
    let Some((version, status)) = odd_status_line(head) else { return strict };
    check(head)?;
    let mut fields = [httparse::EMPTY_HEADER; HEAD_FIELDS_MAX];
    let mut count = 0;
    for line in field_lines(head) {
        let field = fields.get_mut(count).ok_or_else(|| refused(httparse::Error::TooManyHeaders))?;
        let name = str::from_utf8(line.name).map_err(|_| refused(httparse::Error::HeaderName))?;
        *field = httparse::Header { name, value: line.value };
        count += 1;
    }
    let fields = HeadFields::of(&fields[..count])?.without_odd_values();
    Ok(Some((fields.message(version, status, head, bodiless)?, head.len())))
}

/// Returns the version and status of a head with odd lines. In the status line, only the reason may be odd.
fn odd_status_line(head: &[u8]) -> Option<(u8, u16)> {
    let mut fields = [const { MaybeUninit::uninit() }; HEAD_FIELDS_MAX];
    let mut reply = httparse::Response::new(&mut []);
    let parsed =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut reply, head, &mut fields);
    let is_odd = match parsed {
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => true,
        Err(httparse::Error::Status) => has_odd_reason(head),
        _ => false,
    };
    Some((reply.version?, reply.code?)).filter(|_| is_odd)
}

/// Returns whether a status line is odd only because its reason contains control bytes, which can be ignored.
fn has_odd_reason(head: &[u8]) -> bool {
    let end = memchr::memchr(b'\n', head).unwrap_or(head.len());
    let line = head[..end].strip_suffix(b"\r").unwrap_or(&head[..end]);
    // `HTTP/1.1 200 `
    let Some((start, reason)) = line.split_at_checked(STATUS_BYTES) else { return false };
    let is_sound =
        start.ends_with(b" ") && start[START_BYTES..STATUS_BYTES - 1].iter().all(u8::is_ascii_digit);
    is_sound
        && memchr::memchr2(b'\0', b'\r', reason).is_none()
        && memchr::memmem::find(reason, b"HTTP/").is_none()
}

/// Returns the status and length of a head with odd lines at the start of `message`, or `None` if such a head is not
/// accepted.
pub fn odd_head(message: &[u8]) -> Option<(u16, usize)> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', message).map(|newline| newline + 1);
    let length = ends.into_iter().find(|end| {
        let line = &message[std::mem::replace(&mut start, *end)..*end];
        matches!(line, b"\n" | b"\r\n")
    })?;
    let head = &message[..length];
    let (_, status) = odd_status_line(head)?;
    check(head).ok().map(|()| (status, length))
}

/// Returns the values of all fields with a name, in order. `head` must already have been parsed successfully.
pub fn field_values<'h>(head: &'h [u8], name: &str) -> Vec<Cow<'h, [u8]>> {
    field_lines(head).filter(|line| line.is(name)).map(|line| line.unfolded()).collect()
}

fn refused(error: httparse::Error) -> MalformedReply {
    match error {
        httparse::Error::TooManyHeaders => {
            MalformedReply::new(FailureKind::HeadTooLarge, "the head has more than 128 header fields")
        }
        httparse::Error::Version => MalformedReply::new(FailureKind::NotHttp, "the reply is not HTTP/1.x"),
        httparse::Error::Status => MalformedReply::framing("the status line is malformed"),
        httparse::Error::HeaderName => MalformedReply::framing("a header field name is malformed"),
        httparse::Error::HeaderValue => MalformedReply::framing("a header field value is malformed"),
        httparse::Error::NewLine | httparse::Error::Token => {
            MalformedReply::framing("a line ending is malformed")
        }
    }
}

/// Relevant fields of a head.
#[derive(Default)]
struct HeadFields<'a> {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    retry_after: Option<&'a [u8]>,
    date: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    content_encoding: Option<&'a [u8]>,
    etag: Option<&'a [u8]>,
    last_modified: Option<&'a [u8]>,
    location: Option<&'a [u8]>,
}

impl<'a> HeadFields<'a> {
    /// Compares lengths first, because most field names differ in length.
    fn of(fields: &[httparse::Header<'a>]) -> Result<Self, MalformedReply> {
        let mut found = HeadFields::default();
        for field in fields {
            let value = field.value;
            match field.name.len() {
                4 if is(field, "date") => found.date = Some(value),
                4 if is(field, "etag") => found.etag = Some(value),
                8 if is(field, "location") => found.location = Some(value),
                10 if is(field, "connection") => found.add_connection(value),
                11 if is(field, "retry-after") => found.retry_after = Some(value),
                12 if is(field, "content-type") => found.content_type = Some(value),
                13 if is(field, "last-modified") => found.last_modified = Some(value),
                14 if is(field, "content-length") => found.add_length(value)?,
                16 if is(field, "content-encoding") => found.content_encoding = Some(value),
                17 if is(field, "transfer-encoding") => found.add_coding(value)?,
                _ => {}
            }
        }
        Ok(found)
    }

    /// Keeps only single-line values without control bytes. Control bytes in a `Location` are escaped when the redirect
    /// is followed.
    fn without_odd_values(self) -> Self {
        HeadFields {
            content_type: self.content_type.and_then(kept_value),
            etag: self.etag.and_then(kept_value),
            last_modified: self.last_modified.and_then(kept_value),
            ..self
        }
    }

    /// Adds a `Content-Length`, which must consist of digits only. Repeated fields with the same value count once. A
    /// list of values is refused, because no server needs one and parsers disagree about its meaning.
    fn add_length(&mut self, value: &[u8]) -> Result<(), MalformedReply> {
        let length = length(value).ok_or(MalformedReply::framing("Content-Length is not a number"))?;
        if self.length.is_some_and(|other| other != length) {
            return Err(MalformedReply::framing("the reply has two different Content-Length fields"));
        }
        self.length = Some(length);
        Ok(())
    }

    /// Adds a transfer coding. Only a single `chunked` is allowed, because no other coding was requested.
    fn add_coding(&mut self, value: &[u8]) -> Result<(), MalformedReply> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(MalformedReply::framing("Transfer-Encoding must be only chunked"));
        }
        self.chunked = true;
        Ok(())
    }

    fn add_connection(&mut self, value: &[u8]) {
        for token in value.split(|byte| *byte == b',') {
            let token = token.trim_ascii();
            self.close |= token.eq_ignore_ascii_case(b"close");
            self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn message(
        &self,
        version: u8,
        status: u16,
        head: &[u8],
        bodiless: bool,
    ) -> Result<Message, MalformedReply> {
        if self.chunked && version == 0 {
            return Err(MalformedReply::framing("Transfer-Encoding in HTTP/1.0"));
        }
        // `Transfer-Encoding` takes precedence (RFC 9112, 6.3).
        let is_suspect = self.chunked && self.length.is_some();
        let bodied = self.chunked || self.length.is_some_and(|length| length > 0);
        match status {
            101 => return Err(MalformedReply::framing("status 101 without an upgrade request")),
            // An unexpected body would be read as the next head.
            100..=199 if bodied => return Err(MalformedReply::framing("an interim reply has a body")),
            100..=199 => return Ok(Message::Interim),
            200..=999 => {}
            _ => return Err(MalformedReply::framing("the status is not between 100 and 999")),
        }
        let framing = if bodiless { Framing::None } else { self.framing(status) };
        let reusable = match status {
            _ if bodiless => true,
            204 => !bodied,
            304 => !self.chunked,
            _ => framing != Framing::Eof,
        };
        let wanted = if version == 0 { self.keep_alive } else { true };
        Ok(Message::Final(Head {
            version: if version == 0 { Version::Http10 } else { Version::Http11 },
            status,
            framing,
            keep_alive: reusable && wanted && !self.close && !is_suspect,
            is_suspect,
            retry_after: self.retry_after.and_then(|value| RetryAfter::parse(value, self.date)),
            kept: self.kept(head),
            length: head.len() as u32,
        }))
    }

    fn kept(&self, head: &[u8]) -> FieldSpans {
        let span = |value: Option<&[u8]>| value.and_then(|value| Span::of(value, head));
        FieldSpans {
            content_type: span(self.content_type),
            content_encoding: span(self.content_encoding),
            etag: span(self.etag),
            last_modified: span(self.last_modified),
            location: span(self.location),
        }
    }

    fn framing(&self, status: u16) -> Framing {
        match (status, self.length) {
            (204 | 304, _) => Framing::None,
            _ if self.chunked => Framing::Chunked,
            (_, Some(length)) => Framing::Length(length),
            (_, None) => Framing::Eof,
        }
    }
}

/// Compares a field's name with `name`, which must be in lower case and of the same length.
fn is(field: &httparse::Header<'_>, name: &str) -> bool {
    field.name.eq_ignore_ascii_case(name)
}

/// Parses a number of up to 19 digits, which always fits into a `u64`.
fn length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 {
        return None;
    }
    value
        .iter()
        .try_fold(0_u64, |length, byte| byte.is_ascii_digit().then(|| length * 10 + u64::from(byte - b'0')))
}
