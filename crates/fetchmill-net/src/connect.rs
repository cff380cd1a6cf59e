//! Opens connections. If a host has several addresses, the attempts race (RFC 8305), so that an unresponsive address
//! costs little time.
//!
//! IPv4 and IPv6 alternate, starting with the family of the first address. The next attempt starts when the previous
//! one has failed or taken [`limits::CONNECT_ATTEMPT_DELAY`]. The first connection wins.
//!
//! If no attempt succeeds, the most informative failure is returned:
//! 1. This machine ran out of a resource, so an address that was not tried may still work.
//! 2. `refused`, then `reset`: a machine has answered.
//! 3. `connect-timeout`: the machine may exist but is silent.
//! 4. `unreachable`: for a host with both families, this often only means that this machine has no IPv6.

use std::future::poll_fn;
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::errno::{self, ConnectFailure};
use super::local_port;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;

const TIMEOUT: ConnectFailure = ConnectFailure::Failed(FailureKind::ConnectTimeout);
const UNREACHABLE: ConnectFailure = ConnectFailure::Failed(FailureKind::Unreachable);

/// Connects to whichever address answers first, and returns that address with the connection. `patience` limits the
/// whole call.
pub async fn connect(
    addresses: &[SocketAddr],
    patience: Duration,
) -> Result<(TcpStream, SocketAddr), ConnectFailure> {
    let (stream, address) = match addresses {
        [] => return Err(UNREACHABLE),
        [address] => match timeout(patience, local_port::connect(*address)).await {
            Ok(connected) => (connected.map_err(|error| errno::of_connecting(&error, address))?, *address),
            Err(_) => return Err(TIMEOUT),
        },
        _ => {
            let mut failure = UNREACHABLE;
            match timeout(patience, race(addresses, &mut failure)).await {
                Ok(won) => won.ok_or(failure)?,
                Err(_) => return Err(failure.or(TIMEOUT)),
            }
        }
    };
    // With Nagle's algorithm, a request in two packets would wait for an acknowledgement. A failure here is harmless.
    let _ = stream.set_nodelay(true);
    Ok((stream, address))
}

/// Alternates between the address families until one of them has no more addresses.
fn interleaved(addresses: &[SocketAddr]) -> impl Iterator<Item = SocketAddr> {
    let is_first = |address: &SocketAddr| address.is_ipv4() == addresses[0].is_ipv4();
    let mut one = addresses.iter().copied().filter(move |address| is_first(address));
    let mut other = addresses.iter().copied().filter(move |address| !is_first(address));
    let mut is_ones_turn = false;
    let in_turn = iter::from_fn(move || {
        is_ones_turn = !is_ones_turn;
        if is_ones_turn { one.next().or_else(|| other.next()) } else { other.next().or_else(|| one.next()) }
    });
    in_turn.take(limits::DNS_ADDRESSES_MAX)
}

/// A connection being opened.
type ConnectAttempt = (SocketAddr, Pin<Box<dyn Future<Output = io::Result<TcpStream>>>>);

/// Tries two or more addresses. `failure` is the most informative failure so far.
async fn race(addresses: &[SocketAddr], failure: &mut ConnectFailure) -> Option<(TcpStream, SocketAddr)> {
    let mut left = interleaved(addresses).peekable();
    let mut running: Vec<ConnectAttempt> = Vec::new();
    loop {
        if let Some(address) = left.next() {
            running.push((address, Box::pin(local_port::connect(address))));
        }
        if running.is_empty() {
            return None;
        }
        let ended = first_ended(&mut running);
        let ended = match left.peek() {
            Some(_) => timeout(limits::CONNECT_ATTEMPT_DELAY, ended).await.ok(),
            None => Some(ended.await),
        };
        match ended {
            // Start the next attempt while slow ones are still running.
            None => {}
            Some((address, Ok(stream))) => return Some((stream, address)),
            Some((address, Err(error))) => {
                *failure = failure.or(errno::of_connecting(&error, &address));
                if failure.ends_all() {
                    return None;
                }
            }
        }
    }
}

/// Waits for the first attempt to end, and removes it from the list.
async fn first_ended(running: &mut Vec<ConnectAttempt>) -> (SocketAddr, io::Result<TcpStream>) {
    poll_fn(|context| {
        for index in 0..running.len() {
            if let Poll::Ready(ended) = running[index].1.as_mut().poll(context) {
                return Poll::Ready((running.swap_remove(index).0, ended));
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Vec<SocketAddr> {
        text.split(' ').map(|address| SocketAddr::new(address.parse().unwrap(), 80)).collect()
    }

    #[test]
    fn families_take_turns_and_the_first_ones_is_first() {
        for (given, order) in [
            ("::1 ::2 ::3 1.0.0.1 1.0.0.2", "::1 1.0.0.1 ::2 1.0.0.2 ::3"),
            ("1.0.0.1 ::1 ::2 ::3", "1.0.0.1 ::1 ::2 ::3"),
            ("1.0.0.1 1.0.0.2 1.0.0.3", "1.0.0.1 1.0.0.2 1.0.0.3"),
            (
                "::1 ::2 ::3 ::4 ::5 ::6 ::7 ::8 ::9 1.0.0.1 1.0.0.2",
                "::1 1.0.0.1 ::2 1.0.0.2 ::3 ::4 ::5 ::6",
            ),
        ] {
            assert_eq!(interleaved(&addresses(given)).collect::<Vec<_>>(), addresses(order), "{given}");
        }
    }

    #[test]
    fn the_failure_that_says_most_is_told() {
        use FailureKind::{ConnectTimeout, Refused, Reset, Unreachable};
        let order = [
            ConnectFailure::Failed(Unreachable),
            ConnectFailure::Failed(ConnectTimeout),
            ConnectFailure::Failed(Reset),
            ConnectFailure::Failed(Refused),
            ConnectFailure::Exhausted(libc::EADDRNOTAVAIL),
        ];
        for (index, less) in order.iter().enumerate() {
            for more in &order[index..] {
                assert_eq!((less.or(*more), more.or(*less)), (*more, *more));
            }
        }
        assert!(ConnectFailure::Exhausted(libc::EMFILE).ends_all());
        assert!(!order.iter().any(|failure| failure.ends_all()));
    }
}
