//! What errors of the operating system mean: one table for connecting, one for an open connection.
//!
//! The kind says what is known of the target. What is wrong with this machine (no descriptor, no port, no memory) is no
//! kind: it is [`ConnectFailure::Exhausted`], and the target is asked again. A number that is not listed, whatever
//! system it is from, is a failure that may pass.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};

use fetchmill_model::outcome::FailureKind;

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectFailure {
    /// The other side, or the way to it.
    Failed(FailureKind),
    /// This machine has no descriptor or port left: the number of the error. Not the target's fault.
    Exhausted(i32),
}

impl ConnectFailure {
    /// How much it says: see the module.
    fn weight(self) -> u8 {
        match self {
            ConnectFailure::Exhausted(_) => 4,
            ConnectFailure::Failed(FailureKind::Refused) => 3,
            ConnectFailure::Failed(FailureKind::Reset) => 2,
            ConnectFailure::Failed(FailureKind::ConnectTimeout) => 1,
            ConnectFailure::Failed(_) => 0,
        }
    }

    /// The one that says more.
    pub(super) fn or(self, other: ConnectFailure) -> ConnectFailure {
        if other.weight() > self.weight() { other } else { self }
    }

    /// Whether no other address can help. Ports are each address's own.
    pub(super) fn ends_all(self) -> bool {
        matches!(self, ConnectFailure::Exhausted(number) if number != libc::EADDRNOTAVAIL)
    }
}

/// What it means that no connection was made to an address.
///
/// `ETIMEDOUT`, when the system gives up before the deadline does, is `connect-timeout`. `EACCES` and `EPERM` are a
/// firewall's of this machine, `ENOPROTOOPT` and `EPROTO` come from ICMP messages: as with every other number nothing
/// was reached.
pub(super) fn of_connecting(error: &io::Error, address: &SocketAddr) -> ConnectFailure {
    let kind = match error.raw_os_error() {
        // IPv6 addresses cannot be assigned either where IPv6 is switched off.
        Some(libc::EADDRNOTAVAIL) if !has_source(address) => FailureKind::Unreachable,
        Some(number) if is_exhausted(number) => return ConnectFailure::Exhausted(number),
        Some(libc::ECONNREFUSED) => FailureKind::Refused,
        Some(libc::ECONNRESET | libc::ECONNABORTED | libc::EPIPE) => FailureKind::Reset,
        Some(libc::ETIMEDOUT) => FailureKind::ConnectTimeout,
        _ => FailureKind::Unreachable,
    };
    ConnectFailure::Failed(kind)
}

/// Descriptors, ports, entries of tables or memory are used up.
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

/// Whether this machine has an address that it could connect from: a datagram's socket needs one and no port of TCP's.
fn has_source(address: &SocketAddr) -> bool {
    address.is_ipv4()
        || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).and_then(|socket| socket.connect(address)).is_ok()
}

/// What it means that an open connection failed before the head of a reply; behind the head it is always `truncated`.
///
/// `unreachable` when the network says that there is no way any more. All else is `reset`, `ETIMEDOUT` too: the system
/// has given the connection up, no deadline of ours has passed.
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

    /// Every number that Linux knows.
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
        // Reached through an interface that there is not.
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
