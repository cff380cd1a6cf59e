//! Configuration of name lookups, read once for all threads.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::hosts_file::HostsFile;
use super::resolv_conf::{DNS_PORT, ResolvConf};
use fetchmill_model::limits;

/// A public address for testing whether there is a route. No packets are sent to it.
const FAR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0x500, 0x2f, 0, 0, 0, 0, 0xf);

/// Address families to look up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Families {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Both, concurrently.
    Both,
}

impl Families {
    /// Returns the address families that this machine can use: IPv4, and IPv6 if there is a route.
    pub fn of_this_machine() -> Self {
        let route =
            UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).and_then(|socket| socket.connect((FAR_V6, DNS_PORT)));
        if route.is_ok() { Families::Both } else { Families::V4 }
    }
}

/// Configuration of name lookups, shared by all threads.
#[derive(Debug, Clone)]
pub struct DnsSetup {
    /// Name servers, up to `limits::DNS_UPSTREAMS_MAX`.
    pub upstreams: Vec<SocketAddr>,
    /// Whether to start each name with a different server. If `false`, each name starts with the first server, and the
    /// other servers are used only if that one fails.
    pub spreads: bool,
    /// Search domains for short names.
    pub search: Vec<String>,
    /// Minimum number of dots that a name must contain to be tried unchanged before the search domains.
    pub ndots: u8,
    /// Timeout of the first try. It grows by a factor of 1.5 with each try.
    pub timeout: Duration,
    /// Number of tries per lookup. Each server gets at least one.
    pub tries: u32,
    /// Address families to look up.
    pub families: Families,
    hosts: HostsFile,
}

impl DnsSetup {
    /// Reads `/etc/resolv.conf` and `/etc/hosts`, as the system's lookup does. If no server is configured, queries this
    /// machine, like the C library.
    pub fn from_system() -> Self {
        let conf = read_bounded("/etc/resolv.conf");
        let hosts = read_bounded("/etc/hosts");
        DnsSetup::of(&conf, &hosts, Families::of_this_machine())
    }

    /// Creates the configuration from the contents of the two files.
    pub fn of(resolv_conf: &str, hosts: &str, families: Families) -> Self {
        let mut conf = ResolvConf::parse(resolv_conf);
        if conf.upstreams.is_empty() {
            conf.upstreams.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DNS_PORT));
        }
        DnsSetup {
            upstreams: conf.upstreams,
            spreads: conf.spreads,
            search: conf.search,
            ndots: conf.ndots.unwrap_or(1),
            timeout: conf
                .timeout
                .map_or(limits::DNS_TRY_TIMEOUT, |timeout| timeout.min(limits::DNS_TRY_TIMEOUT_MAX)),
            tries: conf.tries.map_or(limits::DNS_TRIES, |tries| tries.clamp(1, limits::DNS_TRIES_MAX)),
            families,
            hosts: HostsFile::parse(hosts),
        }
    }

    /// Replaces the configured servers with these ones, and spreads names over them.
    #[must_use]
    pub fn with_upstreams(mut self, upstreams: Vec<SocketAddr>) -> Self {
        self.upstreams = upstreams;
        self.upstreams.truncate(limits::DNS_UPSTREAMS_MAX);
        self.spreads = true;
        self
    }

    /// Returns the addresses of a lower-case name if no query is needed.
    pub(super) fn fixed(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        if let Some(address) = literal(name) {
            return Some(Arc::new([address]));
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        if name == "localhost" || name.ends_with(".localhost") {
            return Some(self.loopback());
        }
        self.hosts.get(name)
    }

    /// Returns the loopback addresses, for names that are never queried (RFC 6761, section 6.3).
    fn loopback(&self) -> Arc<[IpAddr]> {
        let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
        match self.families {
            Families::V4 => Arc::new([v4]),
            Families::V6 => Arc::new([v6]),
            Families::Both => Arc::new([v6, v4]),
        }
    }
}

/// Parses an address that is used in place of a name, in any form allowed in URLs.
fn literal(name: &str) -> Option<IpAddr> {
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(name) => name.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => name.parse().ok(),
    }
}

/// Reads a system file up to a size limit. Returns an empty string if the file cannot be read.
fn read_bounded(path: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // After a read error, use what was read so far.
        let _ = file.take(limits::DNS_FILE_BYTES_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(found: Option<&[IpAddr]>) -> Vec<String> {
        found.unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn without_a_server_this_machine_is_asked() {
        let setup = DnsSetup::of("", "", Families::V4);

        assert_eq!(setup.upstreams, ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!(
            (setup.ndots, setup.tries, setup.timeout),
            (1, limits::DNS_TRIES, limits::DNS_TRY_TIMEOUT)
        );
    }

    #[test]
    fn what_the_file_says_is_taken_within_bounds() {
        let setup =
            DnsSetup::of("options timeout:900 attempts:900\nnameserver 192.0.2.1", "", Families::Both);

        assert_eq!((setup.tries, setup.timeout), (limits::DNS_TRIES_MAX, limits::DNS_TRY_TIMEOUT_MAX));
        assert!(!setup.spreads);
        let many = setup.with_upstreams(vec!["192.0.2.7:5353".parse().unwrap(); 100]);
        assert_eq!((many.upstreams.len(), many.spreads), (limits::DNS_UPSTREAMS_MAX, true));
    }

    #[test]
    fn addresses_this_machine_and_the_hosts_file_are_known() {
        let setup = DnsSetup::of("", "192.0.2.5 own.test\n192.0.2.6 localhost", Families::Both);

        for (name, expected) in [
            ("192.0.2.9", vec!["192.0.2.9"]),
            ("2001:db8::1", vec!["2001:db8::1"]),
            ("[2001:db8::1]", vec!["2001:db8::1"]),
            ("localhost", vec!["::1", "127.0.0.1"]),
            ("a.localhost.", vec!["::1", "127.0.0.1"]),
            ("own.test", vec!["192.0.2.5"]),
            ("own.test.", vec!["192.0.2.5"]),
            ("notlocalhost", vec![]),
            ("[192.0.2.9]", vec![]),
            ("1.2.3", vec![]),
        ] {
            assert_eq!(texts(setup.fixed(name).as_deref()), expected, "{name}");
        }
    }
}
