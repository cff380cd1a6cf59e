//! Owns what is sent: `GET` requests that differ in their path only.
//!
//! All that is constant for an origin is put together and checked once. A request is then three copies, one of them
//! through the encoding of names, so nothing in a name can become part of the request's syntax.

use super::chunked::is_token;
use crate::error::{Error, Result};
use crate::name;

/// Fields that say how a message ends, who is asked, or that ask for replies that [`super::ReplyReader`] refuses.
const REFUSED_FIELDS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that tell who asks: never stored.
const SECRET_FIELDS: &[&str] = &["authorization", "cookie", "proxy-authorization", "x-amz-security-token"];
const METHOD: &[u8] = b"GET ";

/// The constant parts of all requests to one origin.
#[derive(Clone)]
pub struct RequestTemplate {
    /// `GET` and the prefix.
    before: Vec<u8>,
    /// The suffix, then everything behind the path.
    after: Vec<u8>,
    suffix_len: usize,
}

impl RequestTemplate {
    /// For the value `host` of the field `Host`. `prefix` and `suffix` are put around a name and already encoded; a
    /// prefix starts with `/`. `fields` come on top of `Host`, `User-Agent` and `Accept-Encoding`, of which the
    /// last two can be replaced.
    ///
    /// Errors tell the name of a field, never its value: it may be a secret.
    pub fn new(host: &str, prefix: &str, suffix: &str, fields: &[(&str, &str)]) -> Result<Self> {
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(Error::Usage(format!(
                "{} is not a host; give a name or an address",
                name::for_display(host.as_bytes())
            )));
        }
        if !prefix.starts_with('/') || !prefix.bytes().chain(suffix.bytes()).all(is_target) {
            return Err(Error::Usage(format!(
                "{} cannot be part of a request; percent-encode it",
                name::for_display(format!("{prefix}{suffix}").as_bytes())
            )));
        }
        let mut after = format!("{suffix} HTTP/1.1\r\nHost: {host}\r\n");
        for (name, default) in [
            ("User-Agent", concat!("fetchmill/", env!("CARGO_PKG_VERSION"))),
            ("Accept-Encoding", "identity"),
        ] {
            if !fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                after.extend([name, ": ", default, "\r\n"]);
            }
        }
        for (name, value) in fields {
            check_field(name, value)?;
            after.extend([name, ": ", value, "\r\n"]);
        }
        after.push_str("\r\n");
        Ok(RequestTemplate {
            before: format!("GET {prefix}").into_bytes(),
            after: after.into_bytes(),
            suffix_len: suffix.len(),
        })
    }

    /// Appends the request for a name.
    pub fn write(&self, name: &[u8], out: &mut Vec<u8>) {
        out.reserve(self.before.len() + name.len() + self.after.len());
        out.extend_from_slice(&self.before);
        name::encode(name, out);
        out.extend_from_slice(&self.after);
    }

    /// Appends what the request for a name asks for: path and query, encoded.
    pub fn write_target(&self, name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.before[METHOD.len()..]);
        name::encode(name, out);
        out.extend_from_slice(&self.after[..self.suffix_len]);
    }

    /// The same requests without the fields that are secrets: as they are stored.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        // The first line is the end of the request line; a value has no line end.
        let kept = self.after.split_inclusive(|byte| *byte == b'\n').enumerate();
        let after = kept.filter(|(position, line)| *position == 0 || !is_secret(line));
        RequestTemplate {
            before: self.before.clone(),
            after: after.flat_map(|(_, line)| line).copied().collect(),
            suffix_len: self.suffix_len,
        }
    }

    /// Appends the request for a path with its query, already encoded. What could not be part of one is encoded
    /// all the same, so that it cannot end the request's line.
    pub fn write_path(&self, path: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(METHOD);
        if !path.starts_with('/') {
            out.push(b'/');
        }
        for byte in path.bytes() {
            if is_target(byte) {
                out.push(byte);
            } else {
                out.extend_from_slice(&name::escaped(byte));
            }
        }
        out.extend_from_slice(&self.after[self.suffix_len..]);
    }
}

impl std::fmt::Debug for RequestTemplate {
    /// Without the fields: they may hold secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RequestTemplate")
            .field("before", &String::from_utf8_lossy(&self.before))
            .finish_non_exhaustive()
    }
}

/// Whether a line is a field that is a secret.
fn is_secret(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    SECRET_FIELDS.iter().any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()))
}

fn check_field(name: &str, value: &str) -> Result<()> {
    let usage = |problem: &str| {
        let name = name::for_display(name.as_bytes());
        Err(Error::Usage(format!("the header field {name} {problem}")))
    };
    if name.is_empty() || !name.bytes().all(is_token) {
        return usage("has a malformed name");
    }
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return usage("has control characters in its value");
    }
    if REFUSED_FIELDS.iter().any(|refused| refused.eq_ignore_ascii_case(name)) {
        return usage("cannot be set");
    }
    Ok(())
}

/// What may stand in `Host`: a name or an address with its port.
fn is_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+,;=".contains(&byte)
}

/// What may stand in a path with its query.
fn is_target(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'#'
}
