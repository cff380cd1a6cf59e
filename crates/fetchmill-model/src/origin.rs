//! Origins: scheme, host and port. Limits and credentials belong to one.

use std::rc::Rc;

use crate::error::{Error, Result};
use crate::http1::header_field::check_field;
use crate::http1::{ACCEPT_ENCODING, OPEN_FIELDS};
use crate::options::OptionValue;

/// `http://host[:port]` or `https://host[:port]`, as a normalised URL begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OriginKey {
    text: Box<str>,
    is_tls: bool,
    port: u16,
}

impl OptionValue for OriginKey {}

impl OriginKey {
    /// Of a normalised URL; what follows the origin is its path.
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

    /// The path of a normalised URL of this origin; none for one of another.
    pub fn path_of<'u>(&self, url: &'u str) -> Option<&'u str> {
        url.strip_prefix(self.text()).filter(|path| path.starts_with('/'))
    }

    /// As it stands in URLs.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is reached by TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The value of the field `Host`.
    pub fn authority(&self) -> &str {
        &self.text[if self.is_tls { "https://".len() } else { "http://".len() }..]
    }

    /// The host, as a resolver or an address parser wants it.
    pub fn host(&self) -> &str {
        let authority = self.authority();
        match authority.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
            Some((address, _)) => address,
            None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
        }
    }
}

/// What is added to each request of one origin at the moment when it is sent: a signature. A thread has its own.
pub trait Authorize: std::fmt::Debug {
    /// Appends header lines, each with its line end. `target` is path and query as they are sent.
    fn write_fields(&self, method: &str, target: &[u8], body: &[u8], out: &mut Vec<u8>);
}

/// Knows to which origins requests are signed.
pub trait Authority: std::fmt::Debug + Send + Sync {
    /// Who signs requests to an origin; none for one that gets no credentials.
    fn of(&self, key: &OriginKey) -> Option<Rc<dyn Authorize>>;

    /// Whether the user has named an origin himself: then it may be on a private address, also when a list leads there.
    fn is_named(&self, key: &OriginKey) -> bool;
}

/// The fields that a user adds to requests. They belong to one origin: a list, a redirect or a listing must not choose
/// who gets them.
#[derive(Clone, Default)]
pub struct OriginFields {
    origin: Option<OriginKey>,
    fields: Vec<(String, String)>,
    /// What `Accept-Encoding` says to every origin, when it is not the default.
    encodings: Option<&'static str>,
}

impl OriginFields {
    /// Fields for an origin; without one only those can be meant that every origin may have.
    pub fn new(origin: Option<OriginKey>, fields: Vec<(String, String)>) -> Result<Self> {
        for (name, value) in &fields {
            check_field(name, value)?;
            if origin.is_none() && !is_open(name) {
                return Err(Error::Usage(format!(
                    "the header field {} may be a secret, and a list may lead anywhere: say with --credentials-for \
                     https://HOST which origin gets it",
                    crate::name::for_display(name.as_bytes())
                )));
            }
        }
        Ok(OriginFields { origin, fields, encodings: None })
    }

    /// The same for requests whose replies may be encoded so.
    #[must_use]
    pub fn accepting(self, encodings: &'static str) -> Self {
        OriginFields { encodings: Some(encodings), ..self }
    }

    /// The origin that gets all of them.
    pub fn origin(&self) -> Option<&OriginKey> {
        self.origin.as_ref()
    }

    /// What requests to an origin carry.
    pub fn of(&self, key: &OriginKey) -> Vec<(&str, &str)> {
        let is_own = self.origin.as_ref() == Some(key);
        let fields = self.fields.iter().filter(|(name, _)| is_own || is_open(name));
        let fields = fields.map(|(name, value)| (name.as_str(), value.as_str()));
        fields.chain(self.encodings.map(|encodings| (ACCEPT_ENCODING, encodings))).collect()
    }

    /// Whether requests to an origin carry what may be a secret; `None`: to the only one that such fields are for.
    pub fn has_secrets(&self, key: Option<&OriginKey>) -> bool {
        (key.is_none() || self.origin.as_ref() == key) && self.fields.iter().any(|(name, _)| !is_open(name))
    }

    /// What requests to any origin carry.
    pub fn open(&self) -> Vec<(&str, &str)> {
        let fields = self.fields.iter().filter(|(name, _)| is_open(name));
        fields.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

impl std::fmt::Debug for OriginFields {
    /// Without the values: they may be secrets.
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

/// Whether a field may go to every origin.
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
