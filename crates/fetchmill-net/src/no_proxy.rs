//! Hosts that are reached without a proxy: the entries of `no_proxy`.
//!
//! curl's rules apply: case is ignored, and a name also covers its subdomains, with or without a leading dot. A network
//! in CIDR notation covers its addresses, and `*` covers everything. Two rules come from Go: `*.` before a name means
//! the same as a dot, and an entry may end with a port.

use std::net::{IpAddr, Ipv6Addr};

/// Entries of `no_proxy`. An entry that is not a name, address or network matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy(Vec<NoProxyEntry>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct NoProxyEntry {
    hosts: Hosts,
    /// Port that the entry applies to. `None` means any port.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    All,
    /// A name and its subdomains.
    Name(String),
    /// Addresses that share their first `bits` bits.
    Network {
        address: IpAddr,
        bits: u32,
    },
}

impl NoProxy {
    /// Parses entries. Each string may contain several entries, separated by commas or spaces.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let separate = |text: &'t str| text.split([',', ' ', '\t', '\n']).filter(|entry| !entry.is_empty());
        NoProxy(texts.into_iter().flat_map(separate).filter_map(NoProxyEntry::parse).collect())
    }

    /// Returns whether a host is reached without the proxy. `host` must not have brackets.
    pub fn covers(&self, host: &str, port: u16) -> bool {
        self.0.iter().any(|entry| entry.port.is_none_or(|own| own == port) && entry.hosts.has(host))
    }
}

impl NoProxyEntry {
    fn parse(text: &str) -> Option<Self> {
        if text.parse::<Ipv6Addr>().is_ok() {
            return Some(NoProxyEntry { hosts: Hosts::parse(text)?, port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port))
                if !port.contains(['/', ']']) && (host.ends_with(']') || !host.contains(':')) =>
            {
                (host, Some(port.parse().ok()?))
            }
            _ => (text, None),
        };
        Some(NoProxyEntry { hosts: Hosts::parse(host)?, port })
    }
}

impl Hosts {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Hosts::All);
        }
        let (host, bits) = text.split_once('/').map_or((text, None), |(host, bits)| (host, Some(bits)));
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = host.parse::<IpAddr>() {
            let all = bits_of(address);
            let bits = bits.map_or(Ok(all), str::parse).ok().filter(|bits| *bits <= all)?;
            return Some(Hosts::Network { address, bits });
        }
        let name = host.strip_prefix("*.").unwrap_or(host).trim_matches('.').to_ascii_lowercase();
        (bits.is_none() && !name.is_empty()).then_some(Hosts::Name(name))
    }

    fn has(&self, host: &str) -> bool {
        match self {
            Hosts::All => true,
            Hosts::Network { address, bits } => {
                host.parse().is_ok_and(|other| is_in_network(*address, *bits, other))
            }
            // Prevent the last part of an address from matching like a parent domain.
            Hosts::Name(_) if host.parse::<IpAddr>().is_ok() => false,
            Hosts::Name(name) => {
                let host = host.trim_end_matches('.').to_ascii_lowercase();
                let before = host.strip_suffix(name.as_str());
                before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
        }
    }
}

fn bits_of(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns whether two addresses share the first `bits` bits.
fn is_in_network(address: IpAddr, bits: u32, other: IpAddr) -> bool {
    let differing = match (address, other) {
        (IpAddr::V4(address), IpAddr::V4(other)) => (address.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(address), IpAddr::V6(other)) => (address.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => return false,
    };
    differing >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_cover_what_curl_and_go_take_them_for() {
        for (entries, host, port, expected) in [
            ("*", "a.test", 80, true),
            ("a.test", "a.test", 80, true),
            ("a.test", "x.a.test", 80, true),
            ("a.test", "xa.test", 80, false),
            ("a.test", "A.Test.", 80, true),
            (".a.test", "a.test", 80, true),
            ("*.a.test", "x.a.test", 80, true),
            ("LOCALHOST", "localhost", 80, true),
            ("b.test, localhost", "localhost", 80, true),
            ("b.test localhost", "localhost", 80, true),
            ("127.0.0.1", "127.0.0.1", 80, true),
            ("0.1", "127.0.0.1", 80, false),
            ("10.0.0.0/8,127.0.0.0/8", "127.1.2.3", 80, true),
            ("10.0.0.0/8", "11.0.0.0", 80, false),
            ("0.0.0.0/0", "9.9.9.9", 80, true),
            ("0.0.0.0/0", "::1", 80, false),
            ("10.0.0.0/33", "10.0.0.0", 80, false),
            ("a.test/8", "a.test", 80, false),
            ("::1", "::1", 80, true),
            ("[::1]", "::1", 80, true),
            ("fe80::/10", "febf::1", 80, true),
            ("fe80::/10", "fec0::1", 80, false),
            ("[::1]:81", "::1", 81, true),
            ("[::1]:81", "::1", 80, false),
            ("a.test:81", "a.test", 81, true),
            ("a.test:81", "a.test", 80, false),
            ("127.0.0.1:81", "127.0.0.1", 81, true),
            ("a.test:x", "a.test", 80, false),
            (". , ..", "a.test", 80, false),
            ("", "a.test", 80, false),
        ] {
            assert_eq!(NoProxy::parse([entries]).covers(host, port), expected, "{entries:?} {host} {port}");
        }
    }
}
