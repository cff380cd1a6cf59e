//! Alerts that servers send to end TLS, named as in RFC 8446.

use std::cell::Cell;
use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, SignatureScheme};

use super::client_identity::ClientIdentity;
use fetchmill_model::outcome::FailureKind;

/// Text for the alert of a server that requires a client certificate.
const WANTS_CERTIFICATE: &str =
    "TLS alert certificate_required: the server requires a client certificate; see --client-cert";

thread_local! {
    /// Whether a server has requested a certificate since the last call of [`take_request`] on this thread.
    static REQUESTED: Cell<bool> = const { Cell::new(false) };
}

/// The client certificate, if there is one. Records when a server requests it.
#[derive(Debug)]
pub(super) struct ClientCertificate(Option<Arc<CertifiedKey>>);

impl ClientCertificate {
    pub(super) fn of(client: Option<&ClientIdentity>) -> Arc<dyn ResolvesClientCert> {
        Arc::new(ClientCertificate(client.map(|client| Arc::clone(&client.0))))
    }
}

impl ResolvesClientCert for ClientCertificate {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        REQUESTED.set(true);
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

/// Returns whether a server has requested a certificate since the last call. A thread polls its handshakes one at a
/// time, so calls just before and after a poll refer to the same handshake.
pub(super) fn take_request() -> bool {
    REQUESTED.replace(false)
}

/// Describes why a handshake failed. `requested` is `Some` if the server requested a certificate, and its value says
/// whether one was presented.
pub(super) fn handshake_text(error: &rustls::Error, requested: Option<bool>) -> String {
    use AlertDescription as Alert;
    let rustls::Error::AlertReceived(alert) = error else { return error.to_string() };
    let text = alert_text(*alert);
    let is_missing = matches!(alert, Alert::HandshakeFailure | Alert::BadCertificate | Alert::AccessDenied);
    match requested {
        Some(false) if is_missing => {
            format!("{text}: the server requires a client certificate; see --client-cert")
        }
        Some(true) => refusal_text(*alert).unwrap_or(text).into(),
        _ => text.into(),
    }
}

macro_rules! refusals {
    ($($variant:ident = $name:literal;)*) => {
        /// Alerts that servers send to reject a client certificate.
        const REFUSALS: &[AlertDescription] = &[$(AlertDescription::$variant),*];

        /// Returns the text for an alert that rejects a client certificate.
        fn refusal_text(alert: AlertDescription) -> Option<&'static str> {
            match alert {
                AlertDescription::CertificateRequired => Some(WANTS_CERTIFICATE),
                $(AlertDescription::$variant => {
                    Some(concat!("TLS alert ", $name, ": the server refused the client certificate; see --client-cert"))
                })*
                _ => None,
            }
        }
    };
}

refusals! {
    BadCertificate = "bad_certificate";
    UnsupportedCertificate = "unsupported_certificate";
    CertificateRevoked = "certificate_revoked";
    CertificateExpired = "certificate_expired";
    CertificateUnknown = "certificate_unknown";
    UnknownCA = "unknown_ca";
    AccessDenied = "access_denied";
}

/// Returns the failure of an open connection that ended with an alert.
///
/// With TLS 1.3, a server checks the client certificate only after the client's handshake is complete, and these alerts
/// have no other possible cause. Another attempt would fail in the same way.
pub(crate) fn of_open(error: &std::io::Error) -> Option<(FailureKind, &'static str)> {
    let inner = error.get_ref()?;
    match inner.downcast_ref::<rustls::Error>() {
        Some(rustls::Error::AlertReceived(alert)) => Some(of_alert(*alert)),
        Some(_) => None,
        // `h2` keeps only the text of the error.
        None => {
            let text = inner.to_string();
            let refusals = REFUSALS.iter().chain([&AlertDescription::CertificateRequired]);
            let mut same = refusals.filter(|alert| rustls::Error::AlertReceived(**alert).to_string() == text);
            same.next().map(|alert| of_alert(*alert))
        }
    }
}

fn of_alert(alert: AlertDescription) -> (FailureKind, &'static str) {
    match refusal_text(alert) {
        Some(text) => (FailureKind::Tls, text),
        None => (FailureKind::Reset, alert_text(alert)),
    }
}

macro_rules! alerts {
    ($($variant:ident = $name:literal;)*) => {
        fn alert_text(alert: AlertDescription) -> &'static str {
            match alert {
                AlertDescription::CertificateRequired => WANTS_CERTIFICATE,
                $(AlertDescription::$variant => concat!("TLS alert ", $name),)*
                _ => "a TLS alert with an unknown number",
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
