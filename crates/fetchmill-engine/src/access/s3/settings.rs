//! S3 connection settings: the user's options, with missing values taken from the environment and the profile.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::options::S3Options;
use super::profile::{Profiles, chosen};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::for_display;
use fetchmill_model::s3::{
    Addressing, AwsVariant, BucketAddress, BucketName, CHECKSUM_MODE, CustomerKey, Endpoint, REGION_DEFAULT,
    REQUEST_PAYER, Signer, is_region,
};
use fetchmill_model::source::OriginUrl;

pub(super) const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

pub(super) fn ignores_endpoints(environment: &Environment) -> bool {
    environment.is_true("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
}

/// Switches that select AWS endpoints. Each has profile keys and, in some cases, an environment variable.
const FIPS: Switch = Switch { variable: Some("AWS_USE_FIPS_ENDPOINT"), keys: &["use_fips_endpoint"] };
const DUAL_STACK: Switch = Switch {
    variable: Some("AWS_USE_DUALSTACK_ENDPOINT"),
    keys: &["s3.use_dualstack_endpoint", "use_dualstack_endpoint"],
};
const ACCELERATE: Switch = Switch { variable: None, keys: &["s3.use_accelerate_endpoint"] };
/// Maximum size of a key file. A base64 key has 44 characters.
const KEY_FILE_BYTES_MAX: u64 = 1024;
/// Prefixes of regions in AWS partitions that use different endpoint names.
const OTHER_PARTITIONS: [&str; 3] = ["us-iso", "eu-iso", "eusc-"];

/// Settings of the connections to a store. See the [module documentation](self). A field without a comment corresponds
/// to the option of the same name in [`S3Options`].
#[derive(Debug, Clone)]
pub(crate) struct S3Settings {
    pub(crate) endpoint_url: Option<OriginUrl>,
    pub(crate) region: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) no_sign_request: bool,
    pub(crate) checksums: bool,
    addressing_style: Addressing,
    /// Additional certificate authorities, from the environment or the profile.
    pub(crate) ca_bundle: Option<PathBuf>,
    /// Variant of the AWS endpoint.
    pub(super) variant: AwsVariant,
    requester_pays: bool,
    customer_key: Option<CustomerKey>,
}

struct Switch {
    variable: Option<&'static str>,
    keys: &'static [&'static str],
}

impl S3Settings {
    /// Adds values from this process's environment and the profile to the options.
    pub(crate) fn of_process(options: &S3Options) -> Result<Self> {
        Self::within(&Environment::of_process(), options)
    }

    /// Adds values from `environment` and the profile to the options.
    pub(super) fn within(environment: &Environment, options: &S3Options) -> Result<Self> {
        let endpoint_url = match &options.endpoint_url {
            Some(url) => Some(url.clone()),
            None => endpoint_url_within(environment, options).as_deref().map(valid_endpoint).transpose()?,
        };
        let customer_key = options.sse_c_key_file.as_deref().map(read_customer_key).transpose()?;
        if let Some(url) = endpoint_url.as_ref().filter(|_| customer_key.is_some()) {
            must_hide(url)?;
        }
        Ok(S3Settings {
            region: valid_region(region_within(environment, options))?,
            addressing_style: match options.addressing_style {
                Addressing::Auto => addressing_within(environment, options)?,
                given => given,
            },
            endpoint_url,
            ca_bundle: ca_bundle_within(environment, options),
            variant: variant_within(environment, options)?,
            customer_key,
            ..Self::without_environment(options)
        })
    }

    /// Returns settings that contain only the options, without values from any environment or profile.
    pub(super) fn without_environment(options: &S3Options) -> Self {
        S3Settings {
            endpoint_url: options.endpoint_url.clone(),
            region: options.region.clone(),
            profile: options.profile.clone(),
            no_sign_request: options.no_sign_request,
            checksums: options.checksums,
            addressing_style: options.addressing_style,
            ca_bundle: None,
            variant: variant_of(options),
            requester_pays: options.requester_pays,
            customer_key: None,
        }
    }

    /// Returns the settings for a region that the store reported. `None` leaves the region unchanged.
    pub(crate) fn in_region(&self, region: Option<String>) -> Self {
        S3Settings { region: region.or_else(|| self.region.clone()), ..self.clone() }
    }

    /// Returns the settings without the additional certificate authorities, for a job that uses no store.
    pub(crate) fn without_ca_bundle(self) -> Self {
        S3Settings { ca_bundle: None, ..self }
    }

    /// Returns the endpoint of the store.
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint { url: self.endpoint_url.clone(), addressing: self.addressing_style, variant: self.variant }
    }

    /// Returns the signer for requests to the store. For objects, it also adds their encryption key.
    pub(super) fn signer(&self, region: &str, host: &str, is_of_objects: bool) -> Signer {
        let payer = self.requester_pays.then_some(REQUEST_PAYER);
        let checksums = self.checksums.then_some(CHECKSUM_MODE);
        let key = self.customer_key.iter().flat_map(CustomerKey::fields);
        let of_objects: Vec<_> = checksums.into_iter().chain(key).filter(|_| is_of_objects).collect();
        Signer::new(region, host).with_fields(payer.as_slice(), &of_objects)
    }

    /// Returns the address of a bucket, as far as the settings determine it.
    pub(crate) fn place(&self, bucket: &BucketName) -> Result<BucketAddress> {
        self.must_be_supported(bucket)?;
        BucketAddress::of(&self.endpoint(), bucket, self.region.as_deref().unwrap_or(REGION_DEFAULT))
    }

    /// Fails if the settings require an AWS endpoint that is not supported.
    pub(super) fn must_be_supported(&self, bucket: &BucketName) -> Result<()> {
        if self.endpoint_url.is_some() {
            return Ok(());
        }
        let with_endpoint = "pass the URL of the endpoint with --endpoint-url";
        let refused = |what: String| Err(Error::Usage(format!("{what} is not supported; {with_endpoint}")));
        let region = self.region.as_deref().unwrap_or_default();
        if OTHER_PARTITIONS.iter().any(|partition| region.starts_with(partition)) {
            return refused(format!("the region {region} (in another partition of AWS)"));
        }
        if bucket.is_directory() {
            return refused(format!("the directory bucket {} (its requests need sessions)", bucket.text()));
        }
        Ok(())
    }
}

/// Fails if a region cannot be part of a host name.
fn valid_region(region: Option<String>) -> Result<Option<String>> {
    match region.as_deref().filter(|region| !is_region(region)) {
        None => Ok(region),
        Some(other) => Err(Error::Usage(format!(
            "the region {} is not valid (allowed: up to 64 letters, digits and `-_.`); choose another \
             region with --region, or change AWS_REGION or the profile",
            for_display(other.as_bytes())
        ))),
    }
}

/// Parses an endpoint URL from the environment or the profile.
fn valid_endpoint(text: &str) -> Result<OriginUrl> {
    OriginUrl::parse(text).map_err(|error| {
        Error::Usage(format!("the endpoint URL in the environment or the profile is not valid: {error}"))
    })
}

/// Returns the AWS endpoint variant that the options select.
fn variant_of(options: &S3Options) -> AwsVariant {
    AwsVariant {
        fips: options.use_fips_endpoint,
        dual_stack: options.use_dualstack_endpoint,
        accelerate: options.use_accelerate_endpoint,
    }
}

/// Returns the AWS endpoint variant that the options, the environment and the profile select together.
fn variant_within(environment: &Environment, options: &S3Options) -> Result<AwsVariant> {
    let given = variant_of(options);
    if options.endpoint_url.is_some() && given != AwsVariant::default() {
        return Err(Error::Usage(
            "use_fips_endpoint, use_dualstack_endpoint and use_accelerate_endpoint select AWS endpoints and \
             cannot be combined with --endpoint-url; leave them out, or pass the URL of the AWS endpoint \
             with --endpoint-url"
                .into(),
        ));
    }
    let is_on = |switch: &Switch| is_on_within(environment, options, switch);
    let variant = AwsVariant {
        fips: given.fips || is_on(&FIPS),
        dual_stack: given.dual_stack || is_on(&DUAL_STACK),
        accelerate: given.accelerate || is_on(&ACCELERATE),
    };
    if variant.fips && variant.accelerate {
        return Err(Error::Usage("AWS has no accelerated FIPS endpoints; leave out one of them".into()));
    }
    Ok(variant)
}

fn is_on_within(environment: &Environment, options: &S3Options, Switch { variable, keys }: &Switch) -> bool {
    let said = variable.and_then(|variable| environment.get(variable));
    let said = said.or_else(|| keys.iter().find_map(|key| of_profile(environment, options, key)));
    said.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Fails if an encryption key would be sent to another machine in plain text.
fn must_hide(url: &OriginUrl) -> Result<()> {
    let host = url.host();
    let is_here = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    if url.scheme() == "https" || is_here {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--sse-c-key-file would send the key to {} unencrypted; use an endpoint with https",
        url.text()
    )))
}

fn read_customer_key(path: &Path) -> Result<CustomerKey> {
    let refused = |why: String| {
        Error::Usage(format!(
            "--sse-c-key-file {}: {why}; pass a file with the 32 bytes of the key, raw or in base64",
            path.display()
        ))
    };
    let unreadable = |error: std::io::Error| refused(format!("cannot be read ({error})"));
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() || found.len() > KEY_FILE_BYTES_MAX {
        return Err(refused("is not a key file".into()));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    CustomerKey::of_bytes(&bytes).ok_or_else(|| refused("is not a 32-byte key".into()))
}

/// Returns the region from the option, the environment or the profile, in that order.
pub(super) fn region_within(environment: &Environment, options: &S3Options) -> Option<String> {
    let said = options.region.clone().or_else(|| environment.first(&REGION_VARIABLES));
    said.or_else(|| of_profile(environment, options, "region"))
}

/// Returns the endpoint from the option, the environment or the profile, in that order.
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

/// Returns the certificate authorities file from the environment or the profile, in that order.
fn ca_bundle_within(environment: &Environment, options: &S3Options) -> Option<PathBuf> {
    let said = environment.first(&["AWS_CA_BUNDLE"]);
    said.or_else(|| of_profile(environment, options, "ca_bundle")).and_then(|text| environment.path(&text))
}

/// Returns the addressing style set in the profile.
fn addressing_within(environment: &Environment, options: &S3Options) -> Result<Addressing> {
    match of_profile(environment, options, "s3.addressing_style").as_deref() {
        None | Some("auto") => Ok(Addressing::Auto),
        Some("path") => Ok(Addressing::Path),
        Some("virtual") => Ok(Addressing::Virtual),
        Some(other) => Err(Error::Usage(format!(
            "the profile's s3 addressing_style must be auto, path or virtual, not {}; change it in \
             ~/.aws/config, or use --addressing-style",
            for_display(other.as_bytes())
        ))),
    }
}

/// Returns a setting of the selected profile. The credential chain reports a missing profile.
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
