//! HTTP options of jobs and streams.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

use super::cookies::read_cookies;
use crate::access::s3::{Access, S3Settings, SignedOrigins};
use fetchmill_model::cookies::CookieFile;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::options::{Bounds, OptionValue, options, seconds, some_seconds};
use fetchmill_model::origin::{OriginFields, OriginKey};
use fetchmill_model::reply::body_type::AcceptedTypes;
use fetchmill_model::reply::patience::Patience;
use fetchmill_model::source::OriginUrl;
use fetchmill_model::verdict::RetriedStatuses;
use fetchmill_net::{
    AddressPolicy, ClientFiles, NameResolverSetup, Paces, PoolSettings, Proxy, ProxySetup, Timeouts,
    TlsOptions, TlsSetup,
};

/// Port of DNS servers.
const DNS_PORT: u16 = 53;

options! {
    /// HTTP options. See the [module documentation](self).
    pub struct HttpOptions {
        /// Maximum number of requests in flight.
        concurrency: Concurrency = Concurrency::Auto { most: limits::AUTO_CONCURRENCY_MAX }, Bounds::at_least(1.0, "");
        /// Upper limit of the search for the best concurrency. `None` uses the limit of this machine and a polite limit
        /// for the server.
        concurrency_max: Option<u32> = None, Bounds::at_least(1.0, "");
        /// Maximum number of requests per second, in total.
        rate: Option<f64> = None, Bounds::above_0("requests a second");
        /// Maximum number of requests per second to each host. 0 means no limit, and `None` selects the engine's
        /// default.
        rate_per_host: Option<f64> = None, Bounds::at_least(0.0, "requests a second");
        /// Number of processes that share the limits of each host, such as the workers of one job.
        host_sharers: u32 = 1, Bounds::at_least(1.0, "");
        /// Index of this process among those processes. If a limit cannot be divided evenly, the first processes get
        /// the remainder.
        host_sharer: u32 = 0;
        /// Maximum number of attempts per target, or per request that can be repeated.
        attempts: u32 = limits::ATTEMPTS_MAX, Bounds::at_least(1.0, "");
        /// Statuses that are retried in the same way as 503.
        retry_status: RetriedStatuses = RetriedStatuses::default();
        /// Maximum number of consecutive redirects. `None` selects the default of the source.
        redirects: Option<u32> = None, Bounds::between(0.0, f64::from(limits::REDIRECTS_MAX), "");
        /// Timeout for connecting. See [`Timeouts`].
        #[serde(deserialize_with = "seconds")]
        connect_timeout: Duration = limits::CONNECT_TIMEOUT, Bounds::above_0("seconds");
        /// Timeout for the head of a reply. See [`Timeouts`].
        #[serde(deserialize_with = "seconds")]
        head_timeout: Duration = limits::HEAD_TIMEOUT, Bounds::above_0("seconds");
        /// Maximum time without receiving a byte of a body. See [`Timeouts`].
        #[serde(deserialize_with = "seconds")]
        idle_timeout: Duration = limits::IDLE_TIMEOUT, Bounds::above_0("seconds");
        /// Timeout for the whole attempt, extended for long bodies. See [`Timeouts`].
        #[serde(deserialize_with = "seconds")]
        total_timeout: Duration = limits::TOTAL_TIMEOUT, Bounds::above_0("seconds");
        /// Time limit for a whole attempt, including its connection, and for each step. `None` keeps the separate
        /// limits of the steps.
        #[serde(deserialize_with = "some_seconds")]
        timeout: Option<Duration> = None, Bounds::above_0("seconds");
        /// Maximum body size in bytes.
        max_size: u64 = limits::BODY_BYTES_MAX, Bounds::at_least(1.0, "bytes");
        /// Accepted content types of objects. All types by default.
        accept: AcceptedTypes = AcceptedTypes::default();
        /// Whether to accept bodies that end when the connection closes.
        allow_eof_bodies: bool = false;
        /// Whether to request compressed replies and decode them.
        compressed: bool = false;
        /// Whether to skip objects whose replies opt out.
        opt_out: bool = false;
        /// Additional header fields of requests.
        headers: Vec<(String, String)> = Vec::new();
        /// Origin that receives header fields that might be secret. `None` means the origin of the server that lists
        /// its own objects.
        #[serde(deserialize_with = "origin")]
        credentials_for: Option<OriginKey> = None;
        /// PEM file that contains the only trusted certificate authorities.
        ca_file: Option<PathBuf> = None;
        /// PEM file that contains the client certificate.
        client_cert: Option<PathBuf> = None;
        /// PEM file that contains the key of the client certificate. `None` means that the key is in the certificate's
        /// file.
        client_key: Option<PathBuf> = None;
        /// Cookie file in the Netscape format.
        cookies: Option<PathBuf> = None;
        /// Hosts whose certificates are not verified.
        insecure_host: Vec<String> = Vec::new();
        /// Whether HTTP/2 is offered.
        http2: bool = true;
        /// Proxy for connections to origins.
        proxy: Option<ProxySetup> = None;
        /// Resolver for host names.
        resolver: Resolvers = Resolvers::Configured;
        /// Whether all requests must go to public addresses.
        public_only: bool = false;
    }
}

/// Maximum number of requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "ConcurrencyValue")]
pub enum Concurrency {
    /// A fixed number.
    Number(u32),
    /// A number that is found by measurement, up to a limit.
    Auto {
        /// Limit of this machine.
        most: u32,
    },
}

/// Value as it is written in JSON.
#[derive(Deserialize)]
#[serde(untagged, expecting = "concurrency must be a whole number or auto")]
enum ConcurrencyValue {
    Number(u32),
    /// Same as [`Concurrency::Auto`], but bounded by the limit of an engine.
    Within {
        most: u32,
    },
    Word(ConcurrencyWord),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ConcurrencyWord {
    Auto,
}

impl From<ConcurrencyValue> for Concurrency {
    fn from(value: ConcurrencyValue) -> Self {
        match value {
            ConcurrencyValue::Number(number) => Concurrency::Number(number),
            ConcurrencyValue::Within { most } => {
                Concurrency::Auto { most: most.clamp(1, limits::AUTO_CONCURRENCY_MAX) }
            }
            ConcurrencyValue::Word(ConcurrencyWord::Auto) => {
                Concurrency::Auto { most: limits::AUTO_CONCURRENCY_MAX }
            }
        }
    }
}

impl Concurrency {
    /// Returns the maximum number of requests in flight.
    pub fn most(self) -> usize {
        match self {
            Concurrency::Number(most) | Concurrency::Auto { most } => most as usize,
        }
    }

    /// Returns this value, or the limit of this machine if it is lower.
    pub(crate) fn lowered_to(self, allowed: u32) -> Self {
        match self {
            Concurrency::Number(most) => Concurrency::Number(most.min(allowed)),
            Concurrency::Auto { most } => Concurrency::Auto { most: most.min(allowed) },
        }
    }
}

impl OptionValue for Concurrency {
    fn json(&self) -> Value {
        match self {
            Concurrency::Number(number) => (*number).into(),
            Concurrency::Auto { .. } => "auto".into(),
        }
    }
}

/// Resolver for host names.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub enum Resolvers {
    /// The name servers that the system is configured to use.
    #[default]
    Configured,
    /// The system's resolver, which other programs on this machine use.
    System,
    /// These name servers.
    Servers(Vec<SocketAddr>),
}

impl OptionValue for Resolvers {}

impl TryFrom<Vec<String>> for Resolvers {
    type Error = Error;

    /// Parses `system`, or name servers of the form `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
    fn try_from(texts: Vec<String>) -> Result<Self> {
        if texts.is_empty() {
            return Ok(Resolvers::Configured);
        }
        if texts == ["system"] {
            return Ok(Resolvers::System);
        }
        let server = |text: &String| {
            let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, DNS_PORT));
            address.or_else(|_| text.parse::<SocketAddr>()).map_err(|_| {
                Error::Usage(format!(
                    "resolver must be the address of a name server, ADDRESS[:PORT], or `system` alone, not \
                     {text}"
                ))
            })
        };
        texts.iter().map(server).collect::<Result<_>>().map(Resolvers::Servers)
    }
}

/// Parses an origin. Rejects a path.
fn origin<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<OriginKey>, D::Error> {
    let text = String::deserialize(from)?;
    let url = OriginUrl::parse(&text).map_err(D::Error::custom)?;
    match OriginKey::of_url(&url.text()) {
        Some((key, "")) => Ok(Some(key)),
        _ => Err(D::Error::custom(format!(
            "credentials_for must be an origin, https://HOST[:PORT], not {text}"
        ))),
    }
}

impl HttpOptions {
    /// Returns the timeouts of an attempt.
    pub(crate) fn timeouts(&self) -> Timeouts {
        match self.timeout {
            Some(all) => Timeouts { connect: all, head: all, idle: all, total: all, attempt: Some(all) },
            None => Timeouts {
                connect: self.connect_timeout,
                head: self.head_timeout,
                idle: self.idle_timeout,
                total: self.total_timeout,
                attempt: None,
            },
        }
    }

    /// Returns the TLS options: the trusted authorities, and the origin that receives the client certificate.
    pub(crate) fn tls(&self, s3: &S3Settings, origin: Option<&OriginKey>) -> TlsOptions {
        let client = self.client_cert.as_ref().zip(origin).map(|(certificate, origin)| ClientFiles {
            certificate: certificate.clone(),
            key: self.client_key.clone(),
            origin: origin.clone(),
        });
        TlsOptions {
            ca_file: self.ca_file.clone(),
            ca_bundle: s3.ca_bundle.clone(),
            insecure_hosts: self.insecure_host.clone(),
            http2: self.http2,
            client,
        }
    }

    /// Returns the settings for name lookups by `threads` threads.
    pub(crate) fn names(&self, threads: usize) -> NameResolverSetup {
        match &self.resolver {
            Resolvers::Configured => NameResolverSetup::new(false, &[], threads),
            Resolvers::System => NameResolverSetup::new(true, &[], threads),
            Resolvers::Servers(servers) => NameResolverSetup::new(false, servers, threads),
        }
    }

    /// Returns the settings for looking up the name of a listing server. Uses the name servers that the user specified,
    /// or this machine's resolver if there are none.
    pub(crate) fn names_of_server(&self) -> NameResolverSetup {
        match &self.resolver {
            Resolvers::Servers(servers) => NameResolverSetup::new(false, servers, 1),
            Resolvers::Configured | Resolvers::System => NameResolverSetup::new(true, &[], 1),
        }
    }

    /// Returns the proxy for an origin, or `None` for a direct connection.
    pub(crate) fn proxy_of(&self, key: &OriginKey) -> Option<&Proxy> {
        self.proxy.as_ref()?.proxy_of(key)
    }

    /// Returns this process's share of the rate limit per host, if there is a limit.
    pub(crate) fn host_rate(&self) -> Option<f64> {
        let rate = self.rate_per_host.filter(|rate| *rate > 0.0)?;
        Some(rate / f64::from(self.host_sharers))
    }

    /// Returns the same share as [`HttpOptions::host_rate`], for a job with many hosts. Such a job has a default rate.
    pub(crate) fn rate_of_many_hosts(&self) -> Option<f64> {
        match self.rate_per_host {
            None => Some(limits::HOST_RATE / f64::from(self.host_sharers)),
            Some(_) => self.host_rate(),
        }
    }

    /// Returns this process's share of a limit per host. 0 means no limit. Any other share is at least 1.
    pub(crate) fn part_of_host_limit(&self, limit: u32) -> u32 {
        let (part, left) = (limit / self.host_sharers, limit % self.host_sharers);
        if limit == 0 { 0 } else { (part + u32::from(self.host_sharer < left)).max(1) }
    }

    /// Reads the user's cookie file, if one was specified.
    pub(crate) fn cookie_file(&self) -> Result<Option<CookieFile>> {
        self.cookies.as_deref().map(read_cookies).transpose()
    }

    /// Returns the header fields of requests, and the origin that receives secrets. This is the origin that the user
    /// named, or `otherwise` if none was named.
    pub(crate) fn fields(&self, otherwise: Option<OriginKey>) -> Result<OriginFields> {
        OriginFields::new(self.credentials_for.clone().or(otherwise), self.headers.clone())
    }

    /// Fails if no origin would receive the client certificate. `origin` is the origin that receives secrets. `written`
    /// formats the name of an option.
    pub(crate) fn check_client_certificate(
        &self,
        origin: Option<&OriginKey>,
        written: fn(&str) -> String,
    ) -> Result<()> {
        let [cert, key, named] = ["client_cert", "client_key", "credentials_for"].map(written);
        let refuse = |message: String| Err(Error::Usage(message));
        match (&self.client_cert, &self.client_key, origin) {
            (None, Some(_), _) => {
                refuse(format!("{key} needs {cert}, the certificate that belongs to the key"))
            }
            (Some(_), _, None) => refuse(format!(
                "{cert} identifies you, but requests may go to any host; name the only origin that gets the \
                 certificate with {named} https://HOST"
            )),
            (Some(_), _, Some(origin)) if !origin.is_tls() => refuse(format!(
                "{cert} is sent only over TLS, and {} is not an https URL; write https://",
                origin.text()
            )),
            _ => Ok(()),
        }
    }

    /// Returns the connection settings that all users share. `reach` restricts the addresses, except for `named`, which
    /// is always allowed. With these settings, idle connections are not kept, and times are not measured.
    pub(crate) fn pool_settings(
        &self,
        store: &Arc<Access>,
        fields: OriginFields,
        (reach, named): (AddressPolicy, Option<OriginKey>),
        threads: usize,
    ) -> Result<PoolSettings> {
        let tls = Arc::new(TlsSetup::new(self.tls(&store.options, fields.origin())));
        Ok(PoolSettings {
            timeouts: self.timeouts(),
            max_body: self.max_size,
            connections: 0,
            fields,
            authority: Some(Arc::new(SignedOrigins {
                access: Arc::clone(store),
                are_of_objects: true,
                named,
            })),
            paces: self.host_rate().map(Paces::new).map(Arc::new),
            tls,
            names: self.names(threads),
            idle_max: 0,
            proxy: self.proxy.clone().map(Arc::new),
            reach,
            times_phases: false,
            patience: Patience::default(),
            cookies: self.cookie_file()?.map(Arc::new),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_host_limit_add_up_to_it() {
        let parts = |limit, host_sharers| -> Vec<u32> {
            (0..host_sharers)
                .map(|host_sharer| HttpOptions { host_sharers, host_sharer, ..HttpOptions::default() })
                .map(|options| options.part_of_host_limit(limit))
                .collect()
        };

        assert_eq!(parts(8, 3), [3, 3, 2]);
        assert_eq!(parts(3, 1), [3]);
        assert_eq!(parts(0, 2), [0, 0]);
        // If the limit is below the number of workers, each worker still gets 1.
        assert_eq!(parts(4, 5), [1, 1, 1, 1, 1]);
    }
}
