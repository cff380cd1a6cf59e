//! The name server, which uses UDP and TCP at the same port.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::spawn_local;

use super::names::{DnsAnswer, QueryTransport, WorldNames};
use super::stats::WorldCounters;
use crate::hash;

/// Maximum size of a query in bytes: one name and an extension.
const QUERY_MAX: usize = 4096;
/// Number of datagrams to answer before other tasks run.
const TURN: usize = 64;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Selects the share of datagrams that are lost. The same seed selects the same datagrams.
pub(super) struct DatagramLoss {
    share: f64,
    seed: u64,
    count: u64,
}

impl DatagramLoss {
    pub(super) fn new(share: f64, seed: u64) -> Self {
        DatagramLoss { share, seed, count: 0 }
    }

    fn takes_next(&mut self) -> bool {
        self.count += 1;
        self.share > 0.0 && hash::unit(hash::of_bytes(self.seed, &self.count.to_le_bytes())) < self.share
    }
}

/// Answers datagrams forever.
pub(super) async fn serve_datagrams(
    socket: UdpSocket,
    names: Rc<RefCell<WorldNames>>,
    mut loss: DatagramLoss,
    counters: Arc<WorldCounters>,
) {
    let socket = Rc::new(socket);
    let mut query = [0; QUERY_MAX];
    loop {
        for _ in 0..TURN {
            // An error is caused by a client that has disconnected, not by this socket.
            let Ok((length, client)) = socket.recv_from(&mut query).await else { continue };
            if loss.takes_next() {
                counters.datagram_lost();
                continue;
            }
            let answer = names.borrow_mut().answer(&query[..length], QueryTransport::Datagram);
            let Some(DnsAnswer { bytes, delay }) = answer else { continue };
            if delay.is_zero() {
                // If the client does not receive the answer, it repeats its query.
                let _ = socket.send_to(&bytes, client).await;
            } else {
                let socket = Rc::clone(&socket);
                spawn_local(async move {
                    tokio::time::sleep(delay).await;
                    let _ = socket.send_to(&bytes, client).await;
                });
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Answers connections forever.
pub(super) async fn serve_streams(listener: TcpListener, names: Rc<RefCell<WorldNames>>) {
    loop {
        match listener.accept().await {
            // If the connection breaks, nothing is left to do.
            Ok((stream, _)) => {
                let names = Rc::clone(&names);
                spawn_local(async move { converse(stream, names).await.ok() });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn converse(mut stream: TcpStream, names: Rc<RefCell<WorldNames>>) -> io::Result<()> {
    let mut query = [0; QUERY_MAX];
    loop {
        let length = usize::from(stream.read_u16().await?);
        if length > QUERY_MAX {
            return Ok(());
        }
        stream.read_exact(&mut query[..length]).await?;
        let answer = names.borrow_mut().answer(&query[..length], QueryTransport::Stream);
        let Some(DnsAnswer { mut bytes, delay }) = answer else { continue };
        tokio::time::sleep(delay).await;
        bytes.splice(0..0, (bytes.len() as u16).to_be_bytes());
        stream.write_all(&bytes).await?;
    }
}
