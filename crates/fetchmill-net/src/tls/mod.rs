//! TLS: trusted certificates, offered protocols, and the interpretation of failed handshakes.
//!
//! All decisions about rustls are made here. A server's certificate is verified unless its host is listed as insecure.
//! Handshake signatures are always verified.

pub(crate) mod alert;
mod client_identity;
mod rejection;
mod roots;
mod verifier;

pub use client_identity::{ClientFiles, ClientIdentity};
pub use rejection::rejection_of;
pub use roots::{TlsOptions, TlsRoots};
pub use verifier::check_insecure_host;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CertificateError, ClientConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::errno;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::TLS_SESSIONS_MAX;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;
use verifier::{SelfSigned, Verifier, server_name};

/// Protocol that a server selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/1.1. Also used if the server selected no protocol.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Opens a worker's TLS connections and keeps the sessions that can be resumed.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    /// Whether to present the client certificate to servers that request one.
    shows_certificate: bool,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

impl Tls {
    /// Creates a worker's TLS setup. All workers share `roots`, but not their sessions. A setup with `client` is only
    /// for the origin that receives this client certificate.
    pub fn new(roots: &TlsRoots, options: &TlsOptions, client: Option<&ClientIdentity>) -> Result<Self> {
        let provider = provider();
        let verifier = Verifier::new(roots, &options.insecure_hosts, &provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Internal(format!("cannot set up TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(alert::ClientCertificate::of(client));
        config.resumption = Resumption::in_memory_sessions(TLS_SESSIONS_MAX);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if options.http2 {
            config.alpn_protocols.insert(0, b"h2".to_vec());
        }
        Ok(Tls { connector: TlsConnector::from(Arc::new(config)), shows_certificate: client.is_some() })
    }

    /// Performs the handshake within `timeout`. `host` is a name or address without brackets or a port.
    pub async fn start(
        &self,
        stream: TcpStream,
        host: &str,
        timeout: Duration,
    ) -> std::result::Result<(TlsStream<TcpStream>, Alpn), FailureKind> {
        let name = server_name(host).ok_or(FailureKind::TlsWrongName)?;
        let mut was_requested = false;
        let mut handshake = std::pin::pin!(self.connector.connect(name, stream));
        let noted = std::future::poll_fn(|context| {
            alert::take_request();
            let polled = handshake.as_mut().poll(context);
            was_requested |= alert::take_request();
            polled
        });
        match tokio::time::timeout(timeout, noted).await {
            Ok(Ok(stream)) => {
                let alpn = match stream.get_ref().1.alpn_protocol() {
                    Some(b"h2") => Alpn::Http2,
                    _ => Alpn::Http1,
                };
                Ok((stream, alpn))
            }
            Ok(Err(error)) => {
                let kind = kind_of(&error);
                if kind == FailureKind::Tls {
                    rejection::note_text(
                        host,
                        handshake_text(&error, was_requested.then_some(self.shows_certificate)),
                    );
                }
                Err(kind)
            }
            Err(_) => Err(FailureKind::TlsTimeout),
        }
    }
}

/// TLS state shared by a job's threads. The authorities are loaded on first use, because loading takes a while.
#[derive(Debug, Default)]
pub struct TlsSetup {
    /// The user's options.
    pub options: TlsOptions,
    roots: Arc<OnceLock<TlsRoots>>,
    client: Arc<OnceLock<ClientIdentity>>,
}

impl TlsSetup {
    /// Creates the setup from the user's options.
    pub fn new(options: TlsOptions) -> Self {
        TlsSetup { options, roots: Arc::default(), client: Arc::default() }
    }

    /// Returns the same setup without HTTP/2.
    #[must_use]
    pub fn without_http2(&self) -> Self {
        TlsSetup {
            options: TlsOptions { http2: false, ..self.options.clone() },
            roots: Arc::clone(&self.roots),
            client: Arc::clone(&self.client),
        }
    }

    /// Returns the trusted authorities. The first call loads them.
    pub fn roots(&self) -> Result<&TlsRoots> {
        if self.roots.get().is_none() {
            // Two threads may load them at the same time, with the same result.
            let _ = self.roots.set(TlsRoots::load(&self.options)?);
        }
        self.roots.get().ok_or_else(|| Error::Internal("no authorities were read".into()))
    }

    /// Returns whether the client certificate is meant for this origin.
    pub fn shows_certificate_to(&self, origin: &OriginKey) -> bool {
        self.options.client.as_ref().is_some_and(|client| client.origin == *origin)
    }

    /// Returns the client certificate, if there is one. The first call loads it.
    pub fn client(&self) -> Result<Option<&ClientIdentity>> {
        let Some(files) = &self.options.client else { return Ok(None) };
        if self.client.get().is_none() {
            let _ = self.client.set(ClientIdentity::load(files)?);
        }
        Ok(self.client.get())
    }
}

/// Describes a failed handshake. `requested` is `Some` if the server requested a certificate, and its value says
/// whether one was presented.
fn handshake_text(error: &std::io::Error, requested: Option<bool>) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(error) => alert::handshake_text(error, requested),
        None => error.to_string(),
    }
}

/// Converts the error of a failed handshake. A broken connection does not indicate a TLS problem, so the attempt may be
/// retried.
fn kind_of(error: &std::io::Error) -> FailureKind {
    let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) else {
        return match error.kind() {
            std::io::ErrorKind::InvalidData => FailureKind::Tls,
            _ => errno::of_open(error),
        };
    };
    match error {
        rustls::Error::InvalidCertificate(error) => kind_of_certificate(error),
        _ => FailureKind::Tls,
    }
}

fn kind_of_certificate(error: &CertificateError) -> FailureKind {
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => FailureKind::TlsExpired,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            FailureKind::TlsWrongName
        }
        CertificateError::Other(other) if other.0.is::<SelfSigned>() => FailureKind::TlsSelfSigned,
        CertificateError::UnknownIssuer => FailureKind::TlsUnknownCa,
        // The server does not have the key of its certificate. An invalid chain would be reported as an unknown issuer.
        CertificateError::BadSignature => FailureKind::Tls,
        _ => FailureKind::TlsCertificate,
    }
}
