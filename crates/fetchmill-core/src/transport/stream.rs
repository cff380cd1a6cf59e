//! The bytes of a connection, in the open or inside TLS.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::{REPLY_START, Unused};

/// A connection that has been made.
#[derive(Debug)]
pub enum Stream {
    /// In the open.
    Plain(TcpStream),
    /// Inside TLS.
    Tls(Box<Secured>),
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Stream::Plain(stream)
    }
}

impl From<TlsStream<TcpStream>> for Stream {
    fn from(stream: TlsStream<TcpStream>) -> Self {
        Stream::Tls(Box::new(Secured { stream: RefCell::new(stream), seen: Cell::new(Unused::Quiet) }))
    }
}

impl Stream {
    /// Writes what is taken at once: `WouldBlock` when that is nothing.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.try_write(bytes),
            Stream::Tls(secured) => {
                let mut context = Context::from_waker(Waker::noop());
                match Pin::new(secured.stream.get_mut()).poll_write(&mut context, bytes) {
                    Poll::Ready(written) => written,
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
        }
    }

    /// Whether something that was taken is not yet on its way.
    pub(super) fn wants_flush(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(secured) => secured.stream.borrow().get_ref().1.wants_write(),
        }
    }

    pub(super) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(secured) => Pin::new(secured.stream.get_mut()).poll_write(context, bytes),
        }
    }

    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(secured) => Pin::new(secured.stream.get_mut()).poll_flush(context),
        }
    }

    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(secured) => Pin::new(secured.stream.get_mut()).poll_read(context, buffer),
        }
    }

    /// Looks whether anything came while the connection was unused. What came inside TLS is taken: such a connection
    /// is not used again, whoever looks next is told the same.
    pub(super) fn look(&self) -> Unused {
        match self {
            Stream::Plain(stream) => look_plain(stream),
            Stream::Tls(secured) => secured.look(),
        }
    }

    /// Ready when something comes while the connection is unused.
    pub(super) fn poll_input(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Stream::Plain(stream) => stream.poll_read_ready(context).map(drop),
            Stream::Tls(secured) => secured.poll_input(context),
        }
    }
}

fn look_plain(stream: &TcpStream) -> Unused {
    let mut start = [0_u8; REPLY_START.len()];
    match rustix::net::recv(stream, &mut start, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, 0)) => Unused::Closed,
        Ok((_, count)) => Unused::of(&start[..count.min(start.len())]),
        Err(rustix::io::Errno::WOULDBLOCK) => Unused::Quiet,
        Err(_) => Unused::Closed,
    }
}

/// A connection inside TLS.
#[derive(Debug)]
pub struct Secured {
    /// Looked into from behind a shared reference, never across an await.
    stream: RefCell<TlsStream<TcpStream>>,
    /// What was found while the connection was unused.
    seen: Cell<Unused>,
}

impl Secured {
    fn look(&self) -> Unused {
        if self.seen.get() == Unused::Quiet {
            self.seen.set(look_inside(&mut self.stream.borrow_mut()));
        }
        self.seen.get()
    }

    /// Session tickets and the like are taken in passing: only what a look would tell is input.
    fn poll_input(&self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let is_ready = self.stream.borrow().get_ref().0.poll_read_ready(context).map(drop);
            ready!(is_ready);
            if self.look() != Unused::Quiet {
                return Poll::Ready(());
            }
            // The bytes were taken without asking tokio, so it has to be told that there are none.
            let stream = self.stream.borrow();
            let socket = stream.get_ref().0;
            let _ = socket.try_io(Interest::READABLE, || {
                let mut byte = [0_u8; 1];
                Ok(rustix::net::recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?)
            });
        }
    }
}

/// Takes what has come from the socket itself: tokio knows only what it has been told about.
fn look_inside(stream: &mut TlsStream<TcpStream>) -> Unused {
    let (socket, session) = stream.get_mut();
    loop {
        let mut start = [0_u8; REPLY_START.len()];
        match session.reader().read(&mut start) {
            Ok(0) => return Unused::Closed,
            Ok(count) => return Unused::of(&start[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Unused::Closed,
        }
        match session.read_tls(&mut Socket(socket)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Unused::Quiet,
            Err(_) => return Unused::Closed,
            Ok(_) => {
                if session.process_new_packets().is_err() {
                    return Unused::Closed;
                }
            }
        }
    }
}

/// Reads without waiting.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (_, count) = rustix::net::recv(self.0, buffer, RecvFlags::DONTWAIT)?;
        Ok(count)
    }
}
