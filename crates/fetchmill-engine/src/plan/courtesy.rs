//! How many requests at once an origin gets that nobody was asked about: to a public address somebody else pays for them.

use std::net::{IpAddr, SocketAddr};

use super::job_origins::ListingServer;
use crate::request::job_request::JobRequest;
use crate::request::source_options::SourceOptions;
use fetchmill_model::limits;
use fetchmill_net::AddressPolicy;

/// The hosts of AWS's S3 end with one of these.
const AWS_SUFFIXES: [&str; 2] = [".amazonaws.com", ".amazonaws.com.cn"];

/// A bound that is the origin's, not this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Courtesy {
    pub(crate) most: u32,
    /// Whom it spares.
    pub(crate) whom: &'static str,
}

/// What the only origin of a job gets at most with `--concurrency auto`; none: what this machine allows. Where a list
/// leads is not known when the job starts: it is taken for public.
pub(crate) fn courtesy(request: &JobRequest, server: Option<&ListingServer>) -> Option<Courtesy> {
    if request.http.concurrency_max.is_some() {
        return None;
    }
    let is_bucket = matches!(request.source, SourceOptions::S3 { .. });
    match server {
        Some(server) => of_host(server.key.host(), server.addresses.as_deref(), is_bucket),
        None => Some(PUBLIC),
    }
}

const PUBLIC: Courtesy = Courtesy { most: limits::COURTESY_PUBLIC, whom: "a public address" };
const AWS: Courtesy = Courtesy { most: limits::COURTESY_AWS, whom: "AWS's S3" };

/// The same of a host, with the addresses that are known of it; whether it is a store that serves a bucket.
pub(crate) fn of_host(host: &str, addresses: Option<&[SocketAddr]>, is_bucket: bool) -> Option<Courtesy> {
    if is_bucket && AWS_SUFFIXES.iter().any(|suffix| host.ends_with(suffix)) {
        return Some(AWS);
    }
    let is_public = |address: IpAddr| AddressPolicy::PublicOnly.allows(address);
    let may_be_public = match addresses {
        Some(addresses) => addresses.iter().any(|address| is_public(address.ip())),
        // A name that the proxy looks up, or a store's own.
        None => host.parse().map_or(host != "localhost", is_public),
    };
    may_be_public.then_some(PUBLIC)
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
            ("proxied.example.com", None, false, Some(PUBLIC)),
            ("93.184.216.34", None, true, Some(PUBLIC)),
            ("127.0.0.1", None, true, None),
            ("::1", None, true, None),
            ("localhost", None, true, None),
            ("store.example.com", None, true, Some(PUBLIC)),
            ("bucket.s3.eu-west-1.amazonaws.com", None, true, Some(AWS)),
            ("bucket.s3.cn-north-1.amazonaws.com.cn", None, true, Some(AWS)),
            ("s3.amazonaws.com.example.com", None, true, Some(PUBLIC)),
            ("files.amazonaws.com", Some("93.184.216.34"), false, Some(PUBLIC)),
        ] {
            let addresses = addresses.map(address);
            let found = of_host(host, addresses.as_ref().map(|addresses| &addresses[..]), is_bucket);
            assert_eq!(found, expected, "{host} {addresses:?}");
        }
    }
}
