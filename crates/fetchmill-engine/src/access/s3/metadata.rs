//! Credentials that the platform provides to a container or a machine.

use serde::Deserialize;

use super::credential_client::{CredentialClient, CredentialEndpoint, CredentialReply, CredentialRequest};
use super::credential_document;
use super::environment::Environment;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::s3::Credentials;

/// Server that provides credentials to ECS containers.
const CONTAINER: &str = "http://169.254.170.2";
/// Hosts of the ECS and EKS agents. Without TLS, tokens are sent only to these hosts and to this machine.
const CONTAINER_HOSTS: [&str; 6] =
    ["169.254.170.2", "169.254.170.23", "fd00:ec2::23", "127.0.0.1", "::1", "localhost"];
/// Servers that provide credentials to EC2 machines, over IPv4 and IPv6.
const MACHINE: &str = "http://169.254.169.254";
const MACHINE_V6: &str = "http://[fd00:ec2::254]";
const TOKEN_PATH: &str = "/latest/api/token";
const ROLES_PATH: &str = "/latest/meta-data/iam/security-credentials/";
/// Lifetime of the requested token in seconds. The token is used immediately.
const TOKEN_SECONDS: &str = "300";

type CredentialsResult = Result<Option<(Credentials, Option<u64>)>>;

/// Returns a container's credentials, or `None` outside a container.
pub(super) fn of_container(environment: &Environment, web: &CredentialClient<'_>) -> CredentialsResult {
    let Some(place) = container_place(environment)? else { return Ok(None) };
    let fields = container_token(environment)?.map(|token| ("Authorization".to_owned(), token));
    let fields = fields.into_iter().collect();
    let question = CredentialRequest { place: &place, method: "GET", fields, body: None, is_near: true };
    let reply = web.ask(&question)?;
    if reply.status != 200 {
        return Err(Error::Temporary(format!(
            "{} returned no credentials (status {}); check that AWS_CONTAINER_CREDENTIALS_* are set \
             correctly and that their token is still valid",
            place.key.text(),
            reply.status
        )));
    }
    credential_document::parse(&reply.text(), "the container").map(Some)
}

fn container_place(environment: &Environment) -> Result<Option<CredentialEndpoint>> {
    let relative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    if let Some(path) = environment.get(relative) {
        let slash = if path.starts_with('/') { "" } else { "/" };
        return CredentialEndpoint::parse(&format!("{CONTAINER}{slash}{path}"), relative).map(Some);
    }
    let full = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    let Some(url) = environment.get(full) else { return Ok(None) };
    let place = CredentialEndpoint::parse(&url, full)?;
    if !place.key.is_tls() && !CONTAINER_HOSTS.contains(&place.key.host()) {
        return Err(Error::Security(format!(
            "{full}: fetchmill does not request credentials from {} without TLS; use an https URL, or a \
             server on this machine",
            for_display(place.key.host().as_bytes())
        )));
    }
    Ok(Some(place))
}

fn container_token(environment: &Environment) -> Result<Option<String>> {
    let variable = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
    match environment.get(variable) {
        Some(path) => Ok(Some(environment.read(&path, variable)?.trim_end().to_owned())),
        None => Ok(environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")),
    }
}

/// Error document of the metadata service about the machine's role.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MetadataError {
    code: Option<String>,
}

/// Returns the credentials of the machine's role, or `None` if no server answers.
pub(super) fn of_machine(environment: &Environment, web: &CredentialClient<'_>) -> CredentialsResult {
    if environment.is_true("AWS_EC2_METADATA_DISABLED") {
        return Ok(None);
    }
    let place = machine_place(environment)?;
    let Some(token) = machine_token(&place, web)? else { return Ok(None) };
    let ask = |path: &str| -> Result<CredentialReply> {
        let fields = vec![("X-aws-ec2-metadata-token".to_owned(), token.clone())];
        web.ask(&CredentialRequest {
            place: &place.below(path),
            method: "GET",
            fields,
            body: None,
            is_near: true,
        })
    };
    let roles = ask(ROLES_PATH)?;
    if roles.status == 404 {
        return Ok(None);
    }
    let text = roles.text();
    let Some(role) = text.lines().next().map(str::trim).filter(|role| is_role(role) && roles.status == 200)
    else {
        return Err(no_credentials(roles.status, ""));
    };
    let reply = ask(&format!("{ROLES_PATH}{role}"))?;
    let text = reply.text();
    let code = serde_json::from_str::<MetadataError>(&text).ok().and_then(|said| said.code);
    match code.as_deref() {
        _ if reply.status != 200 => Err(no_credentials(reply.status, "")),
        None | Some("Success") => credential_document::parse(&text, "the instance metadata").map(Some),
        Some(code) => Err(no_credentials(reply.status, code)),
    }
}

/// Returns whether a role name can be part of a path.
fn is_role(role: &str) -> bool {
    !role.is_empty() && role.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+=,.@-_".contains(&byte))
}

fn no_credentials(status: u16, code: &str) -> Error {
    Error::Temporary(format!(
        "the instance metadata returned no credentials (status {status}) {}; check the machine's role, or \
         disable the instance metadata with AWS_EC2_METADATA_DISABLED=true",
        for_display(code.as_bytes())
    ))
}

fn machine_place(environment: &Environment) -> Result<CredentialEndpoint> {
    let variable = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
    let mode = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    let usual = if mode.is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6")) { MACHINE_V6 } else { MACHINE };
    CredentialEndpoint::parse(environment.get(variable).as_deref().unwrap_or(usual), variable)
}

/// Requests a token. A server that returns no token has no credentials for this program. Most machines have no such
/// server.
fn machine_token(place: &CredentialEndpoint, web: &CredentialClient<'_>) -> Result<Option<String>> {
    let question = CredentialRequest {
        place: &place.below(TOKEN_PATH),
        method: "PUT",
        fields: vec![("X-aws-ec2-metadata-token-ttl-seconds".to_owned(), TOKEN_SECONDS.to_owned())],
        body: Some(&[]),
        is_near: true,
    };
    let Ok(reply) = web.ask_once(&question, limits::METADATA_TIMEOUT)? else { return Ok(None) };
    let token = reply.text().trim().to_owned();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    Ok((reply.status == 200 && is_token).then_some(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &'static [(&'static str, &'static str)]) -> Environment {
        Environment::new(|name| {
            let pair = pairs.iter().find(|(key, _)| *key == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_container_asks_its_agent_or_over_tls() {
        let at = |pairs| {
            container_place(&environment(pairs)).map(|place| place.map(|place| place.key.text().to_owned()))
        };

        assert_eq!(at(&[]).unwrap(), None);
        let relative = at(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x")]).unwrap();
        assert_eq!(relative.as_deref(), Some("http://169.254.170.2"));
        for good in ["http://127.0.0.1:81/x", "http://[fd00:ec2::23]/v1", "https://any.test/x"] {
            let place = container_place(&Environment::new(move |name| {
                (name == "AWS_CONTAINER_CREDENTIALS_FULL_URI").then(|| good.to_owned())
            }));
            assert!(place.is_ok(), "{good}");
        }
        let error = at(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://any.test/x")]).unwrap_err();
        assert_eq!(error.exit_code(), 6);
    }

    #[test]
    fn a_machine_is_asked_where_somebody_says() {
        let at = |pairs| machine_place(&environment(pairs)).unwrap().below(TOKEN_PATH);

        assert_eq!(at(&[]).key.text(), "http://169.254.169.254");
        assert_eq!(at(&[]).path, "/latest/api/token");
        assert_eq!(
            at(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6")]).key.text(),
            "http://[fd00:ec2::254]"
        );
        let own = at(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9/x/")]);
        assert_eq!((own.key.text(), own.path.as_str()), ("http://127.0.0.1:9", "/x/latest/api/token"));
    }
}
