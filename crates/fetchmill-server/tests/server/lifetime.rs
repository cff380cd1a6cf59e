//! Tests for starting, stopping, threads and custom content.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fetchmill_server::{Body, Content, ContentError, Options, Page, Server};
use serde_json::json;

use crate::client::{Client, request, server};

#[test]
fn stopping_is_prompt_and_closes_everything() {
    let server = server(
        &json!({"content": {"synthetic": {"count": 10, "size": 100}}, "threads": 2, "delay": [3600, 3600]}),
    );
    let address = server.address();
    let mut waiting: Vec<Client> = (0..10).map(|_| Client::new(address)).collect();
    for client in &mut waiting {
        client.send(request("/get/file-000000000001"));
    }
    let mut idle = Client::new(address);
    assert!(idle.is_usable());
    let start = Instant::now();

    server.stop();

    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(idle.rest().is_empty());
    assert!(TcpStream::connect(address).is_err(), "nobody listens");
}

#[test]
fn threads_share_the_connections() {
    let server = server(&json!({"content": {"synthetic": {"count": 10, "size": 100}}, "threads": 3}));
    let mut clients: Vec<Client> = (0..30).map(|_| Client::new(server.address())).collect();

    for client in &mut clients {
        assert_eq!(client.get("/get/file-000000000001").status, 200);
    }

    let stats = server.stats();
    assert_eq!((stats.connections, stats.get), (30, 30));
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let first = server(&json!({"content": {"synthetic": {"count": 1, "size": 1}}}));
    let port = first.address().port();
    let options: Options =
        serde_json::from_value(json!({"content": {"synthetic": {"count": 1, "size": 1}}, "port": port}))
            .expect("well-formed");

    let error = Server::start(&options).expect_err("refused").to_string();

    assert!(
        error.starts_with(&format!("cannot listen on 127.0.0.1:{port}: Address already in use")),
        "{error}"
    );
}

#[test]
fn content_must_be_given() {
    let error = Server::start(&Options::default()).expect_err("refused");

    assert_eq!(error.to_string(), "the content is missing; give a folder or synthetic");
}

/// Content with a single object. For one name, it reports a wrong size.
struct Own;

impl Content for Own {
    fn list(&self, marker: Option<&str>, _limit: usize, page: &mut Page<'_>) -> Result<(), ContentError> {
        match marker {
            None => {
                page.name("a \"name\"\n");
                page.next_marker("a&b=c d".to_owned());
                Ok(())
            }
            Some("a&b=c d") => Ok(()),
            Some(_) => Err(ContentError::UnknownMarker),
        }
    }

    fn get(&self, name: &str, body: &mut Body<'_>) -> Result<(), ContentError> {
        match name {
            "right" => body.sized(5).extend_from_slice(b"right"),
            "short" => body.sized(6).extend_from_slice(b"short"),
            "silent" => {}
            "forbidden" => return Err(ContentError::Forbidden),
            _ => return Err(std::io::Error::other("broken").into()),
        }
        Ok(())
    }
}

#[test]
fn other_content_can_be_served() {
    let server = Server::start_with(Arc::new(Own), &Options::default()).expect("the server starts");
    let mut client = Client::new(server.address());

    let page = client.get("/list").json();
    assert_eq!(page, json!({"FileNames": ["a \"name\"\n"], "NextMarker": "a&b=c d"}));
    let page = client.get("/list?next-marker=a%26b%3Dc%20d").json();
    assert_eq!(page, json!({"FileNames": []}));
    for (name, status) in
        [("right", 200), ("short", 500), ("silent", 500), ("forbidden", 403), ("broken", 500)]
    {
        assert_eq!(client.get(&format!("/get/{name}")).status, status, "{name}");
    }
    assert_eq!(server.stats().errors, 4);
}
