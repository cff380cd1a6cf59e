//! Local ports of connections: how the kernel chooses one, and when closing a connection frees it.
//!
//! Linux tries every second port of its range first, because the others are meant for programs that call `bind`. Once
//! half of the ports are in use (14,116 of the usual 28,232), each new connection to an address first searches the used
//! half in vain, which costs 0.8 ms of CPU time.
//!
//! Since Linux 6.8, a socket can set its own port range. The kernel then tries one port after another, starting where
//! the last search ended. It ignores ports outside the system's range, so a range of all ports has no other effect.
//!
//! If this side closes a connection first, its port stays in `TIME_WAIT` for a minute. A job that closes thousands of
//! connections would use up the ports for its server, and would have to wait until that minute is over. For this
//! reason, after many connections have been closed, further ones are reset instead, which leaves no port in
//! `TIME_WAIT`. This is safe because nothing more is expected from a connection that is being closed.

use std::cell::Cell;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::{Duration, Instant};
use std::{io, mem};

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};

use fetchmill_model::limits;

/// `IP_LOCAL_PORT_RANGE` from linux/in.h. It applies to IPv6 too.
const IP_LOCAL_PORT_RANGE: libc::c_int = 51;
/// A range of all ports. The upper half of the number is the last port, and the lower half is the first.
const EVERY_PORT: u32 = (u16::MAX as u32) << 16;

/// Connects to the address from any free local port.
pub(super) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    take_every_port(&socket);
    socket.connect(address).await
}

/// Lets the socket use every port. A kernel that lacks this option searches as usual.
fn take_every_port(socket: &TcpSocket) {
    let range = EVERY_PORT;
    // SAFETY: the descriptor is open, and the value outlives the call and has the given size.
    #[expect(unsafe_code, reason = "no library offers the option")]
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            IP_LOCAL_PORT_RANGE,
            (&raw const range).cast(),
            mem::size_of_val(&range) as libc::socklen_t,
        )
    };
}

/// Time that a port stays in `TIME_WAIT` (`TCP_TIMEWAIT_LEN` in Linux).
const PORT_RESTS: Duration = Duration::from_secs(60);
/// Maximum number of ports in `TIME_WAIT` per thread and address: a sixteenth of all ports.
const RESTING_PORTS_MAX: u32 = limits::LOCAL_PORTS as u32 / 16;

/// Connections to one address that were closed one after another.
#[derive(Debug, Clone, Copy)]
struct Closed {
    address: SocketAddr,
    since: Instant,
    count: u32,
}

thread_local! {
    static CLOSED: Cell<Option<Closed>> = const { Cell::new(None) };
}

/// Prepares to close a connection.
pub(super) fn give_back(stream: &TcpStream) {
    let Ok(address) = stream.peer_addr() else { return };
    // The counter may already be gone when the thread is ending.
    if CLOSED.try_with(|closed| is_too_many(closed, address, Instant::now())).unwrap_or(false) {
        // If this fails, the port stays in `TIME_WAIT`, which is harmless.
        let _ = SockRef::from(&stream.as_fd()).set_linger(Some(Duration::ZERO));
    }
}

/// Counts a closed connection. Returns whether its port must not stay in `TIME_WAIT`.
fn is_too_many(closed: &Cell<Option<Closed>>, address: SocketAddr, now: Instant) -> bool {
    let known = closed.get().filter(|closed| closed.address == address && now - closed.since < PORT_RESTS);
    let known = known.unwrap_or(Closed { address, since: now, count: 0 });
    let is_too_many = known.count >= RESTING_PORTS_MAX;
    closed.set(Some(Closed { count: known.count.saturating_add(1), ..known }));
    is_too_many
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;
    use crate::ByteStream;

    /// Returns whether this kernel tries the ports of a socket's range one after another.
    fn takes_every_port() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(8))
    }

    #[tokio::test]
    async fn connections_to_one_address_take_odd_and_even_ports_of_both_families() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(host).unwrap();
            let address = listener.local_addr().unwrap();
            let mut connections = Vec::new();
            for _ in 0..32 {
                connections.push(connect(address).await.unwrap());
            }
            let is_odd = |stream: &TcpStream| stream.local_addr().unwrap().port() % 2 == 1;
            let odd = connections.iter().filter(|stream| is_odd(stream)).count();
            assert!(!takes_every_port() || (1..32).contains(&odd), "{host}: {odd} of 32");
        }
    }

    #[test]
    fn only_so_many_ports_to_one_address_rest_in_a_minute() {
        let [one, other] = ["192.0.2.1:80", "192.0.2.2:80"].map(|address| address.parse().unwrap());
        let (closed, start) = (Cell::new(None), Instant::now());
        for _ in 0..RESTING_PORTS_MAX {
            assert!(!is_too_many(&closed, one, start));
        }
        assert!(is_too_many(&closed, one, start + PORT_RESTS / 2));
        assert!(!is_too_many(&closed, one, start + PORT_RESTS), "the first ones are free again");

        for _ in 0..RESTING_PORTS_MAX {
            assert!(
                !is_too_many(&closed, one, start) && !is_too_many(&closed, other, start),
                "of many hosts"
            );
        }
    }

    #[tokio::test]
    async fn connections_beyond_those_are_reset() {
        const MORE: u32 = 20;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ends = std::thread::spawn(move || {
            let ends = (0..RESTING_PORTS_MAX + MORE).map(|_| listener.accept().unwrap().0.read(&mut [0]));
            ends.filter(Result::is_err).count()
        });
        for _ in 0..RESTING_PORTS_MAX + MORE {
            drop(ByteStream::from(connect(address).await.unwrap()));
        }
        assert_eq!(ends.join().unwrap(), MORE as usize);
    }

    #[tokio::test]
    async fn what_listens_nowhere_is_refused_as_ever() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(connect(address).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
