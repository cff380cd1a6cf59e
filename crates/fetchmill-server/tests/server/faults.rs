//! Tests of each fault from the client's point of view.

use std::time::{Duration, Instant};

use fetchmill_server::synthetic_body;
use serde_json::json;

use crate::client::{Client, Reply, eventually, faulty, request, server};

const NAME: &str = "file-000000000007";
const TARGET: &str = "/get/file-000000000007";
const OTHER: &str = "/get/file-000000000008";
/// Length of the head in the reply to `TARGET`.
const HEAD: usize = 66;

fn body() -> Vec<u8> {
    synthetic_body(NAME, 100)
}

/// Returns a reply without faults, for comparison.
fn whole() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n";
    assert_eq!(head.len(), HEAD);
    [head.as_bytes(), &body()].concat()
}

#[test]
fn status_with_retry_after() {
    let server = faulty(&json!([{"action": "status", "status": 503, "retry_after": [2, 4], "match": NAME}]));
    let mut client = Client::new(server.address());
    let mut seen = [false; 5];

    for _ in 0..200 {
        let reply = client.get(TARGET);
        assert_eq!((reply.status, reply.text()), (503, "503 Service Unavailable\n"));
        seen[reply.field("Retry-After").expect("given").parse::<usize>().expect("a number")] = true;
    }

    assert_eq!(seen, [false, false, true, true, true]);
    assert_eq!(client.get(OTHER).status, 200);
    assert_eq!(server.stats().faults["status"], 200);
}

#[test]
fn a_status_without_a_body() {
    let server = faulty(&json!([{"action": "status", "status": 304}]));
    let mut client = Client::new(server.address());

    let reply = client.get(TARGET);

    assert_eq!((reply.status, reply.length()), (304, None));
    assert!(client.is_usable());
}

#[test]
fn only_the_first_times() {
    let server = faulty(&json!([{"action": "status", "status": 500, "times": 2}]));
    let mut client = Client::new(server.address());

    let statuses: Vec<u16> = (0..4).map(|_| client.get(TARGET).status).collect();

    assert_eq!(statuses, [500, 500, 200, 200]);
    assert_eq!(client.get(OTHER).status, 500, "each name has its own times");
}

#[test]
fn a_share_of_the_names() {
    let server = faulty(&json!([{"action": "status", "status": 500, "rate": 0.2}]));
    let mut client = Client::new(server.address());
    let mut statuses = || -> Vec<u16> {
        (0..500).map(|index| client.get(&format!("/get/file-{index:012}")).status).collect()
    };

    let first = statuses();

    assert!((50..150).contains(&first.iter().filter(|status| **status == 500).count()));
    assert_eq!(statuses(), first);
}

#[test]
fn reset_before_and_within_the_reply() {
    for (after, expected) in [(0, 0), (10, 10), (HEAD + 5, HEAD + 5)] {
        let server = faulty(&json!([{"action": "reset", "after_bytes": after}]));
        let mut client = Client::new(server.address());

        client.send(request(TARGET));

        assert_eq!(client.rest_until_reset(), whole()[..expected]);
    }
}

#[test]
fn truncate() {
    for (fault, expected) in [
        (json!([{"action": "truncate"}]), HEAD + 50),
        (json!([{"action": "truncate", "after_bytes": 20}]), 20),
        (json!([{"action": "truncate", "after_bytes": HEAD}]), HEAD),
    ] {
        let server = faulty(&fault);
        let mut client = Client::new(server.address());

        client.send(request(TARGET));

        assert_eq!(client.rest(), whole()[..expected], "{fault}");
    }
}

#[test]
fn wrong_length() {
    for (delta, announced) in [(7, 107), (-7, 93), (-1000, 0)] {
        let server = faulty(&json!([{"action": "wrong-length", "delta": delta, "match": NAME}]));
        let mut client = Client::new(server.address());

        client.send(request(TARGET));
        client.send(request(OTHER).replace("HTTP/1.1", "HTTP/1.0"));
        let reply = client.head();
        let rest = client.rest();

        assert_eq!(reply.length(), Some(announced));
        assert_eq!(rest[..100], body());
        assert!(rest[100..].starts_with(b"HTTP/1.1 200 OK"), "the connection stays open");
    }
}

#[test]
fn stall() {
    let server = faulty(&json!([{"action": "stall", "after_bytes": 70, "seconds": 0.2}]));
    let mut client = Client::new(server.address());
    let start = Instant::now();

    client.send(request(TARGET));

    assert_eq!(client.rest(), whole()[..70]);
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[test]
fn trickle() {
    let server = faulty(&json!([{"action": "trickle", "after_bytes": 160, "seconds": 0.02}]));
    let mut client = Client::new(server.address());
    let start = Instant::now();

    assert_eq!(client.get(TARGET).body, body());

    assert!(start.elapsed() >= Duration::from_millis(6 * 20));
    assert!(client.is_usable());
}

#[test]
fn a_marker_that_repeats() {
    let server = faulty(&json!([{"action": "repeat-marker"}]));
    let mut client = Client::new(server.address());
    let first = client.get("/list").json();
    let target = format!("/list?next-marker={}", first["NextMarker"].as_str().expect("more"));

    let second = client.get(&target).json();

    assert_eq!(second["NextMarker"], first["NextMarker"]);
    assert_ne!(second["FileNames"], first["FileNames"]);
    assert_eq!(client.get(&target).json(), second);
}

#[test]
fn markers_that_go_round() {
    let server = server(&json!({
        "content": {"synthetic": {"count": 2500, "size": 1}}, "page_size": 100,
        "faults": [{"action": "repeat-marker", "period": 2}],
    }));
    let mut client = Client::new(server.address());
    let mut markers = vec![client.get("/list").json()["NextMarker"].as_str().expect("more").to_owned()];

    for _ in 0..5 {
        let page = client.get(&format!("/list?next-marker={}", markers[markers.len() - 1])).json();
        markers.push(page["NextMarker"].as_str().expect("more").to_owned());
    }

    assert_ne!(markers[0], markers[1]);
    assert_eq!(markers[2..4], markers[..2]);
    assert_eq!(markers[4..], markers[..2]);
}

#[test]
fn a_reply_that_nobody_asked_for() {
    for seconds in [0.0, 0.05] {
        let server =
            faulty(&json!([{"action": "unsolicited", "match": "file-000000000000", "seconds": seconds}]));
        let mut client = Client::new(server.address());

        client.send(request("/get/file-000000000000"));

        assert_eq!(client.reply().body, synthetic_body("file-000000000000", 100));
        assert_eq!(client.reply().body, synthetic_body("file-000000000001", 100));
        assert!(client.is_usable());
    }
}

#[test]
fn close() {
    let server = faulty(&json!([{"action": "close", "on": "any"}]));
    for target in [TARGET, "/list"] {
        let mut client = Client::new(server.address());

        let reply = client.get(target);

        assert_eq!((reply.status, reply.field("Connection")), (200, Some("close")));
        assert!(client.rest().is_empty());
    }
    assert_eq!(server.stats().faults["close"], 2);
}

#[test]
fn chunked() {
    let server = faulty(&json!([{"action": "chunked"}]));
    let mut client = Client::new(server.address());
    let expected: Vec<u8> = body()
        .chunks(34)
        .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
        .chain(*b"0\r\n\r\n")
        .collect();

    client.send(request(TARGET).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    let reply = client.head();

    assert_eq!(reply.field("Transfer-Encoding"), Some("chunked"));
    assert_eq!(reply.length(), None);
    assert_eq!(client.rest(), expected);
}

#[test]
fn the_end_of_the_connection_is_the_end_of_the_body() {
    for (action, version) in [("eof", "1.1"), ("chunked", "1.0")] {
        let server = faulty(&json!([{"action": action}]));
        let mut client = Client::new(server.address());

        client.send(format!("GET {TARGET} HTTP/{version}\r\nHost: localhost\r\n\r\n"));
        let reply = client.head();

        assert_eq!((reply.length(), reply.field("Connection")), (None, Some("close")));
        assert_eq!(client.rest(), body());
    }
}

#[test]
fn faults_of_a_large_body() {
    let size = 1_000_000;
    for (action, announced) in
        [("chunked", None), ("eof", None), ("truncate", Some(size)), ("wrong-length", Some(size + 1))]
    {
        let server = server(&json!({
            "content": {"synthetic": {"count": 10, "size": size}}, "faults": [{"action": action}],
        }));
        let mut client = Client::new(server.address());

        client.send(request(TARGET).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        let reply = client.head();
        let rest = client.rest();

        assert_eq!(reply.length(), announced, "{action}");
        let expected = synthetic_body(NAME, size);
        match action {
            "chunked" => assert!(rest.len() > size && rest.ends_with(b"\r\n0\r\n\r\n")),
            "truncate" => assert!(rest == expected[..size / 2], "half"),
            _ => assert!(rest == expected, "{action}"),
        }
    }
}

#[test]
fn a_fault_of_head_has_no_body() {
    let server = faulty(&json!([{"action": "wrong-length", "delta": 5}]));
    let mut client = Client::new(server.address());

    client.send(request(TARGET).replace("GET", "HEAD"));

    assert_eq!(client.head().length(), Some(105));
    assert!(client.is_usable());
}

#[test]
fn pipelined_requests_around_a_fault_are_answered_in_order() {
    let server = faulty(&json!([{"action": "status", "status": 500, "match": NAME}]));
    let mut client = Client::new(server.address());

    client.send([request(OTHER), request(TARGET), request(TARGET), request(OTHER)].concat());

    let statuses: Vec<u16> = (0..4).map(|_| client.reply().status).collect();
    assert_eq!(statuses, [200, 500, 500, 200]);
    assert!(client.is_usable());
}

#[test]
fn a_stray_reply_comes_before_the_reply_to_the_next_request() {
    // The reply to the next request takes far longer than any stray reply.
    let server = server(&json!({
        "content": {"synthetic": {"count": 10, "size": 100}}, "delay": [1.0, 1.0],
        "faults": [{"action": "stray", "seconds": 0.9, "requests": 1, "times": 1}],
    }));
    let mut client = Client::new(server.address());

    client.send(request(TARGET));
    assert_eq!(client.reply().body, body());
    client.send(request(OTHER));
    let stray = client.reply();
    let real = client.reply();

    assert_eq!((stray.status, stray.body.len()), (200, 100));
    assert!(stray.text().starts_with("nobody asked for this"));
    assert_eq!(real.body, synthetic_body("file-000000000008", 100));
    assert_eq!(server.stats().faults["stray"], 1);
    assert!(Client::new(server.address()).is_usable(), "one connection was to be hit");
}

#[test]
fn a_stray_reply_comes_to_an_idle_connection_and_before_its_end() {
    for last in [false, true] {
        let server = faulty(&json!([{"action": "stray", "requests": 1, "seconds": 1}]));
        let mut client = Client::new(server.address());

        client.send(if last {
            request(TARGET).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
        } else {
            request(TARGET)
        });

        assert_eq!(client.reply().body, body());
        assert!(client.reply().text().starts_with("nobody asked for this"));
        if last {
            assert!(client.rest().is_empty());
        } else {
            assert!(client.is_usable());
        }
    }
}

#[test]
fn a_stray_page_is_one_of_three() {
    let marker = Client::new(faulty(&json!([])).address()).get("/list").json()["NextMarker"].clone();
    let second = format!("/list?next-marker={}", marker.as_str().expect("more"));
    let mut seen = std::collections::HashSet::new();
    for seed in 0..40 {
        let server = server(&json!({
            "content": {"synthetic": {"count": 2500, "size": 1}}, "page_size": 1000, "seed": seed,
            "faults": [{"action": "stray", "on": "list", "requests": 1, "seconds": 0.05}],
        }));
        let mut client = Client::new(server.address());
        client.send(request(&second));
        let real = client.reply();
        eventually("a stray page", || {
            server.stats().faults.contains_key("stray") || server.stats().strays_skipped > 0
        });
        if server.stats().strays_skipped > 0 {
            continue;
        }
        let stray = client.reply();
        let names = |reply: &Reply| reply.json()["FileNames"][0].as_str().expect("a name").to_owned();
        assert_eq!(names(&real), "file-000000001000");
        seen.insert(names(&stray));
    }

    let expected = ["file-000000000000", "file-000000001000", "stray"].map(str::to_owned);
    assert_eq!(seen, expected.into());
}
