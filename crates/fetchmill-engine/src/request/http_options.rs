//! How requests are made: the options that jobs and streams have in common.

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

/// The port of DNS.
const DNS_PORT: u16 = 53;

options! {
    /// See the module.
    pub struct HttpOptions {
        /// Requests in flight.
        concurrency: Concurrency = Concurrency::Auto { most: limits::AUTO_CONCURRENCY_MAX }, Bounds::at_least(1.0, "");
        /// Requests in flight that are gone up to while their number is found out; none: what this machine allows, and what
        /// courtesy does.
        concurrency_max: Option<u32> = None, Bounds::at_least(1.0, "");
        /// Requests a second, all together.
        rate: Option<f64> = None, Bounds::above_0("requests a second");
        /// Requests a second, to each host; 0: as many as it takes, none: what the engine takes.
        rate_per_host: Option<f64> = None, Bounds::at_least(0.0, "requests a second");
        /// Attempts at a target, or at a request that may be made again.
        attempts: u32 = limits::ATTEMPTS_MAX, Bounds::at_least(1.0, "");
        /// Statuses that are retried as 503 is.
        retry_status: RetriedStatuses = RetriedStatuses::default();
        /// Redirects that are followed one after the other; none: what the source asks for.
        redirects: Option<u32> = None, Bounds::between(0.0, f64::from(limits::REDIRECTS_MAX), "");
        /// See [`Timeouts`].
        #[serde(deserialize_with = "seconds")]
        connect_timeout: Duration = limits::CONNECT_TIMEOUT, Bounds::above_0("seconds");
        /// See [`Timeouts`].
        #[serde(deserialize_with = "seconds")]
        head_timeout: Duration = limits::HEAD_TIMEOUT, Bounds::above_0("seconds");
        /// See [`Timeouts`].
        #[serde(deserialize_with = "seconds")]
        idle_timeout: Duration = limits::IDLE_TIMEOUT, Bounds::above_0("seconds");
        /// See [`Timeouts`].
        #[serde(deserialize_with = "seconds")]
        total_timeout: Duration = limits::TOTAL_TIMEOUT, Bounds::above_0("seconds");
        /// For an attempt from the start of its connection, and for each part of it; none: each part has its own.
        #[serde(deserialize_with = "some_seconds")]
        timeout: Option<Duration> = None, Bounds::above_0("seconds");
        /// Bytes of a body.
        max_size: u64 = limits::BODY_BYTES_MAX, Bounds::at_least(1.0, "bytes");
        /// Types that the body of an object may have; none: any.
        accept: AcceptedTypes = AcceptedTypes::default();
        /// Bodies without a length are taken as they come.
        allow_eof_bodies: bool = false;
        /// Encoded replies are asked for, and decoded.
        compressed: bool = false;
        /// Whether replies count that reserve their content.
        opt_out: bool = false;
        /// What is added to requests, and to whose.
        headers: Vec<(String, String)> = Vec::new();
        /// The origin that gets the headers which may be secrets; none: that of a server that lists its objects.
        #[serde(deserialize_with = "origin")]
        credentials_for: Option<OriginKey> = None;
        /// The only authorities that are believed, in PEM.
        ca_file: Option<PathBuf> = None;
        /// The certificate that shows who asks, in PEM.
        client_cert: Option<PathBuf> = None;
        /// Its key, in PEM; none: it is in the same file.
        client_key: Option<PathBuf> = None;
        /// Cookies in the format of Netscape.
        cookies: Option<PathBuf> = None;
        /// Hosts whose certificates are taken as they are.
        insecure_host: Vec<String> = Vec::new();
        /// Whether HTTP/2 is offered.
        http2: bool = true;
        /// What stands between this machine and the origins.
        proxy: Option<ProxySetup> = None;
        /// Who looks names up.
        resolver: Resolvers = Resolvers::Configured;
        /// Whether no request may lead to an address that is not public.
        public_only: bool = false;
    }
}

/// How many requests are in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "ConcurrencyValue")]
pub enum Concurrency {
    /// So many at most.
    Number(u32),
    /// As many as prove useful, so many at most.
    Auto {
        /// What this machine allows.
        most: u32,
    },
}

/// As it is given in JSON.
#[derive(Deserialize)]
#[serde(untagged, expecting = "concurrency must be a whole number or auto")]
enum ConcurrencyValue {
    Number(u32),
    /// As many as prove useful, within what an engine can.
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
    /// Requests that may be in flight at any time.
    pub fn most(self) -> usize {
        match self {
            Concurrency::Number(most) | Concurrency::Auto { most } => most as usize,
        }
    }

    /// The same, where this machine allows no more.
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

/// Who looks names up.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub enum Resolvers {
    /// The name servers of the system's configuration.
    #[default]
    Configured,
    /// Whoever looks names up for all programs of this machine.
    System,
    /// These name servers.
    Servers(Vec<SocketAddr>),
}

impl OptionValue for Resolvers {}

impl TryFrom<Vec<String>> for Resolvers {
    type Error = Error;

    /// `system`, or name servers: `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]:PORT`.
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
                    "resolver must be the address of a name server, ADDRESS[:PORT], or only `system`, not {text}"
                ))
            })
        };
        texts.iter().map(server).collect::<Result<_>>().map(Resolvers::Servers)
    }
}

/// The origin that a user names; a path behind it is a mistake.
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
    /// Times that an attempt may take.
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

    /// Whom to believe in TLS, and who gets the user's certificate.
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

    /// How names are looked up by so many threads.
    pub(crate) fn names(&self, threads: usize) -> NameResolverSetup {
        match &self.resolver {
            Resolvers::Configured => NameResolverSetup::new(false, &[], threads),
            Resolvers::System => NameResolverSetup::new(true, &[], threads),
            Resolvers::Servers(servers) => NameResolverSetup::new(false, servers, threads),
        }
    }

    /// Who looks up the host of a server that lists: the name servers that a user has named, else as everything else on this
    /// machine does. It is one name.
    pub(crate) fn names_of_server(&self) -> NameResolverSetup {
        match &self.resolver {
            Resolvers::Servers(servers) => NameResolverSetup::new(false, servers, 1),
            Resolvers::Configured | Resolvers::System => NameResolverSetup::new(true, &[], 1),
        }
    }

    /// The proxy that an origin is asked through; none: it is asked directly.
    pub(crate) fn proxy_of(&self, key: &OriginKey) -> Option<&Proxy> {
        self.proxy.as_ref()?.proxy_of(key)
    }

    /// The rate to each host, when there is one.
    pub(crate) fn host_rate(&self) -> Option<f64> {
        self.rate_per_host.filter(|rate| *rate > 0.0)
    }

    /// The cookies of the user's file, if there is one.
    pub(crate) fn cookie_file(&self) -> Result<Option<CookieFile>> {
        self.cookies.as_deref().map(read_cookies).transpose()
    }

    /// What requests say, and to whom; `otherwise` is who gets secrets when nobody is named.
    pub(crate) fn fields(&self, otherwise: Option<OriginKey>) -> Result<OriginFields> {
        OriginFields::new(self.credentials_for.clone().or(otherwise), self.headers.clone())
    }

    /// Refuses a certificate that no origin gets; `origin` is who gets secrets, and `written` writes an option's name.
    pub(crate) fn check_client_certificate(
        &self,
        origin: Option<&OriginKey>,
        written: fn(&str) -> String,
    ) -> Result<()> {
        let [cert, key, named] = ["client_cert", "client_key", "credentials_for"].map(written);
        let refuse = |message: String| Err(Error::Usage(message));
        match (&self.client_cert, &self.client_key, origin) {
            (None, Some(_), _) => refuse(format!("{key} is the key of a certificate: give {cert}, too")),
            (Some(_), _, None) => refuse(format!(
                "{cert} shows who asks, and requests may lead anywhere: say with {named} https://HOST which origin gets it"
            )),
            (Some(_), _, Some(origin)) if !origin.is_tls() => {
                refuse(format!("{cert} is shown in TLS only, and {} has none: write https://", origin.text()))
            }
            _ => Ok(()),
        }
    }

    /// What connections have in common: how far they lead, and which origin is reached wherever it is. None of them is kept,
    /// and nobody reads clocks.
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
