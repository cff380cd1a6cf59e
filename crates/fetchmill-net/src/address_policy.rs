//! Restricts the addresses that connections may lead to. URL lists and redirects can come from someone else and contain
//! any host name. With [`AddressPolicy::PublicOnly`], these names cannot lead to networks that only this machine can
//! reach.
//!
//! The policy checks the address of the connection rather than the name, because two lookups of a name can differ.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses that connections may lead to. The stricter policy compares as greater.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressPolicy {
    /// Every address.
    #[default]
    Anywhere,
    /// Public addresses only. If a lookup also returns other addresses, all of them are rejected, because such a mix is
    /// unlikely to be an accident.
    PublicOnly,
}

impl AddressPolicy {
    /// Returns whether the policy allows an address.
    pub fn allows(self, address: IpAddr) -> bool {
        self == AddressPolicy::Anywhere || is_public(address)
    }

    /// Returns whether the policy allows a host, judging only by its text. Names always pass, because their addresses
    /// are checked after the lookup.
    pub fn allows_host(self, host: &str) -> bool {
        self == AddressPolicy::Anywhere || host.parse().map_or(true, is_public)
    }
}

/// IPv4 networks that are not public, with their prefix lengths. They include multicast, the obsolete 6to4 anycast
/// network, and everything that IANA's special-purpose registry lists as not globally reachable.
const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Non-public networks within `2000::/3`. An address outside `2000::/3` is public only if it translates to a public
/// IPv4 address.
const SPECIAL_V6: [(Ipv6Addr, u32); 3] = [
    // IETF protocol assignments, such as Teredo, benchmarking and ORCHID. Regional registries allocate addresses only
    // from 2001:200:: upwards.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Returns whether an address is on the public internet. If in doubt, returns `false`.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let address = address.to_bits();
    !SPECIAL_V4.iter().any(|(network, length)| (address ^ network.to_bits()) >> (32 - length) == 0)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    match address.segments() {
        // NAT64 translates the first of these forms, and 6to4 tunnels the second. In both cases, packets end up at the
        // embedded IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_public_v4(Ipv4Addr::from_bits(bits as u32)),
        [0x2002, ..] => is_public_v4(Ipv4Addr::from_bits((bits >> 80) as u32)),
        [0x2000..=0x3fff, ..] => {
            !SPECIAL_V6.iter().any(|(network, length)| (bits ^ network.to_bits()) >> (128 - length) == 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::origin::OriginKey;
    use fetchmill_model::source::list::normalise;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a list")]
    fn what_only_this_machine_or_its_network_sees_is_not_public() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.255",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::7f00:1",
            "::808:808",
            "::ffff:7f00:1",
            "::ffff:8.8.8.8",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::808:808",
            "64:ff9b:0:0:0:1:808:808",
            "100::1",
            "100:0:0:1::1",
            "2001::1",
            "2001:0:808:808::1",
            "2001:2::1",
            "2001:10::1",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "2001:db8:ffff::1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            "2002:a00:1::",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff:ffff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn the_neighbours_of_special_networks_are_public() {
        for address in [
            "1.0.0.0",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.255",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "64:ff9b::8.8.8.8",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2001:db7::1",
            "2001:db9::1",
            "2002:808:808::1",
            "2606:4700::1111",
            "2a00::1",
            "3fff:1000::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn other_spellings_of_an_address_are_that_address() {
        for (url, address) in [
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://2130706433/", "127.0.0.1"),
            ("http://0177.0.0.1/", "127.0.0.1"),
            ("http://127.1/", "127.0.0.1"),
            ("http://127.0.0.1./", "127.0.0.1"),
            ("http://0xa9fea9fe:80/", "169.254.169.254"),
            ("http://１２７.0.0.1/", "127.0.0.1"),
            ("http://0/", "0.0.0.0"),
            ("http://[::ffff:127.0.0.1]/", "::ffff:7f00:1"),
            ("http://[0:0:0:0:0:0:0:1]:81/", "::1"),
        ] {
            let url = normalise(url).unwrap();
            let (key, _) = OriginKey::of_url(&url).unwrap();

            assert_eq!(key.host(), address, "{url}");
            assert!(
                !AddressPolicy::PublicOnly.allows_host(key.host())
                    && AddressPolicy::Anywhere.allows_host(key.host())
            );
        }
        assert!(
            AddressPolicy::PublicOnly.allows_host("localhost")
                && AddressPolicy::PublicOnly.allows_host("8.8.8.8")
        );
    }
}
