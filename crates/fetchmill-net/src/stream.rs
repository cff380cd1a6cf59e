//! The byte stream of a connection, with or without TLS.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::idle_state::{IdleState, REPLY_START};
use super::local_port;

/// An open byte stream.
#[derive(Debug)]
pub enum ByteStream {
    /// Without TLS.
    Plain(TcpStream),
    /// Inside TLS.
    Tls(Box<TlsConnection>),
}

impl From<TcpStream> for ByteStream {
    fn from(stream: TcpStream) -> Self {
        ByteStream::Plain(stream)
    }
}

impl From<TlsStream<TcpStream>> for ByteStream {
    fn from(stream: TlsStream<TcpStream>) -> Self {
        ByteStream::Tls(Box::new(TlsConnection {
            stream: RefCell::new(stream),
            seen: Cell::new(IdleState::Quiet),
        }))
    }
}

impl Drop for ByteStream {
    fn drop(&mut self) {
        match self {
            ByteStream::Plain(stream) => local_port::give_back(stream),
            ByteStream::Tls(secured) => local_port::give_back(secured.stream.get_mut().get_ref().0),
        }
    }
}

impl ByteStream {
    /// Writes as many bytes as it can without blocking. Fails with `WouldBlock` if it cannot write any.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ByteStream::Plain(stream) => stream.try_write(bytes),
            ByteStream::Tls(secured) => {
                let mut context = Context::from_waker(Waker::noop());
                match Pin::new(secured.stream.get_mut()).poll_write(&mut context, bytes) {
                    Poll::Ready(written) => written,
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
        }
    }

    /// Returns whether written bytes are still buffered.
    pub(super) fn wants_flush(&self) -> bool {
        match self {
            ByteStream::Plain(_) => false,
            ByteStream::Tls(secured) => secured.stream.borrow().get_ref().1.wants_write(),
        }
    }

    pub(super) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            ByteStream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            ByteStream::Tls(secured) => Pin::new(secured.stream.get_mut()).poll_write(context, bytes),
        }
    }

    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            ByteStream::Plain(_) => Poll::Ready(Ok(())),
            ByteStream::Tls(secured) => Pin::new(secured.stream.get_mut()).poll_flush(context),
        }
    }

    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            ByteStream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            ByteStream::Tls(secured) => Pin::new(secured.stream.get_mut()).poll_read(context, buffer),
        }
    }

    /// Checks whether bytes arrived while the connection was unused. With TLS, this consumes the bytes. The connection
    /// is not used again after that, and every later check returns the same result.
    pub(super) fn look(&self) -> IdleState {
        match self {
            ByteStream::Plain(stream) => look_plain(stream),
            ByteStream::Tls(secured) => secured.look(),
        }
    }

    /// Returns `Ready` once bytes have arrived on the unused connection.
    pub(super) fn poll_input(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            ByteStream::Plain(stream) => poll_input_plain(stream, context),
            ByteStream::Tls(secured) => secured.poll_input(context),
        }
    }
}

/// Polls for input. tokio can report input that was already read, because it reports each packet while a single read
/// may return several.
fn poll_input_plain(stream: &TcpStream, context: &mut Context<'_>) -> Poll<()> {
    loop {
        ready!(stream.poll_read_ready(context).map(drop));
        if look_plain(stream) != IdleState::Quiet {
            return Poll::Ready(());
        }
        forget_readiness(stream);
    }
}

/// Clears tokio's readiness flag, so that tokio waits for new input.
fn forget_readiness(socket: &TcpStream) {
    let _ = socket.try_io(Interest::READABLE, || {
        let mut byte = [0_u8; 1];
        Ok(rustix::net::recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?)
    });
}

fn look_plain(stream: &TcpStream) -> IdleState {
    let mut start = [0_u8; REPLY_START.len()];
    match rustix::net::recv(stream, &mut start, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, 0)) => IdleState::Closed,
        Ok((_, count)) => IdleState::of(&start[..count.min(start.len())]),
        Err(rustix::io::Errno::WOULDBLOCK) => IdleState::Quiet,
        Err(_) => IdleState::Closed,
    }
}

/// A connection with TLS.
#[derive(Debug)]
pub struct TlsConnection {
    /// In a cell, so that it can be checked through a shared reference. Never borrowed across an await.
    stream: RefCell<TlsStream<TcpStream>>,
    /// Result of the check while the connection was unused.
    seen: Cell<IdleState>,
}

impl TlsConnection {
    fn look(&self) -> IdleState {
        if self.seen.get() == IdleState::Quiet {
            self.seen.set(look_inside(&mut self.stream.borrow_mut()));
        }
        self.seen.get()
    }

    /// Polls for input. Consumes session tickets and similar messages, which do not count as input.
    fn poll_input(&self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let is_ready = self.stream.borrow().get_ref().0.poll_read_ready(context).map(drop);
            ready!(is_ready);
            if self.look() != IdleState::Quiet {
                return Poll::Ready(());
            }
            // The bytes were read without tokio, so its readiness flag must be cleared.
            forget_readiness(self.stream.borrow().get_ref().0);
        }
    }
}

/// Reads directly from the socket, because tokio only sees input for which it has received a readiness event.
fn look_inside(stream: &mut TlsStream<TcpStream>) -> IdleState {
    let (socket, session) = stream.get_mut();
    loop {
        let mut start = [0_u8; REPLY_START.len()];
        match session.reader().read(&mut start) {
            Ok(0) => return IdleState::Closed,
            Ok(count) => return IdleState::of(&start[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return IdleState::Closed,
        }
        match session.read_tls(&mut SocketReader(socket)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return IdleState::Quiet,
            Err(_) => return IdleState::Closed,
            Ok(_) => {
                if session.process_new_packets().is_err() {
                    return IdleState::Closed;
                }
            }
        }
    }
}

/// Reads without blocking.
struct SocketReader<'a>(&'a TcpStream);

impl Read for SocketReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (_, count) = rustix::net::recv(self.0, buffer, RecvFlags::DONTWAIT)?;
        Ok(count)
    }
}
