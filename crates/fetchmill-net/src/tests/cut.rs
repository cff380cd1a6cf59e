//! Tests of requests that need only the start of a body.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use h2::Reason;
use http::Response;

use super::pool::{ask, origin, settings};
use super::{Authority, MAX_BODY, listen, listen_tls, read_request, run, send, sleep, watch};
use crate::{
    AddressPolicy, Connection, IdleState, IoBuffers, OriginConnections, Pool, ReceivedReply, RequestTarget,
    TlsOptions,
};
use fetchmill_model::http1::BodySink;

/// Replies that never end. Each is sent in pieces: first three bytes of the body, then five more.
const ENDLESS: [&[&str]; 3] = [
    &["HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nabc", "defgh"],
    &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "5\r\ndefgh\r\n9\r\n"],
    &["HTTP/1.1 200 OK\r\n\r\nabc", "defgh"],
];
/// Replies that end with their last piece.
const WHOLE: [&[&str]; 3] = [
    &["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"],
    &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"],
    &["HTTP/1.1 204 No Content\r\n\r\n"],
];

/// A sink that wants this many bytes. It also receives any bytes that arrive together with the last byte that it wants.
struct Part {
    wanted: usize,
    came: usize,
}

impl BodySink for Part {
    fn piece(&mut self, bytes: &[u8]) {
        self.came += bytes.len();
    }

    fn wants_more(&self) -> bool {
        self.came < self.wanted
    }
}

async fn exchange(
    pool: &Pool,
    connection: &mut Connection,
    origin: &Rc<OriginConnections>,
    wanted: usize,
) -> (ReceivedReply, usize) {
    pool.switch(connection, origin);
    if !connection.is_open() {
        pool.open(connection, &watch(), AddressPolicy::Anywhere).await.unwrap();
    }
    let mut part = Part { wanted, came: 0 };
    let replied = connection
        .exchange(RequestTarget::Path("/"), &IoBuffers::default(), &mut part, &watch(), MAX_BODY)
        .await;
    (replied.unwrap(), part.came)
}

/// Starts a server that sends these pieces and nothing more.
async fn serving(pieces: &'static [&'static str]) -> SocketAddr {
    listen(move |mut stream| async move {
        read_request(&mut stream).await;
        for piece in pieces {
            send(&mut stream, piece.as_bytes()).await;
            sleep(30).await;
        }
        sleep(10_000).await;
    })
    .await
}

#[test]
fn a_body_of_http_1_ends_where_the_sink_has_enough() {
    run(async {
        for pieces in ENDLESS {
            let address = serving(pieces).await;
            for (wanted, came) in [(0, 3), (3, 3), (4, 8)] {
                let pool = Pool::new(settings(8, TlsOptions::default()), Rc::default());
                let (origin, mut connection) = (origin(&pool, "http", address), Connection::default());

                let (replied, got) = exchange(&pool, &mut connection, &origin, wanted).await;

                assert!(replied.is_cut && !replied.head.keep_alive && replied.surplus == IdleState::Quiet);
                assert_eq!(got, came, "of {wanted}");
                assert_eq!((connection.is_open(), pool.open_connections()), (false, 0));
                assert_eq!(connection.address(), Some(address));
            }
        }
    });
}

#[test]
fn a_body_that_is_not_wanted_need_not_come() {
    run(async {
        let address = serving(&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"]).await;
        let pool = Pool::new(settings(8, TlsOptions::default()), Rc::default());
        let (origin, mut connection) = (origin(&pool, "http", address), Connection::default());

        let (replied, came) = exchange(&pool, &mut connection, &origin, 0).await;

        assert!(replied.is_cut && came == 0 && !connection.is_open());
    });
}

#[test]
fn what_came_to_its_end_is_not_cut() {
    run(async {
        for reply in WHOLE {
            let address = serving(reply).await;
            let pool = Pool::new(settings(8, TlsOptions::default()), Rc::default());
            let (origin, mut connection) = (origin(&pool, "http", address), Connection::default());

            let (replied, _) = exchange(&pool, &mut connection, &origin, 3).await;

            assert!(!replied.is_cut && replied.head.keep_alive && connection.is_open());
        }
    });
}

#[test]
fn a_stream_of_http_2_is_cancelled_and_the_others_go_on() {
    run(async {
        let authority = Authority::new();
        let mut config = authority.sign(&["localhost"]).config();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let (connections, resets) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        let (count, seen) = (Rc::clone(&connections), Rc::clone(&resets));
        let address = listen_tls(config, move |stream| {
            count.set(count.get() + 1);
            let seen = Rc::clone(&seen);
            async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                let mut number = 0;
                while let Some(Ok((_, mut answer))) = connection.accept().await {
                    number += 1;
                    let (seen, is_short) = (Rc::clone(&seen), number > 2);
                    tokio::task::spawn_local(async move {
                        let head = Response::builder().status(200).body(()).unwrap();
                        let mut body = answer.send_response(head, is_short).unwrap();
                        if !is_short {
                            body.send_data(Bytes::from_static(b"12345"), false).unwrap();
                            let reason = std::future::poll_fn(|context| body.poll_reset(context)).await;
                            seen.borrow_mut().push(reason.unwrap());
                        }
                    });
                }
            }
        })
        .await;
        let (options, _file) = authority.options();
        let pool = Pool::new(settings(8, TlsOptions { http2: true, ..options }), Rc::default());
        let (origin, mut connection) = (origin(&pool, "https", address), Connection::default());

        for (wanted, most) in [(0, 0), (3, 5)] {
            let (replied, came) = exchange(&pool, &mut connection, &origin, wanted).await;
            assert!(replied.is_cut && came <= most && came >= wanted);
            assert!(connection.is_open() && connection.is_shared());
        }
        let (whole, _) = exchange(&pool, &mut connection, &origin, 0).await;
        sleep(50).await;

        assert!(!whole.is_cut);
        assert_eq!(ask(&pool, &mut connection, &origin).await, 200);
        assert_eq!(*resets.borrow(), [Reason::CANCEL, Reason::CANCEL]);
        assert_eq!(connections.get(), 1);
    });
}
