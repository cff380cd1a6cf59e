//! A connection. It reads the available bytes, answers all complete requests in them, and writes the replies together.
//!
//! A request that has a body or must wait is handled separately. Its head is kept until it has been answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::failure::Failure;
use super::head::{self, RequestHead};
use super::worker::{Arrival, StoreWorker};
use crate::request::BadRequest;

const READ_BYTES: usize = 8 * 1024;
/// Size at which replies are written, even if more requests are waiting.
const WRITE_BYTES: usize = 256 * 1024;
/// Size to which a connection's buffers shrink after a turn that needed more.
const BUFFER_BYTES_MAX: usize = 1024 * 1024;
/// Maximum size of a body in bytes.
const BODY_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Time limit for a client to read an error reply.
const LINGER: Duration = Duration::from_millis(500);

/// Next step of a connection after a request.
enum AfterRequest {
    Continue,
    Close,
}

/// Result of handling the requests in the input.
enum InputResult {
    /// All requests have been answered.
    All,
    /// The connection ends with the last reply.
    Last,
    /// A request, whose head has this length, needs more time. All requests before it have been answered.
    Slow(usize, Arrival),
}

struct StoreConnection {
    stream: TcpStream,
    worker: Arc<StoreWorker>,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Serves a connection until it ends. An error ends the connection and is not reported.
pub(crate) async fn serve(stream: TcpStream, worker: Arc<StoreWorker>) {
    worker.counters().connections.add(1);
    let input = Vec::with_capacity(READ_BYTES);
    let mut connection = StoreConnection { stream, worker, input, output: Vec::new() };
    while let Ok(AfterRequest::Continue) = connection.turn().await {}
}

impl StoreConnection {
    async fn turn(&mut self) -> std::io::Result<AfterRequest> {
        if self.stream.read_buf(&mut self.input).await? == 0 {
            return Ok(AfterRequest::Close);
        }
        loop {
            let (used, taken) = self.take();
            self.flush().await?;
            self.input.drain(..used);
            match taken {
                InputResult::All => break,
                InputResult::Last => {
                    self.linger().await?;
                    return Ok(AfterRequest::Close);
                }
                InputResult::Slow(length, arrival) => {
                    // Boxed, so that idle connections need no memory for this.
                    if let AfterRequest::Close = Box::pin(self.slowly(length, arrival)).await? {
                        return Ok(AfterRequest::Close);
                    }
                }
            }
        }
        self.input.shrink_to(BUFFER_BYTES_MAX);
        Ok(AfterRequest::Continue)
    }

    /// Answers the requests that can be answered immediately. Returns how many bytes were consumed.
    fn take(&mut self) -> (usize, InputResult) {
        let mut used = 0;
        while used < self.input.len() && self.output.len() < WRITE_BYTES {
            match head::parse(&self.input[used..]) {
                Ok(None) => break,
                Ok(Some((head, length))) => {
                    let arrival = self.worker.arrive(&head);
                    if head.length > 0 || head.expects || !arrival.delay.is_zero() {
                        return (used, InputResult::Slow(length, arrival));
                    }
                    self.worker.answer(&head, &Bytes::new(), arrival.now, &mut self.output);
                    used += length;
                    if !head.keep_alive {
                        return (used, InputResult::Last);
                    }
                }
                Err(refused) => {
                    let failure = match refused {
                        BadRequest::Malformed => Failure::new(
                            400,
                            "BadRequest",
                            "An error occurred when parsing the HTTP request.",
                        ),
                        BadRequest::TooLarge => Failure::new(
                            400,
                            "RequestHeaderSectionTooLarge",
                            "Your request header section is too large.",
                        ),
                    };
                    self.worker.refuse(&failure, &mut self.output);
                    return (used, InputResult::Last);
                }
            }
        }
        (used, InputResult::All)
    }

    /// Reads the body, waits, and answers.
    async fn slowly(&mut self, length: usize, arrival: Arrival) -> std::io::Result<AfterRequest> {
        let kept: Vec<u8> = self.input.drain(..length).collect();
        // The head has already been parsed once.
        let Ok(Some((head, _))) = head::parse(&kept) else { return Ok(AfterRequest::Close) };
        if head.length > BODY_BYTES_MAX {
            let failure = Failure::too_large("Your proposed upload exceeds the maximum allowed size");
            self.worker.refuse(&failure, &mut self.output);
            self.flush().await?;
            self.linger().await?;
            return Ok(AfterRequest::Close);
        }
        if head.expects {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if arrival.drops {
            self.read_body(head.length.div_ceil(2)).await?;
            self.worker.counters().dropped.add(1);
            // Errors can be ignored, because the connection ends either way.
            let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
            return Ok(AfterRequest::Close);
        }
        let body = self.read_body(head.length).await?;
        if !arrival.delay.is_zero() {
            tokio::time::sleep(arrival.delay).await;
        }
        self.reply_to(&head, &body, arrival).await
    }

    async fn reply_to(
        &mut self,
        head: &RequestHead<'_>,
        body: &Bytes,
        arrival: Arrival,
    ) -> std::io::Result<AfterRequest> {
        self.worker.answer(head, body, arrival.now, &mut self.output);
        self.flush().await?;
        Ok(if head.keep_alive { AfterRequest::Continue } else { AfterRequest::Close })
    }

    /// Reads a body of `length` bytes. Part of it may already have arrived.
    async fn read_body(&mut self, length: u64) -> std::io::Result<Bytes> {
        let length = length as usize;
        let mut body = Vec::with_capacity(length);
        body.extend(self.input.drain(..length.min(self.input.len())));
        let missing = (length - body.len()) as u64;
        if (&mut self.stream).take(missing).read_to_end(&mut body).await? < missing as usize {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(body.into())
    }

    /// Writes the replies.
    async fn flush(&mut self) -> std::io::Result<()> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output).await?;
            self.worker.counters().bytes_sent.add(self.output.len() as u64);
            self.output.clear();
            self.output.shrink_to(BUFFER_BYTES_MAX);
        }
        Ok(())
    }

    /// Stops sending but keeps reading for a while. Closing a socket with unread input would reset the connection, and
    /// the client might not see the reply.
    async fn linger(&mut self) -> std::io::Result<()> {
        self.stream.shutdown().await?;
        let mut sink = vec![0; 4096];
        let drain = async { while matches!(self.stream.read(&mut sink).await, Ok(1..)) {} };
        // A timeout is one of the two expected outcomes.
        let _ = tokio::time::timeout(LINGER, drain).await;
        Ok(())
    }
}
