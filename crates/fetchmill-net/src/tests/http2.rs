//! Tests of HTTP/2 against servers built on h2. The tests control every frame that the servers send.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::uri::Authority;
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

use super::{Authority as CertificateAuthority, MAX_BODY, PATIENCE, listen, listen_tls, run, send, sleep};
use crate::http2::{Http2Connection, Http2Request};
use crate::phases::ExchangeTimes;
use crate::{Alpn, BrokenExchange, Deadlines, ReceivedReply, Timeouts};
use fetchmill_model::http1::{BodySink, Framing, Head, Span};
use fetchmill_model::outcome::FailureKind;

type ReceivedRequest = Request<RecvStream>;
type Answer = SendResponse<Bytes>;

/// Serves each request in its own task.
async fn serve<IO, F, S>(stream: IO, builder: Builder, answer: F)
where
    IO: AsyncRead + AsyncWrite + Unpin,
    F: Fn(ReceivedRequest, Answer) -> S,
    S: Future<Output = ()> + 'static,
{
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((request, response))) = connection.accept().await {
        spawn_local(answer(request, response));
    }
}

async fn listen_h2<F, S>(answer: F) -> SocketAddr
where
    F: Fn(ReceivedRequest, Answer) -> S + Clone + 'static,
    S: Future<Output = ()> + 'static,
{
    listen(move |stream| serve(stream, Builder::new(), answer.clone())).await
}

async fn connect(address: SocketAddr) -> Http2Connection {
    Http2Connection::start(TcpStream::connect(address).await.unwrap()).await.unwrap()
}

async fn connected<F, S>(answer: F) -> Http2Connection
where
    F: Fn(ReceivedRequest, Answer) -> S + Clone + 'static,
    S: Future<Output = ()> + 'static,
{
    connect(listen_h2(answer).await).await
}

fn ok() -> http::response::Builder {
    Response::builder().status(200)
}

/// Answers with a body in one frame.
fn reply(mut answer: Answer, head: http::response::Builder, body: &[u8]) {
    let mut stream = answer.send_response(head.body(()).unwrap(), false).unwrap();
    stream.send_data(Bytes::copy_from_slice(body), true).unwrap();
}

/// A sink that keeps the data it receives.
#[derive(Default)]
struct KeptBody {
    head: Vec<u8>,
    content_type: Option<Span>,
    body: Vec<u8>,
}

impl BodySink for KeptBody {
    fn head(&mut self, head: &Head, bytes: &[u8]) {
        assert!(self.head.is_empty());
        self.head = bytes.to_vec();
        self.content_type = head.kept.content_type;
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

fn watch(head: Duration) -> (Deadlines, Rc<Cell<u64>>) {
    let clock = Rc::new(Cell::new(0));
    let watch = Deadlines::new(Rc::clone(&clock), Timeouts { head, ..Timeouts::default() });
    watch.start();
    (watch, clock)
}

async fn call(
    http2: &Http2Connection,
    path: &str,
    sent: &[u8],
) -> (Result<ReceivedReply, BrokenExchange>, KeptBody) {
    let (authority, fields) =
        (Authority::from_static("a.test:81"), Http2Connection::fields(&[("X-One", "1")]).unwrap());
    let method = if sent.is_empty() { "GET" } else { "POST" };
    let call = Http2Request {
        method,
        is_tls: false,
        authority: &authority,
        path,
        fields: &fields,
        body: sent,
        has_range: false,
    };
    let mut kept = KeptBody::default();
    let replied =
        http2.exchange(&call, &mut kept, &watch(PATIENCE).0, MAX_BODY, &mut ExchangeTimes::default()).await;
    (replied, kept)
}

/// Returns the failure of a request to a server that runs `answer`.
async fn broken<F, S>(answer: F) -> BrokenExchange
where
    F: Fn(ReceivedRequest, Answer) -> S + Clone + 'static,
    S: Future<Output = ()> + 'static,
{
    call(&connected(answer).await, "/", b"").await.0.unwrap_err()
}

#[test]
fn a_request_is_sent_as_it_is_called() {
    run(async {
        let http2 = connected(|request, answer| async move {
            let mut lines = format!("{} {}", request.method(), request.uri());
            for name in ["user-agent", "accept-encoding", "x-one", "host"] {
                let value = request.headers().get(name).map_or("-", |value| value.to_str().unwrap());
                lines.extend(["\n", value]);
            }
            let mut body = request.into_body();
            while let Some(Ok(piece)) = body.data().await {
                lines.extend(["\n", &piece.len().to_string(), " bytes"]);
            }
            reply(answer, ok(), lines.as_bytes());
        })
        .await;

        let (_, kept) = call(&http2, "/a%20b c?q=<`\n\u{e9}>", b"").await;
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            String::from_utf8(kept.body).unwrap(),
            format!(
                "GET http://a.test:81/a%20b%20c?q=%3C%60%0A%C3%A9%3E\nfetchmill/{version}\nidentity\n1\n-"
            )
        );
        let (_, kept) = call(&http2, "/", b"12345").await;
        assert!(kept.body.starts_with(b"POST http://a.test:81/\n") && kept.body.ends_with(b"\n5 bytes"));
    });
}

#[test]
fn a_head_is_given_as_http_1_writes_it() {
    run(async {
        let http2 = connected(|_, mut answer| async move {
            let interim = Response::builder().status(103).header("link", "x").body(()).unwrap();
            answer.send_informational(interim).unwrap();
            reply(answer, ok().header("Content-Type", "text/x").header("a", "1").header("a", "2"), b"body");
        })
        .await;

        let (replied, kept) = call(&http2, "/", b"").await;

        let text = "HTTP/1.1 200 OK\r\ncontent-type: text/x\r\na: 1\r\na: 2\r\n\r\n";
        assert_eq!(String::from_utf8(kept.head.clone()).unwrap(), text);
        assert_eq!(kept.content_type.unwrap().in_head(&kept.head), b"text/x");
        assert_eq!(kept.body, b"body");
        let head = replied.unwrap().head;
        assert_eq!((head.status, head.framing, head.keep_alive), (200, Framing::EndOfStream, true));
    });
}

#[test]
fn each_request_gets_its_own_reply_whatever_their_order() {
    run(async {
        let http2 = connected(|request, answer| async move {
            let number: u64 = request.uri().path()[1..].parse().unwrap();
            sleep(200 + 97 * number % 50).await;
            reply(answer, ok().header("content-length", 1000), &[number as u8; 1000]);
        })
        .await;
        let http2 = Rc::new(http2);

        let tasks: Vec<_> = (0..200_u8)
            .map(|number| {
                let http2 = Rc::clone(&http2);
                spawn_local(async move {
                    let (replied, kept) = call(&http2, &format!("/{number}"), b"").await;
                    assert_eq!(replied.unwrap().head.framing, Framing::Length(1000));
                    assert_eq!(kept.body, [number; 1000]);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }

        assert_eq!(http2.replies(), 200);
    });
}

#[test]
fn what_a_server_allows_is_kept() {
    run(async {
        let most = Rc::new(Cell::new(0));
        let peak = Rc::clone(&most);
        let address = listen(move |stream| {
            let now = Rc::new(Cell::new(0));
            let peak = Rc::clone(&peak);
            let mut builder = Builder::new();
            builder.max_concurrent_streams(2);
            serve(stream, builder, move |_, answer| {
                let (now, peak) = (Rc::clone(&now), Rc::clone(&peak));
                async move {
                    now.set(now.get() + 1);
                    peak.set(peak.get().max(now.get()));
                    sleep(100).await;
                    now.set(now.get() - 1);
                    reply(answer, ok(), b"");
                }
            })
        })
        .await;
        let http2 = connect(address).await;
        call(&http2, "/", b"").await.0.unwrap();
        assert_eq!(http2.streams(), 2);

        let calls = async || call(&http2, "/", b"").await.0.unwrap();
        tokio::join!(calls(), calls(), calls(), calls());

        assert_eq!(most.get(), 2);
    });
}

#[test]
fn a_body_is_as_long_as_it_should_be() {
    run(async {
        let short = |_, answer| async move { reply(answer, ok().header("content-length", 9), b"some") };
        assert_eq!(broken(short).await.kind, FailureKind::Truncated);
        let long = |_, answer| async move { reply(answer, ok().header("content-length", 3), b"some") };
        assert_eq!(broken(long).await.kind, FailureKind::Truncated);
        let none = |_, answer| async move { reply(answer, Response::builder().status(204), b"some") };
        assert_eq!(broken(none).await.kind, FailureKind::Framing);
        let large = |_, answer| async move { reply(answer, ok().header("content-length", 100_001), b"") };
        assert_eq!(broken(large).await.kind, FailureKind::BodyTooLarge);
        let endless = |_, mut answer: Answer| async move {
            let mut stream = answer.send_response(ok().body(()).unwrap(), false).unwrap();
            while stream.send_data(Bytes::from_static(&[b'x'; 10_000]), false).is_ok() {
                sleep(0).await;
            }
        };
        assert_eq!(broken(endless).await.kind, FailureKind::BodyTooLarge);
    });
}

#[test]
fn a_stream_that_is_reset_leaves_the_others() {
    run(async {
        let http2 = connected(|request: ReceivedRequest, mut answer: Answer| async move {
            match request.uri().path() {
                "/refused" => answer.send_reset(Reason::REFUSED_STREAM),
                "/head" => answer.send_reset(Reason::INTERNAL_ERROR),
                "/calm" => answer.send_reset(Reason::ENHANCE_YOUR_CALM),
                "/body" => {
                    let mut stream = answer.send_response(ok().body(()).unwrap(), false).unwrap();
                    stream.send_data(Bytes::from_static(b"some"), false).unwrap();
                    sleep(20).await;
                    stream.send_reset(Reason::INTERNAL_ERROR);
                }
                _ => reply(answer, ok(), b"ok"),
            }
        })
        .await;

        for (path, kind, is_unanswered) in [
            ("/refused", FailureKind::Reset, true),
            ("/head", FailureKind::Reset, false),
            ("/calm", FailureKind::Reset, false),
            ("/body", FailureKind::Truncated, false),
        ] {
            let broken = call(&http2, path, b"").await.0.unwrap_err();
            assert_eq!((broken.kind, broken.is_unanswered), (kind, is_unanswered), "{path}");
        }

        assert!(!http2.is_closed());
        assert_eq!(call(&http2, "/", b"").await.1.body, b"ok");
    });
}

#[test]
fn a_connection_that_is_to_close_answers_what_it_has_taken() {
    run(async {
        let address = listen(|stream| async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let (_, answer) = connection.accept().await.unwrap().unwrap();
            connection.graceful_shutdown();
            spawn_local(async move {
                sleep(50).await;
                reply(answer, ok(), b"late");
            });
            while connection.accept().await.is_some() {}
        })
        .await;
        let http2 = connect(address).await;

        let second = async {
            sleep(20).await;
            call(&http2, "/", b"").await.0.unwrap_err()
        };
        let ((_, kept), second) = tokio::join!(call(&http2, "/", b""), second);

        assert_eq!(kept.body, b"late");
        assert_eq!((second.kind, second.is_unanswered), (FailureKind::Reset, true));
        assert!(http2.is_closed());
    });
}

#[test]
fn a_connection_that_breaks_ends_its_exchanges() {
    run(async {
        for (path, kind, is_unanswered) in
            [("/head", FailureKind::Reset, true), ("/body", FailureKind::Truncated, false)]
        {
            let address = listen(|stream| async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let (request, mut answer) = connection.accept().await.unwrap().unwrap();
                if request.uri().path() == "/body" {
                    let mut stream = answer.send_response(ok().body(()).unwrap(), false).unwrap();
                    stream.send_data(Bytes::from_static(b"some"), false).unwrap();
                    let _ = tokio::time::timeout(Duration::from_millis(50), connection.accept()).await;
                }
            })
            .await;
            let http2 = connect(address).await;

            let broken = call(&http2, path, b"").await.0.unwrap_err();

            assert_eq!((broken.kind, broken.is_unanswered), (kind, is_unanswered), "{path}");
            assert!(http2.is_closed());
            assert!(call(&http2, "/", b"").await.0.unwrap_err().is_unanswered);
        }
    });
}

#[test]
fn a_deadline_resets_its_own_stream_only() {
    run(async {
        let reset = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&reset);
        let http2 = connected(move |request: ReceivedRequest, mut answer: Answer| {
            let seen = Rc::clone(&seen);
            async move {
                if request.uri().path() == "/slow" {
                    let reason = poll_reset(&mut answer).await;
                    seen.borrow_mut().push(reason);
                } else {
                    sleep(100).await;
                    reply(answer, ok(), b"ok");
                }
            }
        })
        .await;
        let (authority, fields) = (Authority::from_static("a.test"), HeaderMap::new());
        let slow = Http2Request {
            method: "GET",
            is_tls: true,
            authority: &authority,
            path: "/slow",
            fields: &fields,
            body: b"",
            has_range: false,
        };
        let (watch, clock) = watch(Duration::from_millis(10));
        let mut kept = KeptBody::default();

        let tick = async {
            sleep(20).await;
            clock.set(20);
            watch.check();
        };
        let mut moments = ExchangeTimes::default();
        let exchange = http2.exchange(&slow, &mut kept, &watch, MAX_BODY, &mut moments);
        let (late, ()) = tokio::join!(exchange, tick);
        assert_eq!(late.unwrap_err().kind, FailureKind::HeadTimeout);
        watch.start();
        let dropped = http2.exchange(&slow, &mut kept, &watch, MAX_BODY, &mut moments);
        tokio::time::timeout(Duration::from_millis(20), dropped).await.unwrap_err();
        let (_, kept) = call(&http2, "/", b"").await;

        assert_eq!(kept.body, b"ok");
        assert_eq!(*reset.borrow(), [Reason::CANCEL, Reason::CANCEL]);
    });
}

async fn poll_reset(answer: &mut Answer) -> Reason {
    std::future::poll_fn(|context| answer.poll_reset(context)).await.unwrap()
}

#[test]
fn heads_obey_the_rules_of_http_1() {
    run(async {
        let line = "x".repeat(17_000);
        let many = (0..5).map(|_| line[..16_000].to_owned()).collect::<Vec<_>>();
        let kind = async |status: u16, values: Vec<String>| {
            broken(move |_, answer| {
                let mut head = Response::builder().status(status);
                for (number, value) in values.iter().enumerate() {
                    head = head.header(format!("x-{number}"), value);
                }
                async move { reply(answer, head, b"") }
            })
            .await
            .kind
        };

        assert_eq!(kind(206, Vec::new()).await, FailureKind::Framing);
        assert_eq!(kind(200, vec![line]).await, FailureKind::HeadTooLarge);
        assert_eq!(kind(200, vec!["1".to_owned(); 129]).await, FailureKind::HeadTooLarge);
        // The head exceeds the announced limit, so it is refused without being read.
        assert_eq!(kind(200, many).await, FailureKind::Framing);
    });
}

#[test]
fn interim_replies_are_bounded() {
    run(async {
        let endless = |_, mut answer: Answer| async move {
            while answer.send_informational(Response::builder().status(103).body(()).unwrap()).is_ok() {
                sleep(1).await;
            }
        };

        assert_eq!(broken(endless).await.kind, FailureKind::HeadTooLarge);
    });
}

#[test]
fn a_server_that_speaks_something_else_breaks_the_connection() {
    run(async {
        let address = listen(|mut stream| async move {
            send(&mut stream, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        })
        .await;
        let http2 = connect(address).await;

        let broken = call(&http2, "/", b"").await.0.unwrap_err();

        assert_eq!((broken.kind, broken.is_unanswered), (FailureKind::Reset, false));
        assert!(http2.is_closed());
    });
}

#[test]
fn a_connection_that_is_dropped_is_closed() {
    run(async {
        let is_closed = Rc::new(Cell::new(false));
        let closed = Rc::clone(&is_closed);
        let address = listen(move |stream| {
            let closed = Rc::clone(&closed);
            async move {
                serve(stream, Builder::new(), |_, answer| async move { reply(answer, ok(), b"") }).await;
                closed.set(true);
            }
        })
        .await;
        let http2 = connect(address).await;
        call(&http2, "/", b"").await.0.unwrap();

        drop(http2);
        sleep(50).await;

        assert!(is_closed.get());
    });
}

#[test]
fn many_small_replies_do_not_end_the_connection() {
    run(async {
        let http2 = connected(|_, mut answer: Answer| async move {
            let mut stream = answer.send_response(ok().body(()).unwrap(), false).unwrap();
            for _ in 0..20 {
                stream.send_data(Bytes::from_static(b"12345"), false).unwrap();
            }
            stream.send_data(Bytes::new(), true).unwrap();
        })
        .await;

        for _ in 0..3000 {
            assert_eq!(call(&http2, "/", b"").await.1.body.len(), 100);
        }
    });
}

#[test]
fn it_runs_inside_tls() {
    run(async {
        let authority = CertificateAuthority::new();
        let mut config = authority.sign(&["a.test"]).config();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let address = listen_tls(config, |stream| {
            serve(stream, Builder::new(), |_, answer| async move { reply(answer, ok(), b"ok") })
        })
        .await;
        let stream = TcpStream::connect(address).await.unwrap();
        let (stream, alpn) = authority.client(true).start(stream, "a.test", PATIENCE).await.unwrap();
        assert_eq!(alpn, Alpn::Http2);

        let http2 = Http2Connection::start(stream).await.unwrap();

        assert_eq!(call(&http2, "/", b"").await.1.body, b"ok");
    });
}
