//! Tests of requests and replies over TLS, and of idle TLS connections.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream as Served;

use super::{
    Authority, MAX_BODY, PATIENCE, cut, exchange, listen_tls, read_request, run, send, sleep, watch,
};
use crate::{Http1Connection, IdleState};
use fetchmill_model::outcome::FailureKind;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Connects to a server that runs `serve` after the handshake.
async fn connected<F, S>(serve: F) -> Http1Connection
where
    F: Fn(Served<TcpStream>) -> S + 'static,
    S: Future<Output = ()> + 'static,
{
    let authority = Authority::new();
    let address: SocketAddr = listen_tls(authority.sign(&["a.test"]).config(), serve).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (stream, _) = authority.client(true).start(stream, "a.test", PATIENCE).await.unwrap();
    Http1Connection::new(stream.into(), MAX_BODY)
}

#[test]
fn a_connection_is_used_again_and_tickets_are_no_input() {
    run(async {
        let mut connection = connected(|mut stream| async move {
            for _ in 0..3 {
                assert_eq!(read_request(&mut stream).await.as_bytes(), REQUEST);
                send(&mut stream, REPLY).await;
            }
            sleep(10_000).await;
        })
        .await;
        sleep(20).await;
        // By now, the TLS 1.3 session tickets have arrived.
        assert_eq!(connection.look(), IdleState::Quiet);

        for _ in 0..3 {
            assert_eq!(exchange(&mut connection, REQUEST).await.unwrap(), (200, b"ok".to_vec()));
            assert_eq!(connection.look(), IdleState::Quiet);
        }

        assert_eq!(connection.replies(), 3);
    });
}

#[test]
fn listening_does_not_end_with_a_ticket() {
    run(async {
        let connection = connected(|mut stream| async move {
            sleep(100).await;
            send(&mut stream, b"?").await;
            sleep(10_000).await;
        })
        .await;

        let began = std::time::Instant::now();
        connection.listen(&watch()).await;

        assert!(began.elapsed().as_millis() >= 80, "{:?}", began.elapsed());
        assert_eq!(connection.look(), IdleState::Unsolicited);
        assert_eq!(connection.look(), IdleState::Unsolicited);
    });
}

#[test]
fn what_comes_unasked_is_seen() {
    run(async {
        for (bytes, seen) in
            [(&b"?"[..], IdleState::Unsolicited), (b"HTTP/1.1 200 OK\r\n", IdleState::SecondReply)]
        {
            let mut connection = connected(move |mut stream| async move {
                read_request(&mut stream).await;
                send(&mut stream, REPLY).await;
                sleep(50).await;
                send(&mut stream, bytes).await;
                sleep(10_000).await;
            })
            .await;
            exchange(&mut connection, REQUEST).await.unwrap();
            assert_eq!(connection.look(), IdleState::Quiet);

            sleep(100).await;

            assert_eq!(connection.look(), seen);
        }
    });
}

#[test]
fn bytes_behind_a_reply_are_its_surplus() {
    run(async {
        let mut connection = connected(|mut stream| async move {
            read_request(&mut stream).await;
            send(&mut stream, &[REPLY, REPLY].concat()).await;
            sleep(10_000).await;
        })
        .await;
        connection.send(REQUEST).unwrap();

        let scratch = RefCell::new(vec![0; 64 * 1024]);
        let replied = connection.receive(&mut Vec::new(), &scratch, &watch()).await.unwrap();

        assert_eq!(replied.surplus, IdleState::SecondReply);
    });
}

#[test]
fn bytes_that_did_not_fit_into_the_read_are_seen() {
    run(async {
        let mut connection = connected(|mut stream| async move {
            read_request(&mut stream).await;
            send(&mut stream, &[REPLY, REPLY].concat()).await;
            sleep(10_000).await;
        })
        .await;
        connection.send(REQUEST).unwrap();

        let scratch = RefCell::new(vec![0; REPLY.len()]);
        let replied = connection.receive(&mut Vec::new(), &scratch, &watch()).await.unwrap();

        assert_eq!(replied.surplus, IdleState::Quiet);
        assert_eq!(connection.look(), IdleState::SecondReply);
    });
}

#[test]
fn an_end_is_seen_with_and_without_a_word() {
    run(async {
        for says_so in [true, false] {
            let mut connection = connected(move |mut stream| async move {
                read_request(&mut stream).await;
                send(&mut stream, REPLY).await;
                if says_so {
                    stream.shutdown().await.unwrap();
                }
                cut(stream);
            })
            .await;
            exchange(&mut connection, REQUEST).await.unwrap();

            sleep(50).await;

            assert_eq!(connection.look(), IdleState::Closed);
        }
    });
}

#[test]
fn a_body_up_to_the_end_needs_an_end_that_was_said() {
    run(async {
        for says_so in [true, false] {
            let mut connection = connected(move |mut stream| async move {
                read_request(&mut stream).await;
                send(&mut stream, b"HTTP/1.1 200 OK\r\n\r\nsome").await;
                if says_so {
                    stream.shutdown().await.unwrap();
                }
                cut(stream);
            })
            .await;

            let replied = exchange(&mut connection, REQUEST).await;

            match replied {
                Ok(replied) => assert!(says_so && replied == (200, b"some".to_vec())),
                Err(broken) => assert!(!says_so && broken.kind == FailureKind::Truncated, "{broken:?}"),
            }
        }
    });
}

#[test]
fn a_body_that_is_cut_is_truncated_and_a_head_that_is_cut_reset() {
    run(async {
        for (bytes, kind, is_unanswered) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome"[..], FailureKind::Truncated, false),
            (b"HTTP/1.1 200 OK\r\n", FailureKind::Reset, false),
            (b"", FailureKind::Reset, true),
        ] {
            let mut connection = connected(move |mut stream| async move {
                read_request(&mut stream).await;
                send(&mut stream, bytes).await;
                cut(stream);
            })
            .await;

            let broken = exchange(&mut connection, REQUEST).await.unwrap_err();

            assert_eq!((broken.kind, broken.is_unanswered), (kind, is_unanswered));
        }
    });
}

#[test]
fn a_request_that_the_socket_does_not_take_at_once_is_sent_whole() {
    run(async {
        let mut connection = connected(|mut stream| async move {
            sleep(50).await;
            let length = read_request(&mut stream).await.len();
            let body = length.to_string();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            send(&mut stream, head.as_bytes()).await;
            sleep(10_000).await;
        })
        .await;
        let request = [b"GET / HTTP/1.1\r\nX: ", &vec![b'x'; 8_000_000][..], b"\r\n\r\n"].concat();

        let (_, body) = exchange(&mut connection, &request).await.unwrap();

        assert_eq!(body, request.len().to_string().into_bytes());
    });
}

#[test]
fn a_large_body_comes_whole() {
    run(async {
        let mut connection = connected(|mut stream| async move {
            read_request(&mut stream).await;
            send(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n").await;
            send(&mut stream, &(0..100_000_u32).map(|at| at as u8).collect::<Vec<_>>()).await;
            sleep(10_000).await;
        })
        .await;

        let (_, body) = exchange(&mut connection, REQUEST).await.unwrap();

        assert!(body.len() == 100_000 && body.iter().enumerate().all(|(at, byte)| at as u8 == *byte));
        assert_eq!(connection.look(), IdleState::Quiet);
    });
}
