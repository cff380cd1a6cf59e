//! Errors that end a job because its only server failed certificate verification.

use fetchmill_model::error::Error;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;
use fetchmill_net::rejection_of;

/// Returns the error that ends the job, or `None` if the failure is not about trust.
pub(crate) fn distrust(key: &OriginKey, kind: FailureKind) -> Option<Error> {
    let (what, remedy) = match kind {
        FailureKind::TlsExpired => ("has expired or is not valid yet", "renew it"),
        FailureKind::TlsWrongName => ("is for another name", "use a host name that is in the certificate"),
        FailureKind::TlsSelfSigned => ("is self-signed", "if you trust it, pass it with --ca-file"),
        FailureKind::TlsUnknownCa => {
            ("is signed by an unknown authority", "pass the authority's certificate with --ca-file")
        }
        FailureKind::TlsCertificate => ("cannot be used", "replace it"),
        _ => return None,
    };
    let reason = rejection_of(key.host()).map(|reason| format!("; {reason}")).unwrap_or_default();
    Some(Error::Security(format!(
        "the certificate of {} {what} ({}{reason}): {remedy}, or accept it without verification with \
         --insecure-host {}",
        key.text(),
        kind.name(),
        key.host()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_line_and_other_failures_none() {
        let (key, _) = OriginKey::of_url("https://a.test:8443/").unwrap();

        for kind in FailureKind::ALL {
            let said = distrust(&key, *kind).map(|error| (error.exit_code(), error.to_string()));
            assert_eq!(said.is_some(), kind.is_untrusted());
            if let Some((code, said)) = said {
                assert_eq!((code, said.lines().count()), (6, 1));
                assert!(said.contains(kind.name()) && said.contains("--insecure-host a.test"), "{said}");
            }
        }
    }
}
