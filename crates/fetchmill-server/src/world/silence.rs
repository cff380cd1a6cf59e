//! Hosts that do not answer. If a listener's queue is full, Linux drops every further SYN packet.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Maximum time to wait for connections. On loopback, a connection is made within microseconds or never.
const PATIENCE: Duration = Duration::from_millis(30);
/// Maximum number of rounds. A queue of length 0 holds one connection, so more rounds are needed only if the kernel
/// counts differently.
const ROUNDS: usize = 8;

/// Fills the queues of listeners whose queues have length 0. The caller must keep the returned sockets open.
pub(super) fn fill(addresses: impl Iterator<Item = Ipv4Addr>, port: u16) -> io::Result<Vec<Socket>> {
    let mut open: Vec<SocketAddr> = addresses.map(|address| SocketAddr::from((address, port))).collect();
    let mut held = Vec::new();
    for _ in 0..ROUNDS {
        let calls = open.iter().map(|address| call(*address)).collect::<io::Result<Vec<_>>>()?;
        std::thread::sleep(PATIENCE);
        let answered = |socket: &Socket| socket.peer_addr().is_ok();
        let (answering, silent): (Vec<_>, Vec<_>) =
            open.into_iter().zip(calls).partition(|(_, socket)| answered(socket));
        drop(silent);
        if answering.is_empty() {
            return Ok(held);
        }
        let (still_open, sockets): (Vec<_>, Vec<_>) = answering.into_iter().unzip();
        open = still_open;
        held.extend(sockets);
    }
    Err(io::Error::other(
        "cannot simulate dead hosts on this kernel: a listener with a full queue still answers",
    ))
}

/// Starts to connect.
fn call(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}
