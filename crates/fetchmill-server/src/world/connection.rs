//! What happens to a connection before HTTP: accepted, closed, left alone, or led into TLS.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use super::behaviour::{Behaviour, Host};
use super::certificates::Acceptors;
use super::http::{End, Site, wait};
use super::http2;
use super::stats::{Diary, Visit};
use crate::hash;

/// When accepting fails there are no descriptors: trying again at once would only burn time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Room for the client's greeting of a handshake, on the heap: every connection would pay for it in its task.
const GREETING: usize = 4096;
/// Busy hosts that are remembered, 8 bytes each with some air: 32 MiB. Those above it are busy for ever.
const BUSY_MAX: usize = 1 << 21;
/// Share of the timeout that a slow host may need.
const SLOWNESS_MAX: f64 = 1.0 / 3.0;

/// The two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// What all threads know.
pub(super) struct Shared {
    pub(super) diary: Arc<Diary>,
    pub(super) acceptors: Acceptors,
    pub(super) http_port: u16,
    pub(super) https_port: u16,
    pub(super) retry_after: u32,
    pub(super) timeout: f64,
    pub(super) seed: u64,
    /// Numbers of the busy hosts that were asked.
    pub(super) busy: Mutex<HashSet<u64>>,
}

impl Shared {
    /// How long a slow host needs: always the same.
    pub(super) fn slowness(&self, host: Option<Host>) -> Duration {
        let number = host.map_or(0, |host| host.number);
        let share = hash::unit(hash::of_bytes(self.seed, &number.to_le_bytes()));
        Duration::from_secs_f64(share * self.timeout * SLOWNESS_MAX)
    }

    /// Whether a busy host has not been asked before.
    pub(super) fn is_first(&self, host: Option<Host>) -> bool {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let number = host.map_or(0, |host| host.number);
        let is_first = !busy.contains(&number);
        if is_first && busy.len() < BUSY_MAX {
            busy.insert(number);
        }
        is_first
    }
}

/// Accepts for ever at an address of a behaviour.
pub(super) async fn accept(listener: TcpListener, behaviour: Behaviour, scheme: Scheme, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                shared.diary.connection(behaviour);
                spawn_local(run(stream, behaviour, scheme, Arc::clone(&shared)));
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// A connection that breaks has ended: its client went away.
async fn run(mut stream: TcpStream, behaviour: Behaviour, scheme: Scheme, shared: Arc<Shared>) {
    let mut visit = Visit::new(&shared.diary);
    // Without it replies would only be slower.
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

/// As servers of plain HTTP do when they are greeted in TLS.
async fn refuse_tls(stream: &mut TcpStream) -> io::Result<()> {
    // The whole greeting at once: what is left unread would make a reset of the end.
    let _ = stream.read(&mut vec![0; GREETING]).await?;
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await?;
    stream.shutdown().await?;
    wait(stream).await.map(|_| ())
}

async fn plain(mut stream: TcpStream, site: &Site<'_>, visit: &mut Visit) -> io::Result<()> {
    if site.serve(&mut stream, visit).await? == End::Reset {
        reset(&stream)?;
    }
    Ok(())
}

async fn secured(stream: TcpStream, site: &Site<'_>, visit: &mut Visit) -> io::Result<()> {
    let mut stream = site.shared.acceptors.of(site.behaviour).accept(stream).await?;
    let session = stream.get_ref().1;
    visit.enter(session.server_name().and_then(Host::parse));
    if session.alpn_protocol() == Some(b"h2") {
        return http2::serve(stream, site).await;
    }
    match site.serve(&mut stream, visit).await? {
        End::Closed => stream.shutdown().await,
        End::Reset => reset(stream.get_ref().0),
    }
}

/// The connection will end with a reset when it is dropped.
fn reset(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}
