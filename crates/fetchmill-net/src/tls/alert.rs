//! The alerts with which a server ends TLS, by the names of RFC 8446.

use std::cell::Cell;
use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, SignatureScheme};

use fetchmill_model::outcome::FailureKind;

/// The text of the alert for which a client needs a certificate.
const WANTS_CERTIFICATE: &str = "TLS alert certificate_required: the server wants a client certificate";

thread_local! {
    /// Whether a server has asked for a certificate since [`take_request`] was called on this thread.
    static REQUESTED: Cell<bool> = const { Cell::new(false) };
}

/// A client without a certificate that notes when it is asked for one.
#[derive(Debug)]
pub(super) struct NoCertificate;

impl NoCertificate {
    pub(super) fn shared() -> Arc<dyn ResolvesClientCert> {
        Arc::new(NoCertificate)
    }
}

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        REQUESTED.set(true);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// Returns whether a server has asked for a certificate since the last call. Handshakes of a thread are polled one after
/// the other, so a call before and one after a poll say it of one handshake.
pub(super) fn take_request() -> bool {
    REQUESTED.replace(false)
}

/// Returns why a handshake failed, in words. `was_requested`: the server has asked for a certificate.
pub(super) fn handshake_text(error: &rustls::Error, was_requested: bool) -> String {
    use AlertDescription as Alert;
    let rustls::Error::AlertReceived(alert) = error else { return error.to_string() };
    let text = alert_text(*alert);
    let is_refusal = matches!(alert, Alert::HandshakeFailure | Alert::BadCertificate | Alert::AccessDenied);
    if was_requested && is_refusal {
        format!("{text}: the server wants a client certificate")
    } else {
        text.into()
    }
}

/// Returns what an error of an open connection means when an alert caused it.
///
/// With TLS 1.3 a server refuses a client without a certificate only after the handshake. Another attempt ends the same way.
pub(crate) fn of_open(error: &std::io::Error) -> Option<(FailureKind, &'static str)> {
    let inner = error.get_ref()?;
    match inner.downcast_ref::<rustls::Error>() {
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) => {
            Some((FailureKind::Tls, WANTS_CERTIFICATE))
        }
        Some(rustls::Error::AlertReceived(alert)) => Some((FailureKind::Reset, alert_text(*alert))),
        Some(_) => None,
        // HTTP/2 keeps of an error its text only.
        None => {
            let alert = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
            (inner.to_string() == alert.to_string()).then_some((FailureKind::Tls, WANTS_CERTIFICATE))
        }
    }
}

macro_rules! alerts {
    ($($variant:ident = $name:literal;)*) => {
        fn alert_text(alert: AlertDescription) -> &'static str {
            match alert {
                AlertDescription::CertificateRequired => WANTS_CERTIFICATE,
                $(AlertDescription::$variant => concat!("TLS alert ", $name),)*
                _ => "a TLS alert of an unknown number",
            }
        }
    };
}

alerts! {
    CloseNotify = "close_notify";
    UnexpectedMessage = "unexpected_message";
    BadRecordMac = "bad_record_mac";
    RecordOverflow = "record_overflow";
    HandshakeFailure = "handshake_failure";
    BadCertificate = "bad_certificate";
    UnsupportedCertificate = "unsupported_certificate";
    CertificateRevoked = "certificate_revoked";
    CertificateExpired = "certificate_expired";
    CertificateUnknown = "certificate_unknown";
    IllegalParameter = "illegal_parameter";
    UnknownCA = "unknown_ca";
    AccessDenied = "access_denied";
    DecodeError = "decode_error";
    DecryptError = "decrypt_error";
    ProtocolVersion = "protocol_version";
    InsufficientSecurity = "insufficient_security";
    InternalError = "internal_error";
    InappropriateFallback = "inappropriate_fallback";
    UserCanceled = "user_canceled";
    NoRenegotiation = "no_renegotiation";
    MissingExtension = "missing_extension";
    UnsupportedExtension = "unsupported_extension";
    UnrecognisedName = "unrecognized_name";
    BadCertificateStatusResponse = "bad_certificate_status_response";
    UnknownPSKIdentity = "unknown_psk_identity";
    NoApplicationProtocol = "no_application_protocol";
}
