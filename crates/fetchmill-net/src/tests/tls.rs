//! Tests of handshakes: which certificates are trusted, and which failures are reported.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{HandshakeKind, ServerConfig};
use tokio::net::TcpStream;

use super::{
    Authority, Identity, PATIENCE, client, exchange, listen, listen_tls, owned, read_request, run, send,
    sleep,
};
use crate::{Alpn, Http1Connection, Tls, TlsOptions, TlsRoots, rejection_of};
use fetchmill_model::outcome::FailureKind;

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Performs a handshake with a server that has this certificate.
async fn handshake(tls: &Tls, identity: &Identity, host: &str) -> Result<Alpn, FailureKind> {
    let address = listen_tls(identity.config(), |_| async {}).await;
    tls.start(connect(address).await, host, PATIENCE).await.map(|(_, alpn)| alpn)
}

#[test]
fn a_certificate_of_the_authority_is_believed_for_its_names() {
    run(async {
        let authority = Authority::new();
        let identity = authority.sign(&["a.test", "*.b.test", "127.0.0.1", "::1"]);
        let tls = authority.client(true);

        for host in ["a.test", "A.test", "a.test.", "x.b.test", "127.0.0.1", "::1"] {
            assert_eq!(handshake(&tls, &identity, host).await, Ok(Alpn::Http1), "{host}");
        }
        for host in ["b.test", "x.y.b.test", "xa.test", "127.0.0.2"] {
            assert_eq!(handshake(&tls, &identity, host).await, Err(FailureKind::TlsWrongName), "{host}");
        }
    });
}

#[test]
fn certificates_that_are_not_believed_are_told_apart() {
    run(async {
        let authority = Authority::new();
        let tls = authority.client(true);
        let names = owned(&["a.test"]);
        let mut expired = CertificateParams::new(names.clone()).unwrap();
        expired.not_after = date_time_ymd(2020, 1, 1);
        let mut early = CertificateParams::new(names.clone()).unwrap();
        early.not_before = date_time_ymd(4000, 1, 1);
        let mut own_authority = CertificateParams::new(names.clone()).unwrap();
        own_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let self_signed = |params: CertificateParams| {
            let key = KeyPair::generate().unwrap();
            Identity { certificate: params.self_signed(&key).unwrap().der().clone(), key }
        };

        for (what, identity, kind) in [
            ("expired", authority.sign_as(expired), FailureKind::TlsExpired),
            ("not yet valid", authority.sign_as(early), FailureKind::TlsExpired),
            ("wrong name", authority.sign(&["b.test"]), FailureKind::TlsWrongName),
            ("no name", authority.sign(&[]), FailureKind::TlsWrongName),
            (
                "self-signed",
                self_signed(CertificateParams::new(names.clone()).unwrap()),
                FailureKind::TlsSelfSigned,
            ),
            ("self-signed authority", self_signed(own_authority.clone()), FailureKind::TlsSelfSigned),
            ("unknown authority", Authority::new().sign(&["a.test"]), FailureKind::TlsUnknownCa),
            ("an authority as a server", authority.sign_as(own_authority), FailureKind::TlsCertificate),
        ] {
            assert_eq!(handshake(&tls, &identity, "a.test").await, Err(kind), "{what}");
            let reason = rejection_of("a.test").unwrap_or_default();
            let words = match what {
                "expired" => "it expired at ",
                "not yet valid" => {
                    "it is not valid before 4000-01-01T00:00:00Z, but this machine's clock says 2"
                }
                "an authority as a server" => "its chain is not valid: CaUsedAsEndEntity",
                _ => "",
            };
            assert!(reason.starts_with(words), "{what}: {reason}");
        }
    });
}

#[test]
fn only_the_hosts_that_are_named_are_insecure() {
    run(async {
        let authority = Authority::new();
        let other = Authority::new().sign(&["c.test"]);
        let (options, _file) = authority.options();
        let tls = client(&TlsOptions { insecure_hosts: owned(&["A.test", "[::1]"]), ..options });

        for host in ["a.test", "a.TEST", "::1"] {
            assert_eq!(handshake(&tls, &other, host).await, Ok(Alpn::Http1), "{host}");
        }
        for host in ["c.test", "x.a.test", "127.0.0.1"] {
            assert_eq!(handshake(&tls, &other, host).await, Err(FailureKind::TlsUnknownCa), "{host}");
        }
    });
}

#[test]
fn a_server_that_does_not_hold_the_key_is_refused_on_an_insecure_host_too() {
    run(async {
        let authority = Authority::new();
        let (options, _file) = authority.options();
        let tls = client(&TlsOptions { insecure_hosts: owned(&["a.test"]), ..options });
        let identity = authority.sign(&["a.test"]);
        let mut config = identity.config();
        let key = authority.sign(&["a.test"]).private_key();
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
        let stolen = CertifiedKey::new(vec![identity.certificate.clone()], key);
        config.cert_resolver = Arc::new(Stolen(Arc::new(stolen)));
        let address = listen_tls(config, |_| async {}).await;

        let made = tls.start(connect(address).await, "a.test", PATIENCE).await;

        assert_eq!(made.map(drop), Err(FailureKind::Tls));
    });
}

/// A certificate whose key the server does not have.
#[derive(Debug)]
struct Stolen(Arc<CertifiedKey>);

impl ResolvesServerCert for Stolen {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

#[test]
fn a_handshake_that_breaks_is_no_failure_of_tls() {
    run(async {
        let tls = Authority::new().client(true);
        let start = async |address, timeout| {
            tls.start(connect(address).await, "a.test", timeout).await.map(drop).unwrap_err()
        };

        let closed = listen(|stream| async { drop(stream) }).await;
        assert_eq!(start(closed, PATIENCE).await, FailureKind::Reset);
        let silent = listen(|stream| async {
            sleep(10_000).await;
            drop(stream);
        })
        .await;
        assert_eq!(start(silent, Duration::from_millis(100)).await, FailureKind::TlsTimeout);
        let plain = listen(|mut stream| async move {
            send(&mut stream, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
            sleep(10_000).await;
        })
        .await;
        assert_eq!(start(plain, PATIENCE).await, FailureKind::Tls);
    });
}

#[test]
fn the_protocol_is_the_servers_choice_out_of_what_is_offered() {
    run(async {
        let authority = Authority::new();
        let mut config = authority.sign(&["a.test"]).config();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let address = listen_tls(config, |_| async {}).await;

        for (http2, alpn) in [(true, Alpn::Http2), (false, Alpn::Http1)] {
            let tls = authority.client(http2);
            let (_, chosen) = tls.start(connect(address).await, "a.test", PATIENCE).await.unwrap();
            assert_eq!(chosen, alpn);
        }
    });
}

#[test]
fn a_session_is_resumed() {
    run(async {
        let authority = Authority::new();
        let identity = authority.sign(&["a.test"]);
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let mut config = identity.config();
            config = ServerConfig::builder_with_provider(Arc::clone(config.crypto_provider()))
                .with_protocol_versions(&[version])
                .unwrap()
                .with_no_client_auth()
                .with_cert_resolver(Arc::clone(&config.cert_resolver));
            let address = listen_tls(config, |mut stream| async move {
                read_request(&mut stream).await;
                send(&mut stream, b"HTTP/1.1 204 No Content\r\n\r\n").await;
            })
            .await;
            let tls = authority.client(true);
            let mut kinds = Vec::new();
            for _ in 0..2 {
                let (stream, _) = tls.start(connect(address).await, "a.test", PATIENCE).await.unwrap();
                kinds.push(stream.get_ref().1.handshake_kind());
                let mut connection = Http1Connection::new(stream.into(), 0);
                assert_eq!(exchange(&mut connection, b"GET / HTTP/1.1\r\n\r\n").await.unwrap().0, 204);
            }

            assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)], "{version:?}");
        }
    });
}

#[test]
fn options_that_cannot_be_used_are_told_in_one_line() {
    let (options, file) = Authority::new().options();
    let message = |options: &TlsOptions| {
        let made = TlsRoots::load(options).and_then(|roots| Tls::new(&roots, options, None));
        let error = made.unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    };

    let host = TlsOptions { insecure_hosts: owned(&["https://a.test/\n"]), ..options.clone() };
    assert!(message(&host).starts_with("--insecure-host https://a.test/"), "{}", message(&host));
    assert_eq!(message(&host).lines().count(), 1);
    let missing = TlsOptions { ca_file: Some("/nowhere/ca.pem".into()), ..TlsOptions::default() };
    assert!(message(&missing).starts_with("--ca-file /nowhere/ca.pem: it cannot be read"));
    for (text, what) in [
        ("", "it has no certificate"),
        ("no PEM", "it has no certificate"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "it contains a damaged certificate",
        ),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n", "it is damaged"),
    ] {
        std::fs::write(file.path(), text).unwrap();
        assert!(message(&options).contains(what), "{text}: {}", message(&options));
        assert_eq!(message(&options).lines().count(), 1);
    }
    let endless = TlsOptions { ca_file: Some("/dev/zero".into()), ..TlsOptions::default() };
    assert!(message(&endless).contains("larger than"));
}

#[test]
fn a_system_has_authorities() {
    let roots = TlsRoots::load(&TlsOptions::default()).unwrap();

    assert!(Tls::new(&roots, &TlsOptions::default(), None).is_ok());
}
