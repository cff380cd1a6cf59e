//! Requests other than a plain `GET`: their content, how redirects change them, and which target gets which request.

use std::borrow::Cow;
use std::sync::Arc;

use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::byte_range::ByteRange;
use fetchmill_model::limits::REQUEST_BYTES_MAX;
use fetchmill_model::name::for_display;
use fetchmill_model::origin::is_open;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::source::list::RequestOptions;
use fetchmill_model::target::entry::ListEntry;
use fetchmill_model::target::expected_hash::ExpectedHash;
use fetchmill_model::target::request::{TargetRequest, is_condition};
use fetchmill_model::verdict::is_redirect;
use fetchmill_net::{IF_RANGE, RANGE};

/// Methods that can be repeated by default, because they have no side effects.
const REPEATABLE: &[&str] = &["GET", "HEAD"];
/// Methods that always send a body, even an empty one.
const BODIED: &[&str] = &["POST", "PUT", "PATCH"];
/// Maximum length of a method. The longest registered method has 17 letters.
const METHOD_BYTES_MAX: usize = 32;
/// Header field that contains the type of a body.
const CONTENT_TYPE: &str = "content-type";

/// A request other than a plain `GET`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomRequest {
    /// Method in upper case, such as `GET`.
    pub method: String,
    /// Header fields of the request, checked by [`fetchmill_model::http1::header_field::check_field`].
    pub fields: Vec<(String, String)>,
    /// Body of the request.
    pub body: Option<Vec<u8>>,
    /// Whether the request can be repeated. If not, it is sent only once.
    pub is_idempotent: bool,
    /// Requested part of the object, which is also in `fields`. `None` means the whole object.
    pub range: Option<ByteRange>,
    /// Expected hash of the reply's body.
    pub hash: Option<ExpectedHash>,
}

impl CustomRequest {
    /// Creates a request. The case of `method` does not matter. The caller must have checked the fields. By default,
    /// only `GET` and `HEAD` can be repeated.
    pub fn new(
        method: &str,
        fields: Vec<(String, String)>,
        body: Option<Vec<u8>>,
        is_idempotent: Option<bool>,
    ) -> Result<Self> {
        let upper = method.to_ascii_uppercase();
        let is_token = upper.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        let is_length = (1..=METHOD_BYTES_MAX).contains(&upper.len());
        if !is_token || !is_length || matches!(upper.as_str(), "CONNECT" | "TRACE") {
            return Err(Error::Usage(format!(
                "cannot use the method {:?}; use a method such as GET, HEAD or POST",
                for_display(method.as_bytes())
            )));
        }
        let body = body.or_else(|| BODIED.contains(&upper.as_str()).then(Vec::new));
        let is_idempotent = is_idempotent.unwrap_or_else(|| REPEATABLE.contains(&upper.as_str()));
        Ok(CustomRequest { method: upper, fields, body, is_idempotent, range: None, hash: None })
    }

    /// Returns the request for another part of the object, without a hash, because the hash of that part is unknown.
    pub(crate) fn with_range(&self, range: ByteRange) -> Self {
        let others = self.fields.iter().filter(|(name, _)| name != RANGE).cloned();
        let fields = others.chain([(RANGE.to_owned(), range.to_string())]).collect();
        CustomRequest { fields, range: Some(range), hash: None, ..self.clone() }
    }

    /// Returns whether the request is a plain `GET`.
    pub fn is_plain(&self) -> bool {
        self.method == "GET" && self.fields.is_empty() && self.body.is_none() && self.is_idempotent
    }

    /// Returns a plain `GET`, encoded in the same way as the request of a target.
    pub fn plain_bytes() -> Vec<u8> {
        let mut bytes = Vec::new();
        TargetRequest::plain().write(&mut bytes);
        bytes
    }

    /// Returns the request, encoded in the same way as the request of a target.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        TargetRequest {
            method: Some(&self.method),
            is_idempotent: self.is_idempotent,
            body: self.body.as_deref(),
            range: None,
            hash: None,
            fields: self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        }
        .write(&mut bytes);
        bytes
    }
}

/// Changes that redirects have made to a request.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RedirectEffects {
    /// Whether the request has become a `GET` without a body.
    is_changed: bool,
    /// Whether redirects have led to another origin. That origin must not receive the request's own fields, which might
    /// be secret.
    is_away: bool,
    /// Whether the request was sent, either to this URL or before a redirect.
    was_sent: bool,
    conditions: Conditions,
}

/// State of the request's conditions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Conditions {
    #[default]
    Kept,
    /// Dropped, because a 304 referred to a version other than the stored one.
    Dropped,
}

impl RedirectEffects {
    /// Applies a redirect with this status. `leads_away` means that the redirect leads to another origin. As in
    /// browsers, 301 and 302 turn `POST` into `GET`, and 303 turns every method except `HEAD` into `GET`.
    pub(crate) fn note(&mut self, request: Option<&CustomRequest>, status: u16, leads_away: bool) {
        debug_assert!(is_redirect(status));
        let method = self.method(request);
        self.is_changed |= match status {
            303 => method != "HEAD" && method != "GET",
            301 | 302 => method == "POST",
            _ => false,
        };
        self.is_away |= leads_away;
    }

    /// Records that the request is about to be sent.
    pub(crate) fn note_sent(&mut self) {
        self.was_sent = true;
    }

    /// Drops the conditions.
    pub(crate) fn drop_conditions(&mut self) {
        self.conditions = Conditions::Dropped;
    }

    /// Returns whether the request was sent.
    pub(crate) fn was_sent(self) -> bool {
        self.was_sent
    }

    /// Returns the method after the redirects.
    pub(crate) fn method(self, request: Option<&CustomRequest>) -> &str {
        request.filter(|_| !self.is_changed).map_or("GET", |request| &request.method)
    }

    /// Returns whether the request can be repeated after the redirects.
    pub(crate) fn may_repeat(self, request: Option<&CustomRequest>) -> bool {
        self.is_changed || request.is_none_or(|request| request.is_idempotent)
    }

    /// Returns whether the request is a `GET` or `HEAD` after the redirects.
    pub(crate) fn only_reads(self, request: Option<&CustomRequest>) -> bool {
        matches!(self.method(request), "GET" | "HEAD")
    }

    /// Returns the body after the redirects.
    pub(crate) fn body(self, request: Option<&CustomRequest>) -> Option<&[u8]> {
        request.filter(|_| !self.is_changed)?.body.as_deref()
    }

    /// Returns the fields after the redirects. Another origin gets only the fields that are not secret.
    pub(crate) fn fields(self, request: Option<&CustomRequest>) -> Cow<'_, [(String, String)]> {
        let fields = request.map_or(&[][..], |request| request.fields.as_slice());
        if !self.is_away && !self.is_changed && self.conditions == Conditions::Kept {
            return Cow::Borrowed(fields);
        }
        let is_kept = |name: &str| {
            (!self.is_away || is_open(name) || name == RANGE)
                && !(self.is_changed && name.eq_ignore_ascii_case(CONTENT_TYPE))
                && !(self.conditions == Conditions::Dropped && is_condition(name))
        };
        fields.iter().filter(|(name, _)| is_kept(name)).cloned().collect()
    }
}

impl RedirectEffects {
    /// Returns whether the rest of a truncated body can be requested. This requires a `GET` for a whole object.
    pub(crate) fn may_be_resumed(self, request: Option<&CustomRequest>) -> bool {
        let is_of_part = |name: &str| [RANGE, IF_RANGE].iter().any(|own| name.eq_ignore_ascii_case(own));
        self.method(request) == "GET"
            && self.body(request).is_none()
            && !self.fields(request).iter().any(|(name, _)| is_of_part(name))
    }
}

/// Requests for the targets of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobRequests {
    /// Request for targets whose entries contain no request. `None` means a plain `GET`.
    common: Option<Arc<CustomRequest>>,
    /// Whether every target requests only a part of an object.
    has_range: bool,
    /// Whether every target has a hash.
    has_hash: bool,
}

impl JobRequests {
    pub(crate) fn new(options: &RequestOptions) -> Result<Self> {
        if !options.is_custom() {
            return Ok(JobRequests::default());
        }
        let field = options.body_field().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let said = options.idempotent.then_some(true);
        let body = options.common_body()?;
        if body.as_ref().is_some_and(|body| body.len() > REQUEST_BYTES_MAX) {
            return Err(Error::Usage(
                "--data and --data-json must be at most 64 KiB, because each request sends them".into(),
            ));
        }
        let fields = field.into_iter().collect();
        let common = CustomRequest::new(&options.method(), fields, body, said)?;
        Ok(JobRequests {
            common: Some(Arc::new(common)),
            has_range: options.has_range(),
            has_hash: options.has_hash(),
        })
    }

    /// Returns the request for a target, or `None` for a plain `GET`. Fails if the request is missing from the entry.
    pub(crate) fn of(&self, entry: &[u8]) -> std::result::Result<Option<Arc<CustomRequest>>, FailureKind> {
        let Some(bytes) = ListEntry::read(entry).own_request() else {
            // Never replace a missing request with a different one.
            return if self.common.is_some() { Err(FailureKind::Url) } else { Ok(None) };
        };
        let own = TargetRequest::read(bytes).ok_or(FailureKind::Url)?;
        if self.has_range && own.range.is_none() || self.has_hash && own.hash.is_none() {
            return Err(FailureKind::Url);
        }
        let fields = own.fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let fields = fields.chain(own.range.map(|range| (RANGE.to_owned(), range.to_string())));
        let body = own.body.map(<[u8]>::to_vec);
        if let Some(method) = own.method {
            let (method, is_idempotent) = (method.to_owned(), own.is_idempotent);
            return Ok(Some(Arc::new(CustomRequest {
                method,
                fields: fields.collect(),
                body,
                is_idempotent,
                range: own.range,
                hash: own.hash,
            })));
        }
        let common = self.common.as_ref().ok_or(FailureKind::Url)?;
        if own == TargetRequest::default() {
            return Ok(Some(Arc::clone(common)));
        }
        let fields = common.fields.iter().cloned().chain(fields).collect();
        let body = body.or_else(|| common.body.clone());
        Ok(Some(Arc::new(CustomRequest {
            fields,
            body,
            range: own.range,
            hash: own.hash,
            ..CustomRequest::clone(common)
        })))
    }

    /// Returns whether the request for a target must not be sent twice.
    pub(crate) fn is_once(&self, entry: &[u8]) -> bool {
        let is_idempotent = || match ListEntry::read(entry).own_request().and_then(TargetRequest::read) {
            Some(TargetRequest { method: Some(_), is_idempotent, .. }) => is_idempotent,
            _ => self.common.as_ref().is_none_or(|common| common.is_idempotent),
        };
        !is_idempotent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post() -> CustomRequest {
        let fields =
            vec![("X-Key".to_owned(), "s".to_owned()), ("Content-Type".to_owned(), "a/b".to_owned())];
        CustomRequest::new("post", fields, Some(b"x".to_vec()), None).unwrap()
    }

    fn entry(request: &TargetRequest<'_>) -> Vec<u8> {
        let (mut bytes, mut entry) = (Vec::new(), Vec::new());
        request.write(&mut bytes);
        ListEntry { url: b"http://a/", request: Some(&bytes), ..ListEntry::default() }.write(&mut entry);
        entry
    }

    #[test]
    fn only_what_changes_nothing_may_be_made_twice() {
        for (method, said, may) in [
            ("GET", None, true),
            ("HEAD", None, true),
            ("PUT", None, false),
            ("POST", None, false),
            ("POST", Some(true), true),
            ("GET", Some(false), false),
        ] {
            let request = CustomRequest::new(method, Vec::new(), None, said).unwrap();
            assert_eq!(request.is_idempotent, may, "{method} {said:?}");
        }
        for method in ["", "CONNECT", "trace", "G T", "G\r\n"] {
            assert_eq!(CustomRequest::new(method, Vec::new(), None, None).unwrap_err().exit_code(), 2);
        }
    }

    #[test]
    fn a_redirect_makes_a_get_of_a_post() {
        let post = post();
        for (status, method) in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")] {
            let mut effects = RedirectEffects::default();
            effects.note(Some(&post), status, false);
            assert_eq!(effects.method(Some(&post)), method);
            assert_eq!(effects.body(Some(&post)).is_some(), method == "POST");
            assert_eq!(effects.may_repeat(Some(&post)), method == "GET");
        }
    }

    #[test]
    fn away_from_its_origin_a_request_has_no_secrets() {
        let (post, mut effects) = (post(), RedirectEffects::default());
        effects.note(Some(&post), 307, true);
        assert_eq!(effects.fields(Some(&post)).len(), 1);
        effects.note(Some(&post), 303, false);
        assert_eq!(effects.fields(Some(&post)).len(), 0);
    }

    #[test]
    fn a_range_goes_along_with_redirects_and_may_be_asked_for_twice() {
        let column = |name: &str| Some(name.to_owned());
        let options = RequestOptions {
            offset_column: column("o"),
            length_column: column("l"),
            ..RequestOptions::default()
        };
        let job = JobRequests::new(&options).unwrap();
        let range = ByteRange::new(2, 3).unwrap();
        let entry = entry(&TargetRequest { range: Some(range), ..TargetRequest::default() });

        let part = job.of(&entry).unwrap().unwrap();
        assert_eq!((part.range, part.is_idempotent, job.is_once(&entry)), (Some(range), true, false));
        let mut effects = RedirectEffects::default();
        effects.note(Some(&part), 302, true);
        assert_eq!(*effects.fields(Some(&part)), [("Range".to_owned(), "bytes=2-4".to_owned())]);
        // Without its range, the request would fetch the whole object.
        assert_eq!(job.of(&self::entry(&TargetRequest::default())), Err(FailureKind::Url));
    }

    #[test]
    fn a_target_adds_to_what_its_job_says() {
        let options = RequestOptions { data: Some("a=b".into()), ..RequestOptions::default() };
        let job = JobRequests::new(&options).unwrap();

        let same = job.of(&entry(&TargetRequest::default())).unwrap().unwrap();
        assert_eq!((same.method.as_str(), same.body.as_deref()), ("POST", Some(&b"a=b"[..])));
        let own = TargetRequest { body: Some(b"c"), fields: vec![("X-Id", "1")], ..TargetRequest::default() };
        let more = job.of(&entry(&own)).unwrap().unwrap();
        assert_eq!((more.body.as_deref(), more.fields.len()), (Some(&b"c"[..]), 2));
        let item = job.of(&entry(&TargetRequest { method: Some("PUT"), ..TargetRequest::default() }));
        assert_eq!(item.unwrap().unwrap().method, "PUT");
        // No simpler request replaces the missing request of a target.
        assert_eq!(job.of(b"http://a/"), Err(FailureKind::Url));
        assert_eq!(JobRequests::default().of(b"http://a/"), Ok(None));
        assert!(job.is_once(&entry(&own)) && !JobRequests::default().is_once(b"http://a/"));
    }
}
