//! Options for reaching stores, as the user gave them; [`super::S3Settings`] completes them.

use std::path::PathBuf;

use fetchmill_model::options::options;
use fetchmill_model::s3::Addressing;
use fetchmill_model::source::OriginUrl;

options! {
    /// Options for reaching stores.
    #[derive(PartialEq, Eq)]
    pub struct S3Options {
        /// Endpoint of the store; `None` = that of the environment, otherwise AWS.
        endpoint_url: Option<OriginUrl> = None;
        /// Region of the buckets; `None` = that of the configuration, otherwise of the store.
        region: Option<String> = None;
        /// Profile with the credentials; `None` = that of the environment.
        profile: Option<String> = None;
        /// Whether requests are sent unsigned, for public buckets.
        no_sign_request: bool = false;
        /// Whether an object is compared with the checksum that its store gives.
        checksums: bool = true;
        /// Place of the bucket in a URL.
        addressing_style: Addressing = Addressing::Auto;
        /// Endpoints of AWS with approved cryptography.
        use_fips_endpoint: bool = false;
        /// Endpoints of AWS that have IPv6 addresses too.
        use_dualstack_endpoint: bool = false;
        /// Endpoints of AWS at the edge of its network.
        use_accelerate_endpoint: bool = false;
        /// Whether each request declares that its sender pays.
        requester_pays: bool = false;
        /// File with the key that encrypted the objects. The store does not keep this key.
        sse_c_key_file: Option<PathBuf> = None;
    }
}
