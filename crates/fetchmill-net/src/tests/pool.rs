//! Tests of a thread's connections: when they are opened, shared, kept for other tasks, and closed.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;

use super::{Authority, MAX_BODY, listen, listen_mute, listen_tls, read_request, run, send, sleep, watch};
use crate::{
    AddressPolicy, Connection, IoBuffers, NameResolverSetup, OriginConnections, Pool, PoolSettings,
    ProxySetup, RequestTarget, Resolver, Timeouts, TlsOptions, TlsSetup,
};
use fetchmill_model::limits;
use fetchmill_model::origin::{OriginFields, OriginKey};
use fetchmill_model::reply::patience::Patience;

pub(super) fn settings(connections: usize, tls: TlsOptions) -> PoolSettings {
    PoolSettings {
        timeouts: Timeouts { connect: Duration::from_millis(300), ..Timeouts::default() },
        max_body: MAX_BODY,
        connections,
        fields: OriginFields::default(),
        authority: None,
        paces: None,
        tls: Arc::new(TlsSetup::new(tls)),
        names: NameResolverSetup::System(Resolver::new()),
        idle_max: usize::MAX,
        proxy: None,
        reach: AddressPolicy::Anywhere,
        times_phases: false,
        patience: Patience::default(),
        cookies: None,
    }
}

/// Creates a pool and its clock.
fn pool(connections: usize) -> (Pool, Rc<Cell<u64>>) {
    let clock = Rc::new(Cell::new(0));
    (Pool::new(settings(connections, TlsOptions::default()), Rc::clone(&clock)), clock)
}

pub(super) fn origin(pool: &Pool, scheme: &str, address: SocketAddr) -> Rc<OriginConnections> {
    let (key, _) = OriginKey::of_url(&format!("{scheme}://localhost:{}", address.port())).unwrap();
    pool.origin(&key).unwrap()
}

/// Starts a server that keeps its connections open. Also returns a counter of its connections.
pub(super) async fn counting() -> (SocketAddr, Rc<Cell<usize>>) {
    let connections = Rc::new(Cell::new(0));
    let count = Rc::clone(&connections);
    let address = listen(move |mut stream| {
        count.set(count.get() + 1);
        async move {
            while !read_request(&mut stream).await.is_empty() {
                send(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").await;
            }
        }
    })
    .await;
    (address, connections)
}

/// Sends one request to an origin over a connection that the pool chooses. Returns the status.
pub(super) async fn ask(pool: &Pool, connection: &mut Connection, origin: &Rc<OriginConnections>) -> u16 {
    if !connection.is_at(origin) {
        pool.switch(connection, origin);
    }
    if !connection.is_open() {
        pool.open(connection, &watch(), AddressPolicy::Anywhere).await.unwrap();
    }
    let mut body = Vec::new();
    let replied = connection
        .exchange(RequestTarget::Path("/"), &IoBuffers::default(), &mut body, &watch(), MAX_BODY)
        .await;
    replied.unwrap().head.status
}

#[test]
fn a_connection_is_kept_for_who_comes_to_its_origin_next() {
    run(async {
        let ((one, ones), (other, others)) = (counting().await, counting().await);
        let (pool, _) = pool(8);
        let (one, other) = (origin(&pool, "http", one), origin(&pool, "http", other));
        let mut connection = Connection::default();

        for _ in 0..5 {
            ask(&pool, &mut connection, &one).await;
            ask(&pool, &mut connection, &other).await;
        }

        assert_eq!((ones.get(), others.get(), pool.open_connections()), (1, 1, 2));
    });
}

#[test]
fn the_one_that_was_unused_for_longest_makes_room() {
    run(async {
        let (pool, _) = pool(2);
        let mut connection = Connection::default();
        let mut origins = Vec::new();
        for _ in 0..6 {
            let (address, count) = counting().await;
            origins.push((origin(&pool, "http", address), count));
        }

        for (origin, _) in origins.iter().chain(&origins[4..]) {
            ask(&pool, &mut connection, origin).await;
        }

        assert_eq!(pool.open_connections(), 2);
        assert_eq!(origins.iter().map(|(_, count)| count.get()).collect::<Vec<_>>(), [1; 6]);
    });
}

#[test]
fn what_is_unused_for_too_long_is_closed() {
    run(async {
        let ((one, ones), (other, _)) = (counting().await, counting().await);
        let (pool, clock) = pool(8);
        let (one, other) = (origin(&pool, "http", one), origin(&pool, "http", other));
        let mut connection = Connection::default();
        ask(&pool, &mut connection, &one).await;
        ask(&pool, &mut connection, &other).await;

        clock.set(limits::KEEP_ALIVE_IDLE.as_millis() as u64);
        pool.sweep(2, limits::SURPLUS_CONNECTION_IDLE);
        assert_eq!(pool.open_connections(), 1);
        ask(&pool, &mut connection, &one).await;

        assert_eq!(ones.get(), 2);
    });
}

#[test]
fn of_more_than_are_needed_the_unused_ones_are_closed_sooner() {
    run(async {
        let ((one, _), (other, _)) = (counting().await, counting().await);
        let (pool, clock) = pool(8);
        let (one, other) = (origin(&pool, "http", one), origin(&pool, "http", other));
        let mut connection = Connection::default();
        ask(&pool, &mut connection, &one).await;
        ask(&pool, &mut connection, &other).await;
        let surplus = limits::SURPLUS_CONNECTION_IDLE;

        clock.set(surplus.as_millis() as u64 - 1);
        pool.sweep(1, surplus);
        assert_eq!(pool.open_connections(), 2);
        clock.set(surplus.as_millis() as u64);
        pool.sweep(2, surplus);
        assert_eq!(pool.open_connections(), 2);
        pool.sweep(1, surplus);
        assert_eq!(pool.open_connections(), 1);
    });
}

/// Starts an HTTP/2 server with TLS that allows `streams` concurrent requests per connection. Also returns a counter of
/// its connections.
pub(super) async fn multiplexing(authority: &Authority, streams: u32) -> (SocketAddr, Rc<Cell<usize>>) {
    let mut config = authority.sign(&["localhost"]).config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connections = Rc::new(Cell::new(0));
    let count = Rc::clone(&connections);
    let address = listen_tls(config, move |stream| {
        count.set(count.get() + 1);
        async move {
            let mut builder = h2::server::Builder::new();
            builder.max_concurrent_streams(streams);
            let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
            while let Some(Ok((_, mut answer))) = connection.accept().await {
                tokio::task::spawn_local(async move {
                    sleep(50).await;
                    let head = Response::builder().status(200).body(()).unwrap();
                    answer.send_response(head, true).unwrap();
                });
            }
        }
    })
    .await;
    (address, connections)
}

#[test]
fn requests_share_a_connection_of_http2_as_far_as_the_server_allows() {
    run(async {
        let authority = Authority::new();
        let (address, connections) = multiplexing(&authority, 10).await;
        let (options, _file) = authority.options();
        let options = TlsOptions { http2: true, ..options };
        let pool = Rc::new(Pool::new(settings(64, options), Rc::new(Cell::new(0))));
        let origin = origin(&pool, "https", address);
        // The server's limit is known only after the first exchange.
        let mut first = Connection::default();
        ask(&pool, &mut first, &origin).await;

        let tasks: Vec<_> = (0..29)
            .map(|_| {
                let (pool, origin) = (Rc::clone(&pool), Rc::clone(&origin));
                tokio::task::spawn_local(async move {
                    let mut connection = Connection::default();
                    let status = ask(&pool, &mut connection, &origin).await;
                    // Hold the connection until every task has one.
                    sleep(500).await;
                    (status, connection.is_shared())
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), (200, true));
        }

        assert!((3..=6).contains(&connections.get()), "{} connections", connections.get());
    });
}

#[test]
fn a_host_that_answers_nobody_fails_all_at_once() {
    run(async {
        // The server accepts connections but sends nothing, so no handshake ever ends.
        let address = listen_mute().await;
        let options = TlsOptions { http2: true, ..TlsOptions::default() };
        let pool = Rc::new(Pool::new(settings(64, options), Rc::new(Cell::new(0))));
        let origin = origin(&pool, "https", address);
        let started = Instant::now();

        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let (pool, origin) = (Rc::clone(&pool), Rc::clone(&origin));
                tokio::task::spawn_local(async move {
                    let mut connection = Connection::default();
                    pool.switch(&mut connection, &origin);
                    pool.open(&mut connection, &watch(), AddressPolicy::Anywhere).await.is_err()
                })
            })
            .collect();
        for task in tasks {
            assert!(task.await.unwrap());
        }

        // The first connection fails, and the others fail with it. If they failed one after another, 20 failures would
        // take 6 s.
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    });
}

#[test]
fn each_scheme_has_its_proxy_but_for_hosts_without_one() {
    let both: ProxySetup = serde_json::from_str("\"both.test:3128\"").unwrap();
    let of_environment: ProxySetup =
        serde_json::from_str(r#"{"http": "http://plain.test", "without": ["own.test"]}"#).unwrap();
    let host = |setup: &ProxySetup, url: &str| {
        setup.proxy_of(&OriginKey::of_url(url).unwrap().0).map(|proxy| proxy.host.clone())
    };

    assert_eq!(host(&both, "http://a.test/").as_deref(), Some("both.test"));
    assert_eq!(host(&both, "https://own.test/").as_deref(), Some("both.test"));
    assert_eq!(host(&of_environment, "http://a.test/").as_deref(), Some("plain.test"));
    assert_eq!(host(&of_environment, "https://a.test/"), None);
    assert_eq!(host(&of_environment, "http://x.own.test/"), None);
    let refused = serde_json::from_str::<ProxySetup>(r#"{"https": "socks4://a", "without": []}"#);
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .starts_with("https_proxy: the scheme socks4 is not supported for a proxy")
    );
}
