//! Making connections: look-up once, then the addresses in their order.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::limits::{DNS_TIMEOUT, TICK};
use crate::outcome::FailureKind;

/// Addresses that are tried for one connection.
const ADDRESSES_MAX: usize = 8;

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectFailure {
    /// The other side, or the way to it.
    Failed(FailureKind),
    /// This machine has no descriptor or port left: the number of the error. Not the target's fault.
    Exhausted(i32),
}

/// The addresses of a host. Blocks, at most twice `DNS_TIMEOUT` and until `is_over`: the system's resolver knows no
/// deadline, so it works on a thread that is left behind when it takes too long.
pub fn resolve(host: &str, port: u16, is_over: impl Fn() -> bool) -> Result<Vec<SocketAddr>, String> {
    let mut reason = String::new();
    for _ in 0..2 {
        let (answer, answered) = mpsc::channel();
        let name = host.to_owned();
        std::thread::spawn(move || {
            let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
            // Nobody waits any more when it took too long.
            let _ = answer.send(found);
        });
        let until = Instant::now() + DNS_TIMEOUT;
        let mut found = answered.recv_timeout(TICK);
        while matches!(found, Err(RecvTimeoutError::Timeout)) && Instant::now() < until && !is_over() {
            found = answered.recv_timeout(TICK);
        }
        match found {
            Ok(Ok(addresses)) if !addresses.is_empty() => {
                return Ok(addresses.into_iter().take(ADDRESSES_MAX).collect());
            }
            Ok(Ok(_)) => "it has no address".clone_into(&mut reason),
            Ok(Err(error)) => reason = error.to_string(),
            Err(_) if is_over() => return Err("the job is ending".to_owned()),
            Err(_) => reason = format!("no answer in {} s", DNS_TIMEOUT.as_secs()),
        }
    }
    Err(reason)
}

/// Connects to the first address that answers.
pub async fn connect(addresses: &[SocketAddr], timeout: Duration) -> Result<TcpStream, ConnectFailure> {
    let mut failure = ConnectFailure::Failed(FailureKind::Unreachable);
    for address in addresses {
        match tokio::time::timeout(timeout, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it a request that is cut in two would wait for an acknowledgement. Failing is harmless.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => failure = translate(&error),
            Err(_) => failure = ConnectFailure::Failed(FailureKind::ConnectTimeout),
        }
    }
    Err(failure)
}

fn translate(error: &std::io::Error) -> ConnectFailure {
    match error.raw_os_error() {
        Some(number @ (libc::EMFILE | libc::ENFILE | libc::EADDRNOTAVAIL | libc::ENOBUFS | libc::ENOMEM)) => {
            ConnectFailure::Exhausted(number)
        }
        Some(libc::ECONNREFUSED) => ConnectFailure::Failed(FailureKind::Refused),
        Some(libc::ECONNRESET) => ConnectFailure::Failed(FailureKind::Reset),
        Some(libc::ETIMEDOUT) => ConnectFailure::Failed(FailureKind::ConnectTimeout),
        _ => ConnectFailure::Failed(FailureKind::Unreachable),
    }
}
