//! A server under test, and a minimal client. The client sends raw bytes, and splits replies by their framing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fetchmill_server::Server;
use serde_json::Value;

/// Every step is fast, so a longer wait is a failure.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts a server with these options.
pub(crate) fn server(options: &Value) -> Server {
    let options = serde_json::from_value(options.clone()).expect("well-formed options");
    Server::start(&options).expect("the server starts")
}

/// Starts a server with 2,500 objects and these faults.
pub(crate) fn faulty(faults: &Value) -> Server {
    server(&serde_json::json!({"content": {"synthetic": {"count": 2500, "size": 100}}, "faults": faults}))
}

/// Waits until the condition holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A reply, as it was received.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Returns the value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().filter_map(|line| line.split_once(": ")).find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// Returns the announced length.
    pub(crate) fn length(&self) -> Option<usize> {
        self.field("Content-Length").map(|length| length.parse().expect("a number"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }
}

/// A connection to the server.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a valid timeout");
        stream.set_nodelay(true).expect("a TCP socket");
        Client { stream, received: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the connection is open");
    }

    /// Sends a GET and reads its reply.
    pub(crate) fn get(&mut self, target: &str) -> Reply {
        self.send(request(target));
        self.reply()
    }

    /// Reads a head, and the announced number of bytes.
    pub(crate) fn reply(&mut self) -> Reply {
        let mut reply = self.head();
        let length = reply.length().unwrap_or(0);
        while self.received.len() < length {
            assert!(self.more().expect("no error") > 0, "closed within a body");
        }
        reply.body = self.received.drain(..length).collect();
        reply
    }

    /// Reads a head.
    pub(crate) fn head(&mut self) -> Reply {
        let end = loop {
            if let Some(end) = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            assert!(self.more().expect("no error") > 0, "closed within a head: {:?}", self.received);
        };
        let head = String::from_utf8(self.received.drain(..end).collect()).expect("ASCII");
        let status = head.get(9..12).expect("a status line").parse().expect("a status");
        Reply { status, head, body: Vec::new() }
    }

    /// Reads everything until the server closes the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.more().expect("no error") > 0 {}
        std::mem::take(&mut self.received)
    }

    /// Reads everything until the connection is reset.
    pub(crate) fn rest_until_reset(&mut self) -> Vec<u8> {
        loop {
            match self.more() {
                Ok(0) => panic!("closed, not reset"),
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                    return std::mem::take(&mut self.received);
                }
            }
        }
    }

    /// Returns whether no unexpected bytes have arrived and the connection still answers requests.
    pub(crate) fn is_usable(&mut self) -> bool {
        self.received.is_empty() && self.get("/stats").status == 200
    }

    fn more(&mut self) -> std::io::Result<usize> {
        let mut bytes = [0; 16384];
        let read = self.stream.read(&mut bytes)?;
        self.received.extend_from_slice(&bytes[..read]);
        Ok(read)
    }
}

/// Builds a plain GET request.
pub(crate) fn request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}
