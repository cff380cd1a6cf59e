//! Tests of requests that arrive together or in pieces.

use std::net::Shutdown;

use fetchmill_server::{Server, synthetic_body};
use serde_json::json;

use crate::client::{Client, request, server};

const PIPELINED: u64 = 32;

fn synthetic(size: usize) -> Server {
    server(&json!({"content": {"synthetic": {"count": 2500, "size": size}}}))
}

fn name(index: u64) -> String {
    format!("file-{index:012}")
}

/// A reproducible pseudorandom sequence (xorshift).
struct Pieces(u64);

impl Pieces {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Builds requests of every kind. Also returns the values that distinguish their replies.
fn mixed(count: u64, pieces: &mut Pieces) -> (String, Vec<(u16, Vec<u8>)>) {
    let (mut requests, mut expected) = (String::new(), Vec::new());
    for index in 0..count {
        let body = synthetic_body(&name(index), 100);
        let (text, status, body) = match pieces.below(8) {
            0 => (request("/list?next-marker=x"), 400, b"400 Bad Request\n".to_vec()),
            1 => (request("/get/nobody"), 404, b"404 Not Found\n".to_vec()),
            2 => (request("/elsewhere"), 404, b"404 Not Found\n".to_vec()),
            3 => (request(&format!("/get/file%2D{index:012}?x=y")), 200, body),
            4 => (format!("\r\n{}", request(&format!("/get/{}", name(index)))), 200, body),
            5 => (request("/x").replace("GET", "POST"), 405, b"405 Method Not Allowed\n".to_vec()),
            _ => (request(&format!("/get/{}", name(index))), 200, body),
        };
        requests.push_str(&text);
        expected.push((status, body));
    }
    (requests, expected)
}

#[test]
fn a_batch_of_requests_is_answered_by_one_turn() {
    let server = synthetic(100);
    let mut client = Client::new(server.address());
    let requests: String = (0..PIPELINED).map(|index| request(&format!("/get/{}", name(index)))).collect();

    for turn in 1..=5 {
        client.send(&requests);
        for index in 0..PIPELINED {
            assert_eq!(client.reply().body, synthetic_body(&name(index), 100));
        }
        let stats = server.stats();
        assert_eq!((stats.batches, stats.batched_requests), (turn, turn * PIPELINED));
    }
}

#[test]
fn however_the_bytes_are_cut_the_replies_are_the_same() {
    let server = synthetic(100);
    for seed in 1..=40 {
        let pieces = &mut Pieces(seed * 0x9e37_79b9);
        let (requests, expected) = mixed(60, pieces);
        let mut client = Client::new(server.address());

        let mut rest = requests.as_bytes();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((1 + pieces.below(400) as usize).min(rest.len()));
            client.send(piece);
            rest = after;
        }

        for (number, (status, body)) in expected.into_iter().enumerate() {
            let reply = client.reply();
            assert_eq!((reply.status, reply.body), (status, body), "seed {seed}, reply {number}");
        }
        assert!(client.is_usable(), "seed {seed}");
    }
}

#[test]
fn replies_before_what_is_no_request_are_sent() {
    let server = synthetic(100);
    let mut client = Client::new(server.address());
    let good = |index| request(&format!("/get/{}", name(index)));

    client.send(format!("{}{}NO REQUEST\r\n\r\n{}", good(0), good(1), good(2)));

    for index in 0..2 {
        assert_eq!(client.reply().body, synthetic_body(&name(index), 100));
    }
    let refused = client.reply();
    assert_eq!((refused.status, refused.field("Connection")), (400, Some("close")));
    assert_eq!(client.rest(), b"", "what comes behind it is not read");
}

#[test]
fn a_request_that_closes_the_connection_is_the_last() {
    let server = synthetic(100);
    let mut client = Client::new(server.address());
    let good = |index| request(&format!("/get/{}", name(index)));
    let last = good(1).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");

    client.send(format!("{}{last}{}", good(0), good(2)));

    assert_eq!(client.reply().body, synthetic_body(&name(0), 100));
    assert_eq!(client.reply().body, synthetic_body(&name(1), 100));
    assert_eq!(client.rest(), b"");
}

#[test]
fn the_start_of_a_request_waits_for_its_end() {
    let server = synthetic(100);
    let mut client = Client::new(server.address());
    let second = request(&format!("/get/{}", name(1)));
    let (start, end) = second.split_at(second.len() / 2);

    client.send(format!("{}{start}", request(&format!("/get/{}", name(0)))));
    assert_eq!(client.reply().body, synthetic_body(&name(0), 100));
    client.send(end);

    assert_eq!(client.reply().body, synthetic_body(&name(1), 100));
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let server = synthetic(200_000);
    let mut client = Client::new(server.address());
    let requests: String = (0..1000).map(|index| request(&format!("/get/{}", name(index)))).collect();

    client.send(&requests);
    client.stream.shutdown(Shutdown::Write).expect("connected");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let answered = server.stats().get;

    // A turn writes at most 256 KiB plus one reply. The kernel buffers a few MiB for a client.
    assert!((1..500).contains(&answered), "{answered} of 1000 are answered while nobody reads");
    for index in 0..1000 {
        assert!(client.reply().body == synthetic_body(&name(index), 200_000), "{index}");
    }
}
