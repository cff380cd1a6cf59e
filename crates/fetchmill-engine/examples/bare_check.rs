//! Measures the minimum cost of a check. For each URL it looks up the host over UDP, connects, sends one request, reads
//! the reply and closes the connection. It runs on one thread and has no header lists, deadlines, retries, rows or
//! journal.
//!
//! `bare_check LIST DNS CONCURRENCY` reads one `http://HOST:PORT/` per line and queries the name server at DNS
//! (`127.0.0.1:53`) for IPv4 addresses. It prints the number of replies with status 200 and the CPU time of its thread
//! in seconds.
#![allow(clippy::print_stdout, clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Socket, Type};

/// Event token of the socket that all lookups share.
const LOOK_UPS: u64 = u64::MAX;
/// After this many seconds without an event, the remaining targets count as lost.
const SILENCE_SECONDS: i64 = 5;

/// A connection that is being opened or read.
struct Connection {
    socket: Socket,
    request: Vec<u8>,
    is_sent: bool,
    reply: Vec<u8>,
}

/// All requests in flight. A place holds a lookup first, and then the connection to the resolved address.
struct Check {
    events: std::os::fd::OwnedFd,
    names: UdpSocket,
    targets: Vec<(String, u16)>,
    next: usize,
    /// Target that each place is looking up.
    looked_up: Vec<usize>,
    connections: Vec<Option<Connection>>,
    free: VecDeque<u16>,
    done: usize,
    good: usize,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let list = std::fs::read_to_string(arguments.next().unwrap()).unwrap();
    let server: SocketAddr = arguments.next().unwrap().parse().unwrap();
    let places: u16 = arguments.next().unwrap().parse().unwrap();
    let mut check = Check::new(&list, server, places);
    check.begin_more();
    let mut ready = Vec::with_capacity(256);
    let silence = rustix::time::Timespec { tv_sec: SILENCE_SECONDS, tv_nsec: 0 };
    while check.done < check.targets.len() {
        ready.clear();
        if epoll::wait(&check.events, spare_capacity(&mut ready), Some(&silence)).unwrap() == 0 {
            break;
        }
        for event in &ready {
            let place = event.data.u64();
            if place == LOOK_UPS { check.take_addresses() } else { check.go_on(place as u16) }
        }
        check.begin_more();
    }
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    println!("{} {:.6}", check.good, cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9);
}

impl Check {
    fn new(list: &str, server: SocketAddr, places: u16) -> Self {
        let names = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        names.connect(server).unwrap();
        names.set_nonblocking(true).unwrap();
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        epoll::add(&events, &names, epoll::EventData::new_u64(LOOK_UPS), epoll::EventFlags::IN).unwrap();
        let target = |line: &str| {
            let (host, port) =
                line.strip_prefix("http://").unwrap().trim_end_matches('/').split_once(':').unwrap();
            (host.to_owned(), port.parse().unwrap())
        };
        Check {
            events,
            names,
            targets: list.lines().map(target).collect(),
            next: 0,
            looked_up: vec![0; usize::from(places)],
            connections: std::iter::repeat_with(|| None).take(usize::from(places)).collect(),
            free: (0..places).collect(),
            done: 0,
            good: 0,
        }
    }

    /// Starts lookups until no place is free.
    fn begin_more(&mut self) {
        while self.next < self.targets.len()
            && let Some(place) = self.free.pop_front()
        {
            let mut query = Vec::with_capacity(64);
            query.extend_from_slice(&place.to_be_bytes());
            // Recursion desired, one question.
            query.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
            for label in self.targets[self.next].0.split('.') {
                query.push(label.len() as u8);
                query.extend_from_slice(label.as_bytes());
            }
            // End of the name, type A, class IN.
            query.extend_from_slice(&[0, 0, 1, 0, 1]);
            self.names.send(&query).unwrap();
            self.looked_up[usize::from(place)] = self.next;
            self.next += 1;
        }
    }

    /// Connects to the resolved addresses.
    fn take_addresses(&mut self) {
        let mut answer = [0; 512];
        loop {
            let length = match self.names.recv(&mut answer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            };
            let place = u16::from_be_bytes([answer[0], answer[1]]);
            // The last record is the address. Any other answer counts as lost.
            let Some(address) = answer[..length].last_chunk::<4>() else { continue };
            self.connect(place, Ipv4Addr::from(*address));
        }
    }

    fn connect(&mut self, place: u16, address: Ipv4Addr) {
        let (host, port) = &self.targets[self.looked_up[usize::from(place)]];
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking().cloexec(), None).unwrap();
        // A non-blocking connect returns `EINPROGRESS`, which is not a failure.
        let _ = socket.connect(&SocketAddr::from((address, *port)).into());
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.events, &socket, epoll::EventData::new_u64(u64::from(place)), flags).unwrap();
        let request =
            format!("GET / HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: bare\r\n\r\n").into_bytes();
        self.connections[usize::from(place)] =
            Some(Connection { socket, request, is_sent: false, reply: Vec::with_capacity(4096) });
    }

    /// Sends the request once connected, then reads until the reply is complete.
    fn go_on(&mut self, place: u16) {
        let Some(connection) = &mut self.connections[usize::from(place)] else { return };
        let Some(status) = connection.go_on() else { return };
        self.connections[usize::from(place)] = None;
        self.free.push_back(place);
        self.done += 1;
        self.good += usize::from(status == *b"200");
    }
}

impl Connection {
    /// Returns the status of a complete reply, or three zeros if the connection broke.
    fn go_on(&mut self) -> Option<[u8; 3]> {
        if !self.is_sent {
            match self.socket.send(&self.request) {
                Ok(length) => assert_eq!(length, self.request.len()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => return Some([0; 3]),
            }
            self.is_sent = true;
        }
        loop {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            match rustix::net::recv(&self.socket, &mut buffer, rustix::net::RecvFlags::empty()) {
                Ok(((read, _), length)) if length > 0 => self.reply.extend_from_slice(read),
                Err(rustix::io::Errno::AGAIN) => return None,
                Ok(_) | Err(_) => return Some([0; 3]),
            }
            if let Some(status) = whole(&self.reply) {
                return Some(status);
            }
        }
    }
}

/// Returns the status once the reply contains all bytes of its `Content-Length`.
fn whole(reply: &[u8]) -> Option<[u8; 3]> {
    let text = std::str::from_utf8(reply).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let is_length =
        |line: &&str| line.get(..15).is_some_and(|name| name.eq_ignore_ascii_case("content-length:"));
    let length = head.lines().find(is_length)?.get(15..)?.trim().parse::<usize>().ok()?;
    if body.len() < length {
        return None;
    }
    head.as_bytes().get(9..12)?.try_into().ok()
}
