//! Hosts for which a server on loopback answers.
//!
//! A web page can point one of its own names to 127.0.0.1, and read the content that is served there. The browser sends
//! this name in `Host`, so names that do not belong to this machine are refused.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Any host.
const ANY: &str = "*";

/// Allowed hosts of a server on loopback.
#[derive(Debug)]
pub(crate) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    /// Returns the allowed hosts of a server at `address`. `None` if the server answers for every host, for example
    /// because other machines can reach it anyway.
    pub(crate) fn of(address: SocketAddr, names: &[String]) -> Option<Self> {
        let is_checked = address.ip().is_loopback() && !names.iter().any(|name| name == ANY);
        is_checked.then(|| AllowedHosts(names.to_vec()))
    }

    /// Returns whether a host belongs to this machine or is one of the names. The port is ignored.
    pub(crate) fn allow(&self, host: &[u8]) -> bool {
        let Some(name) = std::str::from_utf8(host).ok().and_then(without_port) else { return false };
        if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return address.parse::<Ipv6Addr>().is_ok_and(|address| address.to_canonical().is_loopback());
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
            || self.0.iter().any(|allowed| name.eq_ignore_ascii_case(allowed))
    }
}

fn without_port(host: &str) -> Option<&str> {
    let end = host.find(']').map_or(0, |bracket| bracket + 1);
    let name_end = host[end..].find(':').map_or(host.len(), |colon| end + colon);
    let port = host[name_end..].strip_prefix(':').unwrap_or_default();
    port.bytes().all(|byte| byte.is_ascii_digit()).then(|| &host[..name_end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_s_names_are_answered_for() {
        let hosts =
            AllowedHosts::of(([127, 0, 0, 1], 80).into(), &["files.test".to_owned()]).expect("loopback");
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost:8080", true),
            ("localhost.", true),
            ("127.0.0.1:1", true),
            ("127.1.2.3", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("files.test:80", true),
            ("FILES.test", true),
            ("", false),
            ("evil.test", false),
            ("files.test.evil.test", false),
            ("localhost.evil.test", false),
            ("evil.test:127.0.0.1", false),
            ("localhost:80:90", false),
            ("localhost@evil.test", false),
            ("10.0.0.1", false),
            ("0.0.0.0", false),
            ("[::2]", false),
            ("::1", false),
            ("127.0.0.1.evil.test", false),
            ("0x7f.1", false),
        ] {
            assert_eq!(hosts.allow(host.as_bytes()), expected, "{host}");
        }
        assert!(!hosts.allow(b"\xff"));
    }

    #[test]
    fn others_than_loopback_and_any_are_not_checked() {
        assert!(AllowedHosts::of(([0, 0, 0, 0], 80).into(), &[]).is_none());
        assert!(AllowedHosts::of(([127, 0, 0, 1], 80).into(), &["*".to_owned()]).is_none());
    }
}
