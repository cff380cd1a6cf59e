//! A world of hosts for tests and measurements: a name server, and servers that show every behaviour found in a check
//! of a million sites. Everything is on loopback.
//!
//! Hosts are named `<behaviour>-<number>.test`, with any number; see [`Behaviour`]. Every behaviour has its own
//! addresses (127.77.N.1 and up). All addresses use the same two ports.
//!
//! # Layout, from the bottom up
//! - `behaviour` and `addresses` define what a host does and where it is; `options`; `stats` counts
//! - `names` answers queries, `head` reads requests, and `certificates` makes certificates
//! - `connection` handles connections until `http` or `http2` answers requests; `dns` moves datagrams
//! - `silence` provides hosts that do not answer, and `bound_sockets` binds all addresses
//! - `state` is shared by all threads
//!
//! # Example
//! ```
//! let world = fetchmill_server::world::World::start(&fetchmill_server::world::WorldOptions::default())?;
//! println!("https://good-000123.test:{}/, as {} says", world.https_port(), world.dns());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod addresses;
mod behaviour;
mod bound_sockets;
mod certificates;
mod connection;
mod dns;
mod head;
mod http;
mod http2;
mod names;
mod options;
mod silence;
mod state;
mod stats;

pub use behaviour::{Behaviour, Host};
pub use options::WorldOptions;
pub use stats::{BehaviourStats, HostStats, WorldStats};

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use socket2::Socket;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::error::Error;
use bound_sockets::{BoundSocket, BoundSockets};
use certificates::Acceptors;
use dns::DatagramLoss;
use names::WorldNames;
use state::WorldState;
use stats::WorldCounters;

/// A running world. It ends when it is stopped or dropped.
pub struct World {
    dns: SocketAddr,
    ca_pem: String,
    shared: Arc<WorldState>,
    /// Tell the threads to end when dropped.
    stops: Vec<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    held: Vec<Socket>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("World").field("dns", &self.dns).finish_non_exhaustive()
    }
}

/// Sockets and names of the name server.
struct NameServer {
    datagrams: UdpSocket,
    streams: TcpListener,
    names: WorldNames,
    loss: DatagramLoss,
}

impl World {
    /// Binds all addresses and starts serving.
    pub fn start(options: &WorldOptions) -> Result<World, Error> {
        options.check()?;
        let counters = Arc::new(WorldCounters::new(&options.watched));
        let (acceptors, ca_pem) = Acceptors::new().map_err(|error| Error::Certificates(error.to_string()))?;
        let places = BoundSockets::bind(options)?;
        let dns = places.dns().map_err(Error::Thread)?;
        let shared = Arc::new(WorldState {
            counters: Arc::clone(&counters),
            acceptors,
            http_port: places.http_port,
            https_port: places.https_port,
            retry_after: options.retry_after,
            timeout: options.timeout,
            seed: options.seed,
            busy: Mutex::default(),
        });
        let name_server = NameServer {
            datagrams: places.datagrams,
            streams: places.streams,
            names: WorldNames::new(&counters, options.addresses, options.dns_delay(), options.seed),
            loss: DatagramLoss::new(options.dns_loss, options.seed),
        };
        let held = places.held;
        let mut world = World { dns, ca_pem, shared, stops: Vec::new(), threads: Vec::new(), held };
        world.spawn(options.threads, places.serving, name_server).map_err(Error::Thread)?;
        Ok(world)
    }

    /// Returns the address of the name server.
    pub fn dns(&self) -> SocketAddr {
        self.dns
    }

    /// Returns the HTTP port, which is the same at all addresses.
    pub fn http_port(&self) -> u16 {
        self.shared.http_port
    }

    /// Returns the HTTPS port, which is the same at all addresses.
    pub fn https_port(&self) -> u16 {
        self.shared.https_port
    }

    /// Returns the PEM certificate of the authority that clients must trust.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Returns the counters so far.
    pub fn stats(&self) -> WorldStats {
        self.shared.counters.stats()
    }

    /// Closes all connections and waits for the threads to end.
    pub fn stop(self) {
        drop(self);
    }

    /// Starts the threads and assigns the addresses to them in turn. The first thread also runs the name server.
    fn spawn(&mut self, threads: usize, places: Vec<BoundSocket>, name_server: NameServer) -> io::Result<()> {
        let mut name_server = Some(name_server);
        let mut shares: Vec<Vec<BoundSocket>> = (0..threads).map(|_| Vec::new()).collect();
        for (position, place) in places.into_iter().enumerate() {
            shares[position % threads].push(place);
        }
        for (position, share) in shares.into_iter().enumerate() {
            self.thread(position, share, name_server.take())?;
        }
        Ok(())
    }

    fn thread(
        &mut self,
        position: usize,
        places: Vec<BoundSocket>,
        name_server: Option<NameServer>,
    ) -> io::Result<()> {
        let (stop, stopped) = oneshot::channel::<()>();
        let shared = Arc::clone(&self.shared);
        let (ready, started) = mpsc::channel();
        let body = move || {
            let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            // If the runtime could not be created, the channel is closed.
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                // The thread that starts the world is waiting for this.
                let _ = ready.send(serve(places, name_server, &shared));
                let _ = stopped.await;
            });
        };
        let name = format!("fetchmill-world-{position}");
        self.threads.push(std::thread::Builder::new().name(name).spawn(body)?);
        self.stops.push(stop);
        started.recv().unwrap_or_else(|_| Err(io::Error::other("it has no runtime")))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stops.clear();
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended as well.
            let _ = thread.join();
        }
        self.held.clear();
    }
}

/// Starts all tasks of a thread.
fn serve(
    places: Vec<BoundSocket>,
    name_server: Option<NameServer>,
    shared: &Arc<WorldState>,
) -> io::Result<()> {
    if let Some(NameServer { datagrams, streams, names, loss }) = name_server {
        let names = Rc::new(RefCell::new(names));
        let datagrams = tokio::net::UdpSocket::from_std(datagrams)?;
        let counters = Arc::clone(&shared.counters);
        spawn_local(dns::serve_datagrams(datagrams, Rc::clone(&names), loss, counters));
        spawn_local(dns::serve_streams(tokio::net::TcpListener::from_std(streams)?, names));
    }
    for BoundSocket { listener, behaviour, scheme } in places {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        spawn_local(connection::accept(listener, behaviour, scheme, Arc::clone(shared)));
    }
    Ok(())
}
