//! Binds all addresses of a world before any thread starts, at ports that are free at all addresses.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use super::addresses::{self, address};
use super::behaviour::Behaviour;
use super::options::WorldOptions;
use super::silence;
use super::state::Scheme;
use crate::error::Error;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// Maximum number of attempts. A port that is free at one address may be taken at another one.
const TRIES: usize = 20;
/// Size of the receive buffer for datagrams in bytes. The kernel may allow less.
const DATAGRAMS: usize = 4 << 20;

/// A listener of a behaviour.
pub(super) struct BoundSocket {
    pub(super) listener: TcpListener,
    pub(super) behaviour: Behaviour,
    pub(super) scheme: Scheme,
}

/// All bound sockets.
pub(super) struct BoundSockets {
    pub(super) http_port: u16,
    pub(super) https_port: u16,
    pub(super) serving: Vec<BoundSocket>,
    pub(super) datagrams: UdpSocket,
    pub(super) streams: TcpListener,
    /// Sockets that are only kept open. They belong to hosts that do not answer, and to the port that must refuse
    /// connections.
    pub(super) held: Vec<Socket>,
}

impl BoundSockets {
    pub(super) fn bind(options: &WorldOptions) -> Result<Self, Error> {
        let (datagrams, streams) = at_a_free_port(Ipv4Addr::LOCALHOST, options.dns_port, name_server)?;
        let mut places = BoundSockets {
            http_port: 0,
            https_port: 0,
            serving: Vec::new(),
            datagrams,
            streams,
            held: Vec::new(),
        };
        places.http_port = places.hosts(options, Scheme::Http, options.http_port)?;
        places.https_port = places.hosts(options, Scheme::Https, options.https_port)?;
        Ok(places)
    }

    /// Returns the address of the name server.
    pub(super) fn dns(&self) -> io::Result<SocketAddr> {
        self.datagrams.local_addr()
    }

    /// Binds all hosts of a scheme and returns their port.
    fn hosts(&mut self, options: &WorldOptions, scheme: Scheme, port: u16) -> Result<u16, Error> {
        let first = address(Behaviour::Good, 0);
        let (port, serving, held) =
            at_a_free_port(first, port, |port| all_hosts(options.addresses, scheme, port))?;
        self.serving.extend(serving);
        self.held.extend(held);
        Ok(port)
    }
}

/// Binds at `port`. If it is 0, finds a suitable port.
fn at_a_free_port<T>(host: Ipv4Addr, port: u16, bind: impl Fn(u16) -> io::Result<T>) -> Result<T, Error> {
    let failed = |source| Error::Listen { host: host.to_string(), port, source };
    for _ in 1..TRIES {
        match bind(port) {
            Err(error) if port == 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound.map_err(failed),
        }
    }
    bind(port).map_err(failed)
}

fn name_server(port: u16) -> io::Result<(UdpSocket, TcpListener)> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(DATAGRAMS)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    let socket = UdpSocket::from(socket);
    let streams = listen(Ipv4Addr::LOCALHOST, socket.local_addr()?.port(), BACKLOG)?;
    Ok((socket, streams.into()))
}

/// Binds all addresses of a scheme and returns their port.
fn all_hosts(addresses: u8, scheme: Scheme, port: u16) -> io::Result<(u16, Vec<BoundSocket>, Vec<Socket>)> {
    let first = listen(address(Behaviour::Good, 0), port, BACKLOG)?;
    let port = first.local_addr()?.as_socket().map_or(port, |address| address.port());
    let mut held: Vec<Socket> = refusing(port)?.into_iter().collect();
    let mut serving = Vec::new();
    let mut first = Some(first);
    for &behaviour in Behaviour::ALL.iter().filter(|behaviour| behaviour.listens()) {
        for address in addresses::all(behaviour, addresses) {
            if behaviour == Behaviour::Dead {
                held.push(listen(address, port, 0)?);
                continue;
            }
            let socket = match first.take() {
                Some(first) => first,
                None => listen(address, port, BACKLOG)?,
            };
            serving.push(BoundSocket { listener: socket.into(), behaviour, scheme });
        }
    }
    let fillers = silence::fill(addresses::all(Behaviour::Dead, addresses), port)?;
    held.extend(fillers);
    Ok((port, serving, held))
}

/// Keeps other programs from listening at the IPv6 address that must refuse connections. `None` without IPv6.
fn refusing(port: u16) -> io::Result<Option<Socket>> {
    let Ok(socket) = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP)) else { return Ok(None) };
    match socket.bind(&SocketAddr::from((Ipv6Addr::LOCALHOST, port)).into()) {
        Ok(()) => Ok(Some(socket)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_) => Ok(None),
    }
}

fn listen(address: Ipv4Addr, port: u16, backlog: i32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((address, port)).into())?;
    socket.listen(backlog)?;
    Ok(socket)
}
