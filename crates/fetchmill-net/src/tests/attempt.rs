//! Tests of the time limit of an attempt, and of the recorded phases.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::connect::silent;
use super::pool::{ask, counting, multiplexing, origin, settings};
use super::{Authority, MAX_BODY, listen, listen_mute, read_request, run, send, sleep, ticking, watch};
use crate::{
    AddressPolicy, ConnectFailure, Connection, IoBuffers, OriginConnections, Phases, Pool, PoolSettings,
    RequestTarget, Timeouts, TlsOptions,
};
use fetchmill_model::http1::{RequestTemplate, Version};
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;

const BUDGET: Duration = Duration::from_millis(600);
/// Slightly less than the limit, because a watch is only as precise as its ticks.
const EARLY: Duration = Duration::from_millis(570);
const LATE: Duration = Duration::from_millis(1000);

/// Adds an origin that has exactly these addresses.
fn origin_at(pool: &Pool, scheme: &str, addresses: &[SocketAddr]) -> Rc<OriginConnections> {
    let (key, _) = OriginKey::of_url(&format!("{scheme}://localhost:{}", addresses[0].port())).unwrap();
    let template = RequestTemplate::new(key.authority(), "/", "", &[]).unwrap();
    pool.add(key, template, Some(Arc::from(addresses)))
}

/// Sends a request whose attempts have a time limit. Returns the failure and how long it took to occur.
async fn ended(scheme: &str, address: SocketAddr, options: TlsOptions) -> (FailureKind, Duration) {
    let timeouts = Timeouts { attempt: Some(BUDGET), ..Timeouts::default() };
    let (watch, clock) = ticking(timeouts);
    let pool = Pool::new(PoolSettings { timeouts, ..settings(8, options) }, clock);
    let origin = origin_at(&pool, scheme, &[address]);
    let mut connection = Connection::default();
    pool.switch(&mut connection, &origin);
    let started = Instant::now();
    let kind = match pool.open(&mut connection, &watch, AddressPolicy::Anywhere).await {
        Err(ConnectFailure::Failed(kind)) => kind,
        Err(ConnectFailure::Exhausted(number)) => panic!("exhausted: {number}"),
        Ok(()) => {
            let mut body = Vec::new();
            let buffers = IoBuffers::default();
            connection
                .exchange(RequestTarget::Path("/"), &buffers, &mut body, &watch, MAX_BODY)
                .await
                .unwrap_err()
                .kind
        }
    };
    (kind, started.elapsed())
}

#[test]
fn the_budget_of_an_attempt_ends_in_the_phase_that_uses_it_up() {
    run(async {
        let authority = Authority::new();
        let config = Arc::new(authority.sign(&["localhost"]).config());
        let hole = silent("127.0.0.10");
        let mute = listen_mute().await;
        let headless = listen(|mut stream| async move {
            read_request(&mut stream).await;
            sleep(10_000).await;
        })
        .await;
        let slow = listen(|mut stream| async move {
            read_request(&mut stream).await;
            send(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n").await;
            while tokio::io::AsyncWriteExt::write_all(&mut stream, b"x").await.is_ok() {
                sleep(20).await;
            }
        })
        .await;
        // The handshake uses up most of the time limit. Only the remaining time is available for the head.
        let late = listen(move |stream| {
            let acceptor = TlsAcceptor::from(Arc::clone(&config));
            async move {
                sleep(500).await;
                let mut stream = acceptor.accept(stream).await.unwrap();
                read_request(&mut stream).await;
                sleep(10_000).await;
            }
        })
        .await;

        for (scheme, address, kind) in [
            ("http", hole.address, FailureKind::ConnectTimeout),
            ("https", mute, FailureKind::TlsTimeout),
            ("http", headless, FailureKind::HeadTimeout),
            ("https", late, FailureKind::HeadTimeout),
            ("http", slow, FailureKind::TotalTimeout),
        ] {
            let (options, _file) = authority.options();
            let (ended, took) = ended(scheme, address, options).await;

            assert_eq!(ended, kind, "{scheme}");
            assert!((EARLY..LATE).contains(&took), "{kind:?}: {took:?}");
        }
    });
}

#[test]
fn on_a_kept_connection_the_budget_begins_with_the_request() {
    run(async {
        let timeouts = Timeouts { attempt: Some(BUDGET), ..Timeouts::default() };
        let (watch, clock) = ticking(timeouts);
        let address = listen(|mut stream| async move {
            while !read_request(&mut stream).await.is_empty() {
                sleep(350).await;
                send(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").await;
            }
        })
        .await;
        let pool = Pool::new(PoolSettings { timeouts, ..settings(8, TlsOptions::default()) }, clock);
        let origin = origin_at(&pool, "http", &[address]);
        let (mut connection, buffers) = (Connection::default(), IoBuffers::default());
        pool.switch(&mut connection, &origin);
        pool.open(&mut connection, &watch, AddressPolicy::Anywhere).await.unwrap();

        for _ in 0..3 {
            let mut body = Vec::new();
            connection
                .exchange(RequestTarget::Path("/"), &buffers, &mut body, &watch, MAX_BODY)
                .await
                .unwrap();
            sleep(350).await;
        }

        assert_eq!(connection.replies(), 3);
        // The time that a failed connection attempt took must not count towards the next request either.
        let nobody = origin_at(&pool, "http", &[super::connect::refusing("127.0.0.1")]);
        let mut other = Connection::default();
        pool.switch(&mut other, &nobody);
        pool.open(&mut other, &watch, AddressPolicy::Anywhere).await.unwrap_err();
        sleep(350).await;
        connection
            .exchange(RequestTarget::Path("/"), &buffers, &mut Vec::new(), &watch, MAX_BODY)
            .await
            .unwrap();
    });
}

fn timed(options: TlsOptions) -> Pool {
    let timeouts = Timeouts::default();
    Pool::new(PoolSettings { timeouts, times_phases: true, ..settings(8, options) }, Rc::default())
}

/// Starts a server that waits 60 ms before its handshake and 80 ms before each reply.
async fn unhurried(authority: &Authority, version: &'static str) -> SocketAddr {
    let config = Arc::new(authority.sign(&["localhost"]).config());
    listen(move |stream: TcpStream| {
        let acceptor = TlsAcceptor::from(Arc::clone(&config));
        async move {
            sleep(60).await;
            let mut stream = acceptor.accept(stream).await.unwrap();
            while !read_request(&mut stream).await.is_empty() {
                sleep(80).await;
                send(&mut stream, version.as_bytes()).await;
                send(&mut stream, b" 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n").await;
                sleep(400).await;
                send(&mut stream, b"x").await;
            }
        }
    })
    .await
}

#[test]
fn the_phases_of_an_attempt_are_told_apart() {
    run(async {
        let authority = Authority::new();
        let (options, _file) = authority.options();
        let pool = timed(options);
        let address = unhurried(&authority, "HTTP/1.0").await;
        let origin = origin(&pool, "https", address);
        let mut connection = Connection::default();
        let before = Instant::now();

        ask(&pool, &mut connection, &origin).await;
        let first = connection.phases();
        ask(&pool, &mut connection, &origin).await;
        let second = connection.phases();

        assert!(first.dns.is_some_and(|dns| dns < 1_000_000), "{first:?}");
        assert!(first.connect.is_some_and(|connect| connect < 50_000), "{first:?}");
        assert!(first.tls.is_some_and(|tls| (55_000..300_000).contains(&tls)), "{first:?}");
        assert!(first.first_byte.is_some_and(|byte| (75_000..400_000).contains(&byte)), "{first:?}");
        assert!(first.started.unwrap() >= before);
        assert_eq!((second.dns, second.connect, second.tls), (None, None, None));
        assert!(second.first_byte.is_some_and(|byte| (75_000..400_000).contains(&byte)), "{second:?}");
        assert!(second.started.unwrap() >= first.started.unwrap() + Duration::from_millis(530));
        assert_eq!((connection.address(), connection.version()), (Some(address), Some(Version::Http10)));
    });
}

#[test]
fn a_phase_that_failed_took_its_time_and_the_rest_did_not_happen() {
    run(async {
        let mute = listen_mute().await;
        // `settings` uses short timeouts.
        let settings = PoolSettings { times_phases: true, ..settings(8, TlsOptions::default()) };
        let pool = Pool::new(settings, Rc::default());
        let origin = origin_at(&pool, "https", &[mute]);
        let mut connection = Connection::default();
        pool.switch(&mut connection, &origin);

        pool.open(&mut connection, &watch(), AddressPolicy::Anywhere).await.unwrap_err();

        let phases = connection.phases();
        assert_eq!((phases.dns, phases.first_byte, connection.version()), (None, None, None));
        assert!(phases.connect.is_some() && phases.started.is_some());
        assert!(phases.tls.is_some_and(|tls| (290_000..1_000_000).contains(&tls)), "{phases:?}");
    });
}

#[test]
fn requests_that_share_a_connection_have_phases_of_their_own() {
    run(async {
        let authority = Authority::new();
        let (address, connections) = multiplexing(&authority, 10).await;
        let (options, _file) = authority.options();
        let pool = timed(TlsOptions { http2: true, ..options });
        let origin = origin(&pool, "https", address);
        let (mut one, mut other) = (Connection::default(), Connection::default());

        ask(&pool, &mut one, &origin).await;
        ask(&pool, &mut other, &origin).await;

        assert_eq!(connections.get(), 1);
        assert!(one.phases().tls.is_some());
        assert_eq!((other.phases().dns, other.phases().connect, other.phases().tls), (None, None, None));
        for connection in [&one, &other] {
            let phases = connection.phases();
            assert!(phases.first_byte.is_some_and(|byte| (45_000..300_000).contains(&byte)), "{phases:?}");
            assert!(phases.started.is_some());
            assert_eq!((connection.address(), connection.version()), (Some(address), Some(Version::Http2)));
        }
    });
}

#[test]
fn without_the_wish_no_phase_is_recorded() {
    run(async {
        let (address, _) = counting().await;
        let pool = Pool::new(settings(8, TlsOptions::default()), Rc::default());
        let (one, mut connection) = (origin(&pool, "http", address), Connection::default());

        ask(&pool, &mut connection, &one).await;

        assert_eq!(connection.phases(), Phases::default());
        assert_eq!((connection.address(), connection.version()), (Some(address), Some(Version::Http11)));
        connection.close();
        assert_eq!(connection.address(), Some(address));
    });
}
