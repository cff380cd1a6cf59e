//! Limits the requests in flight to an origin if the user did not set a limit. Requests to a public address cost
//! someone else money.

use std::net::{IpAddr, SocketAddr};

use fetchmill_model::limits;
use fetchmill_net::AddressPolicy;

/// Host name suffixes of AWS S3.
const AWS_SUFFIXES: [&str; 2] = [".amazonaws.com", ".amazonaws.com.cn"];

/// Limit that protects the origin rather than this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Courtesy {
    pub(crate) most: u32,
    /// Description of the server that the limit protects.
    pub(crate) whom: &'static str,
}

const PUBLIC: Courtesy = Courtesy { most: limits::COURTESY_PUBLIC, whom: "a public address" };
const MAYBE_PUBLIC: Courtesy = Courtesy { whom: "a host that may be public", ..PUBLIC };
const AWS: Courtesy = Courtesy { most: limits::COURTESY_AWS, whom: "Amazon S3" };

/// Returns the concurrency limit for a job's only origin if `--concurrency auto` is used. If the result is `None`, only
/// the limit of this machine applies. `addresses` contains the known addresses of `host`. `is_bucket` means that the
/// host is a store that serves a bucket.
pub(crate) fn of_host(host: &str, addresses: Option<&[SocketAddr]>, is_bucket: bool) -> Option<Courtesy> {
    if is_bucket && AWS_SUFFIXES.iter().any(|suffix| host.ends_with(suffix)) {
        return Some(AWS);
    }
    // Packets to a mapped address are sent to the IPv4 address that it contains.
    let is_public = |address: IpAddr| AddressPolicy::PublicOnly.allows(address.to_canonical());
    let public = |is_public: bool| is_public.then_some(PUBLIC);
    match (addresses, host.parse()) {
        (Some(addresses), _) => public(addresses.iter().any(|address| is_public(address.ip()))),
        (None, Ok(address)) => public(is_public(address)),
        // Either the proxy or a Python engine looks up the name, or the name belongs to a store and is looked up later.
        (None, Err(_)) => (!is_this_machine(host)).then_some(MAYBE_PUBLIC),
    }
}

/// Returns whether a name always refers to this machine (RFC 6761, 6.3).
fn is_this_machine(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_origin_gets_few_aws_more_and_our_own_network_what_it_can() {
        let address = |text: &str| [SocketAddr::new(text.parse().unwrap(), 443)];
        for (host, addresses, is_bucket, expected) in [
            ("example.com", Some("93.184.216.34"), false, Some(PUBLIC)),
            ("example.com", Some("2606:2800:220:1::1"), false, Some(PUBLIC)),
            ("files.internal", Some("10.1.2.3"), false, None),
            ("localhost", Some("127.0.0.1"), false, None),
            ("mapped.internal", Some("::ffff:10.1.2.3"), false, None),
            ("mapped.example.com", Some("::ffff:93.184.216.34"), false, Some(PUBLIC)),
            ("unique-local.internal", Some("fd00::1"), false, None),
            ("link-local.internal", Some("169.254.1.1"), false, None),
            ("link-local.internal", Some("fe80::1"), false, None),
            ("carrier.internal", Some("100.64.0.1"), false, None),
            ("proxied.example.com", None, false, Some(MAYBE_PUBLIC)),
            ("93.184.216.34", None, true, Some(PUBLIC)),
            ("127.0.0.1", None, true, None),
            ("::1", None, true, None),
            ("localhost", None, true, None),
            ("files.localhost.", None, false, None),
            ("mylocalhost", None, false, Some(MAYBE_PUBLIC)),
            ("store.example.com", None, true, Some(MAYBE_PUBLIC)),
            ("bucket.s3.eu-west-1.amazonaws.com", None, true, Some(AWS)),
            ("bucket.s3.cn-north-1.amazonaws.com.cn", None, true, Some(AWS)),
            ("s3.amazonaws.com.example.com", None, true, Some(MAYBE_PUBLIC)),
            ("files.amazonaws.com", Some("93.184.216.34"), false, Some(PUBLIC)),
        ] {
            let addresses = addresses.map(address);
            let found = of_host(host, addresses.as_ref().map(|addresses| &addresses[..]), is_bucket);
            assert_eq!(found, expected, "{host} {addresses:?}");
        }
    }
}
