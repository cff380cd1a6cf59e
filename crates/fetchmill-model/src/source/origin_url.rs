//! The SOURCE argument: an origin and a path prefix.

use serde::Deserialize;
use url::{Position, Url};

use crate::error::{Error, Result};
use crate::limits::MARKER_BYTES_MAX;
use crate::name::for_display;
use crate::options::OptionValue;

/// A URL of the form `http://host[:port][/path]` or `https://host[:port][/path]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct OriginUrl {
    url: Url,
    /// Whether this is the URL of a request rather than a location. The URL of a request is used byte for byte.
    is_page: bool,
}

impl OptionValue for OriginUrl {}

impl TryFrom<String> for OriginUrl {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        OriginUrl::parse(&text)
    }
}

impl OriginUrl {
    /// Parses a URL as typed. The error says what to write instead.
    pub fn parse(text: &str) -> Result<Self> {
        let url = parse_http(text)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Error::Usage(
                "SOURCE must not have a query or a fragment; only --listing json accepts a query".into(),
            ));
        }
        Ok(OriginUrl { url, is_page: false })
    }

    /// Parses the URL of a listing's first page, which can have a query.
    pub fn parse_page(text: &str) -> Result<Self> {
        let url = parse_http(text)?;
        if url.fragment().is_some() {
            return Err(Error::Usage(
                "SOURCE must not have a fragment, because fragments are not sent to servers".into(),
            ));
        }
        Ok(OriginUrl { url, is_page: true })
    }

    /// Returns the URL as it is requested.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the text without a trailing slash, so that both spellings name the same source. The text of a page is
    /// returned unchanged.
    pub fn text(&self) -> String {
        if self.is_page {
            return self.url.as_str().to_owned();
        }
        self.url.as_str().trim_end_matches('/').to_owned()
    }

    /// Returns `http` or `https`.
    pub fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// Returns the host in the form that a resolver or an address parser expects.
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']').to_owned()
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(80)
    }

    /// Returns the value of the `Host` field.
    pub fn authority(&self) -> String {
        self.url[Position::BeforeHost..Position::AfterPort].to_owned()
    }

    /// Returns the encoded path prefix without a trailing slash.
    pub fn path(&self) -> &str {
        self.url.path().trim_end_matches('/')
    }
}

fn parse_http(text: &str) -> Result<Url> {
    // The URL standard silently drops tabs and newlines, so they are refused before the text is parsed.
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(Error::Usage("SOURCE contains a space or a control character; percent-encode it".into()));
    }
    let url = Url::parse(text).map_err(|error| {
        Error::Usage(format!("{text} is not a URL ({error}); write SOURCE as http://HOST:PORT/PATH"))
    })?;
    match url.scheme() {
        "http" | "https" => {}
        scheme => {
            return Err(Error::Usage(format!(
                "the scheme {scheme} is not supported; use http:// or https://"
            )));
        }
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::Usage("SOURCE must not contain a user name or password".into()));
    }
    Ok(url)
}

/// Resolves a marker that is the full URL of the next page. The URL must stay at the origin, because the author of a
/// listing must not choose where requests go. Returns `None` if the marker is a token.
pub fn resolve_marker(origin: &OriginUrl, marker: &str) -> Result<Option<String>> {
    let lower = marker.get(..8).unwrap_or(marker).to_ascii_lowercase();
    if !(lower.starts_with("http://") || lower.starts_with("https://")) {
        return Ok(None);
    }
    let url = on_origin(origin, marker, Url::parse)?;
    Ok(Some(url[Position::BeforePath..Position::AfterQuery].to_owned()))
}

/// Resolves the URL of the next page, which can be absolute or relative to the URL of the current page (RFC 3986). Like
/// a marker, it must stay at the origin.
pub fn resolve_next(origin: &OriginUrl, page: &Url, text: &str) -> Result<Url> {
    let mut url = on_origin(origin, text, |text| page.join(text))?;
    url.set_fragment(None);
    // If the URLs are relative, each URL can become longer than the one before it.
    if url.as_str().len() > MARKER_BYTES_MAX {
        return Err(Error::Listing(format!(
            "the listing's next page has a URL that is longer than {MARKER_BYTES_MAX} bytes: {}",
            for_display(url.as_str().as_bytes())
        )));
    }
    Ok(url)
}

/// Changes a URL of the same host to the scheme of the source. An API behind a TLS proxy sees only its own http
/// address.
fn keep_tls(origin: &OriginUrl, url: &mut Url) {
    let own = &origin.url;
    let is_same_port = url.port_or_known_default() == own.port_or_known_default() || url.port().is_none();
    if own.scheme() == "https" && url.scheme() == "http" && url.host() == own.host() && is_same_port {
        // Both schemes are special and the URL has a host, so neither call can fail.
        let _ = url.set_scheme("https");
        let _ = url.set_port(own.port());
    }
}

fn on_origin(
    origin: &OriginUrl,
    text: &str,
    parse: impl FnOnce(&str) -> std::result::Result<Url, url::ParseError>,
) -> Result<Url> {
    let refused = |why: &str| {
        Error::Security(format!(
            "the listing's marker is not a URL at {}: {} ({why}); it was not followed",
            origin.text(),
            for_display(text.as_bytes())
        ))
    };
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(refused("it contains a space or a control character"));
    }
    let mut url = parse(text).map_err(|_| refused("not a URL"))?;
    keep_tls(origin, &mut url);
    if url.origin() != origin.url.origin() || !url.username().is_empty() || url.password().is_some() {
        return Err(refused("another origin"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_an_origin_with_a_path() {
        let url = OriginUrl::parse("http://Example.test:8080/a%20b/").unwrap();

        assert_eq!(url.text(), "http://example.test:8080/a%20b");
        assert_eq!((url.host().as_str(), url.port()), ("example.test", 8080));
        assert_eq!(url.authority(), "example.test:8080");
        assert_eq!(url.path(), "/a%20b");
        assert_eq!(OriginUrl::parse("http://[::1]:1").unwrap().host(), "::1");
        assert_eq!(OriginUrl::parse("http://a").unwrap(), OriginUrl::parse("http://a:80/").unwrap());
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in
            ["", "host", "localhost:80", "ftp://a", "http://u:p@a", "http://a?b", "http://a#b", "http://a\n"]
        {
            assert_eq!(OriginUrl::parse(text).unwrap_err().exit_code(), 2, "{text:?}");
        }
    }

    #[test]
    fn a_page_may_have_a_query_and_is_kept_as_it_is() {
        let text = "http://a.test/photos/?q=a%20b&per=/";

        assert_eq!(OriginUrl::parse_page(text).unwrap().text(), text);
        assert_eq!(OriginUrl::parse_page("http://a.test/photos/").unwrap().text(), "http://a.test/photos/");
        for text in ["http://a.test/#x", "http://u@a.test/", "ftp://a.test/?x", "http://a.test/? "] {
            assert_eq!(OriginUrl::parse_page(text).unwrap_err().exit_code(), 2, "{text:?}");
        }
    }

    #[test]
    fn the_next_page_stays_on_the_origin() {
        let origin = OriginUrl::parse_page("http://a.test:81/x/photos?page=1").unwrap();
        let page = origin.url();

        for (text, url) in [
            ("http://A.test:81/y?p=2#f", "http://a.test:81/y?p=2"),
            ("?page=2", "http://a.test:81/x/photos?page=2"),
            ("../y", "http://a.test:81/y"),
            ("//a.test:81/z", "http://a.test:81/z"),
        ] {
            assert_eq!(resolve_next(&origin, page, text).unwrap().as_str(), url);
        }
        for text in
            ["//b.test:81/", "http://a.test/", "https://a.test:81/", "http://u@a.test:81/", "a b", "data:,x"]
        {
            assert_eq!(resolve_next(&origin, page, text).unwrap_err().exit_code(), 6, "{text:?}");
        }
        let long = "x".repeat(MARKER_BYTES_MAX);
        assert_eq!(resolve_next(&origin, page, &long).unwrap_err().exit_code(), 4);
    }

    #[test]
    fn a_marker_stays_on_the_origin() {
        let origin = OriginUrl::parse("http://a.test:81/x").unwrap();

        assert_eq!(resolve_marker(&origin, "token").unwrap(), None);
        assert_eq!(
            resolve_marker(&origin, "http://a.test:81/list?p=2#f").unwrap().as_deref(),
            Some("/list?p=2")
        );
        for marker in [
            "http://a.test/list",
            "https://a.test:81/list",
            "HTTP://b.test:81/",
            "http://u@a.test:81/",
            "http://a.test:81/\r\nX",
        ] {
            assert_eq!(resolve_marker(&origin, marker).unwrap_err().exit_code(), 6, "{marker:?}");
        }
    }
}
