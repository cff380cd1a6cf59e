//! Pages of a bucket's listing. Each page is requested until it arrives or has failed for too long.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::access::s3::{BucketReply, BucketRequest, Client, complaint};
use crate::control::Control;
use crate::control::stop::Stop;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::outcome::skips::{SkipReason, Skips};
use fetchmill_model::planner::origin::{Millis, Observations};
use fetchmill_model::planner::retry::{self, Jitter};
use fetchmill_model::s3::{BucketName, Disorder, ListQuery, ListedKey, PageEnd, Selection, read_page};
use fetchmill_model::target::Names;
use fetchmill_model::verdict::{AttemptState, Rules, Verdict};
use fetchmill_net::PoolSettings;
use fetchmill_net::certain::RestedConnection;

/// Interval at which a waiting task checks again.
pub(super) const PATIENCE: Duration = Duration::from_millis(20);

/// Result of a page request.
pub(super) enum BucketPageAnswer {
    /// The page.
    Page(ListedKeys),
    /// The store rejects the token or the value of `start-after`.
    Refused(Error),
    /// The job is ending.
    Over,
}

/// Keys of a page, with their listed values.
pub(super) struct ListedKeys {
    pub(super) keys: Names,
    /// For each key, the reason why it is not a target. `None` for targets.
    reasons: Vec<Option<SkipReason>>,
    pub(super) end: PageEnd,
    /// First key of the page, if any.
    first: Option<Vec<u8>>,
}

impl ListedKeys {
    /// Returns the first key that is out of order. The first key of the page is compared with `after`.
    pub(super) fn disorder_after(&self, after: &[u8]) -> Option<Disorder> {
        let is_before = |first: &&Vec<u8>| first.as_slice() <= after && !after.is_empty();
        let before = self.first.as_ref().filter(is_before);
        let across = before.map(|first| Disorder { key: first.clone(), after: after.to_vec() });
        across.or_else(|| self.end.disorder.clone())
    }

    /// Returns the targets up to the key `until`, the skipped keys, and whether `until` was reached.
    pub(super) fn select(&self, until: Option<&[u8]>) -> (Names, Skips, bool) {
        let (mut names, mut skipped) = (Names::default(), Skips::default());
        for (entry, reason) in self.keys.iter().zip(&self.reasons) {
            let listed = ListedKey::read(entry);
            if until.is_some_and(|until| listed.key > until) {
                return (names, skipped, true);
            }
            match reason {
                None => names.push(entry),
                Some(reason) => skipped.add(*reason, listed.key),
            }
            if until == Some(listed.key) {
                return (names, skipped, true);
            }
        }
        (names, skipped, false)
    }
}

/// Requester of pages. See the [module documentation](self). No part of it stays borrowed across an await.
pub(super) struct BucketPages {
    pub(super) control: Arc<Control>,
    pub(super) bucket: BucketName,
    pub(super) prefix: String,
    selection: Selection,
    client: Client,
    give_up_after: Millis,
    jitter: RefCell<Jitter>,
    /// Whether any page so far contained a token.
    has_tokens: Cell<bool>,
}

impl BucketPages {
    pub(super) fn new(
        control: Arc<Control>,
        pool: PoolSettings,
        (bucket, prefix): (BucketName, String),
        selection: Selection,
        give_up_after: Millis,
    ) -> Self {
        let (clock, stop) = (control.clock, Arc::clone(&control.stop));
        let is_over = move || stop.get() != Stop::No || stop.has_failed();
        let now = move || clock.now();
        let store = Arc::clone(&control.store);
        let client = Client::new(store, pool, limits::S3_LISTERS_MAX, now, is_over);
        let jitter = RefCell::new(Jitter::new(clock.now()));
        BucketPages {
            control,
            bucket,
            prefix,
            selection,
            client,
            give_up_after,
            jitter,
            has_tokens: Cell::new(false),
        }
    }

    /// Returns whether the job is ending or the journal rejected a page.
    pub(super) fn is_over(&self) -> bool {
        self.control.stop.get() != Stop::No || self.control.is_listing_done.load(Ordering::Relaxed)
    }

    /// Waits until the planner has room for another page. Returns `false` if the job is ending.
    pub(super) async fn wait_for_room(&self) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            let control = &self.control;
            if control.plan.lock().wants_pages(control.plan.live_bytes.load(Ordering::Relaxed)) {
                return true;
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }

    /// Returns the query for the keys after `after`. An empty key selects all keys.
    pub(super) fn after<'a>(&'a self, after: &'a [u8], max_keys: u32) -> ListQuery<'a> {
        ListQuery { prefix: self.prefix.as_bytes(), start_after: after, max_keys, ..ListQuery::default() }
    }

    /// Returns the query for the page with this token, or for the first page if it is `None`.
    pub(super) fn at_token<'a>(&'a self, token: Option<&'a str>) -> ListQuery<'a> {
        ListQuery { token, ..self.after(b"", limits::S3_PAGE_KEYS) }
    }

    /// Requests a page until it arrives or has failed for too long.
    pub(super) async fn ask(
        &self,
        connection: &mut RestedConnection,
        query: &ListQuery<'_>,
    ) -> Result<BucketPageAnswer> {
        let (text, bucket) = (query.text(), &self.bucket);
        let ask = BucketRequest { method: "GET", bucket, key: None, query: &text, fields: &[], body: None };
        let mut state = AttemptState::default();
        let rules = Rules { retried: self.control.retried, ..Rules::default() };
        let mut since = None;
        loop {
            if !self.keep_rate().await {
                return Ok(BucketPageAnswer::Over);
            }
            let asked = self.client.ask(connection, &ask, &mut state, &rules).await;
            if self.is_over() {
                return Ok(BucketPageAnswer::Over);
            }
            let (kind, retry_after, reason) = match asked? {
                (Verdict::Store, Ok(answer)) => {
                    let listed = self.read(&answer, query.prefix)?;
                    self.came(since.is_some());
                    return Ok(BucketPageAnswer::Page(listed));
                }
                (Verdict::Retry(kind), Ok(answer)) => {
                    (kind, answer.retry_after, format!("status {}", answer.status))
                }
                (Verdict::Retry(kind), Err(broken)) => (kind, None, broken.reason.to_string()),
                (_, Ok(answer)) => {
                    let error = Error::Listing(complaint(&self.client, bucket, &answer));
                    return if answer.status == 400 {
                        Ok(BucketPageAnswer::Refused(error))
                    } else {
                        Err(error)
                    };
                }
                (_, Err(broken)) => {
                    return Err(Error::Listing(format!(
                        "the bucket {} cannot be listed ({}): {}",
                        bucket.text(),
                        broken.kind.name(),
                        broken.reason
                    )));
                }
            };
            let since = *since.get_or_insert_with(|| self.control.clock.now());
            if !self.wait_after(query, (kind, &reason), retry_after, state.attempts, since).await? {
                return Ok(BucketPageAnswer::Over);
            }
        }
    }

    /// Waits until the job's rate allows another request. Returns `false` if the job is ending.
    async fn keep_rate(&self) -> bool {
        let (control, micros) = (&self.control, || self.control.clock.micros());
        let due = control.pace.as_ref().map(|pace| micros() + pace.reserve(micros()));
        while let Some(wait) = due.and_then(|due| due.checked_sub(micros())).filter(|wait| *wait > 0) {
            if self.is_over() {
                return false;
            }
            tokio::time::sleep(Duration::from_micros(wait).min(PATIENCE)).await;
        }
        true
    }

    fn read(&self, answer: &BucketReply, prefix: &[u8]) -> Result<ListedKeys> {
        let bucket = self.bucket.text();
        let unreadable = |why: String| Error::Listing(format!("the listing of the bucket {bucket} {why}"));
        let (mut keys, mut reasons, mut entry) = (Names::default(), Vec::new(), Vec::new());
        let (mut first, mut stranger) = (None, None);
        let end = read_page(&answer.body, &mut |object| {
            let listed = object.listed;
            first.get_or_insert_with(|| listed.key.to_vec());
            if !listed.key.starts_with(prefix) {
                stranger.get_or_insert_with(|| for_display(listed.key));
            }
            entry.clear();
            listed.write(&mut entry);
            keys.push(&entry);
            reasons.push(self.selection.reason_to_skip(&object));
        })
        .map_err(|error| unreadable(format!("cannot be read: {error}")))?;
        if let Some(key) = stranger {
            return Err(unreadable(format!(
                "has keys outside the requested prefix ({key} does not begin with {}); does the store \
                 support prefix?",
                for_display(prefix)
            )));
        }
        if end.token.is_some() {
            self.has_tokens.set(true);
        }
        Ok(ListedKeys { keys, reasons, end, first })
    }

    /// Returns whether the store uses tokens, as far as this is known.
    pub(super) fn has_tokens(&self) -> bool {
        self.has_tokens.get()
    }

    /// Returns the error for a store without tokens whose page contains keys other than the requested ones.
    pub(super) fn circular(&self, Disorder { key, after }: &Disorder) -> Error {
        Error::Listing(format!(
            "the listing of the bucket {} repeats itself (the store returned {}, but only keys after {} \
             were requested); does the store support start-after?",
            self.bucket.text(),
            for_display(key),
            for_display(after)
        ))
    }

    /// Returns the error for a page that announces more keys but does not say how to request them.
    pub(super) fn endless(&self, query: &ListQuery<'_>) -> Error {
        Error::Listing(format!(
            "the listing of the bucket {} never ends: the page {} announces more keys, but does not return \
             them",
            self.bucket.text(),
            place_of(query)
        ))
    }

    /// Records that a page has arrived. `had_failed` means that earlier attempts failed.
    fn came(&self, had_failed: bool) {
        let control = &self.control;
        if had_failed {
            control.note_page(None);
        }
        control.observe_listing(Observations { successes: 1, ..Observations::default() });
    }

    /// Waits for the delay that a failure requires, and until the store recovers. Returns `false` if the job is ending.
    async fn wait_after(
        &self,
        query: &ListQuery<'_>,
        (kind, reason): (FailureKind, &str),
        retry_after: Option<Millis>,
        attempts: u32,
        since: Millis,
    ) -> Result<bool> {
        let control = &self.control;
        let mut observed = Observations::default();
        observed.note_failure(kind, attempts.saturating_sub(1), retry_after);
        control.observe_listing(observed);
        let now = control.clock.now();
        let given_up_at = since + self.give_up_after;
        let page = format!("of {} {}", self.bucket.text(), place_of(query));
        control.note_page(Some((&page, reason, since, given_up_at)));
        let delay = retry::delay(kind, attempts, retry_after, self.jitter.borrow_mut().draw());
        while control.clock.now() <= given_up_at
            && (control.clock.now() < now + delay || control.plan.is_closed(control.clock.now()))
        {
            if self.is_over() {
                return Ok(false);
            }
            tokio::time::sleep(PATIENCE).await;
        }
        if control.clock.now() > given_up_at {
            return Err(Error::Temporary(format!(
                "the listing page {page} kept failing until --give-up-after: {reason}; run the same command \
                 again to resume"
            )));
        }
        Ok(true)
    }
}

/// Describes the page for messages.
fn place_of(query: &ListQuery<'_>) -> String {
    match (query.token, query.start_after) {
        (Some(token), _) => format!("at the token {:?}", for_display(token.as_bytes())),
        (None, b"") => "with the first keys".to_owned(),
        (None, after) => format!("after the key {:?}", for_display(after)),
    }
}
