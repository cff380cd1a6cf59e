//! Requests to the destination bucket, which are retried according to the planner's rules. If the store reports
//! overload, all requests pause for some time.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use crate::access::s3::{Access, BucketReply, BucketRequest, Client};
use crate::control::clock::Clock;
use crate::control::stop::{Stop, StopSignal};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::origin::OriginFields;
use fetchmill_model::outcome::{FailureClass, FailureKind};
use fetchmill_model::planner::retry::{Jitter, delay};
use fetchmill_model::s3::{ErrorDocument, ListQuery, StoreError, UploadDestination, read_page};
use fetchmill_model::verdict::{AttemptState, Rules, Verdict};
use fetchmill_net::certain::RestedConnection;
use fetchmill_net::{AddressPolicy, Millis, PoolSettings, Timeouts};

/// Reason why an upload stops.
pub(super) enum UploadEnd {
    /// The job was stopped.
    Stopped,
    /// The job cannot continue.
    Failed(Error),
}

impl From<Error> for UploadEnd {
    fn from(error: Error) -> Self {
        UploadEnd::Failed(error)
    }
}

/// A failure that might be temporary.
struct UploadTrouble {
    kind: FailureKind,
    reason: String,
    retry_after: Option<Millis>,
}

/// Client of the store. See the [module documentation](self).
pub(super) struct UploadClient {
    client: Client,
    pub(super) upload: UploadDestination,
    clock: Clock,
    stop: Arc<StopSignal>,
    give_up_after: Millis,
    jitter: RefCell<Jitter>,
    /// Time before which no request is sent.
    resting_until: Cell<Millis>,
    /// Time at which the store last made progress or had nothing to do.
    good_at: Cell<Millis>,
    /// Whether requests make the store reject a key that already exists.
    pub(super) is_conditional: Cell<bool>,
}

impl UploadClient {
    pub(super) fn new(
        access: &Arc<Access>,
        pool: &PoolSettings,
        upload: UploadDestination,
        (clock, stop): (Clock, Arc<StopSignal>),
        give_up_after: Duration,
        head_timeout: Duration,
    ) -> Result<Self> {
        let pool = PoolSettings {
            // The timeout for the head starts when the first byte of a part is sent.
            timeouts: Timeouts { head: head_timeout, attempt: None, ..pool.timeouts },
            // The header fields for the source must not be sent to this store.
            fields: OriginFields::new(None, Vec::new())?,
            paces: None,
            reach: AddressPolicy::Anywhere,
            ..pool.clone()
        };
        let is_over = Arc::clone(&stop);
        let client = Client::new(
            Arc::clone(access),
            pool,
            limits::UPLOAD_PARTS_IN_FLIGHT,
            move || clock.now(),
            move || is_over.is_drained(),
        );
        Ok(UploadClient {
            client,
            upload,
            give_up_after: give_up_after.as_millis() as Millis,
            jitter: RefCell::new(Jitter::new(clock.now())),
            resting_until: Cell::new(0),
            good_at: Cell::new(clock.now()),
            is_conditional: Cell::new(true),
            clock,
            stop,
        })
    }

    fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Records that the store has work to do again.
    pub(super) fn begin(&self) {
        self.good_at.set(self.now());
    }

    /// Waits until the job is stopped.
    async fn stopped(&self) {
        let mut tick = tokio::time::interval(limits::TICK);
        while self.stop.get() == Stop::No {
            tick.tick().await;
        }
    }

    /// Waits until the store's pause is over.
    async fn rest(&self) {
        while let left @ 1.. = self.resting_until.get().saturating_sub(self.now()) {
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
    }

    /// Sends a request until the answer is final. Retries temporary failures for up to `--give-up-after`.
    pub(super) async fn ask(
        &self,
        connection: &mut RestedConnection,
        ask: &BucketRequest<'_>,
    ) -> std::result::Result<BucketReply, UploadEnd> {
        let answered = tokio::select! {
            answered = self.try_all(connection, ask) => Some(answered),
            () = self.stopped() => None,
        };
        answered.unwrap_or_else(|| {
            // A reply might still arrive, so the connection must not be reused.
            connection.close();
            Err(UploadEnd::Stopped)
        })
    }

    async fn try_all(
        &self,
        connection: &mut RestedConnection,
        ask: &BucketRequest<'_>,
    ) -> std::result::Result<BucketReply, UploadEnd> {
        let mut state = AttemptState::default();
        loop {
            self.rest().await;
            let (verdict, answered) = self.client.ask(connection, ask, &mut state, &Rules::default()).await?;
            let trouble = match (verdict, answered) {
                (Verdict::Retry(kind), Ok(answer)) => {
                    let code = ErrorDocument::read(&answer.body).map_or_else(String::new, |fault| fault.code);
                    let reason = format!("{} {code}", answer.status).trim_end().to_owned();
                    UploadTrouble { kind, reason, retry_after: answer.retry_after }
                }
                (_, Ok(answer)) => {
                    self.good_at.set(self.now());
                    return Ok(answer);
                }
                (_, Err(broken)) => {
                    UploadTrouble { kind: broken.kind, reason: broken.reason.into(), retry_after: None }
                }
            };
            self.wait(state.attempts, &trouble).await?;
        }
    }

    async fn wait(&self, attempts: u32, trouble: &UploadTrouble) -> Result<()> {
        let UploadTrouble { kind, reason, retry_after } = trouble;
        let now = self.now();
        if kind.class() == FailureClass::Final || now.saturating_sub(self.good_at.get()) >= self.give_up_after
        {
            return Err(Error::Temporary(format!(
                "cannot reach {} ({}: {reason}); run the same command again to resume",
                self.upload.text(),
                kind.name()
            )));
        }
        let wait = delay(*kind, attempts, *retry_after, self.jitter.borrow_mut().draw());
        if kind.class() == FailureClass::Throttle {
            self.resting_until.set(self.resting_until.get().max(now + wait));
        } else {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        Ok(())
    }

    /// Sends a request only once, because it cannot simply be repeated. Returns the reason if there is no reply.
    pub(super) async fn try_once(
        &self,
        ask: &BucketRequest<'_>,
    ) -> Result<std::result::Result<BucketReply, String>> {
        let connection = &mut RestedConnection::default();
        let mut state = AttemptState::default();
        let (_, answered) = self.client.ask(connection, ask, &mut state, &Rules::default()).await?;
        Ok(answered.map_err(|broken| format!("{}: {}", broken.kind.name(), broken.reason)))
    }

    /// Makes one attempt to clean up, even if the job was stopped.
    pub(super) async fn ask_once(&self, ask: &BucketRequest<'_>) {
        // The result is ignored, because the next run checks what is left.
        let _ = self.client.send(ask).await;
    }

    /// Checks that the prefix contains no objects.
    pub(super) async fn claim(&self) -> std::result::Result<(), UploadEnd> {
        let query =
            ListQuery { prefix: self.upload.prefix.as_bytes(), max_keys: 1, ..ListQuery::default() }.text();
        let bucket = &self.upload.bucket;
        let ask = BucketRequest { method: "GET", bucket, key: None, query: &query, fields: &[], body: None };
        let answer = self.ask(&mut RestedConnection::default(), &ask).await?;
        let dest = self.upload.text();
        let mut found = None;
        let page = read_page(&answer.body, &mut |object| found = Some(for_display(object.listed.key)));
        let problem = match found {
            _ if answer.status != 200 || page.is_err() => self.refusal("list", &dest, &answer),
            None => return Ok(()),
            Some(key) => format!(
                "{dest} is not empty ({key} exists) and does not belong to a job in this folder; choose an \
                 empty prefix, or give the job's journal folder with --state DIR"
            ),
        };
        Err(UploadEnd::Failed(Error::Usage(problem)))
    }

    /// Describes a refusal by the store in one line.
    pub(super) fn refusal(&self, action: &str, what: &str, answer: &BucketReply) -> String {
        let fault = ErrorDocument::read(&answer.body).unwrap_or_default();
        let is_signed = self.client.access().is_signed();
        let advice = match fault.meaning(answer.status) {
            StoreError::Denied if is_signed => Some(
                "check that the credentials allow s3:PutObject, s3:GetObject, s3:ListBucket and, for \
                 --retry-failed, s3:DeleteObject there"
                    .to_owned(),
            ),
            _ => fault.advice(answer.status, is_signed, self.upload.bucket.text()),
        };
        let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
        let said = format!("{} {} {}", answer.status, fault.code, fault.message);
        format!("cannot {action} {what}: the store responded {}{advice}", said.trim())
    }

    /// Returns the error for a refusal while the job runs.
    pub(super) fn refused(&self, action: &str, key: &str, answer: &BucketReply) -> UploadEnd {
        UploadEnd::Failed(Error::Temporary(self.refusal(action, &self.upload.text_of(key), answer)))
    }
}
