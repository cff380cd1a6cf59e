//! Keeps the reason for a failed handshake as text. A failure kind cannot hold this text, which is needed only for the
//! failure's detail. Each thread keeps the reason for its most recent failed handshake.

use std::cell::RefCell;

use rustls::CertificateError;
use rustls::pki_types::UnixTime;

use fetchmill_model::text::dates::utc;

/// A key that is too weak to verify signatures.
#[derive(Debug, thiserror::Error)]
#[error("the key is too weak: RSA with fewer than 2,048 bits")]
pub(super) struct WeakKey;

thread_local! {
    /// Host and reason.
    static LAST: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Records the reason for this host.
pub(super) fn note(host: &str, reason: &CertificateError) {
    LAST.set(describe(reason).map(|reason| (host.to_owned(), reason)));
}

/// Records why a handshake with this host failed.
pub(super) fn note_text(host: &str, reason: String) {
    LAST.set(Some((host.to_owned(), reason)));
}

/// Returns why this thread's most recent failed handshake was rejected, if it was with `host`. `None` if only the
/// failure kind is known.
pub fn rejection_of(host: &str) -> Option<String> {
    LAST.with_borrow(|last| {
        last.as_ref().filter(|(of, _)| of.eq_ignore_ascii_case(host)).map(|(_, reason)| reason.clone())
    })
}

fn describe(reason: &CertificateError) -> Option<String> {
    let moment = |time: &UnixTime| utc(time.as_secs());
    Some(match reason {
        CertificateError::ExpiredContext { time, not_after } => {
            format!("it expired at {}, and this machine's clock says {}", moment(not_after), moment(time))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!(
                "it is not valid before {}, but this machine's clock says {}",
                moment(not_before),
                moment(time)
            )
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not valid for servers (extended key usage)".to_owned()
        }
        CertificateError::UnhandledCriticalExtension => "it has an unknown critical extension".to_owned(),
        CertificateError::BadEncoding => "it is malformed".to_owned(),
        CertificateError::Other(other) if other.0.is::<WeakKey>() => other.0.to_string(),
        CertificateError::Other(other) => format!("its chain is not valid: {other}"),
        CertificateError::UnknownIssuer
        | CertificateError::NotValidForName
        | CertificateError::NotValidForNameContext { .. } => return None,
        other if format!("{other:?}").contains("SignatureAlgorithm") => {
            "its signature uses an unsupported algorithm, such as SHA-1".to_owned()
        }
        other => format!("{other:?}"),
    })
}
