//! Cookie files in the Netscape format, which has seven tab-separated columns. curl, wget, yt-dlp and browser
//! extensions write such files.

use super::cookie::{Cookie, RequestPlace, is_name, is_value};

/// Prefix that some programs put before the domain of a cookie that is hidden from scripts.
const HTTP_ONLY: &str = "#HttpOnly_";
/// Number of columns in a line. The last column is missing if its value is empty.
const COLUMNS: std::ops::RangeInclusive<usize> = 6..=7;

/// The cookies of a file that have not expired.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CookieFile(Vec<Cookie>);

impl CookieFile {
    /// Parses the text of a file. `now` is in seconds since 1970. The error describes the problem but never shows a
    /// cookie.
    pub fn parse(text: &str, now: u64) -> Result<Self, String> {
        let mut cookies = Vec::new();
        let mut expired = 0;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.strip_prefix(HTTP_ONLY).unwrap_or(line).trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            match read_line(line, now).map_err(|why| format!("line {number} {why}"))? {
                Some(cookie) => cookies.push(cookie),
                None => expired += 1,
            }
        }
        match (cookies.is_empty(), expired) {
            (false, _) => Ok(CookieFile(cookies)),
            (true, 0) => Err("the file has no cookies".into()),
            (true, _) => Err(format!("all cookies have expired ({expired})")),
        }
    }

    /// Returns the cookies that can be sent to an origin, regardless of the path.
    pub fn of_origin(&self, place: &RequestPlace<'_>) -> Vec<Cookie> {
        self.0.iter().filter(|cookie| cookie.is_for_host(place)).cloned().collect()
    }
}

/// Parses a line. Returns `None` if the cookie has expired.
fn read_line(line: &str, now: u64) -> Result<Option<Cookie>, &'static str> {
    let columns: Vec<&str> = line.split('\t').collect();
    if !COLUMNS.contains(&columns.len()) {
        return Err("does not have seven tab-separated columns");
    }
    let is_true = |text: &str| match text {
        "TRUE" | "true" => Ok(true),
        "FALSE" | "false" => Ok(false),
        _ => Err("must have TRUE or FALSE in its second and fourth columns"),
    };
    let (subdomains, path) = (is_true(columns[1])?, columns[2]);
    let is_secure = is_true(columns[3])?;
    // Some programs write fractions of a second.
    let expires = columns[4].split('.').next().and_then(|seconds| seconds.parse::<i64>().ok());
    let expires = expires.ok_or("must have a time in its fifth column")?;
    let (name, value) = (columns[5], columns.get(6).copied().unwrap_or_default());
    let domain = columns[0].strip_prefix('.').unwrap_or(columns[0]).to_ascii_lowercase();
    let is_domain = !domain.is_empty() && domain.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if !is_domain || !path.starts_with('/') {
        return Err("must have a domain in its first column and a path in its third");
    }
    if !is_name(name) || !is_value(value) {
        return Err("has a name or value that cannot be sent in a request");
    }
    // 0 marks a session cookie, which lasts until the browser is closed.
    if expires > 0 && expires.unsigned_abs() <= now {
        return Ok(None);
    }
    Ok(Some(Cookie {
        name: name.into(),
        value: value.into(),
        domain: domain.trim_start_matches('[').trim_end_matches(']').into(),
        has_subdomains: subdomains,
        path: path.into(),
        is_secure,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cookies::ChainCookies;
    use crate::origin::OriginKey;

    const NOW: u64 = 1_800_000_000;
    const FILE: &str = "# Netscape HTTP Cookie File\n\n.a.test\tTRUE\t/\tFALSE\t0\ts\t1\n\
        #HttpOnly_w.a.test\tFALSE\t/x\tTRUE\t1900000000.5\th\t2\r\nb.test\tFALSE\t/\tFALSE\t1\told\t3\n\
        b.test\tFALSE\t/\tFALSE\t0\tempty\n";

    fn sent(chain: &ChainCookies, url: &str) -> String {
        let (key, path) = OriginKey::of_url(url).unwrap();
        let place = RequestPlace::at(&key, path);
        let of_origin = CookieFile::parse(FILE, NOW).unwrap().of_origin(&place);
        chain.field(&place, &of_origin).unwrap_or_default()
    }

    #[test]
    fn cookies_of_a_file_go_to_their_hosts_and_paths() {
        for (url, field) in [
            ("http://a.test/", "s=1"),
            ("http://w.a.test/x", "s=1"),
            ("https://w.a.test/x/y", "h=2; s=1"),
            ("https://w.a.test/", "s=1"),
            ("https://v.w.a.test/x", "s=1"),
            ("http://b.test/", "empty="),
            ("http://c.b.test/", ""),
            ("http://xa.test/", ""),
        ] {
            assert_eq!(sent(&ChainCookies::default(), url), field, "{url}");
        }
    }

    #[test]
    fn a_reply_replaces_or_removes_a_cookie_of_the_file() {
        let (key, path) = OriginKey::of_url("http://a.test/").unwrap();
        let place = RequestPlace::at(&key, path);
        let after = |field: &str| {
            let mut chain = ChainCookies::default();
            chain.take([field.as_bytes()].into_iter(), &place, NOW);
            sent(&chain, "http://a.test/")
        };
        assert_eq!(after("s=9; Domain=a.test; Path=/"), "s=9");
        assert_eq!(after("s=; Path=/; Max-Age=0"), "");
        assert_eq!(after("t=9; Path=/"), "s=1; t=9");
    }

    #[test]
    fn what_is_no_file_of_cookies_is_refused_without_its_cookies() {
        for (text, said) in [
            ("", "no cookies"),
            ("# only this\n", "no cookies"),
            ("a.test\tFALSE\t/\tFALSE\t1\tcanary\tcanary\n", "have expired (1)"),
            ("[{\"canary\": 1}]", "line 1 does not have seven tab-separated columns"),
            ("\na.test FALSE / FALSE 0 canary canary", "line 2 does not"),
            ("a.test\tmaybe\t/\tFALSE\t0\tcanary\tcanary", "TRUE or FALSE"),
            ("a.test\tFALSE\t/\tFALSE\tsoon\tcanary\tcanary", "must have a time"),
            ("a.test\tFALSE\tx\tFALSE\t0\tcanary\tcanary", "a path in its third"),
            ("a.test\tFALSE\t/\tFALSE\t0\tcanary\tcan;ary", "cannot be sent in a request"),
        ] {
            let why = CookieFile::parse(text, NOW).unwrap_err();
            assert!(why.contains(said) && !why.contains("canary"), "{text:?}: {why}");
        }
    }
}
