//! Origins: scheme, host and port. Limits and credentials belong to an origin.

use std::rc::Rc;

use crate::error::{Error, Result};
use crate::http1::header_field::check_field;
use crate::http1::{ACCEPT_ENCODING, OPEN_FIELDS};
use crate::options::OptionValue;

/// An origin as text: `http://host[:port]` or `https://host[:port]`, as at the start of a normalised URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OriginKey {
    text: Box<str>,
    is_tls: bool,
    port: u16,
}

impl OptionValue for OriginKey {}

impl OriginKey {
    /// Returns the origin of a normalised URL and the path after it.
    pub fn of_url(url: &str) -> Option<(Self, &str)> {
        let (is_tls, rest) = match url.strip_prefix("http://") {
            Some(rest) => (false, rest),
            None => (true, url.strip_prefix("https://")?),
        };
        let end = url.len() - rest.len() + rest.find('/').unwrap_or(rest.len());
        let (text, path) = url.split_at(end);
        let authority = &text[url.len() - rest.len()..];
        let behind_host = authority.rfind(']').map_or(0, |end| end + 1);
        let port = match authority[behind_host..].rfind(':') {
            Some(colon) => authority[behind_host + colon + 1..].parse().ok()?,
            None if is_tls => 443,
            None => 80,
        };
        (!authority.is_empty()).then(|| (OriginKey { text: text.into(), is_tls, port }, path))
    }

    /// Returns the path of a normalised URL at this origin, or `None` for a URL at another origin.
    pub fn path_of<'u>(&self, url: &'u str) -> Option<&'u str> {
        url.strip_prefix(self.text()).filter(|path| path.starts_with('/'))
    }

    /// Returns the origin as written in URLs.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the origin uses TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the value of the `Host` field.
    pub fn authority(&self) -> &str {
        &self.text[if self.is_tls { "https://".len() } else { "http://".len() }..]
    }

    /// Returns the host in the form that a resolver or an address parser expects.
    pub fn host(&self) -> &str {
        let authority = self.authority();
        match authority.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
            Some((address, _)) => address,
            None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
        }
    }
}

/// Signs each request to an origin when the request is sent. Each thread has its own instance.
pub trait Authorize: std::fmt::Debug {
    /// Appends header lines, each with its line ending. `target` contains the path and query as sent.
    fn write_fields(&self, method: &str, target: &[u8], body: &[u8], out: &mut Vec<u8>);
}

/// Decides for which origins requests are signed.
pub trait Authority: std::fmt::Debug + Send + Sync {
    /// Returns the signer for an origin, or `None` if the origin gets no credentials.
    fn of(&self, key: &OriginKey) -> Option<Rc<dyn Authorize>>;

    /// Returns whether the user has named an origin. A named origin may have a private address, even if only a list
    /// refers to it.
    fn is_named(&self, key: &OriginKey) -> bool;
}

/// The header fields that a user adds to requests. They belong to one origin, so that no list, redirect or listing can
/// choose who receives them.
#[derive(Clone, Default)]
pub struct OriginFields {
    origin: Option<OriginKey>,
    fields: Vec<(String, String)>,
    /// Value of `Accept-Encoding` for every origin, if it is not the default.
    encodings: Option<&'static str>,
}

impl OriginFields {
    /// Creates the fields for an origin. Without an origin, only fields that can be sent to every origin are allowed.
    pub fn new(origin: Option<OriginKey>, fields: Vec<(String, String)>) -> Result<Self> {
        for (name, value) in &fields {
            check_field(name, value)?;
            if origin.is_none() && !is_open(name) {
                return Err(Error::Usage(format!(
                    "the header field {} may be a secret, but a list can name any server; name the only \
                     origin that gets the field with --credentials-for https://HOST",
                    crate::name::for_display(name.as_bytes())
                )));
            }
        }
        Ok(OriginFields { origin, fields, encodings: None })
    }

    /// Sets the encodings that are accepted in replies.
    #[must_use]
    pub fn accepting(self, encodings: &'static str) -> Self {
        OriginFields { encodings: Some(encodings), ..self }
    }

    /// Returns the origin that gets all fields.
    pub fn origin(&self) -> Option<&OriginKey> {
        self.origin.as_ref()
    }

    /// Returns the fields for requests to an origin.
    pub fn of(&self, key: &OriginKey) -> Vec<(&str, &str)> {
        let is_own = self.origin.as_ref() == Some(key);
        let fields = self.fields.iter().filter(|(name, _)| is_own || is_open(name));
        let fields = fields.map(|(name, value)| (name.as_str(), value.as_str()));
        fields.chain(self.encodings.map(|encodings| (ACCEPT_ENCODING, encodings))).collect()
    }

    /// Returns whether requests to an origin carry fields that can be secret. `None` stands for the only origin that
    /// receives such fields.
    pub fn has_secrets(&self, key: Option<&OriginKey>) -> bool {
        (key.is_none() || self.origin.as_ref() == key) && self.fields.iter().any(|(name, _)| !is_open(name))
    }

    /// Returns the fields that can be sent to every origin.
    pub fn open(&self) -> Vec<(&str, &str)> {
        let fields = self.fields.iter().filter(|(name, _)| is_open(name));
        fields.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

impl std::fmt::Debug for OriginFields {
    /// Omits the values, because they may be secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.fields.iter().map(|(name, _)| name).collect();
        let mut shown = formatter.debug_struct("OriginFields");
        shown
            .field("origin", &self.origin)
            .field("names", &names)
            .field("encodings", &self.encodings)
            .finish()
    }
}

/// Returns whether a field can be sent to every origin.
pub fn is_open(name: &str) -> bool {
    OPEN_FIELDS.iter().any(|open| open.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(url: &str) -> OriginKey {
        OriginKey::of_url(url).unwrap().0
    }

    #[test]
    fn a_url_begins_with_its_origin() {
        let (origin, path) = OriginKey::of_url("https://a.test:8443/x?y=http://b/").unwrap();

        assert_eq!((origin.text(), path), ("https://a.test:8443", "/x?y=http://b/"));
        assert_eq!((origin.host(), origin.port(), origin.is_tls()), ("a.test", 8443, true));
        assert_eq!(origin.authority(), "a.test:8443");
        assert_eq!((key("http://[::1]/").host(), key("http://[::1]/").port()), ("::1", 80));
        assert_eq!((key("http://[::1]:81/").host(), key("http://[::1]:81/").port()), ("::1", 81));
        assert_eq!(key("https://a/").port(), 443);
        assert_eq!(key("http://a/").path_of("http://a/x"), Some("/x"));
        assert_eq!(key("http://a/").path_of("http://a:81/x"), None);
        assert_eq!(key("http://a/").path_of("http://a.test/x"), None);
        for none in ["", "ftp://a/", "http://", "http:///x", "https://a:port/", "a/b"] {
            assert!(OriginKey::of_url(none).is_none(), "{none:?}");
        }
    }

    #[test]
    fn a_secret_goes_to_its_origin_only() {
        let fields = vec![("X-Token".to_owned(), "s".to_owned()), ("user-agent".to_owned(), "u".to_owned())];
        let bound = OriginFields::new(Some(key("https://a/")), fields.clone()).unwrap();

        assert_eq!(bound.of(&key("https://a/")), [("X-Token", "s"), ("user-agent", "u")]);
        assert_eq!(bound.of(&key("http://a/")), [("user-agent", "u")]);
        assert_eq!(bound.of(&key("https://a:444/")), [("user-agent", "u")]);
        let accepting = bound.clone().accepting("br");
        assert_eq!(accepting.of(&key("http://b/")), [("user-agent", "u"), ("Accept-Encoding", "br")]);
        assert!(OriginFields::new(None, fields).unwrap_err().to_string().contains("--credentials-for"));
        assert!(!format!("{bound:?}").contains('s'.to_string().repeat(2).as_str()));
    }
}
