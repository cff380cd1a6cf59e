//! A listener, and the threads that serve its connections.
//!
//! Each thread has its own current-thread runtime. The first thread accepts connections and assigns them in turn, so
//! that all threads serve the same number of connections. All threads end when the first one does.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// Pause after a failed accept. The process is out of descriptors or memory, so retrying immediately would only waste
/// CPU time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The serving threads. They end when this is dropped.
pub(crate) struct Threads {
    /// Tells the first thread to end when dropped.
    stop: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads. `serve` gets the index of a thread, and returns the function that serves a connection.
    pub(crate) fn start<S, F>(
        name: &str,
        count: usize,
        listener: TcpListener,
        serve: impl Fn(usize) -> S,
    ) -> Result<Threads, Error>
    where
        S: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let mut threads = Threads { stop: Some(stop), threads: Vec::new() };
        let mut others = Vec::new();
        for position in 1..count {
            let (sender, sockets) = mpsc::unbounded_channel();
            others.push(sender);
            let serve = serve(position);
            threads.thread(format!("{name}-{position}"), move |runtime| {
                runtime.block_on(receive(sockets, serve));
            })?;
        }
        let serve = serve(0);
        threads.thread(format!("{name}-0"), move |runtime| {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, serve, others) => {}
                }
            });
        })?;
        Ok(threads)
    }

    fn thread(&mut self, name: String, run: impl FnOnce(&Runtime) + Send + 'static) -> Result<(), Error> {
        let runtime =
            Builder::new_current_thread().enable_io().enable_time().build().map_err(Error::Thread)?;
        let body = move || {
            run(&runtime);
            // Dropping the runtime drops its tasks, which closes their connections.
            drop(runtime);
        };
        self.threads.push(std::thread::Builder::new().name(name).spawn(body).map_err(Error::Thread)?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

/// Listens on a host and port. Returns the listener and its address.
pub(crate) fn listen(host: &str, port: u16) -> Result<(TcpListener, SocketAddr), Error> {
    let listen_error = |source| Error::Listen { host: host.to_owned(), port, source };
    let listener = listen_on_any(host, port).map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    Ok((listener, address))
}

fn listen_on_any(host: &str, port: u16) -> io::Result<TcpListener> {
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

/// Accepts connections forever. Assigns them to the threads in turn, starting with this one.
async fn accept<F>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> F,
    others: Vec<mpsc::UnboundedSender<std::net::TcpStream>>,
) where
    F: Future<Output = ()> + Send + 'static,
{
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
            start(stream, &serve);
        } else if let Ok(stream) = stream.into_std() {
            // The receiver lives as long as this thread.
            let _ = others[turn - 1].send(stream);
        }
    }
}

/// Serves the connections that it receives until the sender is dropped.
async fn receive<F>(mut sockets: mpsc::UnboundedReceiver<std::net::TcpStream>, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    while let Some(stream) = sockets.recv().await {
        if let Ok(stream) = TcpStream::from_std(stream) {
            start(stream, &serve);
        }
    }
}

fn start<F>(stream: TcpStream, serve: &impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    // An error here would only make replies slower.
    let _ = stream.set_nodelay(true);
    tokio::spawn(serve(stream));
}
