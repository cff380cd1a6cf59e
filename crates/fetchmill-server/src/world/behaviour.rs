//! Behaviours of hosts, and their names: `<behaviour>-<number>.test`. There is no table of hosts, because a name
//! contains everything.

use std::fmt;

/// Maximum number of digits that always fit into 64 bits.
const DIGITS_MAX: usize = 19;
/// Zone of all hosts. RFC 6761 reserves it for tests.
pub(super) const ZONE: &str = "test";

macro_rules! behaviours {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// Behaviour of a host. This is a closed list.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Behaviour { $($(#[doc = $doc])* $variant,)* }

        impl Behaviour {
            /// All behaviours.
            pub const ALL: &[Behaviour] = &[$(Behaviour::$variant),*];

            /// Returns the name in the names of hosts.
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
    /// 200 with a small page that has the host's own name.
    Good = "good",
    /// As `good`, after up to a third of the timeout.
    Slow = "slow",
    /// The look-up answers that the name does not exist.
    Nxdomain = "nxdomain",
    /// The look-up answers that the name server failed.
    Servfail = "servfail",
    /// The name exists but has no address.
    Nodata = "nodata",
    /// The look-up is never answered.
    Nodns = "nodns",
    /// The look-up is answered after 100 to 400 ms.
    Slowdns = "slowdns",
    /// Three aliases, the last one of the good host with the same number.
    Cname = "cname",
    /// Thirty addresses, all good: more than fit into a datagram without EDNS.
    Many = "many",
    /// The look-up is truncated over UDP and complete over TCP.
    Tc = "tc",
    /// An IPv6 address that refuses and an IPv4 address that is good.
    Dual = "dual",
    /// Look-ups give a good address and 127.255.255.254 in turn.
    Rebind = "rebind",
    /// The SYN is not answered.
    Dead = "dead",
    /// There is no listener.
    Refusing = "refusing",
    /// The connection is reset once the request has come.
    Resetting = "resetting",
    /// The connection is closed immediately.
    Closing = "closing",
    /// 404.
    NotFound = "notfound",
    /// 500.
    Error = "error",
    /// 429 with Retry-After for the first request to a host, then 200.
    Busy = "busy",
    /// From http to https of the same host with 301, from there to the good host with 302.
    Redirecting = "redirecting",
    /// From / to /a, to /b, and to /a again.
    Looping = "looping",
    /// Thirty redirects, one after the other.
    Faraway = "faraway",
    /// A redirect from https to http.
    Downgrade = "downgrade",
    /// The head immediately, then one byte of the body per second.
    Trickling = "trickling",
    /// The request is read and never answered.
    Stalling = "stalling",
    /// Half a head, then nothing.
    Halfhead = "halfhead",
    /// The banner of an SSH server.
    Garbage = "garbage",
    /// A head of 1 MiB.
    Huge = "huge",
    /// A body of 10 MiB.
    Big = "big",
    /// A body that ends with the connection.
    Nolength = "nolength",
    /// The connection ends before the body's length.
    Truncated = "truncated",
    /// A chunked body.
    Chunked = "chunked",
    /// Over TLS only HTTP/2.
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
    /// The connection is closed within the handshake.
    Notls = "notls",
    /// The handshake is never answered.
    Stalledtls = "stalledtls",
}

impl Behaviour {
    /// Returns whether hosts must listen at the addresses of this behaviour.
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

    /// Returns whether most hosts of a world are likely to have this behaviour. Such behaviours have the most
    /// addresses.
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
    /// Parses a name in any case, with or without a dot at the end. `None` if it is not the name of a host.
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
