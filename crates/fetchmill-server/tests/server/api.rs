//! Tests for listing and getting objects, and for HTTP compliance.

use fetchmill_server::synthetic_body;
use serde_json::json;

use crate::client::{Client, request, server};

const NAME: &str = "file-000000000007";
const TARGET: &str = "/get/file-000000000007";

fn synthetic() -> fetchmill_server::Server {
    server(&json!({"content": {"synthetic": {"count": 2500, "size": 100}}}))
}

#[test]
fn a_listing_ends_after_all_names() {
    let server = synthetic();
    let mut client = Client::new(server.address());
    let (mut names, mut pages) = (Vec::new(), 0);
    let mut target = "/list".to_owned();
    loop {
        let page = client.get(&target).json();
        names.extend(page["FileNames"].as_array().expect("names").iter().cloned());
        pages += 1;
        match page["NextMarker"].as_str() {
            Some(marker) => target = format!("/list?next-marker={marker}"),
            None => break,
        }
    }

    assert_eq!(pages, 3);
    assert_eq!(names.len(), 2500);
    assert_eq!(names[2499], "file-000000002499");
    assert!(names.is_sorted_by_key(|name| name.as_str().map(str::to_owned)));
}

#[test]
fn a_listing_of_nothing_is_a_page() {
    let server = server(&json!({"content": {"synthetic": {"count": 0, "size": 100}}}));

    let page = Client::new(server.address()).get("/list").json();

    assert_eq!(page, json!({"FileNames": [], "Total": 0}));
}

#[test]
fn a_full_last_page_has_no_marker() {
    let server = server(&json!({"content": {"synthetic": {"count": 10, "size": 1}}, "page_size": 10}));

    let page = Client::new(server.address()).get("/list").json();

    assert_eq!(page["FileNames"].as_array().map(Vec::len), Some(10));
    assert!(page.get("NextMarker").is_none());
}

#[test]
fn unknown_markers_are_refused() {
    let server = synthetic();
    let mut client = Client::new(server.address());

    for marker in ["", "x", "0123456789abcdef", "%", "%FF"] {
        assert_eq!(client.get(&format!("/list?next-marker={marker}")).status, 400, "{marker}");
    }
    assert!(client.is_usable());
}

#[test]
fn an_object_is_its_body() {
    let server = synthetic();
    let mut client = Client::new(server.address());

    for target in [
        TARGET,
        "/get/file%2D000000000007",
        "/get/file-000000000007?x=y",
        "http://localhost/get/file-000000000007",
    ] {
        let reply = client.get(target);

        assert_eq!(reply.status, 200, "{target}");
        assert_eq!(reply.field("Content-Type"), Some("text/plain"));
        assert_eq!(reply.body, synthetic_body(NAME, 100));
    }
}

#[test]
fn a_large_object_is_its_body() {
    let size = 1_000_000;
    let server = server(&json!({"content": {"synthetic": {"count": 10, "size": size}}}));
    let mut client = Client::new(server.address());

    for _ in 0..3 {
        assert!(client.get(TARGET).body == synthetic_body(NAME, size), "another body");
    }
}

#[test]
fn unknown_names_are_not_found() {
    let server = synthetic();
    let mut client = Client::new(server.address());

    for target in ["/get/x", "/get/", "/get/file-000000002500", "/get", "/", "/get/%FF", "*"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    assert_eq!(client.get("/get/%").status, 400);
    assert!(client.is_usable());
    assert_eq!(server.stats().not_found, 7);
    assert_eq!(server.stats().bad_requests, 1);
}

#[test]
fn head_is_get_without_a_body() {
    let server = synthetic();
    let mut client = Client::new(server.address());

    for (target, status) in [(TARGET, 200), ("/list", 200), ("/stats", 200), ("/get/x", 404), ("/x", 404)] {
        let get = client.get(target);
        client.send(request(target).replace("GET", "HEAD"));
        let head = client.head();

        assert_eq!(head.status, status, "{target}");
        assert_eq!(head.field("Content-Type"), get.field("Content-Type"));
        assert!(head.length().is_some_and(|length| length > 0));
    }
    assert!(client.is_usable());
    assert_eq!(server.stats().head, 5);
}

#[test]
fn other_methods_are_not_allowed() {
    let server = synthetic();
    let mut client = Client::new(server.address());

    client.send(request("/list").replace("GET", "DELETE"));
    let reply = client.reply();

    assert_eq!((reply.status, reply.field("Allow")), (405, Some("GET, HEAD")));
    assert!(client.is_usable());
}

#[test]
fn a_request_with_a_body_ends_the_connection() {
    let server = synthetic();
    for (method, field, status) in [
        ("GET", "Content-Length: 4", 400),
        ("GET", "Transfer-Encoding: chunked", 400),
        ("POST", "Content-Length: 4", 405),
    ] {
        let mut client = Client::new(server.address());

        client.send(format!("{method} {TARGET} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\nGET "));

        assert_eq!(client.reply().status, status, "{method} {field}");
        assert!(client.rest().is_empty());
    }
}

#[test]
fn malformed_requests_end_the_connection() {
    let server = synthetic();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(17_000));
    for (bytes, status) in [("\x16\x03\x01", 400), ("GET\r\n\r\n", 400), (long.as_str(), 431)] {
        let mut client = Client::new(server.address());

        client.send(request(TARGET));
        client.send(bytes);

        assert_eq!(client.reply().status, 200, "what came before it is answered");
        assert_eq!(client.reply().status, status);
        assert!(client.rest().is_empty());
    }
    assert_eq!(server.stats().bad_requests, 3);
}

#[test]
fn the_client_decides_whether_the_connection_stays() {
    let server = synthetic();
    for (version, field, expected) in [
        ("1.1", "Connection: close", Some("close")),
        ("1.0", "Accept: */*", Some("close")),
        ("1.0", "Connection: keep-alive", Some("keep-alive")),
        ("1.1", "Accept: */*", None),
    ] {
        let mut client = Client::new(server.address());

        client.send(format!("GET {TARGET} HTTP/{version}\r\nHost: localhost\r\n{field}\r\n\r\n"));
        let reply = client.reply();

        assert_eq!(reply.field("Connection"), expected);
        assert_eq!(reply.body, synthetic_body(NAME, 100));
        if expected == Some("close") {
            assert!(client.rest().is_empty());
        } else {
            assert!(client.is_usable());
        }
    }
}

#[test]
fn pipelined_requests_are_answered_at_once() {
    let server = synthetic();
    let mut client = Client::new(server.address());
    let requests: String = (0..100).map(|index| request(&format!("/get/file-{index:012}"))).collect();

    client.send(requests);

    for index in 0..100 {
        let name = format!("file-{index:012}");
        assert_eq!(client.reply().body, synthetic_body(&name, 100), "{name}");
    }
    let stats = server.stats();
    assert_eq!((stats.get, stats.batches, stats.batched_requests), (100, 1, 100));
}

#[test]
fn more_replies_than_a_buffer_holds_come_in_order() {
    let server = server(&json!({"content": {"synthetic": {"count": 2500, "size": 20_000}}}));
    let mut client = Client::new(server.address());
    let mut sender = client.stream.try_clone().expect("a descriptor");
    let requests: String = (0..2000).map(|index| request(&format!("/get/file-{index:012}"))).collect();

    let sending = std::thread::spawn(move || std::io::Write::write_all(&mut sender, requests.as_bytes()));
    for index in 0..2000 {
        let name = format!("file-{index:012}");
        assert!(client.reply().body == synthetic_body(&name, 20_000), "{name}");
    }

    sending.join().expect("no panic").expect("no error");
    assert!(client.is_usable());
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let server = synthetic();
    let mut client = Client::new(server.address());

    for byte in request(TARGET).into_bytes() {
        client.send([byte]);
    }

    assert_eq!(client.reply().body, synthetic_body(NAME, 100));
    assert!(client.is_usable());
}

#[test]
fn requests_are_counted() {
    let server = synthetic();
    let mut client = Client::new(server.address());
    for target in [TARGET, "/list", "/get/x"] {
        client.get(target);
    }

    let stats = client.get("/stats").json();

    for (name, expected) in [
        ("connections", 1),
        ("connections_closed", 0),
        ("requests", 4),
        ("get", 2),
        ("list", 1),
        ("stats", 1),
        ("not_found", 1),
        ("bad_requests", 0),
    ] {
        assert_eq!(stats[name], expected, "{name}");
    }
    assert!(stats["bytes_sent"].as_u64().is_some_and(|bytes| bytes > 20_000));
}
