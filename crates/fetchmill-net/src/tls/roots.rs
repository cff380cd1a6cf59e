//! The trusted certificate authorities, which are loaded once per job.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::client_identity::ClientFiles;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::CA_FILE_BYTES_MAX;

/// The user's TLS options.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// `--ca-file`: the only trusted authorities, in PEM.
    pub ca_file: Option<PathBuf>,
    /// Authorities from the AWS configuration. Unless `ca_file` is set, they are added to the system's authorities.
    pub ca_bundle: Option<PathBuf>,
    /// `--insecure-host`: hosts whose certificates are accepted without verification.
    pub insecure_hosts: Vec<String>,
    /// Whether to offer HTTP/2.
    pub http2: bool,
    /// The client certificate, if there is one.
    pub client: Option<ClientFiles>,
}

/// The trusted authorities, shared by clones.
#[derive(Debug, Clone)]
pub struct TlsRoots {
    pub(super) store: Arc<RootCertStore>,
    /// The certificates in `--ca-file`, unchanged. Some may be servers' own certificates.
    pub(super) given: Arc<[CertificateDer<'static>]>,
}

impl TlsRoots {
    /// Loads the authorities from `--ca-file` if it is given. Without the option, uses the system's authorities, or the
    /// built-in ones if the system has none.
    pub fn load(options: &TlsOptions) -> Result<Self> {
        let (store, given) = if let Some(path) = &options.ca_file {
            of_file(path, "--ca-file")?
        } else {
            let mut store = of_system();
            let mut given = Vec::new();
            if let Some(path) = &options.ca_bundle {
                let (more, certificates) = of_file(path, "AWS_CA_BUNDLE or the profile's ca_bundle,")?;
                store.extend(more.roots);
                given = certificates;
            }
            (store, given)
        };
        Ok(TlsRoots { store: Arc::new(store), given: given.into() })
    }
}

fn of_system() -> RootCertStore {
    let mut store = RootCertStore::empty();
    // Skip certificates that cannot be read or parsed. A connection that needs one of them fails with its own error.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    store
}

fn of_file(path: &Path, source: &str) -> Result<(RootCertStore, Vec<CertificateDer<'static>>)> {
    let refused = |what: String| {
        Error::Usage(format!("{source} {}: {what}; give a PEM file with certificates", path.display()))
    };
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(CA_FILE_BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(|error| refused(format!("it cannot be read ({error})")))?;
    if text.len() as u64 > CA_FILE_BYTES_MAX {
        return Err(refused(format!("it is larger than {CA_FILE_BYTES_MAX} bytes")));
    }
    let mut store = RootCertStore::empty();
    let mut given = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| refused(format!("it is damaged ({error})")))?;
        given.push(certificate.clone());
        store
            .add(certificate)
            .map_err(|error| refused(format!("it contains a damaged certificate ({error})")))?;
    }
    if store.is_empty() {
        return Err(refused("it has no certificate".to_owned()));
    }
    Ok((store, given))
}
