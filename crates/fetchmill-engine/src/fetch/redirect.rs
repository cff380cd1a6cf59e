//! Redirects: where one leads, and when no further one is followed.

use std::net::SocketAddr;

use url::Url;

use fetchmill_model::outcome::FailureKind;
use fetchmill_net::{AddressPolicy, is_public};

/// Goes on to where a reply says that the object is. `visited` has where it was before, as hashes: a redirect to one
/// of these is a loop.
pub(crate) fn follow(
    url: &mut String,
    visited: &mut Vec<u64>,
    location: Option<&[u8]>,
    redirects_max: u32,
) -> Result<(), FailureKind> {
    let location = location.and_then(|location| std::str::from_utf8(location).ok());
    let next = redirected(url, location.ok_or(FailureKind::RedirectRefused)?)?;
    if visited.is_empty() {
        visited.push(hash(url));
    }
    if visited.contains(&hash(&next)) {
        return Err(FailureKind::RedirectLoop);
    }
    if visited.len() > redirects_max as usize {
        return Err(FailureKind::RedirectLimit);
    }
    visited.push(hash(&next));
    *url = next;
    Ok(())
}

/// How far a redirect may lead: what came from a public address never leads to one that is not, however many hops
/// later. Without an address a proxy was asked, which does not say where it has been: it counts as public, unless the
/// host that it was asked for is itself an address that is not.
pub(crate) fn reach_behind(reach: AddressPolicy, host: &str, address: Option<SocketAddr>) -> AddressPolicy {
    let came_from_public = match address {
        Some(address) => is_public(address.ip()),
        None => AddressPolicy::PublicOnly.allows_host(host),
    };
    if came_from_public { AddressPolicy::PublicOnly } else { reach }
}

/// Where a redirect leads. It may not take TLS away, name a user, or leave http.
fn redirected(url: &str, location: &str) -> Result<String, FailureKind> {
    let refused = |_| FailureKind::RedirectRefused;
    let from = Url::parse(url).map_err(refused)?;
    let mut to = from.join(location).map_err(refused)?;
    let is_downgrade = from.scheme() == "https" && to.scheme() != "https";
    let names_user = !to.username().is_empty() || to.password().is_some();
    if is_downgrade || names_user || !matches!(to.scheme(), "http" | "https") || !to.has_host() {
        return Err(FailureKind::RedirectRefused);
    }
    to.set_fragment(None);
    Ok(to.into())
}

fn hash(url: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(url.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_resolved_against_where_it_came_from() {
        for (location, url) in [
            ("/b?c#d", "https://a.test/b?c"),
            ("../b", "https://a.test/b"),
            ("//B.test/", "https://b.test/"),
            ("https://b.test:443/x y", "https://b.test/x%20y"),
        ] {
            assert_eq!(redirected("https://a.test/x/y", location).unwrap(), url, "{location}");
        }
    }

    #[test]
    fn a_redirect_never_leads_out_of_the_public_internet() {
        use AddressPolicy::{Anywhere, PublicOnly};
        let address = |text: &str| Some(SocketAddr::new(text.parse().unwrap(), 80));
        for (reach, host, address, behind) in [
            (Anywhere, "a.test", address("8.8.8.8"), PublicOnly),
            (Anywhere, "a.test", address("2606:4700::1"), PublicOnly),
            (Anywhere, "a.test", address("10.0.0.1"), Anywhere),
            (PublicOnly, "a.test", address("10.0.0.1"), PublicOnly),
            (Anywhere, "a.test", None, PublicOnly),
            (Anywhere, "8.8.8.8", None, PublicOnly),
            (Anywhere, "10.0.0.1", None, Anywhere),
            (Anywhere, "::1", None, Anywhere),
        ] {
            assert_eq!(reach_behind(reach, host, address), behind, "{host} {address:?}");
        }
    }

    #[test]
    fn a_redirect_never_takes_tls_away() {
        for location in ["http://a.test/", "ftp://a.test/", "https://u:p@a.test/", "data:,x", "https://"] {
            let refused = redirected("https://a.test/", location).unwrap_err();
            assert_eq!(refused, FailureKind::RedirectRefused, "{location}");
        }
        assert_eq!(redirected("http://a.test/", "https://a.test/").unwrap(), "https://a.test/");
    }
}
