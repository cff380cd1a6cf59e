//! The server as a whole: its listener, its threads and their end.
//!
//! Each thread has a current-thread runtime of its own. The first one accepts and gives the connections out in
//! turn, so that all threads serve equally many. All threads end when the first one does.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use crate::connection;
use crate::content::Content;
use crate::error::Error;
use crate::folder::Folder;
use crate::options::{ContentOptions, Options, refuse};
use crate::shared::Shared;
use crate::stats::Stats;
use crate::synthetic::Synthetic;
use crate::worker::Worker;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// When accepting fails there are no descriptors or there is no memory: trying again at once would only burn time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running server. It ends when it is stopped or dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Dropping it tells the first thread to end.
    stop: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts to serve the content that the options name.
    pub fn start(options: &Options) -> Result<Server, Error> {
        options.check()?;
        let content: Arc<dyn Content> = match &options.content {
            None => return refuse("content must be given: a folder or synthetic".to_owned()),
            Some(ContentOptions::Folder(path)) => Arc::new(Folder::open(path)?),
            Some(ContentOptions::Synthetic { count, size }) => {
                Arc::new(Synthetic { count: *count, size: *size })
            }
        };
        Server::start_with(content, options)
    }

    /// Starts to serve some other content.
    pub fn start_with(content: Arc<dyn Content>, options: &Options) -> Result<Server, Error> {
        options.check()?;
        let shared = Arc::new(Shared::new(content, options)?);
        let listen_error = |source| Error::Listen { host: options.host.clone(), port: options.port, source };
        let listener = listen(&options.host, options.port).map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let (stop, stopped) = oneshot::channel();
        let mut server = Server { address, shared, stop: Some(stop), threads: Vec::new() };
        server.spawn(options.threads, listener, stopped).map_err(Error::Thread)?;
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Closes all connections and waits for the threads to end.
    pub fn stop(self) {
        drop(self);
    }

    fn spawn(
        &mut self,
        threads: usize,
        listener: TcpListener,
        stopped: oneshot::Receiver<()>,
    ) -> io::Result<()> {
        let mut others = Vec::new();
        for position in 1..threads {
            let (sender, sockets) = mpsc::unbounded_channel();
            others.push(sender);
            self.thread(position, move |runtime, worker| {
                runtime.block_on(receive(sockets, worker));
            })?;
        }
        self.thread(0, move |runtime, worker| {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, worker, others) => {}
                }
            });
        })
    }

    fn thread(
        &mut self,
        position: usize,
        run: impl FnOnce(&Runtime, Arc<Worker>) + Send + 'static,
    ) -> io::Result<()> {
        let worker = Arc::new(Worker::new(Arc::clone(&self.shared), position));
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let name = format!("fetchmill-serve-{position}");
        let body = move || {
            run(&runtime, worker);
            // Dropping the runtime drops its tasks, and so closes their connections.
            drop(runtime);
        };
        self.threads.push(std::thread::Builder::new().name(name).spawn(body)?);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

fn listen(host: &str, port: u16) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match listen_on(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts for ever and gives the connections out in turn, to this thread first.
async fn accept(
    listener: TcpListener,
    worker: Arc<Worker>,
    others: Vec<mpsc::UnboundedSender<std::net::TcpStream>>,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    for turn in (0..=others.len()).cycle() {
        let stream = loop {
            match listener.accept().await {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        };
        if turn == 0 {
            start(stream, &worker);
        } else if let Ok(stream) = stream.into_std() {
            // The receiver lives as long as this thread.
            let _ = others[turn - 1].send(stream);
        }
    }
}

/// Takes connections until there is nobody who sends any.
async fn receive(mut sockets: mpsc::UnboundedReceiver<std::net::TcpStream>, worker: Arc<Worker>) {
    while let Some(stream) = sockets.recv().await {
        if let Ok(stream) = TcpStream::from_std(stream) {
            start(stream, &worker);
        }
    }
}

fn start(stream: TcpStream, worker: &Arc<Worker>) {
    // Without it replies would only be slower.
    let _ = stream.set_nodelay(true);
    tokio::spawn(connection::serve(stream, Arc::clone(worker)));
}
