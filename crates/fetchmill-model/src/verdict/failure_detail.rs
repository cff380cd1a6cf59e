//! The detail of a failure as text: one printable line of limited length, which is never empty and contains no secrets.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::name::{for_display, printable};
use crate::outcome::FailureKind;
use crate::target::source_metadata::{ListedKey, is_same_etag};

/// Maximum length of a detail in bytes. A longer detail is truncated.
pub const DETAIL_BYTES_MAX: usize = 1024;
/// Maximum length of an authentication scheme's name in bytes.
const SCHEME_BYTES_MAX: usize = 32;
/// Maximum number of authentication schemes in a detail.
const SCHEMES_MAX: usize = 4;

/// Facts about a complete reply that the detail mentions.
#[derive(Debug, Default, Clone, Copy)]
pub struct StatusFacts<'r> {
    /// Status of the reply.
    pub status: u16,
    /// The `WWW-Authenticate` field.
    pub challenge: Option<&'r [u8]>,
    /// The `Location` field.
    pub location: Option<&'r [u8]>,
    /// The delay that `Retry-After` requests, in seconds.
    pub retry_after: Option<u64>,
    /// Whether the request contained credentials. `None` if unknown.
    pub had_credentials: Option<bool>,
}

/// Returns the detail for the row of a failed target. The detail is `given` if `given` is not empty. Otherwise, it is
/// the meaning of the status or of the failure kind.
pub fn failure_detail(kind: FailureKind, status: u16, given: Option<&str>) -> String {
    match given.map(str::trim).filter(|given| !given.is_empty()) {
        Some(given) => printable(given.as_bytes(), DETAIL_BYTES_MAX),
        None if FailureKind::of_status(status) == Err(kind) => {
            status_detail(&StatusFacts { status, ..StatusFacts::default() })
        }
        None => kind.meaning().to_owned(),
    }
}

/// Returns the detail for a complete reply that is a failure, such as `401 Unauthorized; no credentials were given, see
/// --bearer`.
pub fn status_detail(facts: &StatusFacts<'_>) -> String {
    let mut text = status_text(facts.status).into_owned();
    // Writing to a string cannot fail.
    let _ = match (facts.status, facts.had_credentials) {
        (401 | 403, Some(false)) => write!(text, "; no credentials were given, see --bearer"),
        (401 | 403, Some(true)) => write!(text, "; credentials were refused"),
        _ => Ok(()),
    };
    let schemes = facts.challenge.map(schemes_of).unwrap_or_default();
    if !schemes.is_empty() {
        let _ = write!(text, "; the server requests {schemes}");
    }
    if let Some(location) = facts.location.filter(|_| (300..400).contains(&facts.status)) {
        let _ = write!(text, "; Location: {}", for_display(location));
    }
    if let Some(seconds) = facts.retry_after {
        let _ = write!(text, "; Retry-After: {seconds} s");
    }
    text
}

/// Returns a text that says how an object differs from its listing.
pub fn changed_detail(listed: &ListedKey<'_>, length: u64, etag: Option<&[u8]>) -> String {
    match (listed.size, etag) {
        (Some(size), Some(etag)) if size != length && is_same_etag(etag, listed.etag) => format!(
            "{length} bytes instead of {size} in the listing, with the same ETag: the store keeps the object \
             compressed and sends it decompressed; use --compressed to fetch the object compressed"
        ),
        (Some(size), _) if size != length => {
            format!(
                "{length} bytes instead of {size} in the listing: the object was replaced in the meantime"
            )
        }
        (_, Some(etag)) => format!(
            "ETag {} instead of {} in the listing: the object was replaced in the meantime",
            for_display(etag),
            for_display(listed.etag)
        ),
        _ => FailureKind::Changed.meaning().to_owned(),
    }
}

/// Returns the status with its standard name, such as `403 Forbidden`, or `status 499` if it has no standard name.
pub fn status_text(status: u16) -> Cow<'static, str> {
    match status_name(status) {
        Some(name) => format!("{status} {name}").into(),
        None => format!("status {status}").into(),
    }
}

/// Returns the names of the schemes in a challenge. Parameters are omitted, because they can contain anything.
fn schemes_of(challenge: &[u8]) -> String {
    let text = String::from_utf8_lossy(challenge);
    let mut names: Vec<&str> = Vec::new();
    for part in text.split(',').take(SCHEMES_MAX * 8) {
        let mut words = part.split_ascii_whitespace();
        let Some(name) = words.next().filter(|name| is_scheme(name)) else { continue };
        // `name=value` is a parameter. A single word, or a word that precedes a parameter, is a scheme.
        if names.len() < SCHEMES_MAX && !names.contains(&name) && words.next().is_none_or(|next| next != "=")
        {
            names.push(name);
        }
    }
    names.join(", ")
}

fn is_scheme(name: &str) -> bool {
    name.len() <= SCHEME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns the registered name of a status (RFC 9110, 15, and the IANA registry).
fn status_name(status: u16) -> Option<&'static str> {
    Some(match status {
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => return None,
    })
}

impl FailureKind {
    /// Returns the meaning of the kind. Used for failures that have no further detail.
    pub fn meaning(self) -> &'static str {
        use FailureKind as Kind;
        match self {
            Kind::Refused => "the connection was refused",
            Kind::Unreachable => "the address cannot be reached",
            Kind::Dns => "the host name could not be looked up",
            Kind::DnsTimeout => "the name server did not answer in time",
            Kind::DnsServfail => "the name server failed (SERVFAIL)",
            Kind::DnsNotFound => "the host name does not exist",
            Kind::DnsEmpty => "the host name has no address",
            Kind::PrivateAddress => "its address is not public (see --allow-private)",
            Kind::Proxy => "the proxy cannot be reached, or could not reach the server",
            Kind::ProxyRefused => "the proxy refused to connect to the server",
            Kind::Credentials => "no credentials for the store (see --profile)",
            Kind::TlsTimeout => "the TLS handshake was not completed in time",
            Kind::Tls => "the TLS handshake failed",
            Kind::TlsExpired => "its certificate has expired or is not valid yet",
            Kind::TlsWrongName => "its certificate is for another name",
            Kind::TlsSelfSigned => "its certificate is self-signed",
            Kind::TlsUnknownCa => "its certificate is not signed by a trusted authority",
            Kind::TlsCertificate => "its certificate is not valid",
            Kind::Reset => "the connection broke before the reply began",
            Kind::ConnectTimeout => "the connection was not established in time",
            Kind::HeadTimeout => "the reply did not arrive in time",
            Kind::IdleTimeout => "the body stalled for too long",
            Kind::TotalTimeout => "the whole attempt took too long",
            Kind::Truncated => "the body is shorter than announced",
            Kind::Checksum => "the checksum of the body is wrong",
            Kind::ServerError => "the server reported an error",
            Kind::Throttled => "the server is throttling requests",
            Kind::NotHttp => "the reply is not HTTP/1.x",
            Kind::Framing => "the end of the reply is wrong or ambiguous",
            Kind::HeadTooLarge => "the head of the reply is too large",
            Kind::BodyTooLarge => "the body is larger than --max-size",
            Kind::UnverifiedLength => "the body has no length (see --allow-eof-bodies)",
            Kind::Changed => "the object was replaced in the meantime",
            Kind::RangeIgnored => "the server ignored the Range header",
            Kind::RangeUnsatisfied => "the requested bytes are beyond the object's end",
            Kind::BadRange => "the reply is not the requested part",
            Kind::BadEncoding => "the body's encoding is wrong or was not requested",
            Kind::UnexpectedType => "the body's type does not match --accept",
            Kind::Redirect => "the redirect is not followed (see --redirects)",
            Kind::RedirectLimit => "too many redirects (see --redirects)",
            Kind::RedirectLoop => "the redirect leads back to an earlier URL of this target",
            Kind::RedirectRefused => "the redirect is not allowed",
            Kind::Status => "the server refused the request",
            Kind::Url => "it is not an http or https URL",
            Kind::Name => "the name cannot be a file name (see --format)",
            Kind::Function => "the function raised an exception",
            Kind::Worker => "the process that handled the target ended",
            Kind::NameTaken => "the name is taken by another object or a file (see --format)",
            Kind::Listing => "the folder could not be listed",
            Kind::Transform => "the transform failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_detail_of_one_line() {
        for kind in FailureKind::ALL {
            for given in [None, Some(""), Some(" \t")] {
                let detail = failure_detail(*kind, 0, given);
                assert!(!detail.is_empty() && detail.len() < 80 && detail.is_ascii(), "{kind:?}: {detail}");
            }
        }
    }

    #[test]
    fn a_detail_is_printable_bounded_and_without_secrets() {
        let hostile = "a\nb\u{202e}c http://h/?token=s3cret ".repeat(500);
        let detail = failure_detail(FailureKind::Status, 400, Some(&hostile));

        assert!(detail.len() <= DETAIL_BYTES_MAX + 16, "{}", detail.len());
        assert!(!detail.contains(['\n', '\u{202e}']) && !detail.contains("s3cret"), "{detail}");
    }

    #[test]
    fn a_status_says_its_name_and_its_facts() {
        let bearer = Some(&b"Bearer realm=\"a, b\", error=\"x\", Basic realm=secret\x1b"[..]);
        let at = |status| StatusFacts { status, ..StatusFacts::default() };
        for (facts, text) in [
            (at(403), "403 Forbidden"),
            (at(499), "status 499"),
            (
                StatusFacts { had_credentials: Some(false), challenge: bearer, ..at(401) },
                "401 Unauthorized; no credentials were given, see --bearer; the server requests Bearer, Basic",
            ),
            (
                StatusFacts { had_credentials: Some(true), ..at(403) },
                "403 Forbidden; credentials were refused",
            ),
            (StatusFacts { retry_after: Some(7), ..at(503) }, "503 Service Unavailable; Retry-After: 7 s"),
            (StatusFacts { location: Some(b"/a\n"), ..at(302) }, "302 Found; Location: /a\\u{a}"),
        ] {
            assert_eq!(status_detail(&facts), text);
        }
        assert_eq!(failure_detail(FailureKind::ServerError, 502, None), "502 Bad Gateway");
        assert_eq!(failure_detail(FailureKind::Truncated, 200, None), FailureKind::Truncated.meaning());
    }
}
