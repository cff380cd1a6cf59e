//! A proxy between this machine and the origins. For `http` origins, an HTTP proxy receives requests in absolute form.
//! For `https` origins, the HTTP proxy opens a tunnel and cannot see the content. A SOCKS proxy ([`super::socks`])
//! connects to either kind of origin.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

use super::errno;
use super::no_proxy::NoProxy;
use super::socks::{self, SocksUser};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::{BodySink, ReplyProgress, ReplyReader};
use fetchmill_model::name;
use fetchmill_model::options::OptionValue;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;

/// Read size for the answer to a tunnel request.
const READ_BYTES: usize = 4096;
/// Default port for a proxy URL without a port.
const HTTP_PORT: u16 = 80;
const SOCKS_PORT: u16 = 1080;
/// Schemes of SOCKS proxies. With `socks5`, this machine looks up names. With `socks5h`, the proxy looks them up.
const SOCKS5: &str = "socks5";
const SOCKS5H: &str = "socks5h";

/// Address of a proxy, and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    protocol: ProxyProtocol,
}

/// Protocol of a proxy, with its credentials. They are secret and sent only to the proxy.
#[derive(Clone, PartialEq, Eq)]
enum ProxyProtocol {
    Http {
        /// Value of `Proxy-Authorization`.
        authorization: Option<String>,
    },
    Socks5 {
        user: Option<SocksUser>,
        /// Whether the proxy looks up names (`socks5h`) instead of this machine.
        looks_up: bool,
    },
}

impl std::fmt::Debug for Proxy {
    /// Omits the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Proxy")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Proxy {
    /// Parses `[http://][user:password@]host[:port]`. The scheme may also be `socks5://` or `socks5h://`. Error
    /// messages never quote the text, because it may contain a password.
    pub fn parse(text: &str) -> Result<Self> {
        Proxy::parse_of("--proxy", text)
    }

    /// Parses the value of `source`, an option or environment variable. Error messages contain its name.
    fn parse_of(source: &str, text: &str) -> Result<Self> {
        let refused = |why: &str| {
            Err(Error::Usage(format!(
                "{source}: {why}; write it as http://[USER:PASSWORD@]HOST:PORT, or with socks5:// or socks5h://"
            )))
        };
        // Accept a missing scheme, as curl does.
        let text = &if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return refused("it contains a space or a control character");
        }
        let url = match Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | SOCKS5 | SOCKS5H) => url,
            Ok(url) if text.to_ascii_lowercase().starts_with(&format!("{}://", url.scheme())) => {
                return refused(&format!("the scheme {} is not supported for a proxy", url.scheme()));
            }
            _ => return refused("not a URL"),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return refused("it has a path, a query or a fragment");
        }
        let Some(user) = user_of(&url) else {
            return refused("write a % in the user name or password as %25");
        };
        let host = url.host_str().unwrap_or_default();
        if host.is_empty() || host.contains('%') {
            return refused("it has no host");
        }
        let (protocol, default_port) = if url.scheme() == "http" {
            let authorization = user.map(|(name, password)| basic(&name, &password));
            (ProxyProtocol::Http { authorization }, HTTP_PORT)
        } else {
            let user = match user.map(|(name, password)| SocksUser::new(name, password)) {
                Some(None) => {
                    return refused(
                        "SOCKS needs a user name; user name and password may have at most 255 bytes each",
                    );
                }
                user => user.flatten(),
            };
            (ProxyProtocol::Socks5 { user, looks_up: url.scheme() == SOCKS5H }, SOCKS_PORT)
        };
        Ok(Proxy {
            host: host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase(),
            port: url.port().unwrap_or(default_port),
            protocol,
        })
    }

    /// Returns whether the proxy receives requests to the origin in absolute form rather than opening a tunnel.
    pub fn asks_itself(&self, origin: &OriginKey) -> bool {
        matches!(self.protocol, ProxyProtocol::Http { .. }) && !origin.is_tls()
    }

    /// Returns whether the proxy speaks SOCKS.
    pub fn is_socks(&self) -> bool {
        matches!(self.protocol, ProxyProtocol::Socks5 { .. })
    }

    /// Returns whether the proxy accepts addresses of origins. If so, this machine looks up the names.
    pub(super) fn takes_addresses(&self) -> bool {
        matches!(self.protocol, ProxyProtocol::Socks5 { looks_up: false, .. })
    }

    /// Returns the value of `Proxy-Authorization`. It is secret and sent only to the proxy.
    pub fn authorization(&self) -> Option<&str> {
        match &self.protocol {
            ProxyProtocol::Http { authorization } => authorization.as_deref(),
            ProxyProtocol::Socks5 { .. } => None,
        }
    }

    /// Returns the request for a tunnel. `None` if `host` is invalid.
    fn connect_request(&self, host: &str, port: u16) -> Option<String> {
        if host.is_empty()
            || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte))
        {
            return None;
        }
        let authority =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
        if let Some(authorization) = self.authorization() {
            request.extend(["Proxy-Authorization: ", authorization, "\r\n"]);
        }
        request.push_str("\r\n");
        Some(request)
    }
}

/// The proxies of a job, and the hosts that are reached without a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ProxyText")]
pub struct ProxySetup {
    /// Proxy for `http://` origins.
    http: Option<Proxy>,
    /// Proxy for `https://` origins.
    https: Option<Proxy>,
    without: NoProxy,
}

/// The proxy option, as JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum ProxyText {
    /// `--proxy URL`: one proxy for both schemes.
    Both(String),
    /// `--proxy env`: the values of `http_proxy`, `https_proxy` and `no_proxy`.
    OfEnvironment { http: Option<String>, https: Option<String>, without: Vec<String> },
}

impl TryFrom<ProxyText> for ProxySetup {
    type Error = Error;

    fn try_from(text: ProxyText) -> Result<Self> {
        match text {
            ProxyText::Both(text) => Ok(ProxySetup::of_both(Proxy::parse(&text)?)),
            ProxyText::OfEnvironment { http, https, without } => {
                let parse = |source, text: Option<String>| {
                    text.map(|text| Proxy::parse_of(source, &text)).transpose()
                };
                Ok(ProxySetup {
                    http: parse("http_proxy", http)?,
                    https: parse("https_proxy", https)?,
                    without: NoProxy::parse(without.iter().map(String::as_str)),
                })
            }
        }
    }
}

impl OptionValue for ProxySetup {}

impl ProxySetup {
    /// Uses the same proxy for everything.
    pub fn of_both(proxy: Proxy) -> Self {
        ProxySetup { http: Some(proxy.clone()), https: Some(proxy), without: NoProxy::default() }
    }

    /// Returns whether a proxy speaks SOCKS.
    pub fn has_socks(&self) -> bool {
        [&self.http, &self.https].into_iter().flatten().any(Proxy::is_socks)
    }

    /// Returns the proxy for an origin. `None` means a direct connection.
    pub fn proxy_of(&self, origin: &OriginKey) -> Option<&Proxy> {
        let proxy = if origin.is_tls() { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !self.without.covers(origin.host(), origin.port()))
    }
}

/// Returns the user name and password. The outer `None` means that the URL contains an invalid escape.
#[expect(clippy::option_option, reason = "missing credentials are not invalid ones")]
fn user_of(url: &Url) -> Option<Option<(Vec<u8>, Vec<u8>)>> {
    if url.username().is_empty() && url.password().is_none() {
        return Some(None);
    }
    let name = name::unescape(url.username().as_bytes())?;
    let password = name::unescape(url.password().unwrap_or_default().as_bytes())?;
    Some(Some((name, password)))
}

/// Returns the value of `Proxy-Authorization` for basic authentication (RFC 7617).
fn basic(name: &[u8], password: &[u8]) -> String {
    format!("Basic {}", STANDARD.encode([name, b":", password].concat()))
}

/// Asks the proxy at the other end of `stream` to connect to an origin, and waits up to `timeout`. `host` is a name, or
/// an address without brackets.
pub(super) async fn tunnel(
    stream: &mut TcpStream,
    host: &str,
    port: u16,
    proxy: &Proxy,
    timeout: Duration,
) -> std::result::Result<(), FailureKind> {
    let asked = async {
        match &proxy.protocol {
            ProxyProtocol::Http { .. } => ask_http(stream, host, port, proxy).await,
            ProxyProtocol::Socks5 { user, .. } => socks::connect(stream, host, port, user.as_ref()).await,
        }
    };
    tokio::time::timeout(timeout, asked).await.unwrap_or(Err(FailureKind::ConnectTimeout))
}

/// Requests a tunnel from an HTTP proxy.
async fn ask_http(
    stream: &mut TcpStream,
    host: &str,
    port: u16,
    proxy: &Proxy,
) -> std::result::Result<(), FailureKind> {
    let request = proxy.connect_request(host, port).ok_or(FailureKind::ProxyRefused)?;
    stream.write_all(request.as_bytes()).await.map_err(|error| errno::of_open(&error))?;
    match read_status(stream).await? {
        200..=299 => Ok(()),
        408 | 429 | 500..=599 => Err(FailureKind::Proxy),
        _ => Err(FailureKind::ProxyRefused),
    }
}

/// Reads the head of the answer, up to the usual size limit. No bytes may follow an answer that opens a tunnel, because
/// in TLS the client speaks first.
async fn read_status(stream: &mut TcpStream) -> std::result::Result<u16, FailureKind> {
    let mut reader = ReplyReader::new(u64::MAX);
    let mut behind = BodySeen(false);
    let mut buffer = [0_u8; READ_BYTES];
    let mut pending = Vec::new();
    loop {
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => pending.extend_from_slice(&buffer[..count]),
            Ok(_) => return Err(FailureKind::Reset),
            Err(error) => return Err(errno::of_open(&error)),
        }
        let progress = reader.read(&pending, &mut behind);
        if let Some(head) = reader.head() {
            let has_surplus =
                matches!(progress, Ok(ReplyProgress::Done { consumed }) if consumed < pending.len());
            let is_tunnel = (200..300).contains(&head.status);
            return if is_tunnel && (behind.0 || has_surplus || head.is_suspect) {
                Err(FailureKind::ProxyRefused)
            } else {
                Ok(head.status)
            };
        }
        match progress {
            Ok(ReplyProgress::NeedMore { consumed } | ReplyProgress::Done { consumed }) => {
                drop(pending.drain(..consumed));
            }
            Err(_) => return Err(FailureKind::ProxyRefused),
        }
    }
}

/// A sink that records whether any bytes of a body arrived.
struct BodySeen(bool);

impl BodySink for BodySeen {
    fn piece(&mut self, _: &[u8]) {
        self.0 = true;
    }
}
