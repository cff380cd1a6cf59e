//! Addresses of hosts. Every behaviour has a network of its own, 127.77.N.0/24. Therefore, the address of a connection
//! determines its behaviour even before the first byte arrives.

use std::net::Ipv4Addr;

use super::behaviour::{Behaviour, Host};

/// Second byte of all addresses. It keeps them away from 127.0.0.1, where other programs listen.
const NETWORK: u8 = 77;
/// Number of addresses of a `many` host.
pub(super) const MANY: u8 = 30;
/// Maximum number of addresses of a behaviour: the last byte of an address, without 0 and 255.
pub(super) const ADDRESSES_MAX: u8 = 254;
/// Divisor for the number of addresses of rare behaviours, because each address costs two listeners.
const RARE: u8 = 8;
/// Address that a public name must not point to. A world never sends anything there.
pub(super) const PRIVATE: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 254);

/// Returns a behaviour's number of addresses, given the number for common behaviours (`addresses`).
pub(super) fn count(behaviour: Behaviour, addresses: u8) -> u8 {
    match behaviour {
        Behaviour::Many => MANY,
        _ if behaviour.is_common() => addresses.max(1),
        _ => (addresses / RARE).max(1),
    }
}

/// Returns the address of a behaviour at a position, counted from 0.
pub(super) fn address(behaviour: Behaviour, position: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, NETWORK, behaviour as u8 + 1, position + 1)
}

/// Returns all addresses of a behaviour.
pub(super) fn all(behaviour: Behaviour, addresses: u8) -> impl Iterator<Item = Ipv4Addr> {
    (0..count(behaviour, addresses)).map(move |position| address(behaviour, position))
}

impl Host {
    /// Returns the address of the host in 127.0.0.0/8. `addresses` is the number of addresses of common behaviours.
    pub fn address(self, addresses: u8) -> Ipv4Addr {
        let all = u64::from(count(self.behaviour, addresses));
        address(self.behaviour, (self.number % all) as u8)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_behaviours_share_an_address() {
        let all: Vec<Ipv4Addr> =
            Behaviour::ALL.iter().flat_map(|&behaviour| all(behaviour, ADDRESSES_MAX)).collect();

        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert!(all.iter().all(|address| address.is_loopback() && !matches!(address.octets()[3], 0 | 255)));
    }

    #[test]
    fn hosts_are_spread_over_the_addresses_of_their_behaviour() {
        let host = |number| Host { behaviour: Behaviour::Good, number };

        assert_eq!(host(0).address(16), Ipv4Addr::new(127, 77, 1, 1));
        assert_eq!(host(15).address(16), Ipv4Addr::new(127, 77, 1, 16));
        assert_eq!(host(16).address(16), host(0).address(16));
        assert_eq!(host(u64::MAX).address(16), host(15).address(16));
    }

    #[test]
    fn a_behaviour_has_at_least_one_address() {
        assert_eq!([1, 7, 16].map(|addresses| count(Behaviour::Error, addresses)), [1, 1, 2]);
    }
}
