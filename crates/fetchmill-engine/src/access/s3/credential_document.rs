//! Parses the JSON credentials that commands print and that containers and machines receive.

use serde::Deserialize;

use fetchmill_model::error::{Error, Result};
use fetchmill_model::s3::Credentials;
use fetchmill_model::text::dates::parse_utc;

/// JSON credentials. All these sources use the same field names.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CredentialDocument {
    access_key_id: String,
    secret_access_key: String,
    #[serde(alias = "SessionToken")]
    token: Option<String>,
    expiration: Option<String>,
}

/// Returns the credentials and their expiry in seconds since 1970. `from` names the source in messages.
pub(super) fn parse(text: &str, from: &str) -> Result<(Credentials, Option<u64>)> {
    // The text contains the secret, so messages never quote it.
    let document: CredentialDocument = serde_json::from_str(text).map_err(|error| {
        Error::Temporary(format!(
            "{from} returned invalid credentials (line {}, column {}); the output must be a JSON object \
             with AccessKeyId and SecretAccessKey",
            error.line(),
            error.column()
        ))
    })?;
    let expires_at = document.expiration.map(|date| expiry(&date, from)).transpose()?;
    let credentials = Credentials {
        access_key: document.access_key_id,
        secret_key: document.secret_access_key,
        token: document.token.filter(|token| !token.is_empty()),
    };
    Ok((checked(credentials, from)?, expires_at))
}

/// Checks that the credentials can be part of a request.
pub(super) fn checked(credentials: Credentials, from: &str) -> Result<Credentials> {
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let token = credentials.token.as_deref();
    if is_plain(&credentials.access_key) && is_plain(&credentials.secret_key) && token.is_none_or(is_plain) {
        return Ok(credentials);
    }
    Err(Error::Usage(format!(
        "the credentials from {from} are empty or contain a space or a control character; copy the \
         credentials again"
    )))
}

/// Parses a date such as `2026-11-22T05:00:00Z`. It can have a fraction, and an offset instead of `Z`.
pub(super) fn expiry(date: &str, from: &str) -> Result<u64> {
    parse_expiry(date).ok_or_else(|| {
        Error::Usage(format!(
            "the credentials from {from} have an invalid expiration date ({}); it must look like \
             2026-11-22T05:00:00Z",
            fetchmill_model::name::for_display(date.as_bytes())
        ))
    })
}

fn parse_expiry(date: &str) -> Option<u64> {
    let (whole, rest) = date.split_at_checked(19)?;
    let seconds = parse_utc(format!("{whole}Z").as_bytes())?;
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => rest,
    };
    if zone == "Z" {
        return Some(seconds);
    }
    let (sign, [h, hh, b':', m, mm]) = zone.as_bytes().split_first()? else { return None };
    let minutes = fetchmill_model::text::dates::number(&[*h, *hh])? * 60
        + fetchmill_model::text::dates::number(&[*m, *mm])?;
    match sign {
        b'+' => seconds.checked_sub(minutes * 60),
        b'-' => seconds.checked_add(minutes * 60),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_a_fraction_or_an_offset_or_neither() {
        for (date, seconds) in [
            ("1970-01-02T00:00:00Z", Some(86_400)),
            ("1970-01-02T00:00:00.123456Z", Some(86_400)),
            ("1970-01-02T00:00:00+00:00", Some(86_400)),
            ("1970-01-02T01:30:00.5+01:30", Some(86_400)),
            ("1970-01-01T23:00:00-01:00", Some(86_400)),
            ("1970-01-02T00:00:00", None),
            ("1970-01-02T00:00:00+1", None),
            ("tomorrow", None),
        ] {
            assert_eq!(parse_expiry(date), seconds, "{date}");
        }
    }

    #[test]
    fn what_is_no_credentials_is_told_without_the_secret() {
        let text = r#"{"AccessKeyId": "AK", "SecretAccessKey": "hidden", "Expiration": 5}"#;
        let error = parse(text, "a command").unwrap_err().to_string();

        assert!(error.contains("a command") && !error.contains("hidden"), "{error}");
        let broken = r#"{"AccessKeyId": "AK\r\nX: y", "SecretAccessKey": "hidden"}"#;
        assert!(!parse(broken, "a command").unwrap_err().to_string().contains("hidden"));
    }
}
