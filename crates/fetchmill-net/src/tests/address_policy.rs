//! Tests of the addresses that connections may lead to. All test servers use loopback addresses, which are not public.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::pool::{ask, counting, multiplexing, origin, settings};
use super::{Authority, listen, read_request, run, send, watch};
use crate::{
    AddressPolicy, ConnectFailure, Connection, OriginConnections, Pool, PoolSettings, Proxy, ProxySetup,
    TlsOptions,
};
use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;

const PRIVATE: Result<(), ConnectFailure> = Err(ConnectFailure::Failed(FailureKind::PrivateAddress));

fn public_only() -> PoolSettings {
    PoolSettings { reach: AddressPolicy::PublicOnly, ..settings(8, TlsOptions::default()) }
}

fn origin_of(pool: &Pool, url: &str) -> Rc<OriginConnections> {
    pool.origin(&OriginKey::of_url(url).unwrap().0).unwrap()
}

async fn open(pool: &Pool, connection: &mut Connection, reach: AddressPolicy) -> Result<(), ConnectFailure> {
    pool.open(connection, &watch(), reach).await
}

#[test]
fn no_packet_goes_to_an_address_that_is_not_public() {
    run(async {
        let (address, connections) = counting().await;
        let port = address.port();
        let pool = Pool::new(public_only(), Rc::default());
        for host in ["localhost", "127.0.0.1", "[::1]", "[::ffff:7f00:1]", "0.0.0.0", "169.254.169.254"] {
            let mut connection = Connection::default();
            pool.switch(&mut connection, &origin_of(&pool, &format!("http://{host}:{port}")));

            assert_eq!(open(&pool, &mut connection, AddressPolicy::Anywhere).await, PRIVATE, "{host}");
            assert_eq!(connection.address(), None);
        }

        assert_eq!((connections.get(), pool.open_connections()), (0, 0));
    });
}

#[test]
fn a_name_with_a_public_and_another_address_leads_nowhere() {
    run(async {
        let (address, connections) = counting().await;
        let pool = Pool::new(public_only(), Rc::default());
        let public: SocketAddr = "8.8.8.8:80".parse().unwrap();
        for addresses in [[public, address], [address, public]] {
            let (key, _) = OriginKey::of_url("http://a.test/").unwrap();
            let template = RequestTemplate::new("a.test", "/", "", &[]).unwrap();
            let mut connection = Connection::default();
            pool.switch(&mut connection, &pool.add(key, template, Some(Arc::new(addresses))));

            assert_eq!(open(&pool, &mut connection, AddressPolicy::Anywhere).await, PRIVATE);
        }

        assert_eq!(connections.get(), 0);
    });
}

#[test]
fn a_kept_connection_leads_no_farther_than_a_new_one() {
    run(async {
        let (address, connections) = counting().await;
        let pool = Pool::new(settings(8, TlsOptions::default()), Rc::default());
        let (one, mut first, mut second) =
            (origin(&pool, "http", address), Connection::default(), Connection::default());
        ask(&pool, &mut first, &one).await;
        // The connection stays open for the next task.
        pool.switch(&mut first, &origin_of(&pool, "http://a.test/"));

        pool.switch(&mut second, &one);

        assert!(second.is_open() && second.leads_within(AddressPolicy::Anywhere));
        assert!(!second.leads_within(AddressPolicy::PublicOnly));
        second.close();
        assert!(second.leads_within(AddressPolicy::PublicOnly));
        assert_eq!(open(&pool, &mut second, AddressPolicy::PublicOnly).await, PRIVATE);
        assert_eq!(connections.get(), 1);
    });
}

#[test]
fn a_shared_connection_leads_no_farther_than_a_new_one() {
    run(async {
        let authority = Authority::new();
        let (address, connections) = multiplexing(&authority, 10).await;
        let (options, _file) = authority.options();
        let pool = Pool::new(settings(8, TlsOptions { http2: true, ..options }), Rc::default());
        let (one, mut first, mut second) =
            (origin(&pool, "https", address), Connection::default(), Connection::default());
        ask(&pool, &mut first, &one).await;
        pool.switch(&mut second, &one);

        assert_eq!(open(&pool, &mut second, AddressPolicy::PublicOnly).await, PRIVATE);
        assert_eq!(open(&pool, &mut second, AddressPolicy::Anywhere).await, Ok(()));

        assert!(second.is_shared() && !second.leads_within(AddressPolicy::PublicOnly));
        assert_eq!(connections.get(), 1);
    });
}

#[test]
fn a_proxy_is_asked_for_names_and_for_no_address_that_is_not_public() {
    run(async {
        let requests = Rc::new(RefCell::new(Vec::new()));
        let connections = Rc::new(Cell::new(0));
        let (seen, count) = (Rc::clone(&requests), Rc::clone(&connections));
        let proxy = listen(move |mut stream| {
            let seen = Rc::clone(&seen);
            count.set(count.get() + 1);
            async move {
                let request = read_request(&mut stream).await;
                seen.borrow_mut().push(request.lines().next().unwrap_or_default().to_owned());
                send(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
            }
        })
        .await;
        let proxy = Proxy::parse(&format!("http://{proxy}")).unwrap();
        let proxy = Some(Arc::new(ProxySetup::of_both(proxy)));
        let pool = Pool::new(PoolSettings { proxy, ..public_only() }, Rc::default());
        let mut connection = Connection::default();

        for url in ["http://10.0.0.1/", "https://10.0.0.1/", "http://[::1]/"] {
            pool.switch(&mut connection, &origin_of(&pool, url));
            assert_eq!(open(&pool, &mut connection, AddressPolicy::Anywhere).await, PRIVATE, "{url}");
        }
        assert_eq!(connections.get(), 0);
        let named = origin_of(&pool, "http://a.test/");
        assert_eq!(ask(&pool, &mut connection, &named).await, 200);

        assert_eq!(*requests.borrow(), ["GET http://a.test/ HTTP/1.1"]);
        assert_eq!(connection.address(), None);
        assert!(connection.leads_within(AddressPolicy::PublicOnly));
    });
}
