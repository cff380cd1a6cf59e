//! Tests of proxies: the URLs that users give, and requests for a tunnel.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, copy_bidirectional};
use tokio::net::TcpStream;

use super::{Authority, MAX_BODY, PATIENCE, exchange, listen, listen_tls, read_request, run, send, sleep};
use crate::proxy::tunnel;
use crate::{Http1Connection, Proxy};
use fetchmill_model::outcome::FailureKind;

fn proxy(text: &str) -> Proxy {
    Proxy::parse(text).unwrap()
}

/// Requests a tunnel from a proxy that replies with `answer`.
async fn asked(answer: &'static [u8]) -> Result<(), FailureKind> {
    let address = listen(move |mut stream| async move {
        read_request(&mut stream).await;
        send(&mut stream, answer).await;
        sleep(10_000).await;
    })
    .await;
    ask(address, PATIENCE).await
}

async fn ask(address: SocketAddr, timeout: Duration) -> Result<(), FailureKind> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    tunnel(&mut stream, "a.test", 443, &proxy("http://p"), timeout).await
}

#[test]
fn a_proxy_is_what_a_user_writes() {
    let odd = proxy("http://a+b:!$&'()*,;=-._~@p");
    assert_eq!(odd.authorization(), Some("Basic YStiOiEkJicoKSosOz0tLl9+"));
    let full = proxy("http://us%3Aer:pass%25@[::1]:3128/");
    assert_eq!((full.host.as_str(), full.port), ("::1", 3128));
    assert_eq!(full.authorization(), Some("Basic dXM6ZXI6cGFzcyU="));
    assert!(!format!("{full:?}").contains("dXM6"));

    let plain = proxy("http://Proxy.test");
    assert_eq!((plain.host.as_str(), plain.port, plain.authorization()), ("proxy.test", 80, None));
    // curl also accepts this form.
    let bare = proxy("localhost:3128");
    assert_eq!((bare.host.as_str(), bare.port), ("localhost", 3128));
}

#[test]
fn what_is_no_proxy_is_refused_without_its_password() {
    for (text, why) in [
        ("", "not a URL"),
        ("user@", "not a URL"),
        ("https://u:canary@p:1", "the scheme https is not supported"),
        ("socks4://u:canary@p:1", "the scheme socks4 is not supported"),
        ("socks5://:canary@p:1", "needs a user name"),
        ("socks5://u:canary@", "not a URL"),
        ("socks5h://u:canary%zz@p:1", "%25"),
        ("socks5h://u:canary@p:1/path", "a path"),
        ("socks5://u:canary@p%20q:1", "no host"),
        ("http://u:canary@p:1/path", "a path"),
        ("http://u:canary@p:1?query", "a query"),
        ("http://u:canary@p:port", "not a URL"),
        ("http://u:canary%zz@p:1", "%25"),
        ("http://u:canary\n@p:1", "a control character"),
    ] {
        let error = Proxy::parse(text).unwrap_err();
        let message = error.to_string();
        assert!(error.exit_code() == 2 && message.contains(why), "{text:?}: {message}");
        assert!(!message.contains("canary") && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn a_socks_proxy_is_what_a_user_writes() {
    let socks = proxy("socks5h://us%3Aer:pass@[::1]/");
    assert_eq!((socks.host.as_str(), socks.port, socks.is_socks()), ("::1", 1080, true));
    assert_eq!((socks.authorization(), socks.takes_addresses()), (None, false));
    assert!(!format!("{socks:?}").contains("pass"));
    let local = proxy("socks5://P.test:80");
    assert_eq!((local.host.as_str(), local.port, local.takes_addresses()), ("p.test", 80, true));
    assert!(!proxy("http://p").is_socks());
}

/// Requests a tunnel from a SOCKS proxy that replies to each message with the next of `answers`. Returns the result,
/// and the bytes that the proxy received.
async fn asked_socks(text: &str, answers: &'static [&'static [u8]]) -> (Result<(), FailureKind>, Vec<u8>) {
    let said = Rc::new(RefCell::new(Vec::new()));
    let heard = Rc::clone(&said);
    let address = listen(move |mut stream| {
        let heard = Rc::clone(&heard);
        async move {
            for answer in answers {
                let mut bytes = [0; 600];
                let count = stream.read(&mut bytes).await.unwrap_or_default();
                heard.borrow_mut().extend_from_slice(&bytes[..count]);
                send(&mut stream, answer).await;
            }
            // Closing the socket while it has unread data would reset the connection.
            sleep(10_000).await;
        }
    })
    .await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let ended = tunnel(&mut stream, "a.test", 443, &proxy(text), Duration::from_millis(300)).await;
    drop(stream);
    let said = said.borrow().clone();
    (ended, said)
}

#[test]
fn a_socks_proxy_leads_to_the_origin_or_says_why_not() {
    use FailureKind::{ConnectTimeout, Proxy, ProxyRefused};
    const FREE: &[u8] = b"\x05\x00";
    const ASKS: &[u8] = b"\x05\x02";
    const LEADS: &[u8] = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50";
    run(async {
        let (ended, said) = asked_socks("socks5h://p", &[FREE, LEADS]).await;
        assert_eq!(ended, Ok(()));
        assert_eq!(said, b"\x05\x01\x00\x05\x01\x00\x03\x06a.test\x01\xbb");
        let (ended, said) = asked_socks("socks5h://me:pass@p", &[ASKS, b"\x01\x00", LEADS]).await;
        assert_eq!(ended, Ok(()));
        assert!(said.starts_with(b"\x05\x01\x02\x01\x02me\x04pass\x05\x01\x00\x03"), "{said:?}");
        let cases: &[(&str, &'static [&'static [u8]], FailureKind)] = &[
            ("socks5h://p", &[b"\x05\xff"], ProxyRefused),
            ("socks5h://p", &[ASKS], ProxyRefused),
            ("socks5h://me:pass@p", &[FREE], ProxyRefused),
            ("socks5h://me:pass@p", &[ASKS, b"\x01\x01"], ProxyRefused),
            ("socks5h://p", &[b"HTTP/1.1 400 Bad Request\r\n\r\n"], ProxyRefused),
            ("socks5h://p", &[b"\x04\x5a"], ProxyRefused),
            ("socks5h://p", &[FREE, b"\x05\x01\x00\x01"], Proxy),
            ("socks5h://p", &[FREE, b"\x05\x02\x00\x01"], ProxyRefused),
            ("socks5h://p", &[FREE, b"\x05\x05\x00\x01"], Proxy),
            ("socks5h://p", &[FREE, b"\x05\x08\x00\x01"], ProxyRefused),
            ("socks5h://p", &[FREE, b"\x05\x00\x00\x07"], ProxyRefused),
            ("socks5h://p", &[FREE, b"\x05\x00\x00\x03\xffshort"], ConnectTimeout),
            ("socks5h://p", &[], ConnectTimeout),
        ];
        for (text, answers, kind) in cases {
            assert_eq!(asked_socks(text, answers).await.0, Err(*kind), "{text} {answers:?}");
        }
    });
}

#[test]
fn a_tunnel_leads_to_the_origin_and_the_proxy_alone_gets_its_password() {
    run(async {
        let authority = Authority::new();
        let requests = Rc::new(RefCell::new(Vec::new()));
        let (at_origin, at_proxy) = (Rc::clone(&requests), Rc::clone(&requests));
        let origin = listen_tls(authority.sign(&["::1"]).config(), move |mut stream| {
            let requests = Rc::clone(&at_origin);
            async move {
                let request = read_request(&mut stream).await;
                requests.borrow_mut().push(request);
                send(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
                sleep(10_000).await;
            }
        })
        .await;
        let address = listen(move |mut stream| {
            let requests = Rc::clone(&at_proxy);
            async move {
                let request = read_request(&mut stream).await;
                requests.borrow_mut().push(request);
                send(&mut stream, b"HTTP/1.1 103 Wait\r\n\r\nHTTP/1.1 200 Made\r\nContent-Length: 0\r\n\r\n")
                    .await;
                let mut origin = TcpStream::connect(origin).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut origin).await;
            }
        })
        .await;

        let mut stream = TcpStream::connect(address).await.unwrap();
        tunnel(&mut stream, "::1", 8443, &proxy("http://u:p@p"), PATIENCE).await.unwrap();
        let (stream, _) = authority.client(false).start(stream, "::1", PATIENCE).await.unwrap();
        let mut connection = Http1Connection::new(stream.into(), MAX_BODY);
        let (_, body) = exchange(&mut connection, b"GET / HTTP/1.1\r\n\r\n").await.unwrap();

        assert_eq!(body, b"ok");
        assert_eq!(
            *requests.borrow(),
            [
                "CONNECT [::1]:8443 HTTP/1.1\r\nHost: [::1]:8443\r\nProxy-Authorization: Basic dTpw\r\n\r\n",
                "GET / HTTP/1.1\r\n\r\n"
            ]
        );
    });
}

#[test]
fn an_answer_that_makes_no_tunnel_says_whether_to_ask_again() {
    run(async {
        for (answer, kind) in [
            (&b"HTTP/1.1 407 Who are you\r\nContent-Length: 3\r\n\r\nwho"[..], FailureKind::ProxyRefused),
            (b"HTTP/1.1 403 No\r\n\r\n", FailureKind::ProxyRefused),
            (b"HTTP/1.1 302 Elsewhere\r\nLocation: http://a/\r\n\r\n", FailureKind::ProxyRefused),
            (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", FailureKind::Proxy),
            (b"HTTP/1.1 503 Busy\r\n\r\n", FailureKind::Proxy),
            (b"HTTP/1.1 429 Slowly\r\n\r\n", FailureKind::Proxy),
            (b"SSH-2.0-OpenSSH\r\n", FailureKind::ProxyRefused),
            (b"HTTP/1.1 200 OK\r\n\r\nfirst", FailureKind::ProxyRefused),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nfirst", FailureKind::ProxyRefused),
        ] {
            assert_eq!(asked(answer).await, Err(kind), "{}", String::from_utf8_lossy(answer));
        }
        for answer in
            [&b"HTTP/1.0 200 OK\r\n\r\n"[..], b"HTTP/1.1 204 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]
        {
            assert_eq!(asked(answer).await, Ok(()));
        }
    });
}

#[test]
fn an_endless_or_missing_answer_is_bounded() {
    run(async {
        let endless = listen(|mut stream| async move {
            read_request(&mut stream).await;
            send(&mut stream, b"HTTP/1.1 200 OK\r\n").await;
            let field = [&b"X: "[..], &[b'x'; 1000], b"\r\n"].concat();
            while tokio::io::AsyncWriteExt::write_all(&mut stream, &field).await.is_ok() {}
        })
        .await;
        assert_eq!(ask(endless, PATIENCE).await, Err(FailureKind::ProxyRefused));

        let silent = listen(|stream| async {
            sleep(10_000).await;
            drop(stream);
        })
        .await;
        assert_eq!(ask(silent, Duration::from_millis(50)).await, Err(FailureKind::ConnectTimeout));

        let closing = listen(|mut stream| async move { drop(read_request(&mut stream).await) }).await;
        assert_eq!(ask(closing, PATIENCE).await, Err(FailureKind::Reset));
    });
}

#[test]
fn no_host_leaves_its_line() {
    run(async {
        let address = listen(|stream| async { drop(stream) }).await;
        for host in ["", "a\r\nX: y", "a b", "a/b", "u@a", "a\0"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let made = tunnel(&mut stream, host, 443, &proxy("http://p"), PATIENCE).await;
            assert_eq!(made, Err(FailureKind::ProxyRefused), "{host:?}");
        }
    });
}
