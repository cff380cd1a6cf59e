//! What hosts do, and their names: `<behaviour>-<number>.test`. No table of hosts exists: a name says it all.

use std::fmt;

/// Digits of a number: what fits into 64 bits whatever they are.
const DIGITS_MAX: usize = 19;
/// The zone of all hosts. RFC 6761 keeps it free for tests.
pub(super) const ZONE: &str = "test";

macro_rules! behaviours {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// What a host does: a closed list.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Behaviour { $($(#[doc = $doc])* $variant,)* }

        impl Behaviour {
            /// All of them.
            pub const ALL: &[Behaviour] = &[$(Behaviour::$variant),*];

            /// As it stands in the names of hosts.
            pub fn name(self) -> &'static str {
                match self { $(Behaviour::$variant => $name,)* }
            }

            /// The reverse of [`Behaviour::name`].
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Behaviour::$variant),)* _ => None }
            }
        }
    };
}

behaviours! {
    /// 200 with a small page that has the host's own name.
    Good = "good",
    /// The same after up to a third of the timeout.
    Slow = "slow",
    /// The look-up says that there is no such name.
    Nxdomain = "nxdomain",
    /// The look-up says that the name server failed.
    Servfail = "servfail",
    /// The name exists and has no address.
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
    /// Nobody answers the SYN.
    Dead = "dead",
    /// Nobody listens.
    Refusing = "refusing",
    /// The connection is reset once the request has come.
    Resetting = "resetting",
    /// The connection is closed at once.
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
    /// The head at once, then a byte of the body each second.
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
    /// Over TLS nothing but HTTP/2.
    Http2 = "http2",
    /// A redirect to 127.255.255.254.
    Private = "private",
    /// 101, for which nobody has asked.
    Upgrade = "upgrade",
    /// The certificate expired in 2002.
    Expired = "expired",
    /// The certificate is another host's.
    Wrongname = "wrongname",
    /// The certificate has signed itself.
    Selfsigned = "selfsigned",
    /// The certificate is an authority's that nobody knows.
    Unknownca = "unknownca",
    /// Plain HTTP where TLS belongs.
    Plain = "plain",
    /// The connection is closed within the handshake.
    Notls = "notls",
    /// The handshake is never answered.
    Stalledtls = "stalledtls",
}

impl Behaviour {
    /// Whether some hosts must listen at its addresses.
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

    /// Whether it is likely to be most hosts of a world: these have the most addresses.
    pub(super) fn is_common(self) -> bool {
        matches!(self, Behaviour::Good | Behaviour::Slow | Behaviour::Dead | Behaviour::Refusing)
    }
}

/// A host: what it does and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Host {
    /// What it does.
    pub behaviour: Behaviour,
    /// Its number: any.
    pub number: u64,
}

impl Host {
    /// Of a name in any case, with or without a dot at its end; `None` when it is no host's.
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
