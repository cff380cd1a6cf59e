//! How stores are reached: what a user says, and what the environment and the profile say where the user does not.

use std::path::PathBuf;

use super::environment::Environment;
use super::profile::{Profiles, chosen};
use crate::error::{Error, Result};
use crate::name::for_display;
use crate::options::options;
use crate::s3::{Addressing, BucketAddress, BucketName, Endpoint, REGION_DEFAULT, is_region};
use crate::source::OriginUrl;

pub(super) const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

pub(super) fn ignores_endpoints(environment: &Environment) -> bool {
    environment.is_true("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
}

options! {
    /// How stores are reached.
    #[derive(PartialEq, Eq)]
    pub struct S3Options {
        /// Which store; none: what the environment says, else AWS.
        endpoint_url: Option<OriginUrl> = None;
        /// Where buckets are; none: what the configuration says, else what the store says.
        region: Option<String> = None;
        /// Whose credentials; none: what the environment says.
        profile: Option<String> = None;
        /// Requests are not signed: for public buckets.
        no_sign_request: bool = false;
        /// Whether an object is compared with the checksum that its store gives.
        checksums: bool = true;
        /// How a bucket stands in a request.
        addressing_style: Addressing = Addressing::Auto;
    } and {
        /// Authorities that the environment or the profile adds to those that are believed.
        ca_bundle: Option<PathBuf>,
    }
}

impl S3Options {
    /// Fills in what the environment and the profile say.
    pub(in crate::engine) fn resolve(&mut self) -> Result<()> {
        let environment = Environment::of_process();
        self.region = region_within(&environment, self);
        if let Some(region) = self.region.as_deref().filter(|region| !is_region(region)) {
            return Err(Error::Usage(format!(
                "the region {} cannot be one (it has other characters than letters, digits and `-_.`, or more than 64); \
                 give another with --region, or change AWS_REGION or the profile",
                for_display(region.as_bytes())
            )));
        }
        self.ca_bundle = ca_bundle_within(&environment, self);
        if self.addressing_style == Addressing::Auto {
            self.addressing_style = addressing_within(&environment, self)?;
        }
        if self.endpoint_url.is_none()
            && let Some(text) = endpoint_url_within(&environment, self)
        {
            let url = OriginUrl::parse(&text).map_err(|error| {
                Error::Usage(format!(
                    "the endpoint that the environment or the profile names is none: {error}"
                ))
            })?;
            self.endpoint_url = Some(url);
        }
        Ok(())
    }

    /// Which store.
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint { url: self.endpoint_url.clone(), addressing: self.addressing_style }
    }

    /// Where a bucket is asked for, as far as the options say.
    pub(in crate::engine) fn place(&self, bucket: &BucketName) -> Result<BucketAddress> {
        BucketAddress::of(&self.endpoint(), bucket, self.region.as_deref().unwrap_or(REGION_DEFAULT))
    }
}

/// The region that is configured: the option, the environment, the profile.
pub(super) fn region_within(environment: &Environment, options: &S3Options) -> Option<String> {
    let said = options.region.clone().or_else(|| environment.first(&REGION_VARIABLES));
    said.or_else(|| of_profile(environment, options, "region"))
}

/// The endpoint that is configured: the option, the environment, the profile.
pub(super) fn endpoint_url_within(environment: &Environment, options: &S3Options) -> Option<String> {
    if let Some(url) = &options.endpoint_url {
        return Some(url.text());
    }
    if ignores_endpoints(environment) {
        return None;
    }
    let said = environment.first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
    let of_service =
        || of_profile_with(environment, options, |profiles, name| profiles.of_s3(name, "endpoint_url"));
    said.or_else(of_service).or_else(|| of_profile(environment, options, "endpoint_url"))
}

/// The file of authorities that is configured: the environment, the profile.
fn ca_bundle_within(environment: &Environment, options: &S3Options) -> Option<PathBuf> {
    let said = environment.first(&["AWS_CA_BUNDLE"]);
    said.or_else(|| of_profile(environment, options, "ca_bundle")).and_then(|text| environment.path(&text))
}

/// How the profile wants buckets to be addressed.
fn addressing_within(environment: &Environment, options: &S3Options) -> Result<Addressing> {
    match of_profile(environment, options, "s3.addressing_style").as_deref() {
        None | Some("auto") => Ok(Addressing::Auto),
        Some("path") => Ok(Addressing::Path),
        Some("virtual") => Ok(Addressing::Virtual),
        Some(other) => Err(Error::Usage(format!(
            "the profile's s3 addressing_style must be auto, path or virtual, not {}; change it in ~/.aws/config, or \
             give --addressing-style",
            for_display(other.as_bytes())
        ))),
    }
}

/// What the chosen profile says; a profile that is missing is the chain's error.
fn of_profile(environment: &Environment, options: &S3Options, key: &str) -> Option<String> {
    of_profile_with(environment, options, |profiles, name| profiles.get(name)?.get(key))
}

fn of_profile_with(
    environment: &Environment,
    options: &S3Options,
    find: impl for<'p> FnOnce(&'p Profiles, &str) -> Option<&'p String>,
) -> Option<String> {
    let profiles = Profiles::read(environment).ok()?;
    let (name, _) = chosen(options.profile.as_deref(), environment);
    find(&profiles, &name).filter(|value| !value.is_empty()).cloned()
}
