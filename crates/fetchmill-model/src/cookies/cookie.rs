//! A cookie, and the rules that decide which requests carry it.

use std::net::IpAddr;

use crate::limits;
use crate::origin::OriginKey;
use crate::text::dates::parse_http_date;

/// The parts of a request's destination that matter for cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPlace<'u> {
    host: &'u str,
    is_tls: bool,
    /// Path without the query.
    path: &'u str,
}

impl<'u> RequestPlace<'u> {
    /// Creates the destination for a path at an origin. The path can include a query.
    pub fn at(origin: &'u OriginKey, path: &'u str) -> Self {
        let path = &path[..memchr::memchr2(b'?', b'#', path.as_bytes()).unwrap_or(path.len())];
        RequestPlace {
            host: origin.host(),
            is_tls: origin.is_tls(),
            path: if path.is_empty() { "/" } else { path },
        }
    }

    /// Returns the path of the request.
    pub(super) fn path(&self) -> &'u str {
        self.path
    }

    /// Returns the folder of the path, which applies to cookies without a path (RFC 6265, 5.1.4).
    fn folder(&self) -> &'u str {
        match self.path.rfind('/') {
            Some(end) if end > 0 => &self.path[..end],
            _ => "/",
        }
    }
}

/// A cookie. Its value is a secret. It is sent only where the cookie's domain, path and `Secure` attribute allow.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie {
    pub(super) name: Box<str>,
    pub(super) value: Box<str>,
    /// Domain in lower case, without a leading dot.
    pub(super) domain: Box<str>,
    /// Whether subdomains also receive the cookie.
    pub(super) has_subdomains: bool,
    pub(super) path: Box<str>,
    pub(super) is_secure: bool,
}

impl std::fmt::Debug for Cookie {
    /// Omits the value.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Cookie")
            .field("name", &self.name)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

/// Change that a reply makes to a cookie.
pub(super) enum CookieChange {
    Set(Cookie),
    /// Removes the cookie, because its new version has already expired.
    Remove(Cookie),
}

impl Cookie {
    /// Returns whether the cookie is sent to this host, regardless of the path.
    pub fn is_for_host(&self, place: &RequestPlace<'_>) -> bool {
        let is_host = place.host.eq_ignore_ascii_case(&self.domain)
            || (self.has_subdomains && is_below(place.host, &self.domain));
        is_host && (place.is_tls || !self.is_secure)
    }

    /// Returns whether the cookie is sent for this path (RFC 6265, 5.1.4).
    pub(super) fn is_for_path(&self, path: &str) -> bool {
        path.strip_prefix(&*self.path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.path.ends_with('/'))
    }

    /// Returns whether one cookie replaces the other (RFC 6265, 5.3).
    pub(super) fn is_same(&self, other: &Cookie) -> bool {
        self.name == other.name && self.domain == other.domain && self.path == other.path
    }

    /// Returns the approximate memory usage in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }
}

/// Parses a `Set-Cookie` field from a reply to a request for `place`. Returns `None` if the field is not a cookie, or
/// if `place` is not allowed to set it. `now` is in seconds since 1970.
pub(super) fn read_set_cookie(field: &[u8], place: &RequestPlace<'_>, now: u64) -> Option<CookieChange> {
    let text = std::str::from_utf8(field).ok()?;
    let mut parts = text.split(';');
    let (name, value) = parts.next()?.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    if !is_name(name) || !is_value(value) || name.len() + value.len() > limits::COOKIE_BYTES_MAX {
        return None;
    }
    let attributes = Attributes::read(parts);
    let (domain, has_subdomains) = domain_from(attributes.domain, place.host)?;
    if attributes.is_secure && !place.is_tls {
        return None;
    }
    let is_of_host = attributes.is_secure && attributes.domain.is_none() && attributes.path == Some("/");
    if (name.starts_with("__Secure-") && !attributes.is_secure)
        || (name.starts_with("__Host-") && !is_of_host)
    {
        return None;
    }
    let path = attributes.path.filter(|path| path.starts_with('/')).unwrap_or_else(|| place.folder());
    if path.len() > limits::COOKIE_PATH_BYTES_MAX {
        return None;
    }
    let cookie = Cookie {
        name: name.into(),
        value: value.into(),
        domain: domain.into(),
        has_subdomains,
        path: path.into(),
        is_secure: attributes.is_secure,
    };
    Some(if attributes.has_expired(now) { CookieChange::Remove(cookie) } else { CookieChange::Set(cookie) })
}

/// Attributes of a `Set-Cookie` field. If an attribute is repeated, the last value counts.
#[derive(Default)]
struct Attributes<'f> {
    domain: Option<&'f str>,
    path: Option<&'f str>,
    expires: Option<u64>,
    /// Whether `Max-Age` keeps the cookie alive. `None` if there is no `Max-Age`.
    lives: Option<bool>,
    is_secure: bool,
}

impl<'f> Attributes<'f> {
    fn read(parts: impl Iterator<Item = &'f str>) -> Self {
        let mut found = Attributes::default();
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim(), value.trim());
            if name.eq_ignore_ascii_case("domain") {
                let domain = value.strip_prefix('.').unwrap_or(value);
                found.domain = Some(domain).filter(|domain| !domain.is_empty());
            } else if name.eq_ignore_ascii_case("path") {
                found.path = Some(value);
            } else if name.eq_ignore_ascii_case("secure") {
                found.is_secure = true;
            } else if name.eq_ignore_ascii_case("max-age") {
                found.lives = age_lives(value).or(found.lives);
            } else if name.eq_ignore_ascii_case("expires") {
                // Many servers write the date with dashes.
                let date = parse_http_date(value.as_bytes());
                found.expires =
                    date.or_else(|| parse_http_date(value.replace('-', " ").as_bytes())).or(found.expires);
            }
        }
        found
    }

    fn has_expired(&self, now: u64) -> bool {
        match self.lives {
            Some(lives) => !lives,
            None => self.expires.is_some_and(|expires| expires <= now),
        }
    }
}

/// Returns whether `Max-Age` is greater than 0, or `None` if it is not a number.
fn age_lives(value: &str) -> Option<bool> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(!value.starts_with('-') && digits.bytes().any(|byte| byte != b'0'))
}

/// Returns the domain of a cookie that a host sets for `domain`, and whether subdomains also receive the cookie.
/// Returns `None` if the domain belongs to another host. If unrelated sites can share the domain, or if the host is an
/// IP address, the cookie is limited to the host itself.
fn domain_from(domain: Option<&str>, host: &str) -> Option<(String, bool)> {
    let host = host.to_ascii_lowercase();
    let Some(domain) = domain.map(str::to_ascii_lowercase) else { return Some((host, false)) };
    if domain != host && !is_below(&host, &domain) {
        return None;
    }
    if is_shared_suffix(&domain) || host.parse::<IpAddr>().is_ok() {
        return Some((host, false));
    }
    Some((domain, true))
}

/// Returns whether a host is below a domain. An IP address is never below a domain.
fn is_below(host: &str, domain: &str) -> bool {
    let Some(start) = host.len().checked_sub(domain.len() + 1) else { return false };
    let is_end = host.is_char_boundary(start + 1)
        && host[start + 1..].eq_ignore_ascii_case(domain)
        && host.as_bytes()[start] == b'.';
    is_end && host.parse::<IpAddr>().is_err()
}

/// Returns whether unrelated sites can have names below a domain. Such a domain consists of one label, or of two labels
/// as in `co.uk`.
///
/// This function does not use a list of public suffixes. It therefore misses some shared domains, such as `github.io`.
/// Such a domain can receive a cookie from a redirect chain that leads to it, but never a cookie from the user.
pub(super) fn is_shared_suffix(domain: &str) -> bool {
    let mut labels = domain.trim_end_matches('.').rsplit('.');
    let (Some(top), Some(second)) = (labels.next(), labels.next()) else { return true };
    labels.next().is_none() && top.len() == 2 && (second.len() <= 3 || SECOND_LEVELS.contains(&second))
}

/// Second-level country labels with more than three letters.
const SECOND_LEVELS: &[&str] = &["asso", "firm", "gouv", "govt", "info", "name", "priv", "school"];

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"=;,".contains(&byte))
}

/// Returns whether the value can be sent in header fields of both HTTP/1.1 and HTTP/2.
pub(super) fn is_value(value: &str) -> bool {
    value.bytes().all(|byte| (byte.is_ascii_graphic() || byte == b' ') && byte != b';')
}
