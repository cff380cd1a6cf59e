//! Redirects: the rules for following them, and their destinations.

use std::borrow::Cow;
use std::net::SocketAddr;

use url::Url;

use fetchmill_model::cookies::{ChainCookies, RequestPlace};
use fetchmill_model::http1::FieldLine;
use fetchmill_model::name::{escaped as escaped_byte, for_display};
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::verdict::fields_in;
use fetchmill_net::{AddressPolicy, OriginConnections, is_public};

/// Rules for following the redirects of one kind of request. No redirect may lead from TLS to plain HTTP, or from a
/// public address to a private one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RedirectPolicy {
    /// Maximum number of consecutive redirects.
    pub(crate) hops_max: u32,
    /// Whether redirects may lead to another origin.
    pub(crate) may_leave_origin: bool,
}

/// Current URL of a request, and the redirects that led to it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Location {
    /// URL of the request. Empty if it is derived from something else, such as the target's name.
    pub(crate) url: String,
    /// Addresses that are still allowed after the redirects so far.
    pub(crate) reach: AddressPolicy,
    /// Hashes of the previous URLs together with their cookies. A redirect back to one of them is a loop.
    visited: Vec<u64>,
    /// Cookies set by redirects.
    cookies: ChainCookies,
}

/// Parts of a reply's head that determine the next URL and its cookies.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RedirectHead<'h> {
    /// Value of the `Location` field.
    pub(crate) location: Option<&'h [u8]>,
    /// All bytes of the head.
    pub(crate) head: &'h [u8],
    /// Arrival time of the head, in milliseconds since 1970.
    pub(crate) now: Millis,
}

/// Failure for a redirect that is not followed, with a text for the user.
pub(crate) type RedirectRefusal = (FailureKind, String);

impl Location {
    /// Creates the location of a request to `url`.
    pub(crate) fn at(url: String) -> Self {
        Location { url, ..Location::default() }
    }

    /// Clears the location and keeps its allocated memory.
    pub(crate) fn clear(&mut self) {
        self.url.clear();
        self.visited.clear();
        self.cookies.clear();
        self.reach = AddressPolicy::Anywhere;
    }

    /// Creates the location of another request. The same limits on redirects and addresses apply to it.
    pub(crate) fn beside(&self, url: String) -> Self {
        Location { url, reach: self.reach, ..Location::default() }
    }

    /// Returns whether redirects led to this location.
    pub(crate) fn is_redirected(&self) -> bool {
        !self.visited.is_empty()
    }

    /// Follows the redirect in a reply from `address`, which is `None` if a proxy was used. Returns whether the
    /// redirect leads to another origin.
    pub(crate) fn follow(
        &mut self,
        address: Option<SocketAddr>,
        redirect: &RedirectHead<'_>,
        policy: RedirectPolicy,
    ) -> Result<bool, RedirectRefusal> {
        let refused = |why: &str| (FailureKind::RedirectRefused, why.to_owned());
        let (from, path) =
            OriginKey::of_url(&self.url).ok_or_else(|| refused("the redirecting target is not a URL"))?;
        let location = redirect.location.ok_or_else(|| refused("the redirect has no Location header"))?;
        let shown = || for_display(location);
        let refused = |why: &str| (FailureKind::RedirectRefused, format!("redirect to {}: {why}", shown()));
        let next = redirected(&self.url, &escaped(location)).map_err(refused)?;
        let leads_away = OriginKey::of_url(&next).is_none_or(|(to, _)| to != from);
        if leads_away && !policy.may_leave_origin {
            return Err(refused("it leads to another origin"));
        }
        if self.visited.is_empty() {
            self.visited.push(self.visit(&self.url));
        }
        let set = fields_in(redirect.head, b"set-cookie:");
        self.cookies.take(set, &RequestPlace::at(&from, path), redirect.now / 1000);
        let visit = self.visit(&next);
        if self.visited.contains(&visit) {
            let why = format!("redirect to {}: this URL was already requested", shown());
            return Err((FailureKind::RedirectLoop, why));
        }
        if self.visited.len() > policy.hops_max as usize {
            let why =
                format!("redirect to {}: too many redirects ({} already followed)", shown(), policy.hops_max);
            return Err((FailureKind::RedirectLimit, why));
        }
        self.visited.push(visit);
        self.reach = reach_behind(self.reach, from.host(), address);
        self.url = next;
        Ok(leads_away)
    }

    /// Returns the cookies for the next request if replies have changed them. The string can be empty.
    pub(crate) fn cookies_at(&self, origin: &OriginConnections) -> Option<String> {
        let path = || origin.key.path_of(&self.url).unwrap_or("/");
        (!self.cookies.is_empty()).then(|| origin.cookies_after(&self.cookies, path()))
    }

    /// Returns a hash of the URL and its cookies. The cookies are included because the server's answer can depend on
    /// them.
    fn visit(&self, url: &str) -> u64 {
        let place = OriginKey::of_url(url).filter(|_| !self.cookies.is_empty());
        let cookies = place.and_then(|(key, path)| self.cookies.field(&RequestPlace::at(&key, path), &[]));
        cookies.map_or_else(|| hash(url), |cookies| hash(&format!("{url}\n{cookies}")))
    }
}

/// Returns the addresses that a redirect can lead to. Once a chain has reached a public address, later redirects must
/// not lead to a private one. If a proxy was used, the server's address is unknown. It counts as public unless the
/// URL's host is itself a private address.
fn reach_behind(reach: AddressPolicy, host: &str, address: Option<SocketAddr>) -> AddressPolicy {
    let came_from_public = match address {
        Some(address) => is_public(address.ip()),
        None => AddressPolicy::PublicOnly.allows_host(host),
    };
    if came_from_public { AddressPolicy::PublicOnly } else { reach }
}

/// Returns the destination of a redirect. It must be an HTTP or HTTPS URL without a user name, and must not lead from
/// TLS to plain HTTP.
fn redirected(url: &str, location: &str) -> Result<String, &'static str> {
    let from = Url::parse(url).map_err(|_| "the redirecting target is not a URL")?;
    let mut to = from.join(location).map_err(|_| "it is not a URL")?;
    if !matches!(to.scheme(), "http" | "https") || !to.has_host() {
        return Err("it is not an http or https URL");
    }
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err("it leads from https to http");
    }
    if !to.username().is_empty() || to.password().is_some() {
        return Err("it contains a user name or password");
    }
    to.set_fragment(None);
    Ok(to.into())
}

/// Returns the value of a `Location` field as a string. Control bytes are escaped, because the URL parser would drop
/// them. If the value is not UTF-8, non-ASCII bytes are escaped as well.
fn escaped(location: &[u8]) -> Cow<'_, str> {
    let is_utf8 = std::str::from_utf8(location);
    if let Ok(text) = is_utf8
        && !location.iter().any(u8::is_ascii_control)
    {
        return Cow::Borrowed(text);
    }
    let line = FieldLine { name: b"location", value: location };
    let mut text = Vec::with_capacity(location.len() + 8);
    for &byte in line.unfolded().as_ref() {
        if byte.is_ascii_control() || (is_utf8.is_err() && !byte.is_ascii()) {
            text.extend_from_slice(&escaped_byte(byte));
        } else {
            text.push(byte);
        }
    }
    Cow::Owned(String::from_utf8_lossy(&text).into_owned())
}

fn hash(url: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(url.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_resolved_against_where_it_came_from() {
        for (location, url) in [
            ("/b?c#d", "https://a.test/b?c"),
            ("../b", "https://a.test/b"),
            ("//B.test/", "https://b.test/"),
            ("https://b.test:443/x y", "https://b.test/x%20y"),
        ] {
            assert_eq!(redirected("https://a.test/x/y", location).unwrap(), url, "{location}");
        }
    }

    #[test]
    fn odd_bytes_of_a_location_are_escaped() {
        for (location, url) in [
            (&b"/caf\xe9?\xe9"[..], "https://a.test/caf%E9?%E9"),
            ("/caf\u{e9}".as_bytes(), "https://a.test/caf%C3%A9"),
            (b"/a\x01b\tc", "https://a.test/a%01b%09c"),
            (b"/a\r\n  b", "https://a.test/a%20b"),
            (b"//caf\xe9.test/", ""),
        ] {
            let found = redirected("https://a.test/x/y", &escaped(location)).unwrap_or_default();
            assert_eq!(found, url, "{}", location.escape_ascii());
        }
    }

    #[test]
    fn a_redirect_never_leads_out_of_the_public_internet() {
        use AddressPolicy::{Anywhere, PublicOnly};
        let address = |text: &str| Some(SocketAddr::new(text.parse().unwrap(), 80));
        for (reach, host, address, behind) in [
            (Anywhere, "a.test", address("8.8.8.8"), PublicOnly),
            (Anywhere, "a.test", address("2606:4700::1"), PublicOnly),
            (Anywhere, "a.test", address("10.0.0.1"), Anywhere),
            (PublicOnly, "a.test", address("10.0.0.1"), PublicOnly),
            (Anywhere, "a.test", None, PublicOnly),
            (Anywhere, "8.8.8.8", None, PublicOnly),
            (Anywhere, "10.0.0.1", None, Anywhere),
            (Anywhere, "::1", None, Anywhere),
        ] {
            assert_eq!(reach_behind(reach, host, address), behind, "{host} {address:?}");
        }
    }

    #[test]
    fn a_redirect_never_takes_tls_away() {
        for location in ["http://a.test/", "ftp://a.test/", "https://u:p@a.test/", "data:,x", "https://"] {
            assert!(redirected("https://a.test/", location).is_err(), "{location}");
        }
        assert_eq!(redirected("http://a.test/", "https://a.test/").unwrap(), "https://a.test/");
    }

    #[test]
    fn a_policy_says_how_far_redirects_lead() {
        let policy = RedirectPolicy { hops_max: 2, may_leave_origin: false };
        let mut at = Location::at("http://a.test/1".into());
        let mut follow = |to: &str| at.follow(None, &head_to(to), policy).map_err(|(kind, _)| kind);
        assert_eq!(follow("http://b.test/"), Err(FailureKind::RedirectRefused));
        assert_eq!(follow("/2"), Ok(false));
        assert_eq!(follow("/1"), Err(FailureKind::RedirectLoop));
        assert_eq!(follow("3"), Ok(false));
        assert_eq!(follow("/4"), Err(FailureKind::RedirectLimit));
        let anywhere = RedirectPolicy { may_leave_origin: true, ..policy };
        let mut at = Location::at("http://a.test/1".into());
        assert_eq!(at.follow(None, &head_to("https://a.test/"), anywhere), Ok(true));
        assert!(at.follow(None, &RedirectHead::default(), anywhere).is_err());
    }

    #[test]
    fn a_redirect_to_the_same_url_is_a_loop_unless_a_cookie_has_changed() {
        let policy = RedirectPolicy { hops_max: 9, may_leave_origin: true };
        let mut at = Location::at("http://a.test/1".into());
        let mut follow = |to: &str, head: &str| {
            let redirect = RedirectHead { head: head.as_bytes(), ..head_to(to) };
            at.follow(None, &redirect, policy).map_err(|(kind, _)| kind)
        };
        assert_eq!(follow("/1", "HTTP/1.1 302 Found\r\nSet-Cookie: s=1\r\n\r\n"), Ok(false));
        assert_eq!(follow("/1", "set-cookie: s=1\r\n"), Err(FailureKind::RedirectLoop));
        assert_eq!(follow("/1", "set-cookie: t=1; path=/2\r\n"), Err(FailureKind::RedirectLoop));
        assert_eq!(follow("/1", "set-cookie: s=2\r\n"), Ok(false));
        assert_eq!(follow("/2", ""), Ok(false));
        assert_eq!(follow("/1", ""), Err(FailureKind::RedirectLoop));
        at.clear();
        assert!(at.cookies.is_empty());
    }

    fn head_to(location: &str) -> RedirectHead<'_> {
        RedirectHead { location: Some(location.as_bytes()), ..RedirectHead::default() }
    }
}
