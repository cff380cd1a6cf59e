//! Cookies set by the replies to a target's first request and to its redirects.

use super::cookie::{Cookie, CookieChange, RequestPlace, read_set_cookie};
use crate::limits;

/// Cookies of a redirect chain: at most [`limits::CHAIN_COOKIES_MAX`] cookies with a total size of
/// [`limits::CHAIN_COOKIE_BYTES_MAX`].
#[derive(Debug, Default, Clone)]
pub struct ChainCookies {
    set: Vec<Cookie>,
    /// Cookies from the cookie file that a reply has removed.
    removed: Vec<Cookie>,
}

impl ChainCookies {
    /// Returns whether no reply has set or removed a cookie.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }

    /// Removes all cookies.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            *self = ChainCookies::default();
        }
    }

    /// Reads the `Set-Cookie` fields of a reply to a request to `place`. `now` is in seconds since 1970. Cookies that
    /// exceed the limits are ignored.
    pub fn take<'f>(&mut self, fields: impl Iterator<Item = &'f [u8]>, place: &RequestPlace<'_>, now: u64) {
        let fields = fields.take(limits::SET_COOKIES_MAX);
        for change in fields.filter_map(|field| read_set_cookie(field, place, now)) {
            let (CookieChange::Set(cookie) | CookieChange::Remove(cookie)) = &change;
            self.forget(cookie);
            if self.has_room(cookie) {
                match change {
                    CookieChange::Set(cookie) => self.set.push(cookie),
                    CookieChange::Remove(cookie) => self.removed.push(cookie),
                }
            }
        }
    }

    fn has_room(&self, cookie: &Cookie) -> bool {
        let held = || self.set.iter().chain(&self.removed);
        let bytes: usize = held().map(Cookie::bytes).sum();
        held().count() < limits::CHAIN_COOKIES_MAX && bytes + cookie.bytes() <= limits::CHAIN_COOKIE_BYTES_MAX
    }

    fn forget(&mut self, cookie: &Cookie) {
        self.set.retain(|other| !other.is_same(cookie));
        self.removed.retain(|other| !other.is_same(cookie));
    }

    /// Returns the value of a request's `Cookie` field, including the cookies in `of_file` that no reply has replaced,
    /// or `None` if there are no cookies.
    pub fn field(&self, place: &RequestPlace<'_>, of_file: &[Cookie]) -> Option<String> {
        let is_replaced =
            |cookie: &&Cookie| self.set.iter().chain(&self.removed).any(|own| own.is_same(cookie));
        let kept = of_file.iter().filter(|cookie| !is_replaced(cookie));
        field_of(kept.chain(&self.set), place)
    }
}

/// Returns the value of the `Cookie` field, which has at most [`limits::COOKIE_FIELD_BYTES_MAX`] bytes. Cookies with
/// longer paths come first (RFC 6265, 5.4).
pub(super) fn field_of<'c>(
    cookies: impl Iterator<Item = &'c Cookie>,
    place: &RequestPlace<'_>,
) -> Option<String> {
    let mut found: Vec<&Cookie> =
        cookies.filter(|cookie| cookie.is_for_host(place) && cookie.is_for_path(place.path())).collect();
    found.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
    let mut field = String::new();
    for cookie in found {
        if field.len() + cookie.name.len() + cookie.value.len() + 3 > limits::COOKIE_FIELD_BYTES_MAX {
            break;
        }
        if !field.is_empty() {
            field.push_str("; ");
        }
        field.extend([&*cookie.name, "=", &*cookie.value]);
    }
    Some(field).filter(|field| !field.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::OriginKey;

    const NOW: u64 = 1_800_000_000;

    /// Returns the `Cookie` field of a request to `to` after a reply from `from` with these `Set-Cookie` fields.
    fn after(from: &str, fields: &[&str], to: &str) -> String {
        let mut chain = ChainCookies::default();
        take(&mut chain, from, fields);
        field(&chain, to)
    }

    fn take(chain: &mut ChainCookies, from: &str, fields: &[&str]) {
        let (key, path) = OriginKey::of_url(from).unwrap();
        chain.take(fields.iter().map(|field| field.as_bytes()), &RequestPlace::at(&key, path), NOW);
    }

    fn field(chain: &ChainCookies, to: &str) -> String {
        let (key, path) = OriginKey::of_url(to).unwrap();
        chain.field(&RequestPlace::at(&key, path), &[]).unwrap_or_default()
    }

    #[test]
    fn a_cookie_goes_where_its_domain_path_and_scheme_allow() {
        for (from, set, to, sent) in [
            ("http://a.test/x", "s=1; Path=/", "http://a.test/y", "s=1"),
            ("http://a.test/x", "s=1; Path=/", "https://a.test:8443/y?q", "s=1"),
            ("http://a.test/x", "s=1; Path=/", "http://b.a.test/", ""),
            ("http://a.test/x", "s=1; Path=/", "http://b.test/", ""),
            ("http://w.a.test/", "s=1; Domain=.A.test", "http://b.a.test/", "s=1"),
            ("http://w.a.test/", "s=1; Domain=a.test", "http://a.test/", "s=1"),
            ("http://w.a.test/", "s=1; Domain=a.test", "http://ba.test/", ""),
            ("http://w.a.test/", "s=1; Domain=b.test", "http://w.a.test/", ""),
            ("http://a.test/", "s=1; Domain=w.a.test", "http://w.a.test/", ""),
            ("http://a.test/", "s=1; Domain=test", "http://b.test/", ""),
            ("http://a.co.uk/", "s=1; Domain=co.uk", "http://b.co.uk/", ""),
            ("http://co.uk/", "s=1; Domain=co.uk", "http://b.co.uk/", ""),
            ("http://co.uk/", "s=1; Domain=co.uk", "http://co.uk/", "s=1"),
            ("http://127.0.0.1/", "s=1; Domain=0.0.1", "http://127.0.0.1/", ""),
            ("http://127.0.0.1/", "s=1; Domain=127.0.0.1", "http://127.0.0.1:81/", "s=1"),
            ("http://[::1]/", "s=1", "http://[::1]/", "s=1"),
            ("http://a.test/x/y", "s=1", "http://a.test/x/z", "s=1"),
            ("http://a.test/x/y", "s=1", "http://a.test/xz", ""),
            ("http://a.test/x/y", "s=1; Path=/x/", "http://a.test/x", ""),
            ("http://a.test/x/y", "s=1; Path=/z", "http://a.test/z/1", "s=1"),
            ("https://a.test/", "s=1; Secure", "http://a.test/", ""),
            ("https://a.test/", "s=1; secure", "https://a.test/", "s=1"),
            ("http://a.test/", "s=1; Secure", "https://a.test/", ""),
            ("https://a.test/", "__Host-s=1; Secure; Path=/", "https://a.test/", "__Host-s=1"),
            ("https://a.test/", "__Host-s=1; Secure; Path=/; Domain=a.test", "https://a.test/", ""),
            ("https://a.test/", "__Secure-s=1", "https://a.test/", ""),
            ("http://a.test/", "s=1; Max-Age=0", "http://a.test/", ""),
            ("http://a.test/", "s=1; Expires=Thu, 01-Jan-1970 00:00:01 GMT", "http://a.test/", ""),
            (
                "http://a.test/",
                "s=1; Max-Age=9; Expires=Thu, 01 Jan 1970 00:00:01 GMT",
                "http://a.test/",
                "s=1",
            ),
            ("http://a.test/", "s = a b ; HttpOnly; SameSite=Lax", "http://a.test/", "s=a b"),
            ("http://a.test/", "s=\"q\"", "http://a.test/", "s=\"q\""),
            ("http://a.test/", "nothing", "http://a.test/", ""),
            ("http://a.test/", "=1", "http://a.test/", ""),
            ("http://a.test/", "s=\x01", "http://a.test/", ""),
            ("http://a.test/", "s=\u{fc}", "http://a.test/", ""),
        ] {
            assert_eq!(after(from, &[set], to), sent, "{set} from {from} to {to}");
        }
    }

    #[test]
    fn the_last_of_the_same_name_counts_and_longer_paths_come_first() {
        let mut chain = ChainCookies::default();
        take(&mut chain, "http://a.test/x/y", &["s=1; Path=/", "t=2", "s=3; Path=/"]);
        assert_eq!(field(&chain, "http://a.test/x/"), "t=2; s=3");
        take(&mut chain, "http://a.test/x/y", &["s=; Path=/; Max-Age=-1"]);
        assert_eq!(field(&chain, "http://a.test/x/"), "t=2");
        assert!(!format!("{chain:?}").contains('2'));
        chain.clear();
        assert!(chain.is_empty());
    }

    #[test]
    fn count_and_bytes_are_bounded() {
        let long = format!("s={}", "x".repeat(limits::COOKIE_BYTES_MAX));
        assert_eq!(after("http://a.test/", &[&long], "http://a.test/"), "");
        let mut chain = ChainCookies::default();
        for number in 0..10 {
            let many: Vec<_> = (0..99).map(|each| format!("s{number}-{each}={}", "x".repeat(500))).collect();
            take(&mut chain, "http://a.test/", &many.iter().map(String::as_str).collect::<Vec<_>>());
        }
        let sent = field(&chain, "http://a.test/");
        assert!((1..=limits::CHAIN_COOKIE_BYTES_MAX).contains(&sent.len()), "{}", sent.len());
        let mut chain = ChainCookies::default();
        for number in 0..200 {
            take(&mut chain, "http://a.test/", &[&format!("s{number}=x")]);
        }
        assert_eq!(chain.set.len(), limits::CHAIN_COOKIES_MAX);
        let path = format!("s=1; Path=/{}", "x".repeat(limits::COOKIE_PATH_BYTES_MAX));
        assert_eq!(after("http://a.test/", &[&path], "http://a.test/"), "");
    }
}
