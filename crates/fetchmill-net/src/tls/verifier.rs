//! Decides whether to accept a server's certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};
use webpki::EndEntityCert;

use super::rejection::{self, WeakKey};
use super::roots::TlsRoots;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name;
use fetchmill_model::text::dates;

/// A self-signed certificate.
#[derive(Debug, thiserror::Error)]
#[error("the certificate is self-signed")]
pub(super) struct SelfSigned;

/// Applies the rules of the public web, except to hosts that the user named.
#[derive(Debug)]
pub(super) struct Verifier {
    rules: Arc<WebPkiServerVerifier>,
    /// Certificates that the user gave.
    given: Arc<[CertificateDer<'static>]>,
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
            .map_err(|error| Error::Internal(format!("cannot set up TLS: {error}")))?;
        let insecure_hosts = insecure_hosts.iter().map(|host| insecure_host(host)).collect::<Result<_>>()?;
        Ok(Verifier { rules, given: Arc::clone(&roots.given), insecure_hosts })
    }
}

impl Verifier {
    /// Verifies a self-signed certificate that may also sign others, such as those that `openssl req -x509` creates.
    /// The public rules reject it as a server certificate even if the user gave it. In that case, only its name and
    /// dates are checked here.
    fn verify_given(
        &self,
        error: rustls::Error,
        end_entity: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let is_authority =
            matches!(&error, rustls::Error::InvalidCertificate(reason) if is_authority(reason));
        if !is_authority || !self.given.iter().any(|given| given == end_entity) {
            return Err(error);
        }
        let Some((from, until)) = validity_of(end_entity) else {
            return Err(CertificateError::BadEncoding.into());
        };
        if now.as_secs() < from {
            return Err(CertificateError::NotValidYet.into());
        }
        if now.as_secs() > until {
            return Err(CertificateError::Expired.into());
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_name(&certificate, server_name)?;
        Ok(ServerCertVerified::assertion())
    }
}

/// Checks a value of `--insecure-host`.
pub fn check_insecure_host(host: &str) -> Result<()> {
    insecure_host(host).map(drop)
}

fn insecure_host(host: &str) -> Result<ServerName<'static>> {
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    server_name(&literal.to_ascii_lowercase()).ok_or_else(|| {
        Error::Usage(format!(
            "--insecure-host {}: not a host; give a host name or an IP address, without a port or path",
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
            .or_else(|error| self.verify_given(error, end_entity, server_name, now))
            .and_then(|verified| if has_weak_key(end_entity) { Err(weak_key()) } else { Ok(verified) })
            .map_err(|error| told_apart(error, end_entity))
            .inspect_err(|error| {
                if let rustls::Error::InvalidCertificate(reason) = error {
                    rejection::note(&server_name.to_str(), reason);
                }
            })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        if is_taken_as_it_is(cert) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        self.rules.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        if is_taken_as_it_is(cert) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        self.rules.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.rules.supported_verify_schemes()
    }
}

fn weak_key() -> rustls::Error {
    CertificateError::Other(OtherError(Arc::new(WeakKey))).into()
}

/// Returns whether a certificate cannot be used to verify signatures. This happens only for insecure hosts, because the
/// certificates of all other hosts have already been verified.
fn is_taken_as_it_is(certificate: &CertificateDer<'_>) -> bool {
    EndEntityCert::try_from(certificate).is_err() || has_weak_key(certificate)
}

/// Returns whether the certificate contains an RSA key of less than 2,048 bits. A 2,048-bit key takes up 294 bytes,
/// including its algorithm identifier.
fn has_weak_key(certificate: &CertificateDer<'_>) -> bool {
    const RSA: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
    const STRONG_BYTES: usize = 290;
    EndEntityCert::try_from(certificate).is_ok_and(|parsed| {
        let key = parsed.subject_public_key_info();
        key.len() < STRONG_BYTES && memchr::memmem::find(&key, RSA).is_some_and(|place| place < 8)
    })
}

/// Distinguishes a self-signed certificate from one whose issuer is unknown.
fn told_apart(error: rustls::Error, end_entity: &CertificateDer<'_>) -> rustls::Error {
    let rustls::Error::InvalidCertificate(reason) = &error else { return error };
    // A matching issuer name is not enough: the issuer must also have made the signature.
    let has_no_issuer = matches!(reason, CertificateError::UnknownIssuer | CertificateError::BadSignature);
    if (has_no_issuer || is_authority(reason)) && is_its_own_issuer(end_entity) {
        CertificateError::Other(OtherError(Arc::new(SelfSigned))).into()
    } else if has_no_issuer {
        CertificateError::UnknownIssuer.into()
    } else {
        error
    }
}

/// Returns the validity period of a certificate, in seconds since 1970. `None` if the certificate is malformed.
fn validity_of(certificate: &CertificateDer<'_>) -> Option<(u64, u64)> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let (whole, _) = der_value(certificate, SEQUENCE)?;
    let (mut rest, _) = der_value(whole, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = der_value(rest, VERSION)?.1;
    }
    // Skip the serial number, algorithm and issuer.
    for tag in [0x02, SEQUENCE, SEQUENCE] {
        rest = der_value(rest, tag)?.1;
    }
    let (validity, _) = der_value(rest, SEQUENCE)?;
    let (from, behind) = der_time(validity)?;
    let (until, _) = der_time(behind)?;
    Some((from, until))
}

/// Returns the content of a DER value that has this tag, and the bytes after it.
fn der_value(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = bytes.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// Parses `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`. Returns the time in seconds since 1970, and the bytes after it.
fn der_time(bytes: &[u8]) -> Option<(u64, &[u8])> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let (text, rest) = der_value(bytes, UTC_TIME).or_else(|| der_value(bytes, GENERALIZED_TIME))?;
    // Two-digit years range from 1950 to 2049.
    let text = match text {
        [b'5'..=b'9', ..] if text.len() == 13 => [b"19", text].concat(),
        _ if text.len() == 13 => [b"20", text].concat(),
        _ => text.to_vec(),
    };
    let digits = std::str::from_utf8(text.strip_suffix(b"Z")?).ok()?;
    let part = |range: std::ops::Range<usize>| digits.get(range);
    let year = part(0..4)?;
    if digits.len() != 14 {
        return None;
    }
    if year < "1970" {
        return Some((0, rest));
    }
    let (month, day) = (part(4..6)?, part(6..8)?);
    let (hour, minute, second) = (part(8..10)?, part(10..12)?, part(12..14)?);
    let date = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    Some((dates::parse_utc(date.as_bytes())?, rest))
}

/// Returns whether a certificate was rejected because it may sign others. This check comes before the search for its
/// issuer.
fn is_authority(reason: &CertificateError) -> bool {
    let CertificateError::Other(other) = reason else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

fn is_its_own_issuer(certificate: &CertificateDer<'_>) -> bool {
    EndEntityCert::try_from(certificate).is_ok_and(|parsed| parsed.issuer() == parsed.subject())
}

/// Returns the name in the form that certificates use, without a trailing dot. `None` if no certificate can be valid
/// for this host.
pub(super) fn server_name(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.strip_suffix('.').unwrap_or(host)).ok().map(|name| name.to_owned())
}
