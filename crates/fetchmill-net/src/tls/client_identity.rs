//! The client certificate, read from the user's files and presented to one origin only.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::CA_FILE_BYTES_MAX;
use fetchmill_model::origin::OriginKey;

/// Markers in a key file that requires a password, in PKCS #8 and in the older format.
const ENCRYPTED: [&[u8]; 2] = [b"ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];

/// PEM files given with `--client-cert` and `--client-key`, and the only origin that receives the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// File that contains the certificate and its intermediate certificates.
    pub certificate: PathBuf,
    /// File that contains the key. `None` if the certificate file also contains the key.
    pub key: Option<PathBuf>,
    /// Origin that receives the certificate.
    pub origin: OriginKey,
}

/// A certificate and its key, shared by clones.
#[derive(Clone)]
pub struct ClientIdentity(pub(super) Arc<CertifiedKey>);

impl std::fmt::Debug for ClientIdentity {
    /// Omits the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

impl ClientIdentity {
    /// Reads the files. Error messages never quote their contents.
    pub fn load(files: &ClientFiles) -> Result<Self> {
        let certificate = PemFile { option: "--client-cert", path: &files.certificate };
        let text = certificate.read()?;
        let chain: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let chain =
            chain.map_err(|_| certificate.refused("it contains a damaged certificate", CERTIFICATES))?;
        if chain.is_empty() {
            return Err(certificate.refused("it has no certificate", CERTIFICATES));
        }
        let (key, of_key) = match &files.key {
            Some(path) => {
                let file = PemFile { option: "--client-key", path };
                (file.read()?, file)
            }
            None => (text, certificate),
        };
        let key = of_key.private_key(&key)?;
        let signer = aws_lc_rs::default_provider().key_provider.load_private_key(key);
        let signer = signer.map_err(|_| of_key.refused("TLS does not support this type of key", KEYS))?;
        let identity = CertifiedKey::new(chain, signer);
        match identity.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => {
                return Err(of_key.refused("the key does not match the certificate", "give the matching key"));
            }
        }
        Ok(ClientIdentity(Arc::new(identity)))
    }
}

const CERTIFICATES: &str = "give a PEM file with the certificate";
const KEYS: &str = "give an RSA, ECDSA or Ed25519 key in PEM format";

/// A file that the user named with an option.
#[derive(Clone, Copy)]
struct PemFile<'a> {
    option: &'static str,
    path: &'a Path,
}

impl PemFile<'_> {
    fn refused(&self, what: &str, advice: &str) -> Error {
        Error::Usage(format!("{} {}: {what}; {advice}", self.option, self.path.display()))
    }

    fn read(&self) -> Result<Vec<u8>> {
        let unreadable = |error: std::io::Error| {
            self.refused(&format!("it cannot be read ({error})"), "give a file that this user may read")
        };
        // The file is read more than once, but a pipe can be read only once.
        if !std::fs::metadata(self.path).map_err(unreadable)?.is_file() {
            return Err(self.refused("it is not a regular file", "give the path of a PEM file"));
        }
        let mut text = Vec::new();
        File::open(self.path)
            .and_then(|file| file.take(CA_FILE_BYTES_MAX + 1).read_to_end(&mut text))
            .map_err(unreadable)?;
        if text.len() as u64 > CA_FILE_BYTES_MAX {
            return Err(self.refused(&format!("it is larger than {CA_FILE_BYTES_MAX} bytes"), CERTIFICATES));
        }
        Ok(text)
    }

    /// Returns the first key in the contents of a file.
    fn private_key(&self, text: &[u8]) -> Result<PrivateKeyDer<'static>> {
        if ENCRYPTED.iter().any(|mark| memchr::memmem::find(text, mark).is_some()) {
            return Err(self.refused(
                "its key is encrypted",
                "give a key without a password; `openssl pkey -in KEY -out PLAIN` writes one",
            ));
        }
        PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound if self.option == "--client-cert" => {
                self.refused("it has no private key", "name the key file with --client-key")
            }
            rustls::pki_types::pem::Error::NoItemsFound => self.refused("it has no private key", KEYS),
            _ => self.refused("its key is damaged", KEYS),
        })
    }
}
