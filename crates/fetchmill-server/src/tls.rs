//! TLS of the server. Uses a given certificate, or creates one for this machine's own names. The created certificate is
//! signed by an authority that is created together with the server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::error::Error;
use crate::options::CertificateFiles;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the TLS acceptor, and the certificate that clients must trust, as PEM.
pub(crate) fn acceptor() -> Result<(TlsAcceptor, String), Error> {
    make().map_err(|error| Error::Option(format!("cannot make a certificate for tls: {error}")))
}

/// Returns the TLS acceptor for a given certificate.
pub(crate) fn acceptor_with(files: &CertificateFiles) -> Result<TlsAcceptor, Error> {
    read(files).map_err(|error| {
        let (chain, key) = (files.chain.display(), files.key.display());
        Error::Option(format!("cannot use the certificate {chain} with the key {key}: {error}"))
    })
}

fn read(files: &CertificateFiles) -> Result<TlsAcceptor, AnyError> {
    let chain = CertificateDer::pem_file_iter(&files.chain)?.collect::<Result<_, _>>()?;
    configured(chain, PrivateKeyDer::from_pem_file(&files.key)?)
}

fn make() -> Result<(TlsAcceptor, String), AnyError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "fetchmill test server");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let pem = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);

    let host_key = KeyPair::generate()?;
    let mut params = CertificateParams::new(["localhost".to_owned()])?;
    for address in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
        params.subject_alt_names.push(SanType::IpAddress(address));
    }
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1));
    let certificate = params.signed_by(&host_key, &issuer)?;
    let host_key = PrivateKeyDer::try_from(host_key.serialize_der())?;

    Ok((configured(vec![certificate.der().clone()], host_key)?, pem))
}

fn configured(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor, AnyError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
