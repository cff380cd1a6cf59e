//! Credentials for signing requests. They come from the environment, a token, a profile, the container or the machine.
//! The sources are searched in boto3's order, and the first credentials found are used (docs/internals/decisions/0019).

use std::time::{SystemTime, UNIX_EPOCH};

use super::credential_client::CredentialClient;
use super::environment::Environment;
use super::profile::{Profile, Profiles, chosen};
use super::settings::{REGION_VARIABLES, S3Settings, ignores_endpoints};
use super::sso::SsoRole;
use super::sts::{Role, Sts};
use super::{credential_document, metadata};
use crate::access::renewal::{CredentialSource, LoadedCredentials, run_command};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::s3::{AwsVariant, Credentials};
use fetchmill_net::PoolSettings;

const ENVIRONMENT: &str = "environment";

/// Wraps credentials that were found. The environment never changes, but any other source can return different
/// credentials later.
fn loaded(
    (credentials, expires_at): (Credentials, Option<u64>),
    from: impl Into<String>,
) -> LoadedCredentials<Credentials> {
    let from = from.into();
    LoadedCredentials { credentials, expires_at, is_renewable: from != ENVIRONMENT, from }
}

/// Chain of credential sources. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct CredentialChain {
    environment: Environment,
    profile: Option<String>,
    region: Option<String>,
    no_sign_request: bool,
    variant: AwsVariant,
    pool: PoolSettings,
}

impl CredentialChain {
    /// Creates the chain from the user's settings and this process's environment. `pool` provides the settings for name
    /// lookups, TLS and the proxy.
    pub(crate) fn new(settings: &S3Settings, pool: PoolSettings) -> Self {
        CredentialChain::within(Environment::of_process(), settings, pool)
    }

    /// Creates the chain like [`CredentialChain::new`], but with `environment` instead of this process's environment.
    pub(super) fn within(environment: Environment, settings: &S3Settings, pool: PoolSettings) -> Self {
        CredentialChain {
            environment,
            profile: settings.profile.clone(),
            region: settings.region.clone(),
            no_sign_request: settings.no_sign_request,
            variant: settings.variant,
            pool,
        }
    }
}

impl CredentialSource for CredentialChain {
    type Credentials = Credentials;

    /// Searches for the current credentials, which can take up to `METADATA_TIMEOUT`. Returns `None` if there are none,
    /// in which case requests are not signed. Fails if a configured source provides no credentials, and soon after
    /// `is_over` returns true.
    fn load(&self, is_over: &dyn Fn() -> bool) -> Result<Option<LoadedCredentials<Credentials>>> {
        if self.no_sign_request {
            return Ok(None);
        }
        let web = CredentialClient { pool: &self.pool, is_over };
        CredentialSearch { chain: self, web: &web }.first()
    }
}

/// A search along the chain.
struct CredentialSearch<'a> {
    chain: &'a CredentialChain,
    web: &'a CredentialClient<'a>,
}

impl CredentialSearch<'_> {
    fn first(&self) -> Result<Option<LoadedCredentials<Credentials>>> {
        let environment = &self.chain.environment;
        // A profile from the command line overrides the environment.
        if self.chain.profile.is_none() {
            if let Some(found) = of_environment(environment)? {
                return Ok(Some(found));
            }
            if let Some(found) = self.of_token()? {
                return Ok(Some(found));
            }
        }
        if let Some(found) = self.of_chosen_profile()? {
            return Ok(Some(found));
        }
        if let Some(found) = metadata::of_container(environment, self.web)? {
            return Ok(Some(loaded(found, "container")));
        }
        Ok(metadata::of_machine(environment, self.web)?.map(|found| loaded(found, "instance metadata")))
    }

    fn of_token(&self) -> Result<Option<LoadedCredentials<Credentials>>> {
        let environment = &self.chain.environment;
        let file = "AWS_WEB_IDENTITY_TOKEN_FILE";
        let Some(path) = environment.get(file) else { return Ok(None) };
        let Some(role) = Role::of_environment(environment, machine_now()) else {
            return Err(Error::Usage(format!("{file} is set, but AWS_ROLE_ARN is not; set both or neither")));
        };
        let token = environment.read(&path, file)?;
        let found = self.sts(None)?.assume_with_token(self.web, &role, token.trim())?;
        Ok(Some(loaded(found, "web identity")))
    }

    fn of_chosen_profile(&self) -> Result<Option<LoadedCredentials<Credentials>>> {
        let (name, is_said) = chosen(self.chain.profile.as_deref(), &self.chain.environment);
        let profiles = Profiles::read(&self.chain.environment)?;
        if !is_said && profiles.get(&name).is_none() {
            return Ok(None);
        }
        self.of_profile(&profiles, &name, limits::PROFILES_CHAINED_MAX)
    }

    /// Returns a profile's credentials, if it has any. Follows up to `left` references to other profiles.
    fn of_profile(
        &self,
        profiles: &Profiles,
        name: &str,
        left: usize,
    ) -> Result<Option<LoadedCredentials<Credentials>>> {
        let profile = profiles.need(name)?;
        let from = format!("profile {}", for_display(name.as_bytes()));
        if let Some(role) = Role::of_profile(profile, machine_now()) {
            return self.of_role(profiles, (name, profile), &role, left).map(Some);
        }
        if let Some(role) = SsoRole::of_profile(profiles, name, profile)? {
            let environment = &self.chain.environment;
            // The endpoint for all services is not used here, because a store must not see the token.
            let endpoint =
                environment.get("AWS_ENDPOINT_URL_SSO").filter(|_| !ignores_endpoints(environment));
            let found = role.credentials(
                self.web,
                environment,
                (endpoint.as_deref(), self.chain.variant),
                machine_now(),
            )?;
            return Ok(Some(loaded(found, from)));
        }
        if let Some(found) = static_keys(profile, &from)? {
            return Ok(Some(loaded(found, from)));
        }
        if let Some(command) = profile.get("credential_process") {
            let what = format!("credential_process of {from}");
            let output = run_command(command, &what, limits::CREDENTIAL_PROCESS_TIMEOUT, self.web.is_over)?;
            let found =
                credential_document::parse(&String::from_utf8_lossy(&output), &format!("the {what}"))?;
            return Ok(Some(loaded(found, from)));
        }
        if profile.contains_key("login_session") {
            return Err(Error::Usage(format!(
                "{from} signs in with `aws login`, which fetchmill does not support; add a profile with \
                 credential_process = aws configure export-credentials --profile {} --format process, and \
                 use that profile",
                for_display(name.as_bytes())
            )));
        }
        Ok(None)
    }

    fn of_role(
        &self,
        profiles: &Profiles,
        (name, profile): (&str, &Profile),
        role: &Role,
        left: usize,
    ) -> Result<LoadedCredentials<Credentials>> {
        let from = format!("profile {}", for_display(name.as_bytes()));
        let sts = self.sts(Some(profile))?;
        if let Some(path) = profile.get("web_identity_token_file") {
            let token = self.chain.environment.read(path, &format!("web_identity_token_file of {from}"))?;
            return Ok(loaded(sts.assume_with_token(self.web, role, token.trim())?, from));
        }
        if profile.contains_key("mfa_serial") {
            return Err(Error::Usage(format!(
                "the role of {from} needs an MFA code (mfa_serial), which fetchmill cannot ask for; put \
                 temporary credentials into AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
            )));
        }
        let source = self.source_of_role(profiles, (name, profile), left)?.ok_or_else(|| {
            Error::Usage(format!(
                "{from} names a role, but no credentials to assume it; add source_profile or \
                 credential_source to the profile"
            ))
        })?;
        Ok(loaded(sts.assume(self.web, role, &source.credentials, machine_now())?, from))
    }

    /// Returns the credentials that assume a role.
    fn source_of_role(
        &self,
        profiles: &Profiles,
        (name, profile): (&str, &Profile),
        left: usize,
    ) -> Result<Option<LoadedCredentials<Credentials>>> {
        let from = format!("profile {}", for_display(name.as_bytes()));
        match (profile.get("source_profile"), profile.get("credential_source").map(String::as_str)) {
            // A profile that names itself as its source refers to its own keys.
            (Some(source), _) if source == name => {
                Ok(static_keys(profile, &from)?.map(|found| loaded(found, from)))
            }
            (Some(_), _) if left == 0 => Err(Error::Usage(format!(
                "the source_profile settings after {from} form a loop; add keys to one of these profiles"
            ))),
            (Some(source), _) => self.of_profile(profiles, source, left - 1),
            (None, Some("Environment")) => of_environment(&self.chain.environment),
            (None, Some("EcsContainer")) => {
                let found = metadata::of_container(&self.chain.environment, self.web)?;
                Ok(found.map(|found| loaded(found, "container")))
            }
            (None, Some("Ec2InstanceMetadata")) => {
                let found = metadata::of_machine(&self.chain.environment, self.web)?;
                Ok(found.map(|found| loaded(found, "instance metadata")))
            }
            (None, _) => Ok(None),
        }
    }

    fn sts(&self, profile: Option<&Profile>) -> Result<Sts> {
        let environment = &self.chain.environment;
        let configured = environment.first(&["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"]);
        let configured = configured.or_else(|| profile?.get("endpoint_url").cloned());
        let endpoint = configured.filter(|_| !ignores_endpoints(environment));
        let region = self.chain.region.clone().or_else(|| environment.first(&REGION_VARIABLES));
        let region = region.or_else(|| profile?.get("region").cloned());
        Sts::new(endpoint.as_deref(), region.as_deref(), self.chain.variant)
    }
}

fn of_environment(environment: &Environment) -> Result<Option<LoadedCredentials<Credentials>>> {
    let Some(access_key) = environment.get("AWS_ACCESS_KEY_ID") else { return Ok(None) };
    let Some(secret_key) = environment.get("AWS_SECRET_ACCESS_KEY") else {
        return Err(Error::Usage(
            "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not; set both or neither".into(),
        ));
    };
    let token = environment.first(&["AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"]);
    let expires_at = environment.get("AWS_CREDENTIAL_EXPIRATION");
    let expires_at = expires_at.map(|date| credential_document::expiry(&date, ENVIRONMENT)).transpose()?;
    let credentials =
        credential_document::checked(Credentials { access_key, secret_key, token }, "the environment")?;
    Ok(Some(loaded((credentials, expires_at), ENVIRONMENT)))
}

fn static_keys(profile: &Profile, from: &str) -> Result<Option<(Credentials, Option<u64>)>> {
    let get = |key: &str| profile.get(key).filter(|value| !value.is_empty()).cloned();
    let Some(access_key) = get("aws_access_key_id") else { return Ok(None) };
    let Some(secret_key) = get("aws_secret_access_key") else {
        return Err(Error::Usage(format!(
            "{from} has aws_access_key_id but no aws_secret_access_key; add the secret key, or remove both"
        )));
    };
    let credentials = Credentials { access_key, secret_key, token: get("aws_session_token") };
    Ok(Some((credential_document::checked(credentials, from)?, None)))
}

/// Returns the seconds since 1970 according to this machine's clock.
fn machine_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
