//! One connection: reads what has come, answers every complete request in it, writes all replies at once.
//!
//! A turn is one read and one write, with buffers that the connections of a thread share: an idle connection holds
//! no buffer. Only the start of a request that is not complete is kept, and what the kernel did not take.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::call::{Answer, Later};
use crate::request;
use crate::scripted;
use crate::worker::{Buffers, Worker};

/// The read buffer of a thread: some thousand pipelined requests.
const READ_BYTES: usize = 64 * 1024;
/// Replies are written when they have become this long, although more requests are there.
const WRITE_BYTES: usize = 256 * 1024;
/// The output buffer shrinks to this after a reply that needed more.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// A client that is told of its mistake gets this long to read it.
const LINGER: Duration = Duration::from_millis(500);

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        input: vec![0; READ_BYTES].into_boxed_slice(),
        output: Vec::new(),
        buffers: Buffers::default(),
    });
}

struct Scratch {
    input: Box<[u8]>,
    output: Vec<u8>,
    buffers: Buffers,
}

/// A connection and what is left over from its last turn.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) worker: Arc<Worker>,
    /// Input that is not answered: less than a request, or anything after a turn that ended early.
    unread: Vec<u8>,
    /// The last turn ended early, so `unread` may hold complete requests.
    ended_early: bool,
}

/// What follows a turn that the fast loop cannot go on from.
struct Turn {
    /// What the kernel did not take.
    rest: Vec<u8>,
    then: Then,
}

enum Then {
    Continue,
    Close,
    /// Close, but the client may be sending still.
    Linger,
    Later(Later),
}

/// How a connection goes on after a script.
pub(crate) enum Next {
    Continue,
    Close,
    Reset,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.worker.counters().connections_closed.add(1);
    }
}

/// Serves a connection to its end. Errors of the connection are its end, and nobody's business.
pub(crate) async fn serve(stream: TcpStream, worker: Arc<Worker>) {
    worker.counters().connections.add(1);
    let mut connection = Connection { stream, worker, unread: Vec::new(), ended_early: false };
    while let Ok(turn) = poll_fn(|context| connection.turns(context)).await {
        match connection.follow(turn).await {
            Ok(Next::Continue) => {}
            Ok(Next::Close) | Err(_) => break,
            Ok(Next::Reset) => {
                // Nothing can be done about an error: the connection ends either way.
                let _ = socket2::SockRef::from(&connection.stream).set_linger(Some(Duration::ZERO));
                break;
            }
        }
    }
}

impl Connection {
    /// Takes turns for as long as each one is a read and a complete write.
    fn turns(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Turn>> {
        SCRATCH.with_borrow_mut(|scratch| {
            loop {
                let length = ready!(self.fill(context, &mut scratch.input))?;
                scratch.output.clear();
                scratch.output.shrink_to(OUTPUT_BYTES_MAX);
                let input = &scratch.input[..length];
                let (used, then) = self.answer_all(input, &mut scratch.buffers, &mut scratch.output);
                self.keep(&input[used..]);
                let written = self.write_now(context, &scratch.output)?;
                let whole = written == scratch.output.len();
                if !(whole && matches!(then, Then::Continue)) {
                    return Poll::Ready(Ok(Turn { rest: scratch.output[written..].to_vec(), then }));
                }
            }
        })
    }

    /// Puts what is unread, and what comes, into the input.
    fn fill(&mut self, context: &mut Context<'_>, input: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.ended_early {
            self.ended_early = false;
            input[..self.unread.len()].copy_from_slice(&self.unread);
            return Poll::Ready(Ok(self.unread.len()));
        }
        let mut buffer = ReadBuf::new(input);
        buffer.put_slice(&self.unread);
        // poll_read, not try_read: after a short read it knows that the socket is empty, and does not ask again.
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        if buffer.filled().len() == self.unread.len() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Answers the requests of the input. Gives how much of it is done with.
    fn answer_all(&mut self, input: &[u8], buffers: &mut Buffers, output: &mut Vec<u8>) -> (usize, Then) {
        let mut used = 0;
        let mut answered = 0;
        let then = loop {
            if used == input.len() {
                break Then::Continue;
            }
            let request = match request::parse(&input[used..]) {
                Ok(Some((request, length))) => {
                    used += length;
                    request
                }
                Ok(None) => break Then::Continue,
                Err(refused) => {
                    self.worker.refuse(refused, output);
                    break Then::Linger;
                }
            };
            answered += 1;
            match self.worker.answer(&request, buffers, output) {
                Answer::Done if output.len() < WRITE_BYTES => {}
                Answer::Done => {
                    self.ended_early = true;
                    break Then::Continue;
                }
                Answer::Last if request.body => break Then::Linger,
                Answer::Last => break Then::Close,
                Answer::Later(later) => {
                    self.ended_early = true;
                    break Then::Later(later);
                }
            }
        };
        if answered > 1 {
            self.worker.counters().batches.add(1);
            self.worker.counters().batched_requests.add(answered);
        }
        (used, then)
    }

    fn keep(&mut self, unread: &[u8]) {
        self.ended_early &= !unread.is_empty();
        if unread.is_empty() && self.unread.capacity() > 0 {
            self.unread = Vec::new();
        } else if !unread.is_empty() {
            self.unread.clear();
            self.unread.extend_from_slice(unread);
        }
    }

    /// Writes what the kernel takes without waiting.
    fn write_now(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match Pin::new(&mut self.stream).poll_write(context, &bytes[written..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(length)) => written += length,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        self.worker.counters().bytes_sent.add(written as u64);
        Ok(written)
    }

    async fn follow(&mut self, turn: Turn) -> io::Result<Next> {
        self.send(&turn.rest).await?;
        drop(turn.rest);
        match turn.then {
            Then::Continue => Ok(Next::Continue),
            Then::Close => Ok(Next::Close),
            Then::Linger => {
                self.linger().await?;
                Ok(Next::Close)
            }
            // Boxed: an idle connection should not hold the room that a script needs.
            Then::Later(later) => Box::pin(scripted::carry_out(self, later)).await,
        }
    }

    /// Sends all bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !bytes.is_empty() {
            self.stream.write_all(bytes).await?;
            self.worker.counters().bytes_sent.add(bytes.len() as u64);
        }
        Ok(())
    }

    /// Waits. An error when the client goes away meanwhile: many thousands that have gone would keep their sockets.
    pub(crate) async fn wait(&self, time: Duration) -> io::Result<()> {
        let sleep = tokio::time::sleep(time);
        tokio::pin!(sleep);
        tokio::select! {
            biased;
            () = &mut sleep => return Ok(()),
            ready = self.stream.ready(Interest::READABLE) => if ready?.is_read_closed() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            },
        }
        // The client has sent more; from here on its going is noticed at the end only.
        sleep.await;
        Ok(())
    }

    /// Ends the sending and reads on for a while. A socket that is closed with unread input resets the connection,
    /// and the client might never see the reply.
    pub(crate) async fn linger(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        // On the heap: this future is part of every connection, also of an idle one.
        let mut sink = vec![0; 4096];
        let drain = async { while matches!(self.stream.read(&mut sink).await, Ok(1..)) {} };
        // Running out of time is one of the two expected ends.
        let _ = tokio::time::timeout(LINGER, drain).await;
        Ok(())
    }
}
