//! AWS host names for each combination of service, region and endpoint variant. They follow the AWS General Reference,
//! "Service endpoints", and agree with botocore's rule sets.

use crate::error::{Error, Result};
use crate::name;

/// A variant of the AWS endpoints.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AwsVariant {
    /// Whether to use endpoints with FIPS 140 approved cryptography.
    pub fips: bool,
    /// Whether to use endpoints that also have IPv6 addresses.
    pub dual_stack: bool,
    /// Whether to use endpoints at the network edge. Only S3 has such endpoints.
    pub accelerate: bool,
}

impl AwsVariant {
    /// Returns the S3 host in a region. A bucket name can be prepended to it.
    pub fn s3_host(self, region: &str) -> Result<String> {
        let suffix = suffix_of(must_be_region(region)?);
        let dual_stack = if self.dual_stack { ".dualstack" } else { "" };
        if self.accelerate {
            return Ok(format!("s3-accelerate{dual_stack}.{suffix}"));
        }
        let fips = if self.fips { "-fips" } else { "" };
        Ok(format!("s3{fips}{dual_stack}.{region}.{suffix}"))
    }

    /// Returns the host of another service in a region, such as `sts`.
    pub fn service_host(self, service: &str, region: &str) -> Result<String> {
        must_be_region(region)?;
        // All GovCloud endpoints are FIPS-approved.
        let fips = if self.fips && !region.starts_with("us-gov-") { "-fips" } else { "" };
        let suffix = match (self.dual_stack, region.starts_with("cn-")) {
            (false, _) => suffix_of(region),
            (true, false) => "api.aws",
            (true, true) => "api.amazonwebservices.com.cn",
        };
        Ok(format!("{service}{fips}.{region}.{suffix}"))
    }
}

fn suffix_of(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// Refuses an invalid region. The region becomes part of a host name, and that host receives signed requests.
fn must_be_region(region: &str) -> Result<&str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !region.is_empty() && region.bytes().all(is_part) {
        return Ok(region);
    }
    Err(Error::Usage(format!(
        "{} is not a valid region; give a region such as eu-central-1 with --region",
        name::for_display(region.as_bytes())
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: AwsVariant = AwsVariant { fips: false, dual_stack: false, accelerate: false };
    const FIPS: AwsVariant = AwsVariant { fips: true, ..PLAIN };
    const DUAL: AwsVariant = AwsVariant { dual_stack: true, ..PLAIN };
    const BOTH: AwsVariant = AwsVariant { fips: true, dual_stack: true, accelerate: false };

    #[test]
    fn s3_has_a_host_for_each_variant() {
        for (variant, region, host) in [
            (PLAIN, "eu-central-1", "s3.eu-central-1.amazonaws.com"),
            (PLAIN, "cn-north-1", "s3.cn-north-1.amazonaws.com.cn"),
            (FIPS, "us-east-1", "s3-fips.us-east-1.amazonaws.com"),
            (FIPS, "us-gov-west-1", "s3-fips.us-gov-west-1.amazonaws.com"),
            (DUAL, "eu-west-1", "s3.dualstack.eu-west-1.amazonaws.com"),
            (DUAL, "cn-north-1", "s3.dualstack.cn-north-1.amazonaws.com.cn"),
            (BOTH, "us-east-1", "s3-fips.dualstack.us-east-1.amazonaws.com"),
            (AwsVariant { accelerate: true, ..PLAIN }, "eu-west-1", "s3-accelerate.amazonaws.com"),
            (AwsVariant { accelerate: true, ..DUAL }, "eu-west-1", "s3-accelerate.dualstack.amazonaws.com"),
        ] {
            assert_eq!(variant.s3_host(region).unwrap(), host);
        }
    }

    #[test]
    fn other_services_have_theirs() {
        for (variant, service, region, host) in [
            (PLAIN, "sts", "eu-west-1", "sts.eu-west-1.amazonaws.com"),
            (PLAIN, "sts", "cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
            (FIPS, "sts", "us-east-1", "sts-fips.us-east-1.amazonaws.com"),
            (FIPS, "sts", "us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
            (DUAL, "sts", "eu-west-1", "sts.eu-west-1.api.aws"),
            (DUAL, "sts", "cn-north-1", "sts.cn-north-1.api.amazonwebservices.com.cn"),
            (BOTH, "portal.sso", "us-east-1", "portal.sso-fips.us-east-1.api.aws"),
        ] {
            assert_eq!(variant.service_host(service, region).unwrap(), host);
        }
    }

    #[test]
    fn what_is_no_region_is_refused() {
        for region in ["", "evil.test/", "a b", "a.b"] {
            assert!(PLAIN.s3_host(region).is_err() && PLAIN.service_host("sts", region).is_err(), "{region}");
        }
    }
}
