//! The authorities that are believed: loaded once a job.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::TlsOptions;
use crate::error::{Error, Result};
use crate::limits::CA_FILE_BYTES_MAX;

/// The authorities that are believed. Clones share them.
#[derive(Debug, Clone)]
pub struct TlsRoots {
    pub(super) store: Arc<RootCertStore>,
}

impl TlsRoots {
    /// Those of `--ca-file` and no others; else the system's; else, on a system without any, the built-in ones.
    pub fn load(options: &TlsOptions) -> Result<Self> {
        let store = match &options.ca_file {
            Some(path) => of_file(path)?,
            None => of_system(),
        };
        Ok(TlsRoots { store: Arc::new(store) })
    }
}

fn of_system() -> RootCertStore {
    let mut store = RootCertStore::empty();
    // What cannot be read or understood is left out: then what depends on it fails, and says so.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    store
}

fn of_file(path: &Path) -> Result<RootCertStore> {
    let refused = |what: String| {
        Error::Usage(format!("--ca-file {}: {what}; give a file of certificates in PEM", path.display()))
    };
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(CA_FILE_BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(|error| refused(format!("it cannot be read ({error})")))?;
    if text.len() as u64 > CA_FILE_BYTES_MAX {
        return Err(refused(format!("it is larger than {CA_FILE_BYTES_MAX} bytes")));
    }
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| refused(format!("it is damaged ({error})")))?;
        store.add(certificate).map_err(|error| refused(format!("a certificate is damaged ({error})")))?;
    }
    if store.is_empty() {
        return Err(refused("it has no certificate".to_owned()));
    }
    Ok(store)
}
