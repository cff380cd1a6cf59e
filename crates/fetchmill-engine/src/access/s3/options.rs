//! How stores are reached, as a user says; [`super::S3Settings`] completes it.

use std::path::PathBuf;

use fetchmill_model::options::options;
use fetchmill_model::s3::Addressing;
use fetchmill_model::source::OriginUrl;

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
        /// Endpoints of AWS with approved cryptography.
        use_fips_endpoint: bool = false;
        /// Endpoints of AWS that have IPv6 addresses too.
        use_dualstack_endpoint: bool = false;
        /// Endpoints of AWS at the edge of its network.
        use_accelerate_endpoint: bool = false;
        /// Each request says that its sender pays for it.
        requester_pays: bool = false;
        /// The key that objects were encrypted with, which their store does not keep.
        sse_c_key_file: Option<PathBuf> = None;
    }
}
