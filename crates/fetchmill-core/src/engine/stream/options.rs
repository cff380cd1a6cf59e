//! What requests of a program have in common, checked in one place.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::s3::{Access, S3Options, SignedOrigins};
use crate::error::{Error, Result};
use crate::limits;
use crate::origin::{OriginFields, OriginKey};
use crate::transport::{
    NameSetup, Paces, PoolSettings, Proxy, ProxySetup, Reach, Timeouts, TlsOptions, TlsSetup,
};

/// Redirects that are followed unless the options say otherwise.
const REDIRECTS_DEFAULT: u32 = 5;

/// See the module.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    /// Requests in flight.
    pub limit: u32,
    /// Attempts at a request that may be made again.
    pub attempts: u32,
    /// See [`Timeouts`].
    pub timeouts: Timeouts,
    /// Bytes of a body.
    pub max_size: u64,
    /// Bodies without a length are taken as they come.
    pub allow_eof_bodies: bool,
    /// Redirects that are followed one after the other.
    pub redirects: u32,
    /// What is added to requests.
    pub headers: Vec<(String, String)>,
    /// The origin that gets the headers which may be secrets.
    pub credentials_for: Option<OriginKey>,
    /// Whom to believe in TLS.
    pub tls: TlsOptions,
    /// What stands between this machine and the origins.
    pub proxy: Option<Proxy>,
    /// Hosts that are reached without it.
    pub no_proxy: Vec<String>,
    /// Requests a second, all together.
    pub rate: Option<f64>,
    /// Requests a second, to each host.
    pub rate_per_host: Option<f64>,
    /// Name servers to ask; none: those of the system's configuration.
    pub resolvers: Vec<SocketAddr>,
    /// Whether names are looked up as all programs of this machine do.
    pub system_resolver: bool,
    /// Whether no request may lead to an address that is not public.
    pub public_only: bool,
    /// How stores of S3 are reached.
    pub s3: S3Options,
}

impl Default for StreamOptions {
    fn default() -> Self {
        StreamOptions {
            limit: limits::LIMIT_DEFAULT,
            attempts: limits::ATTEMPTS_MAX,
            timeouts: Timeouts::default(),
            max_size: limits::BODY_BYTES_MAX,
            allow_eof_bodies: false,
            redirects: REDIRECTS_DEFAULT,
            headers: Vec::new(),
            credentials_for: None,
            tls: TlsOptions { http2: true, ..TlsOptions::default() },
            proxy: None,
            no_proxy: Vec::new(),
            rate: None,
            rate_per_host: None,
            resolvers: Vec::new(),
            system_resolver: false,
            public_only: false,
            s3: S3Options::default(),
        }
    }
}

impl StreamOptions {
    /// Refuses what cannot be meant.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: &str| Err(Error::Usage(message.to_owned()));
        if self.limit == 0 || self.limit > limits::STREAM_LIMIT_MAX {
            return refuse("limit must be between 1 and 65536");
        }
        if self.attempts == 0 {
            return refuse("attempts must be at least 1");
        }
        if self.max_size == 0 {
            return refuse("max_size must be at least 1 byte");
        }
        let Timeouts { connect, head, idle, total, attempt } = self.timeouts;
        if [connect, head, idle, total].iter().chain(&attempt).any(Duration::is_zero) {
            return refuse("a timeout must be above 0 seconds");
        }
        if [self.rate, self.rate_per_host].iter().flatten().any(|rate| !rate.is_finite() || *rate <= 0.0) {
            return refuse("rate must be above 0 requests a second");
        }
        if self.redirects > limits::REDIRECTS_MAX {
            return refuse("redirects must be at most 20");
        }
        self.fields().map(drop)
    }

    /// Requests of one stream that are on their way: in flight, waiting, or answered and not taken.
    pub fn outstanding_max(&self) -> usize {
        self.limit as usize + limits::STREAM_WINDOW
    }

    fn fields(&self) -> Result<OriginFields> {
        OriginFields::new(self.credentials_for.clone(), self.headers.clone())
    }

    fn tls_setup(&self) -> Result<TlsSetup> {
        let setup = TlsSetup::new(self.tls.clone());
        if self.tls.ca_file.is_some() {
            // What is wrong with it is told before anything is asked for.
            setup.roots()?;
        }
        Ok(setup)
    }

    pub(super) fn pool_settings(&self, store: &Arc<Access>) -> Result<PoolSettings> {
        Ok(PoolSettings {
            timeouts: self.timeouts,
            max_body: self.max_size,
            connections: self.limit as usize,
            fields: self.fields()?,
            tls: Arc::new(self.tls_setup()?),
            names: NameSetup::new(self.system_resolver, &self.resolvers, 1),
            idle_max: usize::MAX,
            proxy: self
                .proxy
                .clone()
                .map(|proxy| Arc::new(ProxySetup { proxy, without: self.no_proxy.clone() })),
            authority: Some(Arc::new(SignedOrigins(Arc::clone(store)))),
            paces: self.rate_per_host.map(|rate| Arc::new(Paces::new(rate))),
            reach: if self.public_only { Reach::PublicOnly } else { Reach::Anywhere },
            times_phases: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert!(StreamOptions::default().check().is_ok());
        for options in [
            StreamOptions { limit: 0, ..StreamOptions::default() },
            StreamOptions { limit: 65_537, ..StreamOptions::default() },
            StreamOptions { attempts: 0, ..StreamOptions::default() },
            StreamOptions { rate: Some(f64::NAN), ..StreamOptions::default() },
            StreamOptions { redirects: 21, ..StreamOptions::default() },
            StreamOptions { headers: vec![("X-Key".into(), "1".into())], ..StreamOptions::default() },
        ] {
            assert!(options.check().is_err(), "{options:?}");
        }
    }
}
