//! The key of a URL in the index of a WARC file, called SURT. It consists of the host's labels from last to first,
//! followed by the port, path and query, all in canonical form. As a result, different spellings of a URL have the same
//! key.
//!
//! The rules are those of the Python package `surt`, which `cdxj-indexer` and similar tools use. A test compares the
//! two. One rule differs: if a host is not ASCII after unescaping, it stays escaped here, while `surt` converts it to
//! Punycode.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use regex::bytes::Regex;

use crate::pack::number::write_decimal;
use fetchmill_model::name;

/// Patterns of session ids, which say nothing about the page. Each pattern removes only its last match.
static QUERY_SESSIONS: LazyLock<Vec<Session>> = LazyLock::new(|| {
    compiled(&[
        ("jsessionid=", "^(.*)(?:jsessionid=[0-9a-z]{32})(?:&(.*))?$"),
        ("phpsessid=", "^(.*)(?:phpsessid=[0-9a-z]{32})(?:&(.*))?$"),
        ("sid=", "^(.*)(?:sid=[0-9a-z]{32})(?:&(.*))?$"),
        ("aspsessionid", "^(.*)(?:aspsessionid[a-z]{8}=[a-z]{24})(?:&(.*))?$"),
        ("cfid=", "^(.*)(?:cfid=[^&]+&cftoken=[^&]+)(?:&(.*))?$"),
    ])
});
static PATH_SESSIONS: LazyLock<Vec<Session>> = LazyLock::new(|| {
    compiled(&[
        (".aspx", r"^(.*/)(?:\((?:[a-z]\([0-9a-z]{24}\))+\)/)([^?]+\.aspx.*)$"),
        (".aspx", r"^(.*/)(?:\([0-9a-z]{24}\)/)([^?]+\.aspx.*)$"),
    ])
});

/// A pattern of a session id, and a word that every match contains. Searching for the word first is faster.
struct Session {
    word: Finder<'static>,
    pattern: Regex,
}

fn compiled(sessions: &[(&'static str, &str)]) -> Vec<Session> {
    let session = |(word, pattern): &(&'static str, &str)| Session {
        word: Finder::new(*word),
        pattern: Regex::new(pattern).expect("a valid pattern"),
    };
    sessions.iter().map(session).collect()
}

/// Writes the keys of URLs. Many consecutive URLs have the same host.
#[derive(Debug, Default)]
pub(super) struct SurtWriter {
    /// Host of the previous URL, and its labels in the order in which the key needs them.
    host: Vec<u8>,
    labels: Vec<u8>,
}

impl SurtWriter {
    /// Appends the key of a URL, which must be printable ASCII. A URL without a host is its own key.
    pub(super) fn write(&mut self, url: &[u8], out: &mut Vec<u8>) {
        let Some(parts) = UrlParts::of(url) else { return out.extend_from_slice(url) };
        if parts.host != self.host {
            self.labels = labels_of(parts.host);
            self.host = parts.host.to_vec();
        }
        out.extend_from_slice(&self.labels);
        parts.write_rest(out);
    }
}

/// Returns the host's labels from last to first.
fn labels_of(host: &[u8]) -> Vec<u8> {
    let host = canonical_host(host);
    host.split(|byte| *byte == b'.').rev().collect::<Vec<_>>().join(&b',')
}

#[derive(Debug)]
struct UrlParts<'u> {
    host: &'u [u8],
    /// Port of the URL. `None` for the default port of the scheme.
    port: Option<u16>,
    path: &'u [u8],
    query: &'u [u8],
}

impl<'u> UrlParts<'u> {
    fn of(url: &'u [u8]) -> Option<Self> {
        let url = without_doubled_scheme(url);
        let (scheme, rest) = split_at_first(url, b':')?;
        let rest = rest.strip_prefix(b"//")?;
        let rest = split_at_first(rest, b'#').map_or(rest, |(before, _)| before);
        let (rest, query) = split_at_first(rest, b'?').unwrap_or((rest, b""));
        let path_start = memchr::memchr(b'/', rest).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(path_start);
        let server = memchr::memrchr(b'@', authority).map_or(authority, |at| &authority[at + 1..]);
        let (host, port) = match server.strip_prefix(b"[") {
            Some(bracketed) => {
                let (host, behind) = split_at_first(bracketed, b']')?;
                (host, behind.strip_prefix(b":").unwrap_or_default())
            }
            None => split_at_first(server, b':').unwrap_or((server, b"")),
        };
        let port = std::str::from_utf8(port).ok()?;
        let port = if port.is_empty() { None } else { Some(port.parse().ok()?) };
        let of_scheme = if scheme.eq_ignore_ascii_case(b"http") { 80 } else { 443 };
        let port = port.filter(|port| *port != 0 && *port != of_scheme);
        (!host.is_empty()).then_some(UrlParts { host, port, path, query })
    }

    /// Appends everything after the host.
    fn write_rest(&self, out: &mut Vec<u8>) {
        if let Some(port) = self.port {
            out.push(b':');
            write_decimal(u64::from(port), out);
        }
        out.push(b')');
        if is_canonical_in_lowercase(self.path) {
            let path = self.path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(self.path);
            out.extend(path.iter().map(u8::to_ascii_lowercase));
        } else {
            out.extend_from_slice(&canonical_path(self.path));
        }
        if self.query.is_empty() {
            return;
        }
        let query = canonical_query(self.query);
        if !query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&query);
        }
    }
}

/// Removes repeated schemes, keeping the last one.
fn without_doubled_scheme(mut url: &[u8]) -> &[u8] {
    let behind_scheme = |url: &'_ [u8]| -> Option<usize> {
        [&b"http://"[..], b"https://"]
            .iter()
            .find(|scheme| url.starts_with(scheme))
            .map(|scheme| scheme.len())
    };
    while let Some(behind) = behind_scheme(url).map(|length| &url[length..]) {
        if behind_scheme(behind).is_none() {
            break;
        }
        url = behind;
    }
    url
}

fn split_at_first(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(byte, text)?;
    Some((&text[..at], &text[at + 1..]))
}

fn canonical_host(host: &[u8]) -> Vec<u8> {
    let host = with_single_dots(&unescaped(host));
    if let Some(address) = address_of(&host) {
        return address.to_string().into_bytes();
    }
    let host = escaped_lowercase(&host);
    without_www(&host).to_vec()
}

/// Collapses repeated dots, and removes dots at both ends.
fn with_single_dots(host: &[u8]) -> Vec<u8> {
    let mut single = Vec::with_capacity(host.len());
    let mut rest = host;
    while let Some((byte, behind)) = rest.split_first() {
        single.push(*byte);
        rest = behind.strip_prefix(b".").filter(|_| *byte == b'.').unwrap_or(behind);
    }
    let start = single.iter().position(|byte| *byte != b'.').unwrap_or(single.len());
    let end = single.iter().rposition(|byte| *byte != b'.').map_or(start, |at| at + 1);
    single[start..end].to_vec()
}

/// Removes `www.`, `www2.` and similar prefixes.
fn without_www(host: &[u8]) -> &[u8] {
    let Some(behind) = host.strip_prefix(b"www") else { return host };
    let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
    behind[digits..].strip_prefix(b".").unwrap_or(host)
}

/// Returns the address that a host stands for: a single number, or up to four decimal or octal numbers, as `inet_aton`
/// parses them.
fn address_of(host: &[u8]) -> Option<Ipv4Addr> {
    if !host.is_empty() && host.iter().all(u8::is_ascii_digit) {
        // Numbers of any length are taken modulo 2^32.
        let digit = |value: u32, byte: &u8| value.wrapping_mul(10).wrapping_add(u32::from(byte - b'0'));
        return Some(Ipv4Addr::from(host.iter().fold(0, digit)));
    }
    // If the first number is octal, all numbers are.
    let most = if host.starts_with(b"0") { b'7' } else { b'9' };
    let is_number = |byte: &u8| (b'0'..=most).contains(byte) || *byte == b'.';
    if !host.iter().all(is_number) {
        return None;
    }
    let numbers = host.split(|byte| *byte == b'.').map(number).collect::<Option<Vec<u32>>>()?;
    let (last, leading) = numbers.split_last()?;
    // The last number fills the remaining bytes of the four.
    let room = 4_usize.checked_sub(leading.len()).filter(|room| *room > 0)?;
    let is_fit = leading.iter().all(|number| *number < 256) && u64::from(*last) < 1 << (8 * room);
    let start = leading.iter().fold(0, |value: u32, number| value << 8 | number);
    is_fit.then(|| Ipv4Addr::from((u64::from(start) << (8 * room) | u64::from(*last)) as u32))
}

fn number(digits: &[u8]) -> Option<u32> {
    let radix = if digits.len() > 1 && digits.starts_with(b"0") { 8 } else { 10 };
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

/// Returns whether a path can differ from [`canonical_path`] only in case and in a slash at its end. Such a path
/// contains no escapes, no segments to remove, and no session ids, which are in parentheses.
fn is_canonical_in_lowercase(path: &[u8]) -> bool {
    let mut last = b' ';
    let is_kept = |byte: &u8| {
        let before = std::mem::replace(&mut last, *byte);
        let is_plain = matches!(byte, b'!'..=b'~') && !matches!(byte, b'#' | b'%' | b'(');
        is_plain && !(before == b'/' && matches!(byte, b'/' | b'.'))
    };
    path.starts_with(b"/") && path.iter().all(is_kept)
}

fn canonical_path(path: &[u8]) -> Vec<u8> {
    let mut path = without_sessions(&PATH_SESSIONS, escaped_lowercase(&normalized(&unescaped(path))));
    if path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    path
}

/// Removes empty segments, `.` and `..`.
fn normalized(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        match segment {
            b"." => {}
            // A `..` that would leave the root is kept.
            b".." if kept.pop().is_some() => {}
            _ => kept.push(segment),
        }
    }
    let last = kept.pop().unwrap_or_default();
    let mut normal = vec![b'/'];
    for segment in kept.into_iter().filter(|segment| !segment.is_empty()) {
        normal.extend_from_slice(segment);
        normal.push(b'/');
    }
    normal.extend_from_slice(last);
    normal
}

/// Sorts the arguments of a query.
fn canonical_query(query: &[u8]) -> Vec<u8> {
    let query = without_sessions(&QUERY_SESSIONS, escaped_lowercase(&unescaped(query)));
    let mut arguments: Vec<&[u8]> = query.split(|byte| *byte == b'&').collect();
    // Sort by name first: `a` comes before `a=`, and `a=b` before `a-=b`.
    arguments.sort_by_cached_key(|argument| match split_at_first(argument, b'=') {
        Some((name, value)) => (name, Some(value)),
        None => (*argument, None),
    });
    arguments.join(&b'&')
}

fn without_sessions(sessions: &[Session], mut text: Vec<u8>) -> Vec<u8> {
    for Session { word, pattern } in sessions {
        if word.find(&text).is_none() {
            continue;
        }
        let Some(found) = pattern.captures(&text) else { continue };
        let part = |number| found.get(number).map_or(&b""[..], |part| part.as_bytes());
        let rest = [part(1), part(2)].concat();
        text = rest;
    }
    text
}

/// Unescapes a string, including escapes that appear only when others are removed. A single pass is enough, because
/// only the end of the text read so far can become an escape.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    for byte in text {
        plain.push(*byte);
        while let [.., b'%', high, low] = plain[..] {
            let (Some(high), Some(low)) = (digit(high), digit(low)) else { break };
            plain.truncate(plain.len() - 3);
            plain.push(high << 4 | low);
        }
    }
    plain
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn escaped_lowercase(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'#' | b'%' => escaped.extend_from_slice(&name::escaped(*byte)),
            b'!'..=b'~' => escaped.push(*byte),
            _ => escaped.extend_from_slice(&name::escaped(*byte)),
        }
    }
    escaped.make_ascii_lowercase();
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(url: &str) -> String {
        let mut key = Vec::new();
        SurtWriter::default().write(url.as_bytes(), &mut key);
        String::from_utf8(key).unwrap()
    }

    #[test]
    fn spellings_of_a_url_have_one_key() {
        for url in [
            "http://example.com/a/b?x=1&y=2",
            "https://www.example.com/a/b/?y=2&x=1#part",
            "HTTP://user:word@WWW3.Example.COM.:80/A//./c/../B?X=1&Y=2",
            "http://http://example..com/%61/%2562?x=1&y=2",
            "http://example.com/a/b?jsessionid=0123456789abcdef0123456789ABCDEF&x=1&y=2",
        ] {
            assert_eq!(key(url), "com,example)/a/b?x=1&y=2", "{url}");
        }
    }

    #[test]
    fn a_key_does_not_depend_on_the_url_before_it() {
        let mut keys = SurtWriter::default();
        for url in [
            "http://a.com/",
            "http://b.com/",
            "http://b.com:1/x",
            "http://http://b.com/x",
            "urn:a",
            "http://a.com/",
        ] {
            let mut out = Vec::new();
            keys.write(url.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), key(url), "{url}");
        }
    }

    proptest! {
        #[test]
        fn a_path_without_changes_is_found(
            pieces in prop::collection::vec("[/.#%(A-Ca-c) ~]|%41|/\\.\\.|\\.aspx", 0..9),
        ) {
            let path = format!("/{}", pieces.concat());
            if is_canonical_in_lowercase(path.as_bytes()) {
                let mut expected = path.to_ascii_lowercase();
                if expected.len() > 1 && expected.ends_with('/') {
                    expected.pop();
                }
                prop_assert_eq!(canonical_path(path.as_bytes()), expected.into_bytes());
            }
        }
    }

    /// Checks the keys against those that the Python package `surt` returns.
    #[test]
    fn keys_are_those_of_the_field() {
        for (url, expected) in [
            ("http://example.com", "com,example)/"),
            ("http://example.com/?", "com,example)/"),
            ("http://example.com:8080/..", "com,example:8080)/.."),
            ("http://example.com:443/", "com,example:443)/"),
            ("https://example.com:443/", "com,example)/"),
            ("http://127.0.0.1:8000/a b", "1,0,0,127:8000)/a%20b"),
            ("http://0177.1/", "1,0,0,127)/"),
            ("http://4294967297/", "1,0,0,0)/"),
            ("http://1.2.3.999/", "999,3,2,1)/"),
            ("http://[::1]:81/", "::1:81)/"),
            ("http://wwwx.com/%23%25%zz", "com,wwwx)/%23%25%25zz"),
            ("http://x.com/?b&a=&a&a-=1&a=%26c", "com,x)/?a&a=&a=&a-=1&b&c"),
            ("http://x.com/(a(0123456789abcdef01234567))/p.aspx", "com,x)/p.aspx"),
            ("http://x.com/(0123456789abcdef01234567)/p.aspx/", "com,x)/p.aspx"),
            ("http://x.com/?cfid=1&cftoken=2&z", "com,x)/?z"),
            // The `&` before a last parameter that was removed stays.
            ("http://x.com/?x=1&sid=0123456789abcdef0123456789ABCDEF", "com,x)/?&x=1"),
            ("urn:x:y", "urn:x:y"),
        ] {
            assert_eq!(key(url), expected, "{url}");
        }
    }

    #[test]
    fn escapes_within_escapes_take_no_more_time() {
        let deep = format!("http://x.com/%{}61", "25".repeat(1_000_000));
        assert_eq!(key(&deep), "com,x)/a");
    }
}
