//! Options that all requests of a program share. They are validated together.

use std::sync::Arc;

use super::http_options::HttpOptions;
use crate::access::s3::{Access, S3Options};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::ACCEPT_ENCODING;
use fetchmill_model::limits;
use fetchmill_model::options::{Bounds, OptionValue, Options};
use fetchmill_model::origin::OriginFields;
use fetchmill_model::reply::content_encoding::ACCEPTED_ENCODINGS;
use fetchmill_net::{AddressPolicy, PoolSettings, check_insecure_host};

/// Options of a stream. See the [module documentation](self).
#[derive(Debug, Default, Clone)]
pub struct StreamOptions {
    /// Options of requests.
    pub http: HttpOptions,
    /// S3 options.
    pub s3: S3Options,
}

impl StreamOptions {
    /// Bounds of [`HttpOptions::concurrency`] for streams.
    pub(crate) const CONCURRENCY: Bounds = Bounds::between(1.0, limits::STREAM_CONCURRENCY_MAX as f64, "");
    /// Default maximum number of redirects.
    pub(crate) const REDIRECTS: u32 = 5;

    /// Rejects invalid options.
    pub fn check(&self) -> Result<()> {
        Self::CONCURRENCY.check("concurrency", self.http.concurrency.number())?;
        self.http.check_bounds(str::to_owned)?;
        self.http.insecure_host.iter().try_for_each(|host| check_insecure_host(host))?;
        self.http.check_client_certificate(self.http.credentials_for.as_ref(), str::to_owned)?;
        self.fields().map(drop)
    }

    /// Returns the maximum number of consecutive redirects.
    pub(crate) fn redirects(&self) -> u32 {
        self.http.redirects.unwrap_or(Self::REDIRECTS)
    }

    fn fields(&self) -> Result<OriginFields> {
        let fields = self.http.fields(None)?;
        if !self.http.compressed {
            return Ok(fields);
        }
        if self.http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(ACCEPT_ENCODING)) {
            return Err(Error::Usage(
                "compressed sets Accept-Encoding itself; leave out the header Accept-Encoding".into(),
            ));
        }
        Ok(fields.accepting(ACCEPTED_ENCODINGS))
    }

    pub(crate) fn pool_settings(&self, store: &Arc<Access>) -> Result<PoolSettings> {
        let reach = if self.http.public_only { AddressPolicy::PublicOnly } else { AddressPolicy::Anywhere };
        let settings = self.http.pool_settings(store, self.fields()?, (reach, None), 1)?;
        if self.http.ca_file.is_some() || store.options.ca_bundle.is_some() {
            // Report mistakes before the first request is sent.
            settings.tls.roots()?;
        }
        settings.tls.client()?;
        Ok(PoolSettings { connections: self.http.concurrency.most(), idle_max: usize::MAX, ..settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::http_options::Concurrency;

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert!(StreamOptions::default().check().is_ok());
        for http in [
            HttpOptions { concurrency: Concurrency::Number(0), ..HttpOptions::default() },
            HttpOptions { concurrency: Concurrency::Number(65_537), ..HttpOptions::default() },
            HttpOptions { attempts: 0, ..HttpOptions::default() },
            HttpOptions { rate: Some(f64::NAN), ..HttpOptions::default() },
            HttpOptions { redirects: Some(21), ..HttpOptions::default() },
            HttpOptions { headers: vec![("X-Key".into(), "1".into())], ..HttpOptions::default() },
        ] {
            let options = StreamOptions { http, ..StreamOptions::default() };
            assert!(options.check().is_err(), "{options:?}");
        }
    }
}
