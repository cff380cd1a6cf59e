//! Tests of delayed replies.

use std::time::{Duration, Instant};

use fetchmill_server::synthetic_body;
use serde_json::json;

use crate::client::{Client, eventually, request, server};

const TARGET: &str = "/get/file-000000000007";

#[test]
fn gets_wait_and_listings_do_not() {
    let server = server(&json!({"content": {"synthetic": {"count": 10, "size": 100}}, "delay": [0.1, 0.15]}));
    let mut client = Client::new(server.address());
    let start = Instant::now();

    assert_eq!(client.get("/list").status, 200);
    assert_eq!(server.stats().delayed, 0);
    assert_eq!(client.get(TARGET).body, synthetic_body("file-000000000007", 100));
    assert_eq!(client.get("/get/x").status, 404);

    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_eq!(server.stats().delayed, 2);
}

#[test]
fn listings_wait() {
    let server =
        server(&json!({"content": {"synthetic": {"count": 10, "size": 100}}, "list_delay": [0.1, 0.1]}));
    let start = Instant::now();

    assert_eq!(Client::new(server.address()).get("/list").status, 200);

    assert!(start.elapsed() >= Duration::from_millis(100));
}

#[test]
fn whole_seconds() {
    let server = server(
        &json!({"content": {"synthetic": {"count": 10, "size": 100}}, "delay": [0, 1], "delay_steps": true}),
    );
    let start = Instant::now();
    let mut clients: Vec<Client> = (0..40).map(|_| Client::new(server.address())).collect();

    for client in &mut clients {
        client.send(request(TARGET));
    }
    eventually("the first ones have an answer", || server.stats().bytes_sent > 0);
    let first = start.elapsed();
    for client in &mut clients {
        assert_eq!(client.reply().status, 200);
    }

    assert!(first < Duration::from_secs(1), "some do not wait: {first:?}");
    assert!(start.elapsed() >= Duration::from_secs(1), "some wait a second");
}

#[test]
fn many_wait_at_the_same_time() {
    let server = server(&json!({"content": {"synthetic": {"count": 10, "size": 100}}, "delay": [0.2, 0.3]}));
    let start = Instant::now();
    let mut clients: Vec<Client> = (0..300).map(|_| Client::new(server.address())).collect();

    for client in &mut clients {
        client.send(request(TARGET));
    }
    for client in &mut clients {
        assert_eq!(client.reply().status, 200);
    }

    assert!(start.elapsed() < Duration::from_secs(30), "one after the other they would take 75 s");
}

#[test]
fn a_client_that_goes_away_is_not_waited_for() {
    let server =
        server(&json!({"content": {"synthetic": {"count": 10, "size": 100}}, "delay": [3600, 3600]}));
    let mut client = Client::new(server.address());
    client.send(request(TARGET));
    eventually("the request waits", || server.stats().delayed == 1);

    drop(client);

    eventually("the connection is closed", || server.stats().connections_closed == 1);
}

#[test]
fn a_share_of_the_gets_waits_longer() {
    let server = server(&json!({
        "content": {"synthetic": {"count": 10, "size": 100}}, "slow_rate": 0.5, "slow_delay": [0.05, 0.05],
    }));
    let mut client = Client::new(server.address());

    for _ in 0..40 {
        assert_eq!(client.get(TARGET).status, 200);
    }

    assert!((5..=35).contains(&server.stats().delayed), "{} of 40", server.stats().delayed);
}
