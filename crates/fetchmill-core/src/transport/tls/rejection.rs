//! Why a certificate was not accepted, in words. A failure kind has no room for it, and it is wanted only where a job ends
//! with it: the thread that made the handshake keeps the last reason.

use std::cell::RefCell;

use rustls::CertificateError;
use rustls::pki_types::UnixTime;

use crate::time_text::utc;

thread_local! {
    /// The host, and why.
    static LAST: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Keeps the reason for this host.
pub(super) fn note(host: &str, reason: &CertificateError) {
    LAST.set(describe(reason).map(|reason| (host.to_owned(), reason)));
}

/// Why the certificate of a host was not accepted by this thread, when that was the last one and more is known than its
/// failure kind says.
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
                "it is valid from {} on, and this machine's clock says {}",
                moment(not_before),
                moment(time)
            )
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not for servers (extended key usage)".to_owned()
        }
        CertificateError::UnhandledCriticalExtension => "it has an unknown critical extension".to_owned(),
        CertificateError::BadEncoding => "it is malformed".to_owned(),
        CertificateError::Other(other) => format!("it breaks a rule of its chain: {other}"),
        CertificateError::UnknownIssuer
        | CertificateError::NotValidForName
        | CertificateError::NotValidForNameContext { .. } => return None,
        // A key that is too short shows as a signature that does not verify, or an algorithm that is not supported.
        other if format!("{other:?}").contains("SignatureAlgorithm") => {
            "its signature or its key is too weak: SHA-1, or RSA below 2,048 bits".to_owned()
        }
        other => format!("{other:?}"),
    })
}
