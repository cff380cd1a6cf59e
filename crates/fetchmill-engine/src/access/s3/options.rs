//! Options for reaching stores, as the user gave them. [`super::S3Settings`] completes them.

use std::path::PathBuf;

use fetchmill_model::options::options;
use fetchmill_model::s3::Addressing;
use fetchmill_model::source::OriginUrl;

options! {
    /// Options for reaching stores.
    #[derive(PartialEq, Eq)]
    pub struct S3Options {
        /// Endpoint of the store. `None` means the endpoint of the environment, otherwise AWS.
        endpoint_url: Option<OriginUrl> = None;
        /// Region of the buckets. `None` means the region of the configuration, otherwise the region that the store
        /// reports.
        region: Option<String> = None;
        /// Profile with the credentials. `None` means the profile that the environment names.
        profile: Option<String> = None;
        /// Whether requests are sent unsigned, for public buckets.
        no_sign_request: bool = false;
        /// Whether an object is compared with the checksum that its store gives.
        checksums: bool = true;
        /// Where a URL contains the bucket.
        addressing_style: Addressing = Addressing::Auto;
        /// Whether to use the AWS endpoints with approved cryptography.
        use_fips_endpoint: bool = false;
        /// Whether to use the AWS endpoints that also have IPv6 addresses.
        use_dualstack_endpoint: bool = false;
        /// Whether to use the AWS endpoints at the edge of its network.
        use_accelerate_endpoint: bool = false;
        /// Whether each request declares that the sender pays for it.
        requester_pays: bool = false;
        /// File with the key that the objects were encrypted with. The store does not keep this key.
        sse_c_key_file: Option<PathBuf> = None;
    }
}
