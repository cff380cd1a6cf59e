//! Header fields of requests, and the only origin of a job whose server lists its own objects.

use super::job_plan::JobPlan;
use crate::access::s3::S3Settings;
use crate::request::job_request::JobRequest;
use crate::request::source_options::{Listing, SourceOptions};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::origin::{OriginFields, OriginKey};
use fetchmill_model::reply::content_encoding::ACCEPTED_ENCODINGS;
use fetchmill_model::source::OriginUrl;

/// Returns the origin of a server that lists its objects, or the common origin of all URLs in a list.
fn only_origin(request: &JobRequest, s3: &S3Settings) -> Option<OriginKey> {
    match &request.source {
        SourceOptions::S3 { bucket, .. } => s3.place(bucket).ok().map(|place| place.key),
        source => source.only_origin(&request.list),
    }
}

/// Returns the header fields of requests, and the origins that receive them.
pub(super) fn fields(request: &JobRequest, s3: &S3Settings) -> Result<OriginFields> {
    request.http.fields(only_origin(request, s3))
}

impl JobPlan {
    /// Returns the origin of a server that lists its objects, or the common origin of all URLs in a list.
    pub(super) fn only_origin(&self) -> Option<OriginKey> {
        only_origin(&self.request, &self.s3)
    }

    /// Returns the header fields of requests, and the origins that receive them.
    pub(crate) fn fields(&self) -> Result<OriginFields> {
        fields(&self.request, &self.s3)
    }

    /// Returns the header fields of requests for objects.
    pub(crate) fn object_fields(&self) -> Result<OriginFields> {
        let fields = self.fields()?;
        Ok(if self.request.http.compressed { fields.accepting(ACCEPTED_ENCODINGS) } else { fields })
    }

    /// Returns the origin that receives the tokens of `--bearer-command`. This origin also receives all other secrets.
    pub(crate) fn token_origin(&self) -> Option<OriginKey> {
        self.request.bearer_command.as_ref()?;
        self.request.http.credentials_for.clone().or_else(|| self.only_origin())
    }

    /// Returns the header fields of requests for a server's pages. A store's pages are not decoded.
    pub(crate) fn page_fields(&self) -> Result<OriginFields> {
        match self.request.source {
            SourceOptions::S3 { .. } => self.fields(),
            _ => self.object_fields(),
        }
    }

    /// Returns the only origin and the template of its page requests, if a server lists its objects.
    pub(crate) fn server(&self) -> Result<Option<(OriginKey, RequestTemplate)>> {
        self.server_with(&self.page_fields()?)
    }

    /// Returns the only origin and the template of its object requests, if a server lists its objects
    /// ([`JobPlan::server`]).
    pub(crate) fn object_server(&self) -> Result<Option<(OriginKey, RequestTemplate)>> {
        self.server_with(&self.object_fields()?)
    }

    fn server_with(&self, fields: &OriginFields) -> Result<Option<(OriginKey, RequestTemplate)>> {
        let (key, prefix, behind) = match &self.request.source {
            SourceOptions::Server(url) => self.around_names(url)?,
            SourceOptions::S3 { bucket, .. } => {
                let place = self.s3.place(bucket)?;
                (place.key, place.prefix, "")
            }
            SourceOptions::List(_) | SourceOptions::Iterable => return Ok(None),
        };
        let template = self.template(&key, (&prefix, behind), fields)?;
        Ok(Some((key, template)))
    }

    /// Returns the origin of a server, and the parts of its request URLs before and after a name.
    fn around_names(&self, url: &OriginUrl) -> Result<(OriginKey, String, &str)> {
        let (before, behind) = match self.listing {
            Listing::Auto | Listing::Api => self.request.api.around_name()?,
            Listing::Autoindex
            | Listing::Html
            | Listing::Links
            | Listing::Sitemap
            | Listing::Json
            | Listing::Object => ("/", ""),
        };
        match OriginKey::of_url(&url.text()) {
            Some((key, _)) => Ok((key, format!("{}{before}", url.path()), behind)),
            None => Err(Error::Internal(format!("{} has no origin", url.text()))),
        }
    }

    /// Returns the template of requests to an origin, sent directly or through a proxy that can read them.
    fn template(
        &self,
        key: &OriginKey,
        (prefix, behind): (&str, &str),
        fields: &OriginFields,
    ) -> Result<RequestTemplate> {
        let fields = fields.of(key);
        match self.request.http.proxy_of(key).filter(|proxy| proxy.asks_itself(key)) {
            None => RequestTemplate::new(key.authority(), prefix, behind, &fields),
            Some(proxy) => {
                RequestTemplate::for_proxy(key.authority(), prefix, behind, &fields, proxy.authorization())
            }
        }
    }
}
