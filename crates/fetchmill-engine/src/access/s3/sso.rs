//! IAM Identity Center (SSO), which exchanges the token stored by `aws sso login` for the credentials of a role.
//!
//! The settings and the token file are described in the AWS SDK reference
//! (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-sso-credentials.html>). The request is
//! `GetRoleCredentials`
//! (<https://docs.aws.amazon.com/singlesignon/latest/PortalAPIReference/API_GetRoleCredentials.html>).

use serde::Deserialize;
use sha1::{Digest as _, Sha1};

use super::credential_client::{CredentialClient, CredentialEndpoint, CredentialReply, CredentialRequest};
use super::credential_document;
use super::environment::Environment;
use super::profile::{Profile, Profiles};
use super::sts::encode;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::{for_display, to_hex};
use fetchmill_model::s3::{AwsVariant, Credentials};

/// Role in an account, and the SSO session that provides it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SsoRole {
    account: String,
    role: String,
    region: String,
    /// Name of the session, or its start URL. The token file is named after the SHA-1 of this string.
    session: String,
    /// Name of the profile, for messages.
    profile: String,
}

/// Token file written by `aws sso login`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredToken {
    access_token: String,
    expires_at: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleReply {
    role_credentials: RoleCredentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleCredentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    /// Expiry in milliseconds since 1970.
    expiration: u64,
}

impl SsoRole {
    /// Returns a profile's role, or `None` if the profile does not use SSO.
    pub(super) fn of_profile(profiles: &Profiles, name: &str, profile: &Profile) -> Result<Option<Self>> {
        let shown = for_display(name.as_bytes());
        let (session, settings) = match (profile.get("sso_session"), profile.get("sso_start_url")) {
            (Some(session), _) => (session, profiles.need_session(session, &shown)?),
            (None, Some(start_url)) => (start_url, profile),
            (None, None) => return Ok(None),
        };
        let need = |from: &Profile, key: &str| {
            from.get(key).filter(|value| !value.is_empty()).cloned().ok_or_else(|| {
                Error::Usage(format!("profile {shown} uses SSO but has no {key}; run aws configure sso"))
            })
        };
        Ok(Some(SsoRole {
            account: need(profile, "sso_account_id")?,
            role: need(profile, "sso_role_name")?,
            region: need(settings, "sso_region")?,
            session: session.clone(),
            profile: shown,
        }))
    }

    /// Exchanges the session's stored token for the role's credentials.
    ///
    /// `endpoint` replaces the endpoint of the region and variant. `now` is in seconds since 1970. The token is never
    /// renewed, because its file belongs to the AWS command line.
    pub(super) fn credentials(
        &self,
        web: &CredentialClient<'_>,
        environment: &Environment,
        (endpoint, variant): (Option<&str>, AwsVariant),
        now: u64,
    ) -> Result<(Credentials, Option<u64>)> {
        let token = self.token(environment, now)?;
        let query = format!("?role_name={}&account_id={}", encode(&self.role), encode(&self.account));
        let question = CredentialRequest {
            place: &self.portal(endpoint, variant)?.below(&format!("/federation/credentials{query}")),
            method: "GET",
            fields: vec![("x-amz-sso_bearer_token".into(), token)],
            body: None,
            is_near: false,
        };
        self.read(&web.ask(&question)?)
    }

    fn portal(&self, endpoint: Option<&str>, variant: AwsVariant) -> Result<CredentialEndpoint> {
        if let Some(endpoint) = endpoint {
            return CredentialEndpoint::parse(endpoint, "the endpoint of SSO");
        }
        let host = variant.service_host("portal.sso", &self.region).map_err(|_| {
            let shown = for_display(self.region.as_bytes());
            Error::Usage(format!("sso_region of profile {} is not a valid region ({shown})", self.profile))
        })?;
        CredentialEndpoint::parse(&format!("https://{host}"), "sso_region")
    }

    fn token(&self, environment: &Environment, now: u64) -> Result<String> {
        let name = to_hex(&Sha1::digest(self.session.as_bytes()));
        let file = format!("~/.aws/sso/cache/{name}.json");
        // The file contains the token, so messages never quote it.
        let stored = environment.read(&file, "the SSO token").ok();
        let stored: Option<StoredToken> = stored.and_then(|text| serde_json::from_str(&text).ok());
        let stored = stored.ok_or_else(|| self.not_signed_in("there is no SSO token in ~/.aws/sso/cache"))?;
        let from = format!("the SSO token of profile {}", self.profile);
        if credential_document::expiry(&stored.expires_at, &from)? <= now {
            return Err(self.not_signed_in("the SSO token has expired"));
        }
        Ok(stored.access_token)
    }

    fn read(&self, reply: &CredentialReply) -> Result<(Credentials, Option<u64>)> {
        let (role, account) = (for_display(self.role.as_bytes()), for_display(self.account.as_bytes()));
        match reply.status {
            200 => {}
            401 => return Err(self.not_signed_in("SSO rejected the token")),
            status => {
                return Err(Error::Usage(format!(
                    "SSO returned no credentials for the role {role} of account {account} (status \
                     {status}); check sso_account_id and sso_role_name of profile {}",
                    self.profile
                )));
            }
        }
        // The reply contains the secret, so messages never quote it.
        let found: RoleReply = serde_json::from_str(&reply.text()).map_err(|_| {
            Error::Temporary(format!(
                "SSO returned no credentials for the role {role}; check the SSO endpoint"
            ))
        })?;
        let RoleCredentials { access_key_id, secret_access_key, session_token, expiration } =
            found.role_credentials;
        let credentials = Credentials {
            access_key: access_key_id,
            secret_key: secret_access_key,
            token: Some(session_token),
        };
        let credentials = credential_document::checked(credentials, &format!("the role {role}"))?;
        Ok((credentials, Some(expiration / 1000)))
    }

    fn not_signed_in(&self, why: &str) -> Error {
        let profile = &self.profile;
        Error::Usage(format!(
            "profile {profile}: {why}; run aws sso login --profile {profile}, then the same command again"
        ))
    }
}
