//! Requests to a store that fetch no object of a job: the first contact, pages of the listing, uploads. Any number at a
//! time, each on a lane of its own.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::Access;
use super::access::SignedOrigins;
use crate::error::Result;
use crate::http1::{BodySink, Call, Head};
use crate::limits;
use crate::outcome::FailureKind;
use crate::s3::{BucketName, BucketPlace};
use crate::transport::{
    Asked, Broken, Buffers, ConnectFailure, Lane, Millis, Pool, PoolSettings, Reach, Timeouts, Unused, Watch,
};

/// What is asked of a bucket.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Ask<'a> {
    pub(in crate::engine) method: &'a str,
    pub(in crate::engine) bucket: &'a BucketName,
    /// None: the bucket itself.
    pub(in crate::engine) key: Option<&'a [u8]>,
    /// In canonical form: sorted, encoded as signatures want it, each parameter with `=`. Without `?`; may be empty.
    pub(in crate::engine) query: &'a str,
    pub(in crate::engine) fields: &'a [(String, String)],
    pub(in crate::engine) body: Option<&'a [u8]>,
}

/// What came back. Its body is at most a page long.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::engine) struct Answer {
    pub(in crate::engine) status: u16,
    pub(in crate::engine) body: Vec<u8>,
    /// Without its quotes.
    pub(in crate::engine) etag: Option<String>,
    /// Where the bucket is, if the store says it (`x-amz-bucket-region`).
    pub(in crate::engine) region: Option<String>,
    /// The store's clock, seconds since 1970.
    pub(in crate::engine) date: Option<u64>,
    /// Milliseconds.
    pub(in crate::engine) retry_after: Option<Millis>,
    head: Vec<u8>,
}

impl BodySink for Answer {
    fn head(&mut self, head: &Head, bytes: &[u8]) {
        self.status = head.status;
        self.head = bytes.to_vec();
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

impl Answer {
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
                self.date = crate::time_text::parse_http_date(value.trim_ascii());
            }
        }
    }
}

/// See the module.
pub(in crate::engine) struct Client {
    access: Arc<Access>,
    pool: Pool,
    buffers: Buffers,
    clock: Rc<Cell<Millis>>,
    timeouts: Timeouts,
    now: Box<dyn Fn() -> Millis>,
    is_over: Box<dyn Fn() -> bool>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("access", &self.access).finish_non_exhaustive()
    }
}

impl Client {
    /// `now` is the job's clock; once `is_over` says so, every request ends soon with `total-timeout`.
    pub(in crate::engine) fn new(
        access: Arc<Access>,
        pool: PoolSettings,
        lanes: usize,
        now: impl Fn() -> Millis + 'static,
        is_over: impl Fn() -> bool + 'static,
    ) -> Self {
        let clock = Rc::new(Cell::new(now()));
        let timeouts =
            Timeouts { total: limits::PAGE_TIMEOUT.max(pool.timeouts.total), attempt: None, ..pool.timeouts };
        let authority = Arc::new(SignedOrigins(Arc::clone(&access)));
        let settings = PoolSettings {
            max_body: limits::PAGE_BYTES_MAX as u64,
            connections: lanes,
            timeouts,
            times_phases: false,
            authority: Some(authority),
            ..pool
        };
        Client {
            access,
            pool: Pool::new(settings, Rc::clone(&clock)),
            buffers: Buffers::default(),
            clock,
            timeouts,
            now: Box::new(now),
            is_over: Box::new(is_over),
        }
    }

    /// Whether the job is to end.
    pub(in crate::engine) fn is_over(&self) -> bool {
        (self.is_over)()
    }

    /// What a bucket's region, the clock and the credentials are known to be.
    pub(in crate::engine) fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// Sends a request and awaits all of the answer, whatever its status. A kept connection that the store has closed is
    /// replaced once. What fails otherwise is [`Broken`]; whether it is tried again is the caller's business.
    pub(in crate::engine) async fn ask(
        &self,
        lane: &mut Lane,
        ask: &Ask<'_>,
    ) -> Result<std::result::Result<Answer, Broken>> {
        let place = self.access.place(ask.bucket)?;
        let was_used = lane.is_open();
        let answered = self.try_ask(lane, &place, ask).await?;
        match answered {
            Err(broken) if was_used && broken.is_unanswered => self.try_ask(lane, &place, ask).await,
            other => Ok(other),
        }
    }

    async fn try_ask(
        &self,
        lane: &mut Lane,
        place: &BucketPlace,
        ask: &Ask<'_>,
    ) -> Result<std::result::Result<Answer, Broken>> {
        let origin = self.pool.origin(&place.key)?;
        if !lane.is_at(&origin) {
            self.pool.switch(lane, &origin);
        }
        if lane.look() != Unused::Quiet {
            lane.close();
        }
        self.clock.set((self.now)());
        let watch = Watch::new(Rc::clone(&self.clock), self.timeouts);
        let mut answer = Answer::default();
        let path = match ask.key {
            Some(key) => place.key_path(key),
            None => place.bucket_path().to_owned(),
        };
        let path = if ask.query.is_empty() { path } else { format!("{path}?{}", ask.query) };
        let call = Call { method: ask.method, path: &path, fields: ask.fields, body: ask.body };
        let exchange = async {
            if !lane.is_open() {
                self.pool.open(lane, &watch, Reach::Anywhere).await.map_err(broken_of)?;
            }
            let max = limits::PAGE_BYTES_MAX as u64;
            lane.exchange(Asked::Call(&call), &self.buffers, &mut answer, &watch, max).await
        };
        let replied = tokio::select! {
            replied = exchange => replied,
            never = self.tick(&watch) => match never {},
        };
        match replied {
            Ok(replied) => {
                if replied.surplus != Unused::Quiet || !replied.head.keep_alive {
                    lane.close();
                }
                let now = (self.now)() / 1000;
                answer.retry_after =
                    replied.head.retry_after.map(|retry_after| retry_after.wait(now).saturating_mul(1000));
                answer.read_head();
                Ok(Ok(answer))
            }
            Err(broken) => {
                lane.close();
                Ok(Err(broken))
            }
        }
    }

    /// Looks at the deadlines and at the end of the job.
    async fn tick(&self, watch: &Watch) -> std::convert::Infallible {
        let mut tick = tokio::time::interval(limits::TICK);
        loop {
            tick.tick().await;
            self.clock.set((self.now)());
            if (self.is_over)() {
                watch.expire(FailureKind::TotalTimeout);
            } else {
                watch.check();
            }
        }
    }
}

fn broken_of(failure: ConnectFailure) -> Broken {
    match failure {
        ConnectFailure::Failed(kind) => Broken { kind, ..Broken::unconnected() },
        ConnectFailure::Exhausted(_) => Broken {
            kind: FailureKind::Unreachable,
            reason: "this machine has no descriptor or port left",
            is_unanswered: false,
        },
    }
}
