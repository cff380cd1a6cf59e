//! A DNS server on loopback whose answers a test defines. It encodes messages itself, so that it does not share
//! mistakes with the resolver.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

pub(super) const A: u16 = 1;
pub(super) const AAAA: u16 = 28;
const CNAME: u16 = 5;
const SOA: u16 = 6;
pub(super) const SERVFAIL: u8 = 2;
pub(super) const NXDOMAIN: u8 = 3;
pub(super) const FORMERR: u8 = 1;
pub(super) const REFUSED: u8 = 5;
const HEADER_BYTES: usize = 12;

/// A query that the server received.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) bytes: Vec<u8>,
    /// The name as it was sent, without the final dot.
    pub(super) name: String,
    pub(super) rtype: u16,
    pub(super) source: SocketAddr,
    pub(super) is_tcp: bool,
    /// Number of queries that came before this one.
    pub(super) number: usize,
}

impl Query {
    pub(super) fn parse(bytes: &[u8], source: SocketAddr, is_tcp: bool, number: usize) -> Self {
        let (mut labels, mut at) = (Vec::new(), HEADER_BYTES);
        while bytes[at] != 0 {
            let end = at + 1 + usize::from(bytes[at]);
            labels.push(String::from_utf8(bytes[at + 1..end].to_vec()).unwrap());
            at = end;
        }
        let rtype = u16::from_be_bytes([bytes[at + 1], bytes[at + 2]]);
        Query { bytes: bytes.to_vec(), name: labels.join("."), rtype, source, is_tcp, number }
    }

    pub(super) fn lower(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    pub(super) fn has_edns(&self) -> bool {
        self.bytes[11] == 1
    }

    /// Starts an answer that repeats the question.
    pub(super) fn reply(&self) -> Reply {
        let question_end = HEADER_BYTES + self.name.len() + 2 + 4;
        let mut bytes = self.bytes[..question_end].to_vec();
        // The flags of an answer: recursion desired and available. There is exactly one question.
        bytes[2..HEADER_BYTES].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
        Reply { bytes }
    }

    /// Answers with one address if the query is for an IPv4 address, or with an empty answer if not.
    pub(super) fn found(&self, last: u8) -> Reply {
        if self.rtype == A { self.reply().a("", 60, last) } else { self.reply() }
    }
}

/// An answer under construction.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
}

impl Reply {
    pub(super) fn rcode(mut self, rcode: u8) -> Self {
        self.bytes[3] |= rcode;
        self
    }

    pub(super) fn truncated(mut self) -> Self {
        self.bytes[2] |= 2;
        self
    }

    /// Adds the address 192.0.2.`last`. An empty owner means the name in the question.
    pub(super) fn a(self, owner: &str, ttl: u32, last: u8) -> Self {
        self.record(owner, A, ttl, &[192, 0, 2, last])
    }

    /// Adds the address `2001:db8::last`.
    pub(super) fn aaaa(self, owner: &str, ttl: u32, last: u8) -> Self {
        self.record(owner, AAAA, ttl, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
    }

    pub(super) fn cname(self, owner: &str, ttl: u32, target: &str) -> Self {
        self.record(owner, CNAME, ttl, &encode(target))
    }

    fn record(mut self, owner: &str, rtype: u16, ttl: u32, data: &[u8]) -> Self {
        self.push(owner, rtype, ttl, data);
        self.count(7);
        self
    }

    /// Adds the record that says how long a negative answer may be cached.
    pub(super) fn soa(mut self, ttl: u32, minimum: u32) -> Self {
        let mut data = [encode("ns.test"), encode("admin.test"), vec![0; 16]].concat();
        data.extend(minimum.to_be_bytes());
        self.push("test", SOA, ttl, &data);
        self.count(9);
        self
    }

    fn push(&mut self, owner: &str, rtype: u16, ttl: u32, data: &[u8]) {
        let owner = if owner.is_empty() { vec![0xc0, HEADER_BYTES as u8] } else { encode(owner) };
        self.bytes.extend(owner);
        self.bytes.extend(rtype.to_be_bytes());
        self.bytes.extend(1_u16.to_be_bytes());
        self.bytes.extend(ttl.to_be_bytes());
        self.bytes.extend((data.len() as u16).to_be_bytes());
        self.bytes.extend(data);
    }

    fn count(&mut self, low_byte: usize) {
        let counted = u16::from_be_bytes([self.bytes[low_byte - 1], self.bytes[low_byte]]) + 1;
        self.bytes[low_byte - 1..=low_byte].copy_from_slice(&counted.to_be_bytes());
    }

    pub(super) fn once(self) -> Vec<Vec<u8>> {
        vec![self.bytes]
    }
}

pub(super) fn encode(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let mut bytes: Vec<u8> =
        labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    bytes.push(0);
    bytes
}

/// Returns the messages that a server sends in reply to a query.
type Script = dyn Fn(&Query) -> Vec<Vec<u8>>;

/// A server that runs in tasks of the test's runtime.
#[derive(Clone)]
pub(super) struct Fake {
    pub(super) address: SocketAddr,
    queries: Rc<RefCell<Vec<Query>>>,
}

impl Fake {
    /// Starts a server that replies to each query with the messages returned by `answer`. It can return any number of
    /// messages, including none.
    pub(super) async fn start(answer: impl Fn(&Query) -> Vec<Vec<u8>> + 'static) -> Self {
        let (tcp, udp, address) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = tcp.local_addr().unwrap();
            // Another process may be using the same UDP port.
            if let Ok(udp) = UdpSocket::bind(address).await {
                break (tcp, udp, address);
            }
        };
        let fake = Fake { address, queries: Rc::default() };
        let answer: Rc<Script> = Rc::new(answer);
        tokio::task::spawn_local(fake.clone().serve_udp(udp, Rc::clone(&answer)));
        tokio::task::spawn_local(fake.clone().serve_tcp(tcp, answer));
        fake
    }

    /// Starts a server that never answers.
    pub(super) async fn silent() -> Self {
        Fake::start(|_| Vec::new()).await
    }

    pub(super) fn queries(&self) -> Vec<Query> {
        self.queries.borrow().clone()
    }

    pub(super) fn count(&self) -> usize {
        self.queries.borrow().len()
    }

    fn take(&self, bytes: &[u8], source: SocketAddr, is_tcp: bool) -> Query {
        let query = Query::parse(bytes, source, is_tcp, self.count());
        self.queries.borrow_mut().push(query.clone());
        query
    }

    async fn serve_udp(self, udp: UdpSocket, answer: Rc<Script>) {
        let mut buffer = [0; 2048];
        while let Ok((length, source)) = udp.recv_from(&mut buffer).await {
            for bytes in answer(&self.take(&buffer[..length], source, false)) {
                udp.send_to(&bytes, source).await.unwrap();
            }
        }
    }

    /// Serves TCP connections, closing each one after its messages.
    async fn serve_tcp(self, tcp: TcpListener, answer: Rc<Script>) {
        while let Ok((mut stream, source)) = tcp.accept().await {
            let mut bytes = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut bytes).await.unwrap();
            for bytes in answer(&self.take(&bytes, source, true)) {
                stream.write_u16(bytes.len() as u16).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
            }
        }
    }
}
