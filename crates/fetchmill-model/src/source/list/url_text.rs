//! Normalises a URL from a list according to the URL standard. International names become punycode, `.` and `..` are
//! resolved, and special characters are encoded. The scheme's default port and the fragment are removed. Different
//! spellings of a URL therefore become the same text.
//!
//! `s3://BUCKET/KEY` is also accepted. These rules do not apply to such a URL, because a key can consist of any
//! percent-encoded bytes.

use std::borrow::Cow;

use url::{Position, Url};

use crate::limits::URL_BYTES_MAX;
use crate::name;
use crate::source::percent;

/// Maximum length of a host that is accepted without further checks. A host name has up to 253 bytes, and each of its
/// labels has up to 63.
const HOST_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
/// Error for a bare domain or a path.
const NO_SCHEME: &str = "it has no scheme; for bare domains add --template 'https://{}'";

/// Returns the normalised URL in a text. Surrounding white space is ignored. The error explains why the text is not a
/// URL that can be fetched.
pub fn normalise(text: &str) -> Result<Cow<'_, str>, &'static str> {
    let text = text.trim_matches(|character: char| character.is_ascii_whitespace());
    if text.len() > URL_BYTES_MAX {
        return Err("it is longer than 64 KiB");
    }
    if is_normal(text.as_bytes()) {
        return Ok(Cow::Borrowed(text));
    }
    if let Some((scheme, rest)) = text.split_once("://")
        && scheme.eq_ignore_ascii_case("s3")
    {
        return normalise_key(rest).map(Cow::Owned);
    }
    normalise_slowly(text).map(Cow::Owned)
}

fn normalise_slowly(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    // The URL standard silently removes these characters.
    if text.contains(['\t', '\n', '\r']) {
        return Err("it contains a tab or a newline");
    }
    if text.starts_with(|character| character < ' ') || text.ends_with(|character| character < ' ') {
        return Err("it begins or ends with a control character");
    }
    let mut url = Url::parse(text).map_err(why)?;
    // The URL standard parses `example.com:8080` as a URL whose scheme is `example.com`.
    if url.scheme().contains('.') || url.scheme() == "localhost" {
        return Err(NO_SCHEME);
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err("its scheme is not http, https or s3");
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("it has no host");
    }
    if url[Position::AfterScheme..Position::BeforeHost].contains('@') {
        return Err("it contains a user name or password, which a list must not contain");
    }
    url.set_fragment(None);
    if url.as_str().len() > URL_BYTES_MAX {
        return Err("it is longer than 64 KiB");
    }
    Ok(url.into())
}

/// Normalises the `BUCKET/KEY` of an S3 URL. `?` and `#` in a key must be percent-encoded, because they would be
/// ambiguous otherwise.
fn normalise_key(text: &str) -> Result<String, &'static str> {
    let Some((bucket, key)) = text.split_once('/').filter(|(_, key)| !key.is_empty()) else {
        return Err("it has no key (s3://BUCKET/KEY)");
    };
    if bucket.contains('@') {
        return Err("it contains a user name or password, which a list must not contain");
    }
    let is_bucket = bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    if !is_bucket || bucket.len() > HOST_BYTES_MAX || bucket.bytes().all(|byte| byte == b'.') {
        return Err("its bucket name is not valid");
    }
    if key.contains(['?', '#']) {
        return Err("its key has a ? or # that is not percent-encoded");
    }
    if key.contains(|character: char| character.is_ascii_control()) {
        return Err("its key has a control character that is not percent-encoded");
    }
    let key = percent::decode(key.as_bytes())
        .ok_or("its key has a % that is not followed by two hexadecimal digits")?;
    let mut url = format!("s3://{bucket}/").into_bytes();
    name::encode(&key, &mut url);
    if url.len() > URL_BYTES_MAX {
        return Err("it is longer than 64 KiB");
    }
    String::from_utf8(url).map_err(|_| "not a URL")
}

fn why(error: url::ParseError) -> &'static str {
    use url::ParseError::{
        EmptyHost, IdnaError, InvalidDomainCharacter, InvalidIpv4Address, InvalidIpv6Address, InvalidPort,
        RelativeUrlWithoutBase,
    };
    match error {
        RelativeUrlWithoutBase => NO_SCHEME,
        EmptyHost => "it has no host",
        IdnaError | InvalidDomainCharacter => "its host name is not valid",
        InvalidIpv4Address | InvalidIpv6Address => "its IP address is not valid",
        InvalidPort => "its port is not valid",
        _ => "not a URL",
    }
}

/// Returns the origin of a normalised URL, which consists of the scheme, the host and any port that is not the scheme's
/// default. Returns `None` if the text is not a normalised URL.
pub fn origin_of(url: &[u8]) -> Option<&[u8]> {
    let start = memchr::memmem::find(url, b"://")? + 3;
    let end = memchr::memchr2(b'/', b'?', &url[start..])? + start;
    (end > start).then_some(&url[..end])
}

/// Returns whether a text is a URL at this normalised origin that [`normalise`] would not change. This is only a fast
/// path, so the result can be `false` even for such a URL.
pub fn is_plain_at(url: &str, origin: &str) -> bool {
    url.strip_prefix(origin).is_some_and(|path| path.starts_with('/') && is_normal_path(path.as_bytes()))
}

/// Returns whether [`normalise`] would not change a text. This is only a fast path, so the result can be `false` even
/// for such a text.
fn is_normal(url: &[u8]) -> bool {
    let (rest, own_port) = match url {
        [b'h', b't', b't', b'p', b':', b'/', b'/', rest @ ..] => (rest, 80),
        [b'h', b't', b't', b'p', b's', b':', b'/', b'/', rest @ ..] => (rest, 443),
        _ => return false,
    };
    let Some(end) = memchr::memchr(b'/', rest) else { return false };
    let (authority, path) = rest.split_at(end);
    is_normal_authority(authority, own_port) && is_normal_path(path)
}

fn is_normal_authority(authority: &[u8], own_port: u32) -> bool {
    match memchr::memchr(b':', authority) {
        None => is_normal_host(authority),
        Some(end) => is_normal_host(&authority[..end]) && is_normal_port(&authority[end + 1..], own_port),
    }
}

fn is_normal_port(digits: &[u8], own_port: u32) -> bool {
    if digits.len() > 5 || digits.first().is_none_or(|digit| *digit == b'0') {
        return false;
    }
    let number = digits.iter().try_fold(0_u32, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'))
    });
    number.is_some_and(|number| number <= 65_535 && number != own_port)
}

/// Returns whether a host consists of lower-case labels, without punycode and without a number as the last label. A
/// host that ends with a number is an IP address.
fn is_normal_host(host: &[u8]) -> bool {
    let is_label = |label: &[u8]| {
        !label.is_empty()
            && label.len() <= LABEL_BYTES_MAX
            && !label.starts_with(b"xn--")
            && label.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    let last = memchr::memrchr(b'.', host).map_or(0, |dot| dot + 1);
    host.len() <= HOST_BYTES_MAX
        && host.get(last).is_some_and(u8::is_ascii_lowercase)
        && host.split(|byte| *byte == b'.').all(is_label)
}

/// Returns whether a path and its query contain only characters that remain unchanged, and no segment that could mean
/// `.` or `..`.
fn is_normal_path(path: &[u8]) -> bool {
    path.iter().all(|byte| AS_IS[usize::from(*byte)])
        && memchr::memchr_iter(b'/', path).all(|slash| !matches!(path.get(slash + 1), Some(b'.' | b'%')))
}

const AS_IS: [bool; 256] = name::byte_set(b"-._~%!$&()*+,;=:@/?");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_url_becomes_what_the_standard_says() {
        for (text, url) in [
            ("http://a.test/b", "http://a.test/b"),
            ("  HTTP://A.Test\t", "http://a.test/"),
            ("https://a.test:443/x#y", "https://a.test/x"),
            ("http://a.test:443/", "http://a.test:443/"),
            ("http://b\u{fc}cher.example/\u{e4}?\u{f6}", "http://xn--bcher-kva.example/%C3%A4?%C3%B6"),
            ("http://a.test/b/../c/./d", "http://a.test/c/d"),
            ("http://a.test/%2e%2E/c", "http://a.test/c"),
            ("http://a.test/a b'\"?a b'\"", "http://a.test/a%20b'%22?a%20b%27%22"),
            ("http://a.test/%zz%41", "http://a.test/%zz%41"),
            ("http://a.test\\b", "http://a.test/b"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            ("http://[::1]:81/", "http://[::1]:81/"),
            ("http://a.test/?", "http://a.test/?"),
            ("http://a.test/\0x", "http://a.test/%00x"),
        ] {
            assert_eq!(normalise(text).as_deref(), Ok(url), "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_fetched_has_a_reason() {
        for (text, reason) in [
            ("", "empty"),
            (" \t ", "empty"),
            ("example.com", "scheme"),
            ("/path", "scheme"),
            ("ftp://a/b", "scheme"),
            ("data:,x", "scheme"),
            ("localhost:80", "scheme"),
            ("http://", "host"),
            ("http://u@a/", "user name or password"),
            ("http://u:p@a/", "user name or password"),
            ("http://:p@a/", "user name or password"),
            ("http://a\tb/", "tab"),
            ("http://a/\nb", "newline"),
            ("\0http://a/", "control"),
            ("http://a/\u{1f}", "control"),
            ("http://a b/", "host"),
            ("http://1.2.3.4.5/", "IP address"),
            ("http://[::1/", "IP address"),
            ("http://a:99999/", "port"),
            ("http://xn--a\u{fc}/", "host"),
        ] {
            let error = normalise(text).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
        assert!(normalise(&format!("http://a/{}", "b".repeat(URL_BYTES_MAX))).is_err());
        assert!(normalise(&format!("http://a/{}", "\u{e4}".repeat(URL_BYTES_MAX / 4))).is_err());
    }

    #[test]
    fn a_key_of_s3_is_any_bytes() {
        for (text, url) in [
            ("s3://abc/a/b-c.d", "s3://abc/a/b-c.d"),
            (" S3://Old_1/a b+c ", "s3://Old_1/a%20b%2Bc"),
            ("s3://abc//a//b/", "s3://abc//a//b/"),
            ("s3://abc/../a/%2e", "s3://abc/%2E%2E/a/%2E"),
            ("s3://abc/%3f%23%25%00%ff", "s3://abc/%3F%23%25%00%FF"),
            ("s3://abc/\u{e9}:@&=", "s3://abc/%C3%A9%3A%40%26%3D"),
        ] {
            assert_eq!(normalise(text).as_deref(), Ok(url), "{text:?}");
            assert_eq!(normalise(url).as_deref(), Ok(url));
            assert!(origin_of(url.as_bytes()).is_some_and(|origin| !origin.ends_with(b"/")));
        }
        for (text, reason) in [
            ("s3://abc", "no key"),
            ("s3://abc/", "no key"),
            ("s3:///k", "bucket"),
            ("s3://../k", "bucket"),
            ("s3://a:80/k", "bucket"),
            ("s3://u:p@a/k", "user name or password"),
            ("s3://a%2Fb/k", "bucket"),
            ("s3://abc/k?versionId=1", "percent-encoded"),
            ("s3://abc/k#f", "percent-encoded"),
            ("s3://abc/k\u{7f}", "control"),
            ("s3://abc/a\tb", "control"),
            ("s3://abc/100%", "digits"),
            ("s3://abc/%zz", "digits"),
        ] {
            assert!(normalise(text).unwrap_err().contains(reason), "{text:?}");
        }
        assert!(normalise(&format!("s3://abc/{}", "\u{e4}".repeat(URL_BYTES_MAX / 4))).is_err());
    }

    #[test]
    fn an_origin_is_where_a_url_begins() {
        for (url, origin) in [
            ("http://a/", Some("http://a")),
            ("https://a.test:81/x?y/z", Some("https://a.test:81")),
            ("http://[::1]/", Some("http://[::1]")),
            ("", None),
            ("http://", None),
            ("http:///x", None),
            ("line 17", None),
        ] {
            assert_eq!(origin_of(url.as_bytes()), origin.map(str::as_bytes), "{url}");
        }
    }

    #[test]
    fn plain_urls_take_the_fast_way() {
        for url in ["http://a.test/", "https://www.example.com:8443/a/b-c_d.html?x=1&y=%20"] {
            assert!(is_normal(url.as_bytes()), "{url}");
        }
    }

    fn any_url() -> impl Strategy<Value = String> {
        let scheme = prop::sample::select(vec!["http://", "https://", "http:", "HTTP://", "ftp://", ""]);
        let part = prop::sample::select(vec![
            "a", "b", ".", "..", "/", "/", "?", "%2e", "%2E", "%", "1", "0x1", ":80", ":443", ":8", ":",
            "xn--", "xn--a", "-", "--", "_", "@", "#", "\\", "|", "^", "'", "\u{e4}", " ", "[", "]", "~",
            "A", "com",
        ]);
        (scheme, prop::collection::vec(part, 0..12))
            .prop_map(|(scheme, parts)| scheme.to_owned() + &parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn the_fast_way_agrees_with_the_standard(text in any_url()) {
            if is_normal(text.as_bytes()) {
                prop_assert_eq!(normalise_slowly(&text), Ok(text));
            }
        }

        #[test]
        fn a_normalised_url_is_plain_and_stays_as_it_is(text in any_url()) {
            if let Ok(url) = normalise(&text) {
                prop_assert!(url.bytes().all(|byte| byte.is_ascii_graphic()), "{}", url);
                prop_assert!(origin_of(url.as_bytes()).is_some(), "{}", url);
                let again = normalise(&url);
                prop_assert_eq!(again.as_deref(), Ok(&*url));
            }
        }
    }
}
