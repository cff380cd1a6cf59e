//! Handles a connection before HTTP: it is accepted, closed, ignored, or passed to TLS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use super::behaviour::{Behaviour, Host};
use super::http::{ConnectionEnd, Site, wait};
use super::http2;
use super::state::{Scheme, WorldState};
use super::stats::CountedConnection;

/// Pause after a failed accept. The process is out of descriptors, so retrying immediately would only waste CPU time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Size of the buffer for a `ClientHello`. The buffer is on the heap, because otherwise the task of every connection
/// would need this memory.
const GREETING: usize = 4096;

/// Accepts connections forever at an address of a behaviour.
pub(super) async fn accept(
    listener: TcpListener,
    behaviour: Behaviour,
    scheme: Scheme,
    shared: Arc<WorldState>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                shared.counters.connection(behaviour);
                spawn_local(run(stream, behaviour, scheme, Arc::clone(&shared)));
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves a connection. Errors are ignored: if the connection breaks, the client has disconnected.
async fn run(mut stream: TcpStream, behaviour: Behaviour, scheme: Scheme, shared: Arc<WorldState>) {
    let mut visit = CountedConnection::new(&shared.counters);
    // An error here would only make replies slower.
    let _ = stream.set_nodelay(true);
    let site = Site { shared: &shared, behaviour, scheme };
    let _ = match (behaviour, scheme) {
        (Behaviour::Closing, _) => Ok(()),
        (Behaviour::Stalledtls, Scheme::Https) => wait(&mut stream).await.map(|_| ()),
        (Behaviour::Notls, Scheme::Https) => stream.read(&mut vec![0; GREETING]).await.map(|_| ()),
        (Behaviour::Plain, Scheme::Https) => refuse_tls(&mut stream).await,
        (_, Scheme::Http) => plain(stream, &site, &mut visit).await,
        (_, Scheme::Https) => secured(stream, &site, &mut visit).await,
    };
}

/// Answers the start of a TLS handshake as a plain HTTP server does.
async fn refuse_tls(stream: &mut TcpStream) -> io::Result<()> {
    // Read the whole `ClientHello`, because unread bytes would turn the end of the connection into a reset.
    let _ = stream.read(&mut vec![0; GREETING]).await?;
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await?;
    stream.shutdown().await?;
    wait(stream).await.map(|_| ())
}

async fn plain(mut stream: TcpStream, site: &Site<'_>, visit: &mut CountedConnection) -> io::Result<()> {
    if site.serve(&mut stream, visit).await? == ConnectionEnd::Reset {
        reset(&stream)?;
    }
    Ok(())
}

async fn secured(stream: TcpStream, site: &Site<'_>, visit: &mut CountedConnection) -> io::Result<()> {
    let mut stream = site.shared.acceptors.of(site.behaviour).accept(stream).await?;
    let session = stream.get_ref().1;
    visit.enter(session.server_name().and_then(Host::parse));
    if session.alpn_protocol() == Some(b"h2") {
        return http2::serve(stream, site).await;
    }
    match site.serve(&mut stream, visit).await? {
        ConnectionEnd::Closed => stream.shutdown().await,
        ConnectionEnd::Reset => reset(stream.get_ref().0),
    }
}

/// Makes the connection end with a reset when it is dropped.
fn reset(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}
