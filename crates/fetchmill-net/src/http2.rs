//! An HTTP/2 connection that carries many concurrent requests.
//!
//! This module uses `h2` directly. Only the connection itself runs as a task. An exchange is a plain future, and
//! dropping it resets its stream. Replies follow the rules of `http1`: each head is converted to HTTP/1.1 form and
//! stored in that form.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::Write as _;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::header::HeaderMap;
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{HeaderName, HeaderValue, Method, Request, Response, Version};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use super::phases::ExchangeTimes;
use super::{BrokenExchange, Deadlines, IdleState, ReceivedReply, errno, tls};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::{BodySink, Framing, ReplyProgress, ReplyReader, escape_target, request_fields};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;

const NEEDS_HTTP1: &str = "the server requires HTTP/1.1 (HTTP_1_1_REQUIRED)";
/// Bytes that `http` rejects in a path, although HTTP/1.1 requests contain them unchanged.
const REFUSED_BYTES: &[u8] = b"<>`";

/// A request. The parts that all requests to an origin share are built once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Http2Request<'a> {
    /// Method, such as `GET`.
    pub(super) method: &'a str,
    /// Whether the scheme is `https`.
    pub(super) is_tls: bool,
    /// Host and port. The scheme's default port is omitted.
    pub(super) authority: &'a Authority,
    /// Encoded path and query.
    pub(super) path: &'a str,
    /// See [`Http2Connection::fields`].
    pub(super) fields: &'a HeaderMap,
    /// Body of the request.
    pub(super) body: &'a [u8],
    /// Whether the reply may be part of the object (206).
    pub(super) has_range: bool,
}

impl Http2Request<'_> {
    /// Returns the request in the form that `h2` needs. `None` if it is invalid, because the method is malformed or the
    /// path exceeds 64 KiB.
    fn request(&self) -> Option<Request<()>> {
        let mut path = Vec::with_capacity(self.path.len());
        escape_target(self.path.as_bytes(), REFUSED_BYTES, &mut path);
        let uri = Uri::builder()
            .scheme(if self.is_tls { Scheme::HTTPS } else { Scheme::HTTP })
            .authority(self.authority.clone())
            .path_and_query(PathAndQuery::from_maybe_shared(Bytes::from(path)).ok()?)
            .build()
            .ok()?;
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(self.method.as_bytes()).ok()?;
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.fields.clone();
        Some(request)
    }
}

/// An HTTP/2 connection, which is closed when dropped.
#[derive(Debug)]
pub(super) struct Http2Connection {
    sender: SendRequest<Bytes>,
    driver: AbortHandle,
    is_over: Rc<Cell<bool>>,
    replies: Cell<u64>,
    /// Buffer for heads.
    head: RefCell<Vec<u8>>,
}

impl Drop for Http2Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Http2Connection {
    /// Starts HTTP/2 on a stream for which the server selected it. Requires a local runtime, because a task transfers
    /// the bytes.
    pub(super) async fn start<S>(stream: S) -> std::result::Result<Self, FailureKind>
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let (sender, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(limits::HTTP2_STREAM_WINDOW)
            .initial_connection_window_size(limits::HTTP2_CONNECTION_WINDOW)
            .max_header_list_size(limits::HEAD_BYTES_MAX as u32)
            .initial_max_send_streams(limits::HTTP2_STREAMS_FIRST)
            .handshake(stream)
            .await
            .map_err(|error| kind_of(&error))?;
        let is_over = Rc::new(Cell::new(false));
        let ended = Rc::clone(&is_over);
        let driver = tokio::task::spawn_local(async move {
            // The error can be ignored, because each exchange learns why the connection ended.
            let _ = connection.await;
            ended.set(true);
        });
        Ok(Http2Connection {
            sender,
            driver: driver.abort_handle(),
            is_over,
            replies: Cell::new(0),
            head: RefCell::default(),
        })
    }

    /// Builds the header fields of an [`Http2Request`] from the defaults and `fields`.
    pub(super) fn fields(fields: &[(&str, &str)]) -> Result<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in request_fields(fields)? {
            let refused = || Error::Usage(format!("the header field {name} cannot be sent over HTTP/2"));
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
            let value = HeaderValue::from_str(value).map_err(|_| refused())?;
            map.append(name, value);
        }
        Ok(map)
    }

    /// Returns the number of complete replies so far.
    pub(super) fn replies(&self) -> u64 {
        self.replies.get()
    }

    /// Returns the maximum number of concurrent requests.
    pub(super) fn streams(&self) -> usize {
        self.sender.current_max_send_streams().min(limits::HTTP2_STREAMS_MAX)
    }

    /// Returns whether the connection accepts no more requests, because it broke or the server is closing it. Requests
    /// in flight may still be answered.
    pub(super) fn is_closed(&self) -> bool {
        self.is_over.get()
    }

    /// Sends a request and waits for the complete reply. Dropping this future resets only its own stream.
    pub(super) async fn exchange(
        &self,
        call: &Http2Request<'_>,
        body: &mut impl BodySink,
        watch: &Deadlines,
        max_body: u64,
        moments: &mut ExchangeTimes,
    ) -> std::result::Result<ReceivedReply, BrokenExchange> {
        let request = call
            .request()
            .ok_or(BrokenExchange::new(FailureKind::Framing, "the request cannot be sent over HTTP/2"))?;
        let mut sender = self.sender.clone();
        let sent = match within(watch, poll_fn(|context| sender.poll_ready(context))).await? {
            Ok(()) => sender.send_request(request, call.body.is_empty()),
            Err(error) => Err(error),
        };
        let (response, mut outgoing) = sent.map_err(|error| self.failed(&error, false))?;
        if !call.body.is_empty() {
            outgoing
                .send_data(Bytes::copy_from_slice(call.body), true)
                .map_err(|error| self.failed(&error, false))?;
        }
        moments.sent();
        let (head, mut incoming) = self.head(response, watch, moments).await?.into_parts();
        let mut reader = ReplyReader::of_frames(max_body);
        if call.has_range {
            reader.start_partial();
        }
        self.read_head(&head, &mut reader, body)?;
        // Dropping an unfinished stream resets it.
        let is_cut = !self.read_body(&mut incoming, &mut reader, body, watch).await?;
        let head = *reader
            .head()
            .ok_or(BrokenExchange::new(FailureKind::Framing, "the server sent a reply without a head"))?;
        self.replies.set(self.replies.get() + 1);
        Ok(ReceivedReply { head, is_cut, surplus: IdleState::Quiet })
    }

    /// Returns the final head, skipping interim ones.
    async fn head(
        &self,
        mut response: ResponseFuture,
        watch: &Deadlines,
        moments: &mut ExchangeTimes,
    ) -> std::result::Result<Response<RecvStream>, BrokenExchange> {
        let mut interim = 0;
        let received = poll_fn(|context| {
            while let Poll::Ready(Some(Ok(_))) = response.poll_informational(context) {
                moments.came();
                interim += 1;
                if interim > limits::INTERIM_REPLIES_MAX {
                    return Poll::Ready(Err(BrokenExchange::new(
                        FailureKind::HeadTooLarge,
                        "too many interim replies",
                    )));
                }
            }
            Pin::new(&mut response).poll(context).map_err(|error| self.failed(&error, false))
        });
        let head = within(watch, received).await?;
        if head.is_ok() {
            moments.came();
        }
        head
    }

    /// Passes the head to the reader in HTTP/1.1 form.
    fn read_head(
        &self,
        head: &http::response::Parts,
        reader: &mut ReplyReader,
        body: &mut impl BodySink,
    ) -> std::result::Result<(), BrokenExchange> {
        let mut text = self.head.borrow_mut();
        text.clear();
        let reason = head.status.canonical_reason().unwrap_or_default();
        // Writing to memory cannot fail.
        let _ = write!(text, "HTTP/1.1 {} {reason}\r\n", head.status.as_str());
        for (name, value) in &head.headers {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        match reader.read(&text, body) {
            Ok(_) if reader.head().is_some() => Ok(()),
            Ok(_) => Err(BrokenExchange::new(FailureKind::Framing, "the server sent an invalid reply head")),
            Err(malformed) => Err(BrokenExchange::new(malformed.kind, malformed.reason)),
        }
    }

    /// Reads the body. Returns whether the sink wanted all of it, so that it was received completely.
    async fn read_body(
        &self,
        incoming: &mut RecvStream,
        reader: &mut ReplyReader,
        body: &mut impl BodySink,
        watch: &Deadlines,
    ) -> std::result::Result<bool, BrokenExchange> {
        if let Some(head) = reader.head().filter(|_| !incoming.is_end_stream()) {
            watch.body_begins(head);
            if head.framing != Framing::None && !body.wants_more() {
                return Ok(false);
            }
        }
        while let Some(piece) = within(watch, poll_fn(|context| incoming.poll_data(context))).await? {
            let piece = piece.map_err(|error| self.failed(&error, true))?;
            if piece.is_empty() {
                continue;
            }
            // This fails if the stream has ended, in which case the capacity is no longer needed.
            let _ = incoming.flow_control().release_capacity(piece.len());
            match reader.read(&piece, body) {
                Ok(ReplyProgress::Done { consumed }) if consumed < piece.len() => {
                    return Err(BrokenExchange::new(
                        FailureKind::Framing,
                        "the body is longer than announced",
                    ));
                }
                Ok(ReplyProgress::NeedMore { .. }) if !body.wants_more() && !incoming.is_end_stream() => {
                    return Ok(false);
                }
                Ok(_) => watch.body_goes_on(),
                Err(malformed) => return Err(BrokenExchange::new(malformed.kind, malformed.reason)),
            }
            if let Some(wait) = body.pause().filter(|_| !incoming.is_end_stream()) {
                watch.pause(wait).await;
            }
        }
        match reader.end_of_stream() {
            Ok(_) => Ok(true),
            Err(malformed) => Err(BrokenExchange::new(malformed.kind, malformed.reason)),
        }
    }

    /// Converts an error to the failure of the stream's target.
    fn failed(&self, error: &h2::Error, had_head: bool) -> BrokenExchange {
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        let is_of_connection = error.is_go_away() || error.is_io();
        if is_of_connection {
            self.is_over.set(true);
        }
        let kind = match had_head {
            true => FailureKind::Truncated,
            // `h2` rejected the head as malformed or too large.
            false if error.is_reset() && error.is_library() => FailureKind::Framing,
            false => kind_of(error),
        };
        let is_untouched = is_refused || is_of_connection;
        let alert = error.get_io().and_then(tls::alert::of_open).filter(|_| !had_head);
        let (kind, reason) = alert.unwrap_or((kind, kind.meaning()));
        let is_unanswered = !had_head && is_untouched && !error.is_library();
        if error.is_remote() && error.reason() == Some(Reason::HTTP_1_1_REQUIRED) {
            self.is_over.set(true);
            return BrokenExchange { kind, reason: NEEDS_HTTP1, is_unanswered, needs_http1: true };
        }
        BrokenExchange { is_unanswered, ..BrokenExchange::new(kind, reason) }
    }
}

/// Converts a connection error that occurred before the head arrived.
fn kind_of(error: &h2::Error) -> FailureKind {
    error.get_io().map_or(FailureKind::Reset, errno::of_open)
}

/// Waits for a step until a deadline of the watch passes. A complete step counts even if a deadline has passed in the
/// meantime.
async fn within<T>(
    watch: &Deadlines,
    step: impl Future<Output = T>,
) -> std::result::Result<T, BrokenExchange> {
    let mut step = pin!(step);
    poll_fn(|context| match step.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => match watch.poll_expired(context) {
            Some(kind) => Poll::Ready(Err(BrokenExchange::new(kind, kind.meaning()))),
            None => Poll::Pending,
        },
    })
    .await
}
