//! Requests to a store other than those for the objects of a job: the first contact, listing pages, and uploads. Any
//! number of requests can run concurrently, each on its own connection.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::Access;
use super::access::SignedOrigins;
use crate::attempt::Failure;
use fetchmill_model::error::Result;
use fetchmill_model::http1::{BodySink, Head, RequestParts};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::s3::{BucketAddress, BucketName};
use fetchmill_model::text::dates::parse_http_date;
use fetchmill_model::verdict::{ERROR_BYTES_MAX, StoreReply};
use fetchmill_net::certain::RestedConnection;
use fetchmill_net::{
    AddressPolicy, BrokenExchange, ConnectFailure, Connection, Deadlines, IoBuffers, Millis, Pool,
    PoolSettings, ReceivedReply, RequestTarget, Timeouts,
};

/// A request to a bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BucketRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) bucket: &'a BucketName,
    /// Key of the object. `None` addresses the bucket itself.
    pub(crate) key: Option<&'a [u8]>,
    /// Query in canonical form for signing: sorted, encoded, and with `=` in every parameter. It has no leading `?` and
    /// can be empty.
    pub(crate) query: &'a str,
    pub(crate) fields: &'a [(String, String)],
    pub(crate) body: Option<&'a [u8]>,
}

impl BucketRequest<'_> {
    /// Returns whether an error can follow a success status. This happens when the reply is a document that the store
    /// generates.
    pub(super) fn may_hide_error(&self) -> bool {
        self.key.is_none() || self.method == "POST"
    }
}

/// Reply to a request, or the reason why there is none.
pub(crate) type BucketAnswer = std::result::Result<BucketReply, Failure>;

/// Reply from a store. Its body is at most as large as a listing page.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct BucketReply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// ETag without its quotes.
    pub(crate) etag: Option<String>,
    /// Region of the bucket, if reported (`x-amz-bucket-region`).
    region: Option<String>,
    /// The store's time (`Date`), unparsed.
    date: Option<String>,
    /// Modification time according to the store's clock (`Last-Modified`), unparsed.
    modified: Option<String>,
    /// Region for which the request was signed.
    pub(super) signed_for: String,
    /// Delay requested by the store, in milliseconds.
    pub(crate) retry_after: Option<Millis>,
    head: Vec<u8>,
}

impl BodySink for BucketReply {
    fn head(&mut self, head: &Head, bytes: &[u8]) {
        self.status = head.status;
        self.head = bytes.to_vec();
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

impl BucketReply {
    /// Returns the parts of the reply that the verdict is based on.
    pub(super) fn facts(&self) -> StoreReply<'_> {
        StoreReply {
            start: &self.body[..self.body.len().min(ERROR_BYTES_MAX)],
            region: self.region.as_deref().map(str::as_bytes),
            date: self.date.as_deref().map(str::as_bytes),
            signed_for: Some(&self.signed_for),
            asks_to_wait: self.retry_after.is_some(),
        }
    }

    /// Completes the reply when its last byte has arrived.
    pub(super) fn complete(&mut self, replied: &ReceivedReply, now: Millis) {
        let retry_after = replied.head.retry_after;
        self.retry_after = retry_after.map(|retry_after| retry_after.wait(now / 1000).saturating_mul(1000));
        self.read_head();
    }

    fn read_head(&mut self) {
        let text = |value: &[u8]| String::from_utf8_lossy(value.trim_ascii()).into_owned();
        let head = std::mem::take(&mut self.head);
        for line in head.split(|byte| *byte == b'\n') {
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            if name.eq_ignore_ascii_case(b"etag") {
                self.etag = Some(text(value).trim_matches('"').to_owned());
            } else if name.eq_ignore_ascii_case(b"x-amz-bucket-region") {
                self.region = Some(text(value));
            } else if name.eq_ignore_ascii_case(b"date") {
                self.date = Some(text(value));
            } else if name.eq_ignore_ascii_case(b"last-modified") {
                self.modified = Some(text(value));
            }
        }
    }

    /// Returns the store's time in seconds since 1970, if the reply contains it.
    pub(crate) fn sent_at(&self) -> Option<u64> {
        parse_http_date(self.date.as_ref()?.as_bytes())
    }

    /// Returns the modification time according to the store's clock, if the reply contains it.
    pub(crate) fn modified_at(&self) -> Option<u64> {
        parse_http_date(self.modified.as_ref()?.as_bytes())
    }
}

/// Client of a store. See the [module documentation](self).
pub(crate) struct Client {
    pub(super) access: Arc<Access>,
    pub(super) pool: Pool,
    buffers: IoBuffers,
    pub(super) clock: Rc<Cell<Millis>>,
    pub(super) timeouts: Timeouts,
    pub(super) now: Box<dyn Fn() -> Millis>,
    is_over: Box<dyn Fn() -> bool>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("access", &self.access).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client. `now` is the job's clock. Requests end with `total-timeout` soon after `is_over` returns true.
    pub(crate) fn new(
        access: Arc<Access>,
        pool: PoolSettings,
        connections: usize,
        now: impl Fn() -> Millis + 'static,
        is_over: impl Fn() -> bool + 'static,
    ) -> Self {
        let clock = Rc::new(Cell::new(now()));
        let timeouts =
            Timeouts { total: limits::PAGE_TIMEOUT.max(pool.timeouts.total), attempt: None, ..pool.timeouts };
        let authority =
            Arc::new(SignedOrigins { access: Arc::clone(&access), are_of_objects: false, named: None });
        let settings = PoolSettings {
            max_body: limits::PAGE_BYTES_MAX as u64,
            connections,
            idle_max: limits::RESTING_PAGES_MAX.max(connections),
            timeouts,
            times_phases: false,
            authority: Some(authority),
            ..pool
        };
        Client {
            access,
            pool: Pool::new(settings, Rc::clone(&clock)),
            buffers: IoBuffers::default(),
            clock,
            timeouts,
            now: Box::new(now),
            is_over: Box::new(is_over),
        }
    }

    /// Returns whether the job is ending.
    pub(crate) fn is_over(&self) -> bool {
        (self.is_over)()
    }

    /// Returns the store's shared state: regions, clock offset and credentials.
    pub(crate) fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// Sends a request once, without retries.
    pub(crate) async fn send(&self, ask: &BucketRequest<'_>) -> Result<BucketAnswer> {
        let place = self.access.place(ask.bucket)?;
        let mut connection = RestedConnection::default();
        self.clock.set((self.now)());
        connection.renew(&self.pool, &self.pool.origin(&place.key)?);
        let watch = Deadlines::new(Rc::clone(&self.clock), self.timeouts);
        let mut reply = BucketReply { signed_for: place.region.clone(), ..BucketReply::default() };
        let exchange = async {
            self.open(&mut connection.connection, &watch).await?;
            let exchanged = self.exchange(&mut connection.connection, &place, ask, &mut reply, &watch).await;
            exchanged.map_err(|broken| Failure::new(broken.kind, broken.reason))
        };
        let replied = tokio::select! {
            replied = exchange => replied,
            never = self.tick(&watch) => match never {},
        };
        Ok(replied.map(|replied| {
            reply.complete(&replied, (self.now)());
            reply
        }))
    }

    pub(super) async fn open(
        &self,
        connection: &mut Connection,
        watch: &Deadlines,
    ) -> std::result::Result<(), Failure> {
        let opened = self.pool.open_when_able(connection, watch, AddressPolicy::Anywhere).await;
        opened.map_err(|failure| match failure {
            ConnectFailure::Failed(kind) => Failure::unconnected(kind),
            ConnectFailure::Exhausted(_) => Failure::exhausted(),
        })
    }

    /// Sends a request and receives the whole reply, whatever its status.
    pub(super) async fn exchange(
        &self,
        connection: &mut Connection,
        place: &BucketAddress,
        ask: &BucketRequest<'_>,
        reply: &mut impl BodySink,
        watch: &Deadlines,
    ) -> std::result::Result<ReceivedReply, BrokenExchange> {
        let path = match ask.key {
            Some(key) => place.key_path(key),
            None => place.bucket_path().to_owned(),
        };
        let path = if ask.query.is_empty() { path } else { format!("{path}?{}", ask.query) };
        let call = RequestParts {
            method: ask.method,
            path: &path,
            fields: ask.fields,
            body: ask.body,
            cookies: None,
        };
        let max = limits::PAGE_BYTES_MAX as u64;
        connection.exchange(RequestTarget::Call(&call), &self.buffers, reply, watch, max).await
    }

    /// Checks the deadlines and whether the job is ending.
    pub(super) async fn tick(&self, watch: &Deadlines) -> std::convert::Infallible {
        let mut tick = tokio::time::interval(limits::TICK);
        loop {
            tick.tick().await;
            self.pool.tick((self.now)());
            if (self.is_over)() {
                watch.expire(FailureKind::TotalTimeout);
            } else {
                watch.check();
            }
        }
    }
}
