//! Certificates of an authority that is created with the world, and of an unknown authority.
//!
//! Every host has a certificate of its own, because clients reject wildcards for a whole top-level domain. A
//! certificate is created on request and never kept, so that no table of a million hosts is needed. All certificates
//! have the same key.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SerialNumber,
    date_time_ymd,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio_rustls::TlsAcceptor;

use super::behaviour::Behaviour;
use crate::hash;

/// Name in the certificate for clients that send no host name, and in the certificate with the wrong name.
const ELSEWHERE: &str = "elsewhere.test";
const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

type CertificateResult<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// TLS acceptors of hosts, by fault.
pub(super) struct Acceptors {
    good: TlsAcceptor,
    http2: TlsAcceptor,
    expired: TlsAcceptor,
    wrong_name: TlsAcceptor,
    self_signed: TlsAcceptor,
    unknown: TlsAcceptor,
}

impl Acceptors {
    /// Creates the acceptors. Returns them with the certificate of the authority, as PEM.
    pub(super) fn new() -> CertificateResult<(Self, String)> {
        let known = Arc::new(Authority::new("fetchmill test world")?);
        let unknown = Arc::new(Authority::new("nobody")?);
        let pem = known.pem.clone();
        let with = |fault, authority: &Arc<Authority>, protocol: &[u8]| {
            let maker = CertificateMaker { authority: Arc::clone(authority), fault };
            acceptor(maker, protocol)
        };
        let acceptors = Acceptors {
            good: with(CertificateFault::None, &known, b"http/1.1")?,
            http2: with(CertificateFault::None, &known, b"h2")?,
            expired: with(CertificateFault::Expired, &known, b"http/1.1")?,
            wrong_name: with(CertificateFault::WrongName, &known, b"http/1.1")?,
            self_signed: with(CertificateFault::SelfSigned, &known, b"http/1.1")?,
            unknown: with(CertificateFault::None, &unknown, b"http/1.1")?,
        };
        Ok((acceptors, pem))
    }

    pub(super) fn of(&self, behaviour: Behaviour) -> &TlsAcceptor {
        match behaviour {
            Behaviour::Http2 => &self.http2,
            Behaviour::Expired => &self.expired,
            Behaviour::Wrongname => &self.wrong_name,
            Behaviour::Selfsigned => &self.self_signed,
            Behaviour::Unknownca => &self.unknown,
            _ => &self.good,
        }
    }
}

/// Creates an acceptor without tickets and sessions. Every connection needs a full handshake, as with hosts that are
/// visited only once.
fn acceptor(maker: CertificateMaker, protocol: &[u8]) -> CertificateResult<TlsAcceptor> {
    let kx_groups = vec![aws_lc_rs::kx_group::X25519, aws_lc_rs::kx_group::SECP256R1];
    let provider = CryptoProvider { kx_groups, ..aws_lc_rs::default_provider() };
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(VERSIONS)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(maker));
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// An authority that signs certificates, and the key that all of its hosts have.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    host_key: KeyPair,
    host_signer: Arc<dyn SigningKey>,
}

impl Authority {
    fn new(name: &str) -> CertificateResult<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let host_key = KeyPair::generate()?;
        let host_der = PrivateKeyDer::try_from(host_key.serialize_der())?;
        let host_signer = aws_lc_rs::sign::any_ecdsa_type(&host_der)?;
        Ok(Authority { issuer: Issuer::new(params, key), pem, host_key, host_signer })
    }
}

/// Fault of a certificate.
#[derive(Debug, Clone, Copy)]
enum CertificateFault {
    None,
    Expired,
    WrongName,
    SelfSigned,
}

/// Creates the certificate of a host during the handshake.
struct CertificateMaker {
    authority: Arc<Authority>,
    fault: CertificateFault,
}

impl std::fmt::Debug for CertificateMaker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CertificateMaker").field("fault", &self.fault).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for CertificateMaker {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = match self.fault {
            CertificateFault::WrongName => ELSEWHERE,
            _ => hello.server_name().unwrap_or(ELSEWHERE),
        };
        let certificate = self.certificate(name).ok()?;
        Some(Arc::new(CertifiedKey::new(vec![certificate], Arc::clone(&self.authority.host_signer))))
    }
}

impl CertificateMaker {
    fn certificate(&self, name: &str) -> Result<CertificateDer<'static>, rcgen::Error> {
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        // The serial number must be positive, without a leading zero byte.
        let serial = hash::of_bytes(0, name.as_bytes()) >> 2 | 1 << 61;
        params.serial_number = Some(SerialNumber::from(serial));
        if let CertificateFault::Expired = self.fault {
            (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        }
        let Authority { host_key, issuer, .. } = &*self.authority;
        let certificate = match self.fault {
            CertificateFault::SelfSigned => params.self_signed(host_key)?,
            _ => params.signed_by(host_key, issuer)?,
        };
        Ok(certificate.der().clone())
    }
}
