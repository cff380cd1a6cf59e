//! Converts operating system errors to failures. Connecting and open connections have separate tables.
//!
//! A failure kind describes the target. If this machine runs out of descriptors, ports or memory, the failure is
//! [`ConnectFailure::Exhausted`] instead, and the target is retried. Any error number that is not listed counts as a
//! temporary failure, on every system.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};

use fetchmill_model::outcome::FailureKind;

/// Reason why a connection could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectFailure {
    /// The remote side or the route to it failed.
    Failed(FailureKind),
    /// This machine ran out of descriptors or ports, which is not the target's fault. Contains the error number.
    Exhausted(i32),
}

impl ConnectFailure {
    /// Returns how informative the failure is. See the documentation of `connect` for the order.
    fn weight(self) -> u8 {
        match self {
            ConnectFailure::Exhausted(_) => 4,
            ConnectFailure::Failed(FailureKind::Refused) => 3,
            ConnectFailure::Failed(FailureKind::Reset) => 2,
            ConnectFailure::Failed(FailureKind::ConnectTimeout) => 1,
            ConnectFailure::Failed(_) => 0,
        }
    }

    /// Returns the more informative of two failures.
    pub(super) fn or(self, other: ConnectFailure) -> ConnectFailure {
        if other.weight() > self.weight() { other } else { self }
    }

    /// Returns whether trying other addresses is pointless. If only the local ports ran out, another address may still
    /// work, because each address has its own ports.
    pub(super) fn ends_all(self) -> bool {
        matches!(self, ConnectFailure::Exhausted(number) if number != libc::EADDRNOTAVAIL)
    }
}

/// Converts the error of a failed connection attempt.
///
/// If the system gives up before our deadline (`ETIMEDOUT`), the failure is `connect-timeout`. `EACCES` and `EPERM`
/// come from a firewall on this machine, and `ENOPROTOOPT` and `EPROTO` from ICMP messages. These four, and all numbers
/// that are not listed, mean that the address is unreachable.
pub(super) fn of_connecting(error: &io::Error, address: &SocketAddr) -> ConnectFailure {
    let kind = match error.raw_os_error() {
        // If IPv6 is disabled, connecting to an IPv6 address fails with the same error.
        Some(libc::EADDRNOTAVAIL) if !has_source(address) => FailureKind::Unreachable,
        Some(number) if is_exhausted(number) => return ConnectFailure::Exhausted(number),
        Some(libc::ECONNREFUSED) => FailureKind::Refused,
        Some(libc::ECONNRESET | libc::ECONNABORTED | libc::EPIPE) => FailureKind::Reset,
        Some(libc::ETIMEDOUT) => FailureKind::ConnectTimeout,
        _ => FailureKind::Unreachable,
    };
    ConnectFailure::Failed(kind)
}

/// Returns whether this machine ran out of descriptors, ports, table entries or memory.
fn is_exhausted(number: i32) -> bool {
    matches!(
        number,
        libc::EMFILE
            | libc::ENFILE
            | libc::EADDRNOTAVAIL
            | libc::EADDRINUSE
            | libc::EAGAIN
            | libc::ENOBUFS
            | libc::ENOMEM
    )
}

/// Returns whether this machine has a source address for connections to `address`. Tests this with a UDP socket, which
/// needs a source address but no TCP port.
fn has_source(address: &SocketAddr) -> bool {
    address.is_ipv4()
        || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).and_then(|socket| socket.connect(address)).is_ok()
}

/// Converts an error that occurred on an open connection before the head of a reply. After the head, the failure is
/// always `truncated`.
///
/// If the network reports that the route is gone, the failure is `unreachable`. All other errors are `reset`, including
/// `ETIMEDOUT`, which means that the system gave up before any of our deadlines.
pub(super) fn of_open(error: &io::Error) -> FailureKind {
    match error.raw_os_error() {
        Some(
            libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::ENONET
            | libc::EACCES
            | libc::EPERM
            | libc::ENOPROTOOPT
            | libc::EPROTO,
        ) => FailureKind::Unreachable,
        _ => FailureKind::Reset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All Linux error numbers.
    const ERRNOS: std::ops::RangeInclusive<i32> = 1..=133;
    const DOCS: &str = include_str!("../../../docs/reference/exit-codes.md");

    fn connecting(number: i32, address: &str) -> ConnectFailure {
        of_connecting(&io::Error::from_raw_os_error(number), &address.parse().unwrap())
    }

    fn open(number: i32) -> FailureKind {
        of_open(&io::Error::from_raw_os_error(number))
    }

    fn is_in_docs(kind: FailureKind) -> bool {
        DOCS.lines().any(|line| line.starts_with("| `") && line.contains(&format!("`{}`", kind.name())))
    }

    #[test]
    fn every_number_has_a_meaning_that_the_docs_list() {
        for number in ERRNOS {
            match connecting(number, "192.0.2.1:80") {
                ConnectFailure::Exhausted(told) => assert_eq!(told, number),
                ConnectFailure::Failed(kind) => assert!(is_in_docs(kind) && kind.is_retryable(), "{number}"),
            }
            assert!(is_in_docs(open(number)) && open(number).is_retryable(), "{number}");
        }
    }

    #[test]
    fn what_a_number_means_while_connecting() {
        use FailureKind::{ConnectTimeout, Refused, Reset, Unreachable};
        for (number, kind) in [
            (libc::ECONNREFUSED, Refused),
            (libc::ECONNRESET, Reset),
            (libc::ECONNABORTED, Reset),
            (libc::ETIMEDOUT, ConnectTimeout),
            (libc::EHOSTUNREACH, Unreachable),
            (libc::ENETUNREACH, Unreachable),
            (libc::ENETDOWN, Unreachable),
            (libc::EHOSTDOWN, Unreachable),
            (libc::EACCES, Unreachable),
            (libc::EPERM, Unreachable),
            (libc::EPROTO, Unreachable),
            (libc::ENOPROTOOPT, Unreachable),
            (libc::EINVAL, Unreachable),
            (libc::EAFNOSUPPORT, Unreachable),
        ] {
            assert_eq!(connecting(number, "192.0.2.1:80"), ConnectFailure::Failed(kind), "{number}");
        }
        for number in
            [libc::EMFILE, libc::ENFILE, libc::EADDRNOTAVAIL, libc::ENOBUFS, libc::ENOMEM, libc::EAGAIN]
        {
            assert_eq!(connecting(number, "192.0.2.1:80"), ConnectFailure::Exhausted(number));
        }
        assert_eq!(
            of_connecting(&io::Error::other("?"), &"[::1]:1".parse().unwrap()),
            ConnectFailure::Failed(Unreachable)
        );
    }

    #[test]
    fn a_machine_without_an_address_has_not_run_out_of_ports() {
        // The interface in the address does not exist.
        let nowhere = connecting(libc::EADDRNOTAVAIL, "[fe80::1%4000000]:80");

        assert_eq!(nowhere, ConnectFailure::Failed(FailureKind::Unreachable));
    }

    #[test]
    fn what_a_number_means_on_an_open_connection() {
        for number in [libc::ECONNRESET, libc::EPIPE, libc::ETIMEDOUT, libc::ECONNABORTED, libc::ENOTCONN] {
            assert_eq!(open(number), FailureKind::Reset, "{number}");
        }
        for number in [libc::EHOSTUNREACH, libc::ENETUNREACH, libc::ENETDOWN, libc::EHOSTDOWN, libc::EACCES] {
            assert_eq!(open(number), FailureKind::Unreachable, "{number}");
        }
        assert_eq!(of_open(&io::ErrorKind::UnexpectedEof.into()), FailureKind::Reset);
    }
}
