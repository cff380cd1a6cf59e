//! A UDP socket to a server, and the lookups that have sent queries through it.
//!
//! The socket is connected, so the kernel drops packets from other addresses and reports when no server is listening.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::{Rc, Weak};

use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, Protocol, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use super::random::QueryRandom;
use fetchmill_model::limits;

/// Number of ids to try before a socket counts as busy. Even if half of the ids are in use, only one search in 65,536
/// fails.
const IDS_TRIED_MAX: usize = 16;

/// Identifies a socket by its server and its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SocketId {
    pub(super) upstream: u8,
    pub(super) socket: u8,
}

/// The lookup and the question that a query belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueryOwner {
    pub(super) slot: usize,
    /// Serial number of the lookup. Unlike slots, serial numbers are never reused.
    pub(super) serial: u64,
    pub(super) question: u8,
}

/// A task that ends when this value is dropped.
#[derive(Debug)]
pub(super) struct OwnedTask(pub(super) AbortHandle);

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Result of sending a datagram.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendResult {
    Sent,
    /// The socket is not ready. Try again at the next tick.
    Busy,
    /// No server is listening, or there is no route.
    Refused,
}

/// A UDP socket to a server.
#[derive(Debug)]
pub(super) struct DnsSocket {
    udp: Rc<UdpSocket>,
    askers: HashMap<u16, QueryOwner>,
    _reader: OwnedTask,
}

impl DnsSocket {
    /// Opens the socket and starts reading from it.
    pub(super) fn open(place: SocketId, address: SocketAddr, inbox: &Weak<dyn Inbox>) -> io::Result<Self> {
        let udp = Rc::new(connected(address)?);
        let reader = tokio::task::spawn_local(read(Rc::clone(&udp), place, Weak::clone(inbox)));
        Ok(DnsSocket { udp, askers: HashMap::new(), _reader: OwnedTask(reader.abort_handle()) })
    }

    /// Returns an id that no query on this socket uses.
    pub(super) fn free_id(&self, random: &mut QueryRandom) -> Option<u16> {
        (0..IDS_TRIED_MAX).map(|_| random.number()).find(|id| !self.askers.contains_key(id))
    }

    /// Sends a query without blocking.
    pub(super) fn send(&mut self, id: u16, asker: QueryOwner, query: &[u8]) -> SendResult {
        match send(&self.udp, query, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) => {
                self.askers.insert(id, asker);
                SendResult::Sent
            }
            Err(error) => match io::Error::from(error).kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::OutOfMemory => SendResult::Busy,
                _ if error == rustix::io::Errno::NOBUFS => SendResult::Busy,
                _ => SendResult::Refused,
            },
        }
    }

    /// Receives a datagram if one has arrived.
    pub(super) fn try_receive(&mut self, buffer: &mut [u8]) -> Option<usize> {
        recv(&self.udp, buffer, RecvFlags::DONTWAIT).ok().map(|(length, _)| length)
    }

    /// Returns the lookup whose query has this id.
    pub(super) fn asker(&self, id: u16) -> Option<QueryOwner> {
        self.askers.get(&id).copied()
    }

    /// Removes all queries because no server is listening, and returns their owners.
    pub(super) fn give_up(&mut self) -> Vec<QueryOwner> {
        self.askers.drain().map(|(_, asker)| asker).collect()
    }

    /// Removes a query that its lookup no longer needs, unless the id already belongs to another query.
    pub(super) fn forget(&mut self, id: u16, serial: u64) {
        if self.askers.get(&id).is_some_and(|asker| asker.serial == serial) {
            self.askers.remove(&id);
        }
    }
}

fn connected(address: SocketAddr) -> io::Result<UdpSocket> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = socket2::Socket::new(Domain::for_address(address), kind, Some(Protocol::UDP))?;
    // The system may set a smaller buffer. If an answer does not fit into it, the query is sent again.
    let _ = socket.set_recv_buffer_size(limits::DNS_RECEIVE_BYTES);
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // Port 0 makes the kernel choose a random port.
    socket.bind(&any.into())?;
    socket.connect(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// Receiver of everything that arrives on the sockets.
pub(super) trait Inbox {
    fn received(&self, place: SocketId, bytes: &[u8]);

    /// Receives the answer to a query over TCP. `bytes` is `None` if the query failed.
    fn received_over_tcp(&self, asker: QueryOwner, sent: usize, bytes: Option<&[u8]>);

    /// Reports that no server is listening at `place`.
    fn refused(&self, place: SocketId);

    /// Reports that no more data is available for now.
    fn tell(&self);
}

/// Reads from a socket until it is closed, several datagrams per wake-up.
async fn read(socket: Rc<UdpSocket>, place: SocketId, inbox: Weak<dyn Inbox>) {
    let mut buffer = vec![0; limits::DNS_UDP_BUFFER_BYTES];
    // A refusal sets the socket's error state but does not make the socket readable.
    while let Ok(ready) = socket.ready(Interest::READABLE | Interest::ERROR).await {
        let Some(inbox) = inbox.upgrade() else { return };
        let interest = if ready.is_error() { Interest::ERROR } else { Interest::READABLE };
        for _ in 0..limits::DNS_UDP_BURST {
            let received = socket.try_io(interest, || {
                let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
                Ok(length)
            });
            match received {
                Ok(length) => inbox.received(place, &buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => inbox.refused(place),
            }
        }
        inbox.tell();
        drop(inbox);
        tokio::task::yield_now().await;
    }
}
