//! How stores are reached: what a user says, and what the environment and the profile say where the user does not.

use std::path::PathBuf;

use super::environment::Environment;
use super::profile::{Profiles, chosen};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::for_display;
use fetchmill_model::options::options;
use fetchmill_model::s3::{Addressing, BucketAddress, BucketName, Endpoint, REGION_DEFAULT, is_region};
use fetchmill_model::source::OriginUrl;

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
        /// A setting of theirs that asks for another endpoint of AWS than the usual ones.
        unsupported: Option<String>,
    }
}

/// Switches that ask for endpoints which are not made here: the variable, if there is one, and the key of a profile.
const UNSUPPORTED: [(Option<&str>, &str); 4] = [
    (Some("AWS_USE_FIPS_ENDPOINT"), "use_fips_endpoint"),
    (Some("AWS_USE_DUALSTACK_ENDPOINT"), "use_dualstack_endpoint"),
    (None, "s3.use_dualstack_endpoint"),
    (None, "s3.use_accelerate_endpoint"),
];
/// How regions of partitions begin whose endpoints have other names.
const OTHER_PARTITIONS: [&str; 3] = ["us-iso", "eu-iso", "eusc-"];
/// How names of buckets end that have an API of their own: directory buckets.
const DIRECTORY_BUCKETS: [&str; 2] = ["--x-s3", "--xa-s3"];

impl S3Options {
    /// Fills in what the environment and the profile say.
    pub(crate) fn resolve(&mut self) -> Result<()> {
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
        self.unsupported = unsupported_within(&environment, self);
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
    pub(crate) fn place(&self, bucket: &BucketName) -> Result<BucketAddress> {
        self.must_be_supported(bucket)?;
        BucketAddress::of(&self.endpoint(), bucket, self.region.as_deref().unwrap_or(REGION_DEFAULT))
    }
}

impl S3Options {
    /// Refuses what leads to another endpoint of AWS than the one that would be asked.
    pub(super) fn must_be_supported(&self, bucket: &BucketName) -> Result<()> {
        if self.endpoint_url.is_some() {
            return Ok(());
        }
        let with_endpoint = "name the endpoint with --endpoint-url";
        let refused = |what: String| Err(Error::Usage(format!("{what} is not supported; {with_endpoint}")));
        if let Some(setting) = &self.unsupported {
            return refused(format!("{setting}, as the environment or the profile says,"));
        }
        let region = self.region.as_deref().unwrap_or_default();
        if OTHER_PARTITIONS.iter().any(|partition| region.starts_with(partition)) {
            return refused(format!("the region {region}, of another partition of AWS,"));
        }
        if DIRECTORY_BUCKETS.iter().any(|end| bucket.text().ends_with(end)) {
            return Err(Error::Usage(format!(
                "{} is a directory bucket, which is not supported",
                bucket.text()
            )));
        }
        Ok(())
    }
}

/// The first of such switches that is on.
fn unsupported_within(environment: &Environment, options: &S3Options) -> Option<String> {
    let is_on = |(variable, key): &&(Option<&str>, &str)| {
        let said = variable.and_then(|variable| environment.get(variable));
        said.or_else(|| of_profile(environment, options, key))
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    };
    UNSUPPORTED.iter().find(is_on).map(|(variable, key)| variable.unwrap_or(key).to_owned())
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
