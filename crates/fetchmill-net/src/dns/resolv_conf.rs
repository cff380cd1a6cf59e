//! Reads the name servers and options from `/etc/resolv.conf`.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use fetchmill_model::limits;

/// Port of name servers.
pub(super) const DNS_PORT: u16 = 53;
/// Upper limit of `ndots` in the C library.
const NDOTS_MAX: u8 = 15;

/// Contents of the file. `None` for values that are not set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResolvConf {
    pub(super) upstreams: Vec<SocketAddr>,
    pub(super) search: Vec<String>,
    pub(super) ndots: Option<u8>,
    pub(super) timeout: Option<Duration>,
    pub(super) tries: Option<u32>,
    pub(super) spreads: bool,
}

impl ResolvConf {
    /// Parses the file. Skips lines that cannot be parsed, as the C library does.
    pub(super) fn parse(text: &str) -> Self {
        let mut conf = ResolvConf::default();
        for line in text.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => conf.add_upstream(words.next().unwrap_or_default()),
                // If there are several such lines, the last one wins.
                Some("search") => conf.search = words.take(limits::DNS_SEARCH_MAX).map(domain).collect(),
                Some("domain") => conf.search = words.take(1).map(domain).collect(),
                Some("options") => words.for_each(|option| conf.set(option)),
                _ => {}
            }
        }
        conf.search.retain(|domain| !domain.is_empty());
        conf
    }

    fn add_upstream(&mut self, address: &str) {
        if let Some(address) = address_of(address)
            && self.upstreams.len() < limits::DNS_UPSTREAMS_MAX
        {
            self.upstreams.push(address);
        }
    }

    fn set(&mut self, option: &str) {
        match option.split_once(':') {
            None if option == "rotate" => self.spreads = true,
            Some(("ndots", dots)) => self.ndots = dots.parse::<u8>().ok().map(|dots| dots.min(NDOTS_MAX)),
            Some(("timeout", seconds)) => {
                self.timeout = seconds.parse::<u64>().ok().map(|seconds| Duration::from_secs(seconds.max(1)));
            }
            Some(("attempts", tries)) => self.tries = tries.parse::<u32>().ok(),
            _ => {}
        }
    }
}

fn domain(text: &str) -> String {
    text.trim_matches('.').to_ascii_lowercase()
}

/// Parses an address. Converts the zone of a link-local address to a number.
fn address_of(text: &str) -> Option<SocketAddr> {
    if let Some((address, zone)) = text.split_once('%') {
        let address = SocketAddrV6::new(address.parse().ok()?, DNS_PORT, 0, zone_of(zone)?);
        return Some(address.into());
    }
    Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, DNS_PORT))
}

/// Returns the number of a zone, which may be given as the number or the name of an interface.
fn zone_of(zone: &str) -> Option<u32> {
    zone.parse().ok().or_else(|| {
        let is_name = !zone.is_empty() && !zone.contains(['/', '.']);
        let number = is_name.then(|| std::fs::read_to_string(format!("/sys/class/net/{zone}/ifindex")))?;
        number.ok()?.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_understood_is_taken() {
        let conf = ResolvConf::parse(
            "# by hand\nnameserver 192.0.2.1\nnameserver 2001:db8::1 # second\nnameserver fe80::1%7\n\
             nameserver nonsense\ndomain a.test\nsearch Corp.Test. . b.test\n\
             options ndots:2 timeout:3 attempts:4 rotate unknown:1 edns0\nsortlist 1.2.3.4\n",
        );

        let upstreams: Vec<_> = conf.upstreams.iter().map(ToString::to_string).collect();
        assert_eq!(upstreams, ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%7]:53"]);
        assert_eq!(conf.search, ["corp.test", "b.test"]);
        assert_eq!((conf.ndots, conf.tries, conf.spreads), (Some(2), Some(4), true));
        assert_eq!(conf.timeout, Some(Duration::from_secs(3)));
    }

    #[test]
    fn an_empty_or_hostile_file_says_nothing_and_is_bounded() {
        assert_eq!(ResolvConf::parse(""), ResolvConf::default());
        assert_eq!(
            ResolvConf::parse("nameserver\noptions ndots:x timeout: attempts:-1\n"),
            ResolvConf::default()
        );

        let conf = ResolvConf::parse(&format!(
            "{}search {}\noptions ndots:200",
            "nameserver 192.0.2.1\n".repeat(1000),
            "a.test ".repeat(1000)
        ));
        assert_eq!(conf.upstreams.len(), limits::DNS_UPSTREAMS_MAX);
        assert_eq!(conf.search.len(), limits::DNS_SEARCH_MAX);
        assert_eq!(conf.ndots, Some(NDOTS_MAX));
    }
}
