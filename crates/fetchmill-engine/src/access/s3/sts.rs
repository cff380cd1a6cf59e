//! Security Token Service (STS). It exchanges other credentials, or a token, for a role's credentials.

use quick_xml::events::Event;

use super::credential_client::{CredentialClient, CredentialEndpoint, CredentialReply, CredentialRequest};
use super::credential_document;
use super::environment::Environment;
use super::profile::Profile;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::for_display;
use fetchmill_model::s3::{AwsVariant, Credentials, REGION_DEFAULT, Signer};

const VERSION: &str = "2011-06-15";

/// Role to assume, with the parameters of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) session: String,
    pub(super) external_id: Option<String>,
    /// Session duration in seconds.
    pub(super) duration: Option<String>,
}

impl Role {
    /// Returns a profile's role, if it has one. The session name contains `now`.
    pub(super) fn of_profile(profile: &Profile, now: u64) -> Option<Self> {
        Some(Role {
            arn: profile.get("role_arn")?.clone(),
            session: profile.get("role_session_name").cloned().unwrap_or_else(|| session_name(now)),
            external_id: profile.get("external_id").cloned(),
            duration: profile.get("duration_seconds").cloned(),
        })
    }

    /// Returns the role in the environment, which is assumed with a token.
    pub(super) fn of_environment(environment: &Environment, now: u64) -> Option<Self> {
        Some(Role {
            arn: environment.get("AWS_ROLE_ARN")?,
            session: environment.get("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| session_name(now)),
            external_id: None,
            duration: None,
        })
    }
}

fn session_name(now: u64) -> String {
    format!("fetchmill-{now}")
}

/// Client of STS: its endpoint, and the region for signing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sts {
    place: CredentialEndpoint,
    region: String,
}

impl Sts {
    /// Uses the configured endpoint, or the endpoint of the region. If neither a region nor a variant is set, uses the
    /// global endpoint.
    pub(super) fn new(endpoint: Option<&str>, region: Option<&str>, variant: AwsVariant) -> Result<Self> {
        let place = match (endpoint, region) {
            (Some(endpoint), _) => CredentialEndpoint::parse(endpoint, "the endpoint of STS")?,
            (None, None) if variant == AwsVariant::default() => {
                CredentialEndpoint::parse("https://sts.amazonaws.com", "the endpoint of STS")?
            }
            (None, region) => {
                let host = variant.service_host("sts", region.unwrap_or(REGION_DEFAULT))?;
                CredentialEndpoint::parse(&format!("https://{host}"), "the region")?
            }
        };
        Ok(Sts { place, region: region.unwrap_or(REGION_DEFAULT).to_owned() })
    }

    /// Exchanges other credentials for a role's credentials. `now` is the time of the request.
    pub(super) fn assume(
        &self,
        web: &CredentialClient<'_>,
        role: &Role,
        with: &Credentials,
        now: u64,
    ) -> Result<(Credentials, Option<u64>)> {
        let query = query("AssumeRole", role, None);
        // All parameters are in the query, because a body would require another signed field.
        let place = CredentialEndpoint { path: format!("{}?{query}", self.place.path), ..self.place.clone() };
        let mut lines = Vec::new();
        let mut signer = Signer::for_sts(&self.region, place.key.authority());
        signer.write_fields(with, "GET", place.path.as_bytes(), &[], now, &mut lines);
        let fields = fields_of(&String::from_utf8_lossy(&lines));
        let question = CredentialRequest { place: &place, method: "GET", fields, body: None, is_near: false };
        read(&web.ask(&question)?, role)
    }

    /// Exchanges a token for a role's credentials.
    pub(super) fn assume_with_token(
        &self,
        web: &CredentialClient<'_>,
        role: &Role,
        token: &str,
    ) -> Result<(Credentials, Option<u64>)> {
        // The token goes into the body rather than the query, because it is secret and long.
        let body = query("AssumeRoleWithWebIdentity", role, Some(token));
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        let question = CredentialRequest {
            place: &self.place,
            method: "POST",
            fields: vec![("Content-Type".into(), form.into())],
            body: Some(body.as_bytes()),
            is_near: false,
        };
        read(&web.ask(&question)?, role)
    }
}

/// Returns the query in canonical form for signing: sorted and encoded.
fn query(action: &str, role: &Role, token: Option<&str>) -> String {
    let pairs = [
        ("Action", Some(action)),
        ("DurationSeconds", role.duration.as_deref()),
        ("ExternalId", role.external_id.as_deref()),
        ("RoleArn", Some(role.arn.as_str())),
        ("RoleSessionName", Some(role.session.as_str())),
        ("Version", Some(VERSION)),
        ("WebIdentityToken", token),
    ];
    let pairs = pairs.iter().filter_map(|(name, value)| Some(format!("{name}={}", encode((*value)?))));
    pairs.collect::<Vec<_>>().join("&")
}

/// Percent-encodes a query value for signing.
pub(super) fn encode(text: &str) -> String {
    use std::fmt::Write;

    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn fields_of(lines: &str) -> Vec<(String, String)> {
    let lines = lines.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn read(reply: &CredentialReply, role: &Role) -> Result<(Credentials, Option<u64>)> {
    let text = reply.text();
    let get = |tag| text_of(&text, tag);
    let arn = for_display(role.arn.as_bytes());
    if reply.status != 200 {
        let code = get("Code").unwrap_or_else(|| format!("status {}", reply.status));
        let message = get("Message").unwrap_or_default();
        return Err(Error::Usage(format!(
            "STS refused the role {arn}: {} {}; check the role, its trust policy and the token",
            for_display(code.as_bytes()),
            for_display(message.as_bytes())
        )));
    }
    let from = format!("the role {arn}");
    let missing =
        || Error::Temporary(format!("STS returned no credentials for {from}; check the STS endpoint"));
    let credentials = Credentials {
        access_key: get("AccessKeyId").ok_or_else(missing)?,
        secret_key: get("SecretAccessKey").ok_or_else(missing)?,
        token: get("SessionToken"),
    };
    let expires_at = get("Expiration").map(|date| credential_document::expiry(&date, &from)).transpose()?;
    Ok((credential_document::checked(credentials, &from)?, expires_at))
}

/// Returns the content of the first element with this name.
fn text_of(xml: &str, tag: &str) -> Option<String> {
    let mut reader = quick_xml::Reader::from_str(xml);
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) if start.local_name().as_ref() == tag => {
                let text = reader.read_text(start.name()).ok()?;
                return quick_xml::escape::unescape(&text).ok().map(|text| text.trim().to_owned());
            }
            Event::Eof => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_and_unescaped() {
        let xml = r#"<R xmlns="x"><Error><Code>A</Code><Message>a &lt;b&gt; &amp;c</Message></Error></R>"#;

        assert_eq!(text_of(xml, "Code").as_deref(), Some("A"));
        assert_eq!(text_of(xml, "Message").as_deref(), Some("a <b> &c"));
        assert_eq!(text_of(xml, "Expiration"), None);
        assert_eq!(text_of("<a><b", "b"), None);
    }

    #[test]
    fn sts_is_asked_in_the_region_or_where_somebody_says() {
        let place = |endpoint, region| {
            Sts::new(endpoint, region, AwsVariant::default()).unwrap().place.key.text().to_owned()
        };

        assert_eq!(place(None, Some("eu-west-1")), "https://sts.eu-west-1.amazonaws.com");
        assert_eq!(place(None, Some("cn-north-1")), "https://sts.cn-north-1.amazonaws.com.cn");
        assert_eq!(place(None, None), "https://sts.amazonaws.com");
        assert_eq!(place(Some("http://127.0.0.1:80/x"), Some("eu-west-1")), "http://127.0.0.1");
        assert!(Sts::new(None, Some("evil.test/"), AwsVariant::default()).is_err());
    }

    #[test]
    fn a_query_is_sorted_and_encoded() {
        let role = Role {
            arn: "arn:aws:iam::1:role/a b".into(),
            session: "s".into(),
            external_id: Some("x&y".into()),
            duration: None,
        };

        assert_eq!(
            query("AssumeRole", &role, None),
            "Action=AssumeRole&ExternalId=x%26y&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b&RoleSessionName=s\
             &Version=2011-06-15"
        );
    }
}
