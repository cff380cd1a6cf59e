//! Which certificates are taken.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};
use webpki::EndEntityCert;

use super::{TlsRoots, server_name};
use crate::error::{Error, Result};
use crate::name;

/// A certificate that nobody but itself has signed.
#[derive(Debug, thiserror::Error)]
#[error("the certificate is self-signed")]
pub(super) struct SelfSigned;

/// The public rules, but for the hosts that the user has named.
#[derive(Debug)]
pub(super) struct Verifier {
    rules: Arc<WebPkiServerVerifier>,
    insecure_hosts: Vec<ServerName<'static>>,
}

impl Verifier {
    pub(super) fn new(
        roots: &TlsRoots,
        insecure_hosts: &[String],
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self> {
        let store = Arc::clone(&roots.store);
        let rules = WebPkiServerVerifier::builder_with_provider(store, Arc::clone(provider))
            .build()
            .map_err(|error| Error::Internal(format!("TLS cannot be set up: {error}")))?;
        let insecure_hosts = insecure_hosts.iter().map(|host| insecure_host(host)).collect::<Result<_>>()?;
        Ok(Verifier { rules, insecure_hosts })
    }
}

fn insecure_host(host: &str) -> Result<ServerName<'static>> {
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    server_name(&literal.to_ascii_lowercase()).ok_or_else(|| {
        Error::Usage(format!(
            "--insecure-host {}: this is no host; give a name or an address, without port and path",
            name::for_display(host.as_bytes())
        ))
    })
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        if self.insecure_hosts.iter().any(|host| host == server_name) {
            return Ok(ServerCertVerified::assertion());
        }
        self.rules
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .map_err(|error| told_apart(error, end_entity))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.rules.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.rules.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.rules.supported_verify_schemes()
    }
}

/// Says of a certificate without a known issuer whether it is its own.
fn told_apart(error: rustls::Error, end_entity: &CertificateDer<'_>) -> rustls::Error {
    let rustls::Error::InvalidCertificate(reason) = &error else { return error };
    // An issuer of the right name whose signature it is not is none.
    let has_no_issuer = matches!(reason, CertificateError::UnknownIssuer | CertificateError::BadSignature);
    if (has_no_issuer || is_authority(reason)) && is_its_own_issuer(end_entity) {
        CertificateError::Other(OtherError(Arc::new(SelfSigned))).into()
    } else if has_no_issuer {
        CertificateError::UnknownIssuer.into()
    } else {
        error
    }
}

/// A certificate that may sign others is refused as a server's before anybody looks for its issuer.
fn is_authority(reason: &CertificateError) -> bool {
    let CertificateError::Other(other) = reason else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

fn is_its_own_issuer(certificate: &CertificateDer<'_>) -> bool {
    EndEntityCert::try_from(certificate).is_ok_and(|parsed| parsed.issuer() == parsed.subject())
}
