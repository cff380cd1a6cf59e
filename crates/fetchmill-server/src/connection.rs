//! A connection. It reads the available bytes, answers all complete requests in them, and writes the replies together.
//!
//! Each turn is one read and one write. The connections of a thread share buffers, so idle connections have none. A
//! connection keeps only the start of an incomplete request, and bytes that the kernel did not accept.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};

use crate::call::{CallResult, Continuation};
use crate::client_stream::ClientStream;
use crate::options::ActionName;
use crate::request;
use crate::stray::Stray;
use crate::worker::{Buffers, Worker};

/// Size of a thread's read buffer. It is large enough for a few thousand pipelined requests.
const READ_BYTES: usize = 64 * 1024;
/// Size at which replies are written, even if more requests are waiting.
const WRITE_BYTES: usize = 256 * 1024;
/// Size to which the output buffer shrinks after a reply that needed more.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Time limit for a client to read an error reply.
const LINGER: Duration = Duration::from_millis(500);

/// Resolution of timers. Shorter waits poll the clock.
const TIMER_STEP: Duration = Duration::from_millis(1);

thread_local! {
    static SCRATCH: RefCell<TurnBuffers> = RefCell::new(TurnBuffers {
        input: vec![0; READ_BYTES].into_boxed_slice(),
        output: Vec::new(),
        buffers: Buffers::default(),
    });
}

struct TurnBuffers {
    input: Box<[u8]>,
    output: Vec<u8>,
    buffers: Buffers,
}

/// A connection and the state that its last turn left.
pub(crate) struct Connection {
    pub(crate) stream: ClientStream,
    pub(crate) worker: Arc<Worker>,
    /// Input that is not answered yet: part of a request or, after a turn that ended early, any number of requests.
    unread: Vec<u8>,
    /// Whether the last turn ended early. If so, `unread` may contain complete requests.
    ended_early: bool,
    stray: Stray,
    /// Number of answered requests.
    pub(crate) answered: u64,
}

/// A turn after which the fast loop cannot continue.
pub(crate) struct Turn {
    /// Bytes that the kernel did not accept.
    pub(crate) rest: Vec<u8>,
    pub(crate) then: AfterTurn,
}

pub(crate) enum AfterTurn {
    Continue,
    Close,
    /// Close the connection although the client may still be sending.
    Linger,
    Later(Continuation),
}

/// Next step of a connection after a script.
pub(crate) enum AfterScript {
    Continue,
    Close,
    Reset,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.worker.counters().connections_closed.add(1);
    }
}

impl Connection {
    pub(crate) fn new(stream: ClientStream, worker: Arc<Worker>) -> Self {
        let stray = Stray::new(worker.shared.faults.stray(worker.shared.next_connection()));
        Connection { stream, worker, unread: Vec::new(), ended_early: false, stray, answered: 0 }
    }

    /// Makes the connection end with a reset.
    pub(crate) fn reset_at_end(&self) {
        // Errors can be ignored, because the connection ends either way.
        let _ = socket2::SockRef::from(self.stream.tcp()).set_linger(Some(Duration::ZERO));
    }

    /// Takes turns while each of them consists of a read and a complete write.
    pub(crate) fn turns(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Turn>> {
        SCRATCH.with_borrow_mut(|scratch| {
            loop {
                let length = ready!(self.fill(context, &mut scratch.input))?;
                scratch.output.clear();
                scratch.output.shrink_to(OUTPUT_BYTES_MAX);
                let input = &scratch.input[..length];
                let (used, then) = self.answer_all(input, &mut scratch.buffers, &mut scratch.output);
                self.keep(&input[used..]);
                self.stray.writing();
                let written = self.write_now(context, &scratch.output)?;
                let flushed = Pin::new(&mut self.stream).poll_flush(context)?.is_ready();
                let whole = flushed && written == scratch.output.len();
                if !(whole && matches!(then, AfterTurn::Continue)) || self.stray.is_armed() {
                    return Poll::Ready(Ok(Turn { rest: scratch.output[written..].to_vec(), then }));
                }
            }
        })
    }

    /// Copies the unread bytes to the input, followed by new bytes.
    fn fill(&mut self, context: &mut Context<'_>, input: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.ended_early {
            self.ended_early = false;
            input[..self.unread.len()].copy_from_slice(&self.unread);
            return Poll::Ready(Ok(self.unread.len()));
        }
        let mut buffer = ReadBuf::new(input);
        buffer.put_slice(&self.unread);
        // Use `poll_read` instead of `try_read`. After a short read, `poll_read` treats the socket as empty and does
        // not read again.
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        if buffer.filled().len() == self.unread.len() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Answers the requests in the input. Returns how many bytes were consumed.
    fn answer_all(
        &mut self,
        input: &[u8],
        buffers: &mut Buffers,
        output: &mut Vec<u8>,
    ) -> (usize, AfterTurn) {
        let mut used = 0;
        let mut answered = 0;
        let then = loop {
            if used == input.len() {
                break AfterTurn::Continue;
            }
            let request = match request::parse(&input[used..]) {
                Ok(Some((request, length))) => {
                    used += length;
                    request
                }
                Ok(None) => break AfterTurn::Continue,
                Err(refused) => {
                    self.worker.refuse(refused, output);
                    break AfterTurn::Linger;
                }
            };
            answered += 1;
            match self.worker.answer(&request, &mut self.stray, buffers, output) {
                CallResult::Done if output.len() < WRITE_BYTES => {}
                CallResult::Done => {
                    self.ended_early = true;
                    break AfterTurn::Continue;
                }
                CallResult::Last if request.body => break AfterTurn::Linger,
                CallResult::Last => break AfterTurn::Close,
                CallResult::Later(later) => {
                    self.ended_early = true;
                    break AfterTurn::Later(later);
                }
            }
        };
        self.answered += answered;
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

    /// Writes as many bytes as the kernel accepts without blocking.
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

    /// Sends all bytes. If the client does not accept any bytes within its timeout, resets the connection and drops the
    /// remaining bytes.
    pub(crate) async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !bytes.is_empty() {
            self.stray.writing();
        }
        let patience = self.worker.shared.client_timeout;
        while !bytes.is_empty() {
            let Ok(written) = tokio::time::timeout(patience, self.stream.write(bytes)).await else {
                self.reset_at_end();
                return Err(io::ErrorKind::TimedOut.into());
            };
            let written = written?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.worker.counters().bytes_sent.add(written as u64);
            bytes = &bytes[written..];
        }
        // The TLS session may still hold bytes that the kernel did not accept.
        tokio::time::timeout(patience, self.stream.flush()).await.unwrap_or_else(|late| Err(late.into()))
    }

    /// Records that the replies of a turn were sent.
    pub(crate) fn turn_sent(&mut self) {
        self.stray.turn_written();
    }

    /// Returns the time at which to send the stray reply, or `None` if there is none.
    pub(crate) fn stray_due(&self) -> Option<Instant> {
        self.stray.due()
    }

    /// Sends the stray reply now, unless it is too late.
    pub(crate) async fn send_stray(&mut self) -> io::Result<()> {
        let Some((reply, latest)) = self.stray.take() else { return Ok(()) };
        if Instant::now() > latest {
            self.worker.counters().strays_skipped.add(1);
            return Ok(());
        }
        self.send(&reply).await?;
        let counters = self.worker.counters();
        counters.faults[ActionName::Stray as usize].add(1);
        if Instant::now() > latest {
            counters.strays_late.add(1);
        }
        Ok(())
    }

    /// Waits until it is time to reply. If the stray reply is due before that, sends it.
    pub(crate) async fn wait_for_turn(&mut self, time: Duration) -> io::Result<()> {
        let end = Instant::now() + time;
        if let Some(due) = self.stray.due()
            && due < end
        {
            self.wait(due.saturating_duration_since(Instant::now())).await?;
            self.send_stray().await?;
        }
        self.wait(end.saturating_duration_since(Instant::now())).await
    }

    /// Waits for the stray reply if there is one, sends it, and ends the connection.
    pub(crate) async fn end(&mut self) -> io::Result<()> {
        if let Some(due) = self.stray.due() {
            self.wait(due.saturating_duration_since(Instant::now())).await?;
            self.send_stray().await?;
        }
        if self.stream.announces_end() {
            self.stream.shutdown().await?;
        }
        Ok(())
    }

    /// Handles a client that did not send its next request in time. If part of the request has arrived, the client gets
    /// an error reply.
    pub(crate) async fn time_out(&mut self) -> io::Result<()> {
        if self.unread.is_empty() {
            return Ok(());
        }
        let mut reply = Vec::new();
        self.worker.time_out(&mut reply);
        self.send(&reply).await?;
        self.linger().await
    }

    /// Waits for `time`. Fails if the client disconnects in the meantime. Otherwise, thousands of disconnected clients
    /// would keep their sockets.
    pub(crate) async fn wait(&self, time: Duration) -> io::Result<()> {
        if time < TIMER_STEP {
            let end = Instant::now() + time;
            while Instant::now() < end {
                tokio::task::yield_now().await;
            }
            return Ok(());
        }
        let sleep = tokio::time::sleep(time);
        tokio::pin!(sleep);
        tokio::select! {
            biased;
            () = &mut sleep => return Ok(()),
            ready = self.stream.tcp().ready(Interest::READABLE) => if ready?.is_read_closed() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            },
        }
        // The client has sent more bytes. From here on, a disconnect is noticed only at the end of the wait.
        sleep.await;
        Ok(())
    }

    /// Stops sending but keeps reading for a while. Closing a socket with unread input would reset the connection, and
    /// the client might not see the reply.
    pub(crate) async fn linger(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        // Allocated on the heap, because this future is part of every connection, including idle ones.
        let mut sink = vec![0; 4096];
        let drain = async { while matches!(self.stream.read(&mut sink).await, Ok(1..)) {} };
        // A timeout is one of the two expected outcomes.
        let _ = tokio::time::timeout(LINGER, drain).await;
        Ok(())
    }
}
