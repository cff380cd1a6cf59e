//! Tests of the transport against servers in this process. The tests control every byte that the servers send.

mod address_policy;
mod attempt;
mod connect;
mod cut;
mod http2;
mod pool;
mod proxy;
mod secured;
mod tls;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream as Served;

use super::{Deadlines, Http1Connection, Timeouts, Tls, TlsOptions, TlsRoots};

/// The maximum body size in these tests.
const MAX_BODY: u64 = 100_000;
const PATIENCE: Duration = Duration::from_secs(5);

/// A certificate authority for one test.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Creates a server certificate for `names`.
    fn sign(&self, names: &[&str]) -> Identity {
        self.sign_as(CertificateParams::new(owned(names)).unwrap())
    }

    fn sign_as(&self, mut params: CertificateParams) -> Identity {
        params.distinguished_name.push(rcgen::DnType::CommonName, "a server");
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity { certificate: certificate.der().clone(), key }
    }

    /// Returns options that trust only this authority.
    fn options(&self) -> (TlsOptions, NamedTempFile) {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &self.pem).unwrap();
        (TlsOptions { ca_file: Some(PathBuf::from(file.path())), ..TlsOptions::default() }, file)
    }

    /// Returns a client that trusts only this authority.
    fn client(&self, http2: bool) -> Tls {
        let (options, _file) = self.options();
        client(&TlsOptions { http2, ..options })
    }
}

fn client(options: &TlsOptions) -> Tls {
    Tls::new(&TlsRoots::load(options).unwrap(), options, None).unwrap()
}

/// A certificate and its key.
struct Identity {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Identity {
    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.serialize_der()).unwrap()
    }

    fn config(&self) -> ServerConfig {
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.private_key())
            .unwrap()
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Accepts connections and runs `serve` for each. The task ends with the runtime.
async fn listen<F, S>(serve: F) -> SocketAddr
where
    F: Fn(TcpStream) -> S + 'static,
    S: Future<Output = ()> + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::task::spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::task::spawn_local(serve(stream));
        }
    });
    address
}

/// Starts a server that accepts connections and sends nothing.
async fn listen_mute() -> SocketAddr {
    listen(|stream| async move {
        sleep(10_000).await;
        drop(stream);
    })
    .await
}

/// Accepts TLS connections. Failed handshakes are ignored, because the client reports them.
async fn listen_tls<F, S>(config: ServerConfig, serve: F) -> SocketAddr
where
    F: Fn(Served<TcpStream>) -> S + 'static,
    S: Future<Output = ()> + 'static,
{
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let serve = Rc::new(serve);
    listen(move |stream| {
        let (acceptor, serve) = (acceptor.clone(), Rc::clone(&serve));
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                serve(stream).await;
            }
        }
    })
    .await
}

/// Reads a request up to the end of its head.
async fn read_request(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(request).unwrap()
}

async fn send(stream: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    stream.flush().await.unwrap();
}

/// Closes the connection without sending a TLS `close_notify`.
fn cut(stream: Served<TcpStream>) {
    drop(stream.into_inner().0);
}

fn watch() -> Deadlines {
    let watch = Deadlines::new(Rc::new(Cell::new(0)), Timeouts::default());
    watch.start();
    watch
}

/// Runs one exchange. Returns the status and the body, or the failure.
async fn exchange(
    connection: &mut Http1Connection,
    request: &[u8],
) -> Result<(u16, Vec<u8>), super::BrokenExchange> {
    let scratch = RefCell::new(vec![0; 64 * 1024]);
    let mut body = Vec::new();
    connection.send(request)?;
    let replied = connection.receive(&mut body, &scratch, &watch()).await?;
    Ok((replied.head.status, body))
}

/// Creates a watch whose clock runs. The watch is checked every 10 ms.
fn ticking(timeouts: Timeouts) -> (Rc<Deadlines>, Rc<Cell<u64>>) {
    let clock = Rc::new(Cell::new(0));
    let watch = Rc::new(Deadlines::new(Rc::clone(&clock), timeouts));
    let (ticked, time) = (Rc::clone(&watch), Rc::clone(&clock));
    tokio::task::spawn_local(async move {
        let started = Instant::now();
        loop {
            sleep(10).await;
            time.set(started.elapsed().as_millis() as u64);
            ticked.check();
        }
    });
    (watch, clock)
}

/// Runs a test in a runtime like that of a worker.
fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .unwrap()
        .block_on(async { tokio::time::timeout(Duration::from_secs(20), test).await })
        .unwrap();
}

async fn sleep(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
