//! Behaviours of hosts, and host names of the form `<behaviour>-<number>.test`. No table of hosts is needed, because a
//! host's name determines everything about the host.

use std::fmt;

/// Number of digits that always fit into 64 bits.
const DIGITS_MAX: usize = 19;
/// Zone of all hosts. RFC 6761 reserves it for tests.
pub(super) const ZONE: &str = "test";

macro_rules! behaviours {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// Behaviour of a host.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Behaviour { $($(#[doc = $doc])* $variant,)* }

        impl Behaviour {
            /// All behaviours.
            pub const ALL: &[Behaviour] = &[$(Behaviour::$variant),*];

            /// Returns the name of the behaviour, as it appears in host names.
            pub fn name(self) -> &'static str {
                match self { $(Behaviour::$variant => $name,)* }
            }

            /// Parses the output of [`Behaviour::name`].
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Behaviour::$variant),)* _ => None }
            }
        }
    };
}

behaviours! {
    /// 200 with a small page that contains the host's name.
    Good = "good",
    /// Like `good`, but takes up to a third of the timeout.
    Slow = "slow",
    /// The lookup answers that the name does not exist.
    Nxdomain = "nxdomain",
    /// The lookup answers that the name server failed.
    Servfail = "servfail",
    /// The name exists but has no address.
    Nodata = "nodata",
    /// The lookup is never answered.
    Nodns = "nodns",
    /// The lookup is answered after 100 to 400 ms.
    Slowdns = "slowdns",
    /// Three aliases, the last of which points to the good host with the same number.
    Cname = "cname",
    /// Thirty addresses, all of them good. They do not fit into a datagram without EDNS.
    Many = "many",
    /// The lookup is truncated over UDP and complete over TCP.
    Tc = "tc",
    /// An IPv6 address that refuses connections, and a good IPv4 address.
    Dual = "dual",
    /// Lookups alternate between a good address and 127.255.255.254.
    Rebind = "rebind",
    /// SYN packets are not answered.
    Dead = "dead",
    /// Nothing listens at the address.
    Refusing = "refusing",
    /// The connection is reset when the request arrives.
    Resetting = "resetting",
    /// The connection is closed immediately.
    Closing = "closing",
    /// 404.
    NotFound = "notfound",
    /// 500.
    Error = "error",
    /// 429 with Retry-After for the first request to a host, and 200 afterwards.
    Busy = "busy",
    /// Redirects from HTTP to HTTPS on the same host with 301, and from there to the good host with 302.
    Redirecting = "redirecting",
    /// Redirects from / to /a, to /b, and back to /a.
    Looping = "looping",
    /// Thirty redirects in a row.
    Faraway = "faraway",
    /// A redirect from HTTPS to HTTP.
    Downgrade = "downgrade",
    /// Sends the head immediately, and then one byte of the body per second.
    Trickling = "trickling",
    /// The request is read but never answered.
    Stalling = "stalling",
    /// Sends half a head, and then nothing.
    Halfhead = "halfhead",
    /// The banner of an SSH server.
    Garbage = "garbage",
    /// A head of 1 MiB.
    Huge = "huge",
    /// A body of 10 MiB.
    Big = "big",
    /// A body that ends when the connection is closed.
    Nolength = "nolength",
    /// The connection is closed before the end of the body.
    Truncated = "truncated",
    /// A chunked body.
    Chunked = "chunked",
    /// Supports only HTTP/2 over TLS.
    Http2 = "http2",
    /// A redirect to 127.255.255.254.
    Private = "private",
    /// An unsolicited 101.
    Upgrade = "upgrade",
    /// The certificate expired in 2002.
    Expired = "expired",
    /// The certificate belongs to another host.
    Wrongname = "wrongname",
    /// The certificate is self-signed.
    Selfsigned = "selfsigned",
    /// The certificate is signed by an unknown authority.
    Unknownca = "unknownca",
    /// Plain HTTP on the TLS port.
    Plain = "plain",
    /// The connection is closed during the handshake.
    Notls = "notls",
    /// The handshake is never answered.
    Stalledtls = "stalledtls",
}

impl Behaviour {
    /// Returns whether hosts of this behaviour listen at their addresses.
    pub(super) fn listens(self) -> bool {
        !matches!(
            self,
            Behaviour::Refusing
                | Behaviour::Nxdomain
                | Behaviour::Servfail
                | Behaviour::Nodata
                | Behaviour::Nodns
        )
    }

    /// Returns whether many hosts of a world have this behaviour. Such behaviours have more addresses than the others.
    pub(super) fn is_common(self) -> bool {
        matches!(self, Behaviour::Good | Behaviour::Slow | Behaviour::Dead | Behaviour::Refusing)
    }
}

/// A host: its behaviour and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Host {
    /// Behaviour of the host.
    pub behaviour: Behaviour,
    /// Number of the host. Any number is allowed.
    pub number: u64,
}

impl Host {
    /// Parses a name in any case, with or without a trailing dot. `None` if the name does not belong to a host.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let (behaviour, number) = name.strip_suffix(ZONE)?.strip_suffix('.')?.split_once('-')?;
        let is_number = number.len() <= DIGITS_MAX && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_number { number.parse().ok()? } else { return None };
        Some(Host { behaviour: Behaviour::from_name(behaviour)?, number })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{:06}.{ZONE}", self.behaviour.name(), self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_behaviour_has_a_name_that_is_read_again() {
        for &behaviour in Behaviour::ALL {
            let host = Host { behaviour, number: 123 };

            assert_eq!(Host::parse(&host.to_string()), Some(host));
        }
    }

    #[test]
    fn names_are_read_in_any_case_with_any_number() {
        let good = |number| Some(Host { behaviour: Behaviour::Good, number });

        assert_eq!(Host::parse("gOOd-000123.TesT."), good(123));
        assert_eq!(Host::parse("good-7.test"), good(7));
        assert_eq!(Host::parse("good-9999999999999999999.test"), good(9_999_999_999_999_999_999));
    }

    #[test]
    fn other_names_are_no_hosts() {
        for name in [
            "",
            "test",
            "good-1",
            "good.test",
            "good-.test.example",
            "good-+1.test",
            "good-1x.test",
            "good-1test",
            "better-1.test",
            "www.good-1.test",
            "good-99999999999999999999.test",
        ] {
            assert_eq!(Host::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_without_digits_is_no_host() {
        assert_eq!(Host::parse("good-.test"), None);
    }
}
