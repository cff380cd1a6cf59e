//! Tests of connections to hosts with several addresses, some of which do not answer or refuse connections.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use super::{PATIENCE, run};
use crate::{ConnectFailure, connect};
use fetchmill_model::outcome::FailureKind;

const NO_ROUTE: &str = "[fe80::1%4000000]:80";

/// An address that does not answer while this value exists, because its listener's queue is full.
pub(super) struct Silent {
    pub(super) address: SocketAddr,
    _listener: Socket,
    _queue: Vec<std::net::TcpStream>,
}

pub(super) fn silent(host: &str) -> Silent {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::new(host.parse().unwrap(), 0).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        queue.push(stream);
        assert!(queue.len() < 100);
    }
    Silent { address, _listener: listener, _queue: queue }
}

/// Returns an address that refuses connections.
pub(super) fn refusing(host: &str) -> SocketAddr {
    std::net::TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
}

async fn good() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn the_next_address_is_tried_at_once_when_one_refuses() {
    run(async {
        let (_listener, good) = good().await;
        let refused = SocketAddr::new("::1".parse().unwrap(), refusing("127.0.0.1").port());
        let started = Instant::now();

        let (stream, address) = connect(&[refused, good], PATIENCE).await.unwrap();

        assert_eq!((address, stream.peer_addr().unwrap()), (good, good));
        assert!(stream.nodelay().unwrap());
        assert!(started.elapsed() < Duration::from_millis(240), "{:?}", started.elapsed());
    });
}

#[test]
fn a_silent_address_costs_a_quarter_of_a_second() {
    run(async {
        let (_listener, good) = good().await;
        let silent = silent("127.0.0.5");
        let started = Instant::now();

        let (_, address) = connect(&[silent.address, good], PATIENCE).await.unwrap();

        assert_eq!(address, good);
        let took = started.elapsed();
        assert!((Duration::from_millis(240)..Duration::from_millis(400)).contains(&took), "{took:?}");
    });
}

#[test]
fn the_one_that_began_first_still_wins_when_the_others_fail() {
    run(async {
        let (_listener, good) = good().await;

        let (_, address) =
            connect(&[good, refusing("127.0.0.1"), refusing("127.0.0.2")], PATIENCE).await.unwrap();

        assert_eq!(address, good);
    });
}

#[test]
fn all_addresses_share_one_deadline() {
    run(async {
        let silent = [silent("127.0.0.6"), silent("127.0.0.7"), silent("127.0.0.8")];
        let started = Instant::now();

        let failure =
            connect(&silent.each_ref().map(|silent| silent.address), Duration::from_millis(700)).await;

        assert_eq!(failure.unwrap_err(), ConnectFailure::Failed(FailureKind::ConnectTimeout));
        let took = started.elapsed();
        assert!((Duration::from_millis(690)..Duration::from_millis(1300)).contains(&took), "{took:?}");
    });
}

#[test]
fn of_several_failures_the_one_that_says_most_is_told() {
    run(async {
        let silent = silent("127.0.0.9");
        let (refused, no_route) = (refusing("127.0.0.1"), NO_ROUTE.parse().unwrap());
        for (addresses, kind) in [
            (&[refused, silent.address][..], FailureKind::Refused),
            (&[silent.address, refused], FailureKind::Refused),
            (&[no_route, refused], FailureKind::Refused),
            (&[refused, no_route], FailureKind::Refused),
            (&[no_route, silent.address], FailureKind::ConnectTimeout),
            (&[no_route, no_route], FailureKind::Unreachable),
            (&[silent.address], FailureKind::ConnectTimeout),
            (&[refused], FailureKind::Refused),
            (&[no_route], FailureKind::Unreachable),
            (&[], FailureKind::Unreachable),
        ] {
            let failure = connect(addresses, Duration::from_millis(400)).await.unwrap_err();
            assert_eq!(failure, ConnectFailure::Failed(kind), "{addresses:?}");
        }
    });
}
