//! S3 options that the user specified. [`super::S3Settings`] adds the values from the environment and the profile.

use std::path::PathBuf;

use fetchmill_model::options::options;
use fetchmill_model::s3::Addressing;
use fetchmill_model::source::OriginUrl;

options! {
    /// Options for S3 and compatible stores.
    #[derive(PartialEq, Eq)]
    pub struct S3Options {
        /// Endpoint of the store. `None` uses the endpoint from the environment, or AWS if none is set.
        endpoint_url: Option<OriginUrl> = None;
        /// Region of the buckets. `None` uses the configured region, or the region that the store reports if none is
        /// configured.
        region: Option<String> = None;
        /// Profile that provides the credentials. `None` uses the profile named in the environment.
        profile: Option<String> = None;
        /// Whether to send unsigned requests, which public buckets accept.
        no_sign_request: bool = false;
        /// Whether to verify objects against the checksums that the store sends.
        checksums: bool = true;
        /// Position of the bucket name in URLs.
        addressing_style: Addressing = Addressing::Auto;
        /// Whether to use AWS endpoints with FIPS-approved cryptography.
        use_fips_endpoint: bool = false;
        /// Whether to use AWS endpoints with IPv6 addresses.
        use_dualstack_endpoint: bool = false;
        /// Whether to use the AWS endpoints for transfer acceleration.
        use_accelerate_endpoint: bool = false;
        /// Whether requests declare that the requester pays.
        requester_pays: bool = false;
        /// File that contains the customer's encryption key for objects. The store does not keep this key.
        sse_c_key_file: Option<PathBuf> = None;
    }
}
