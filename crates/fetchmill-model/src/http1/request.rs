//! Requests. Most are `GET` requests that differ only in their path.
//!
//! The constant parts of an origin's requests are built and checked once. Writing a request then takes only three
//! copies. One of the copies percent-encodes the name, so nothing in a name can become part of the request's syntax.

use crate::error::{Error, Result};
use crate::http1::header_field::check_field;
use crate::name;

/// User-defined fields that are never secret. They are sent to every origin and are stored.
pub const OPEN_FIELDS: &[&str] =
    &["accept", "accept-language", "content-type", "user-agent", "if-none-match", "if-modified-since"];
/// Name of the field that lists the accepted encodings of a reply's body.
pub const ACCEPT_ENCODING: &str = "Accept-Encoding";
/// Fields that this crate writes itself.
const OWN_FIELDS: &[&str] = &["host", ACCEPT_ENCODING];
/// Fields that are sent unless the user replaces them.
const DEFAULT_FIELDS: &[(&str, &str)] =
    &[("User-Agent", concat!("fetchmill/", env!("CARGO_PKG_VERSION"))), (ACCEPT_ENCODING, "identity")];
const METHOD: &[u8] = b"GET ";

/// The constant parts of all requests to one origin.
#[derive(Clone)]
pub struct RequestTemplate {
    /// `GET`, the origin if a proxy is used, and the prefix.
    before: Vec<u8>,
    origin_len: usize,
    /// The suffix, and everything after the path.
    after: Vec<u8>,
    suffix_len: usize,
    /// Position in `after` at which the fields after `Host` begin.
    fields_start: usize,
}

impl RequestTemplate {
    /// Creates a template. `host` is the value of the `Host` field. `prefix` and `suffix` surround a name and must be
    /// encoded. The prefix must start with `/`. `fields` are sent in addition to `Host`, `User-Agent` and
    /// `Accept-Encoding`, and can replace the last two.
    ///
    /// Errors show the name of a field but never its value, which may be a secret.
    pub fn new(host: &str, prefix: &str, suffix: &str, fields: &[(&str, &str)]) -> Result<Self> {
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(Error::Usage(format!(
                "{} is not a host; give a host name or an IP address",
                name::for_display(host.as_bytes())
            )));
        }
        if !prefix.starts_with('/') || !prefix.bytes().chain(suffix.bytes()).all(is_target) {
            return Err(Error::Usage(format!(
                "{} contains characters that cannot be sent in a request; percent-encode them",
                name::for_display(format!("{prefix}{suffix}").as_bytes())
            )));
        }
        let mut after = format!("{suffix} HTTP/1.1\r\nHost: {host}\r\n");
        let fields_start = after.len();
        for (name, value) in request_fields(fields)? {
            after.extend([name, ": ", value, "\r\n"]);
        }
        after.push_str("\r\n");
        Ok(RequestTemplate {
            before: format!("GET {prefix}").into_bytes(),
            origin_len: 0,
            after: after.into_bytes(),
            suffix_len: suffix.len(),
            fields_start,
        })
    }

    /// Creates a template for a proxy that forwards requests to `http://host`. Requests are in absolute form and
    /// contain `Proxy-Authorization`, which is sent nowhere else.
    pub fn for_proxy(
        host: &str,
        prefix: &str,
        suffix: &str,
        fields: &[(&str, &str)],
        authorization: Option<&str>,
    ) -> Result<Self> {
        let with_authorization: Vec<_> =
            fields.iter().copied().chain(authorization.map(|value| ("Proxy-Authorization", value))).collect();
        let template = RequestTemplate::new(host, prefix, suffix, &with_authorization)?;
        let origin = format!("http://{host}");
        Ok(RequestTemplate {
            before: format!("GET {origin}{prefix}").into_bytes(),
            origin_len: origin.len(),
            ..template
        })
    }

    /// Appends the request for a name.
    pub fn write(&self, name: &[u8], out: &mut Vec<u8>) {
        out.reserve(self.before.len() + name.len() + self.after.len());
        out.extend_from_slice(&self.before);
        name::encode(name, out);
        out.extend_from_slice(&self.after);
    }

    /// Appends the encoded path and query of the request for a name.
    pub fn write_target(&self, name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.before[METHOD.len() + self.origin_len..]);
        name::encode(name, out);
        out.extend_from_slice(&self.after[..self.suffix_len]);
    }

    /// Returns the template without secret fields, for use in stored requests.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        // The first line is the remainder of the request line. Values contain no line endings.
        let kept = self.after.split_inclusive(|byte| *byte == b'\n').enumerate();
        let after = kept.filter(|(position, line)| *position == 0 || !is_secret(line));
        RequestTemplate {
            before: self.before.clone(),
            origin_len: self.origin_len,
            after: after.flat_map(|(_, line)| line).copied().collect(),
            suffix_len: self.suffix_len,
            fields_start: self.fields_start,
        }
    }

    /// Appends the request for an encoded path with its query. Bytes that are invalid in a path are still encoded, so
    /// they cannot end the request line.
    pub fn write_path(&self, path: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.before[..METHOD.len() + self.origin_len]);
        write_target_of(path.as_bytes(), out);
        out.extend_from_slice(&self.after[self.suffix_len..]);
    }

    /// Appends the request for a URL at any origin, with the same fields.
    pub fn write_url(&self, url: &HttpUrl<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(METHOD);
        write_target_of(url.path, out);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(url.host);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.after[self.fields_start..]);
    }
}

/// Name of the field that contains cookies.
const COOKIE: &str = "Cookie";

/// A URL to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpUrl<'u> {
    /// The whole URL.
    pub whole: &'u [u8],
    /// Host and port.
    host: &'u [u8],
    /// Path and query. It is empty or begins with a slash or a question mark.
    path: &'u [u8],
}

impl<'u> HttpUrl<'u> {
    /// Parses a URL. Returns `None` if it is not an HTTP URL or contains a user name. A fragment is never sent.
    pub fn parse(whole: &'u [u8]) -> Option<Self> {
        let behind = whole.strip_prefix(b"https://").or_else(|| whole.strip_prefix(b"http://"))?;
        let behind = behind.split(|byte| *byte == b'#').next()?;
        let end = behind.iter().position(|byte| b"/?".contains(byte)).unwrap_or(behind.len());
        let (host, path) = behind.split_at(end);
        let is_asked = !host.is_empty() && host.iter().all(|byte| is_host(*byte));
        is_asked.then_some(HttpUrl { whole, host, path })
    }
}

/// Appends the path and query, starting with a slash.
fn write_target_of(path: &[u8], out: &mut Vec<u8>) {
    if !path.starts_with(b"/") {
        out.push(b'/');
    }
    escape_target(path, b"", out);
}

/// Parts of a call that its origin's template does not contain.
#[derive(Debug, Clone, Copy)]
pub struct RequestParts<'a> {
    /// Method: a token such as `GET`.
    pub method: &'a str,
    /// Path and query, encoded.
    pub path: &'a str,
    /// Fields of the call, checked by [`check_field`]. They replace template fields with the same name.
    pub fields: &'a [(String, String)],
    /// Body. `None` if the method has none.
    pub body: Option<&'a [u8]>,
    /// All cookies of the call. If `None`, cookies from a cookie file for the origin are used.
    pub cookies: Option<&'a str>,
}

impl RequestTemplate {
    /// Appends a request of any method.
    pub fn write_call(&self, call: &RequestParts<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        self.write_path(call.path, out);
        out.splice(start..start + METHOD.len() - 1, call.method.bytes());
        if !call.fields.is_empty() {
            let replaced = |line: &[u8]| call.fields.iter().any(|(name, _)| is_field(line, name));
            let kept: Vec<u8> = out[start..]
                .split_inclusive(|byte| *byte == b'\n')
                .filter(|line| !replaced(line))
                .flatten()
                .copied()
                .collect();
            out.truncate(start);
            out.extend_from_slice(&kept);
        }
        // The empty line must remain last.
        out.truncate(out.len() - 2);
        for (name, value) in call.fields {
            for part in [name, ": ", value, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        if let Some(body) = call.body {
            out.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(call.body.unwrap_or_default());
    }
}

/// Adds cookies to the request that begins at `start`. If the request already has a `Cookie` field, the cookies are
/// appended to that field.
pub fn add_cookies(out: &mut Vec<u8>, start: usize, cookies: &str) {
    let mut at = start;
    for line in out[start..].split_inclusive(|byte| *byte == b'\n') {
        if line == b"\r\n" {
            let field = format!("{COOKIE}: {cookies}\r\n");
            out.splice(at..at, field.bytes());
            return;
        }
        at += line.len();
        if is_field(line, COOKIE) {
            let end = at - b"\r\n".len();
            out.splice(end..end, format!("; {cookies}").bytes());
            return;
        }
    }
}

impl std::fmt::Debug for RequestTemplate {
    /// Omits the fields, because they may be secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RequestTemplate")
            .field("before", &String::from_utf8_lossy(&self.before))
            .finish_non_exhaustive()
    }
}

/// Returns whether a line is a field that may be a secret.
fn is_secret(line: &[u8]) -> bool {
    let is_end = line == b"\r\n";
    !is_end && !OPEN_FIELDS.iter().chain(OWN_FIELDS).any(|open| is_field(line, open))
}

/// Returns whether a line is a field with this name.
fn is_field(line: &[u8], name: &str) -> bool {
    let end = line.iter().position(|byte| *byte == b':');
    end.is_some_and(|end| line[..end].eq_ignore_ascii_case(name.as_bytes()))
}

/// Returns the fields of a request in addition to `Host`: the defaults that `fields` do not replace, followed by the
/// checked `fields`.
pub fn request_fields<'a>(fields: &[(&'a str, &'a str)]) -> Result<Vec<(&'a str, &'a str)>> {
    let is_given = |name: &str| fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let mut all: Vec<_> = DEFAULT_FIELDS.iter().filter(|(name, _)| !is_given(name)).copied().collect();
    for (name, value) in fields {
        check_field(name, value)?;
        all.push((name, value));
    }
    Ok(all)
}

/// Appends an encoded path with its query. Bytes that are invalid in a path are still encoded, and so are the bytes in
/// `also`.
pub fn escape_target(path: &[u8], also: &[u8], out: &mut Vec<u8>) {
    for &byte in path {
        if is_target(byte) && !also.contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&name::escaped(byte));
        }
    }
}

/// Returns whether a byte is allowed in `Host`, which is a name or an address with a port.
fn is_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+,;=".contains(&byte)
}

/// Returns whether a byte is allowed in a path with its query.
fn is_target(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'#'
}
