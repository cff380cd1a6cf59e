//! A bucket: its keys are listed in ranges side by side, as many as it takes to keep ahead of the fetching.
//!
//! A page is what follows a key (`start-after`), so pages of a range can be asked for by whoever comes, and a store's
//! tokens are not needed but where a page has no key. A range that takes long is split where its keys seem to have
//! their middle: a request for one key shows whether there is any behind that point. Each split is in the journal
//! before a page behind it is.
//!
//! What a store says of its end is not believed before a question for one more key has brought none.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;

use super::hand_over::hand_over;
use crate::access::s3::{BucketReply, BucketRequest, Client, complaint};
use crate::control::Control;
use crate::control::journal_link::ListingRequest;
use crate::control::stop::Stop;
use crate::event_queues::network_runtime;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::origin::{Millis, Observations};
use fetchmill_model::planner::retry::{self, Jitter};
use fetchmill_model::s3::{BucketName, ListedKey, PageEnd, Selection, between, list_query, read_page};
use fetchmill_model::skips::Skips;
use fetchmill_model::source::{KeyRange, ListedPage, PageCursor};
use fetchmill_model::target::Names;
use fetchmill_model::verdict::{AttemptState, Rules, Verdict};
use fetchmill_net::PoolSettings;
use fetchmill_net::certain::RestedConnection;

/// What the listing of a bucket is made of, on whatever thread.
pub(crate) struct BucketListerSetup {
    pub(crate) control: Arc<Control>,
    pub(crate) pool: PoolSettings,
    pub(crate) bucket: BucketName,
    pub(crate) prefix: String,
    /// Which keys are fetched.
    pub(crate) selection: Selection,
    /// What is not listed yet.
    pub(crate) ranges: Vec<KeyRange>,
    /// A page that fails for longer ends the job.
    pub(crate) give_up_after: Millis,
}

/// So long a task without a range waits before it looks again whether one can be split.
const PATIENCE: Duration = Duration::from_millis(20);
/// Pages of a range before it is worth splitting: most prefixes are small.
const PAGES_BEFORE_SPLIT: u32 = 2;
/// Behind all keys that go on from the same text with a printable character of ASCII.
const BEHIND_ALL: u8 = 0x7f;
/// Questions for where the keys of a range have their middle, before it is left as it is for a while.
const PROBES_MAX: u32 = 64;

/// A range that is being listed, or waits for it.
#[derive(Debug)]
struct ListingRange {
    id: u64,
    /// The first key that was listed of it.
    first: Vec<u8>,
    after: Vec<u8>,
    until: Option<Vec<u8>>,
    /// No key was found behind this, when it was asked for: where it makes no sense to split.
    ceiling: Option<Vec<u8>>,
    is_taken: bool,
    is_being_split: bool,
    pages_since_split: u32,
}

impl ListingRange {
    fn new(range: KeyRange) -> Self {
        let KeyRange { id, after, until } = range;
        ListingRange {
            id,
            first: Vec::new(),
            after,
            until,
            ceiling: None,
            is_taken: false,
            is_being_split: false,
            pages_since_split: 0,
        }
    }

    /// Where it is worth to look whether there are keys behind: while nothing says where they end, behind all that
    /// begin with what those listed so far have in common, then with ever less of that; else in the middle of what is
    /// left.
    fn point(&self, prefix: &[u8], looked: u32) -> Option<Vec<u8>> {
        let end = self.ceiling.as_deref().or(self.until.as_deref());
        if end.is_some() || self.first.is_empty() {
            return between(&self.after, end, prefix);
        }
        let common = self.first.iter().zip(&self.after).take_while(|(one, other)| one == other).count();
        let kept = common.checked_sub(looked as usize).filter(|kept| *kept >= prefix.len())?;
        // What is sent is text: a character is not cut.
        let text =
            String::from_utf8_lossy(self.after.get(..kept)?).trim_end_matches('\u{fffd}').as_bytes().to_vec();
        Some([text.as_slice(), &[BEHIND_ALL]].concat())
    }
}

/// What the tasks share. Nothing in it is borrowed across an await.
struct BucketLister {
    setup: BucketListerSetup,
    client: Client,
    ranges: RefCell<Vec<ListingRange>>,
    next_id: Cell<u64>,
    jitter: RefCell<Jitter>,
    changed: Notify,
    failure: RefCell<Option<Error>>,
    has_told_truncation: Cell<bool>,
}

/// Lists everything that is left, or until the job is to end.
pub(super) fn list(mut setup: BucketListerSetup) -> Result<()> {
    let runtime = network_runtime()?;
    let ranges = std::mem::take(&mut setup.ranges);
    let lister = Rc::new(BucketLister::new(setup, ranges));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..limits::S3_LISTERS_MAX)
            .map(|_| {
                let lister = Rc::clone(&lister);
                tokio::task::spawn_local(async move { lister.work().await })
            })
            .collect();
        for task in tasks {
            if task.await.is_err() {
                lister.fail(Error::Internal("a task of the listing has panicked".into()));
            }
        }
    });
    lister.failure.take().map_or(Ok(()), Err)
}

impl BucketLister {
    fn new(setup: BucketListerSetup, ranges: Vec<KeyRange>) -> Self {
        let (clock, stop) = (setup.control.clock, Arc::clone(&setup.control.stop));
        let is_over = move || stop.get() != Stop::No || stop.has_failed();
        let now = move || clock.now();
        let client = Client::new(
            Arc::clone(&setup.control.store),
            setup.pool.clone(),
            limits::S3_LISTERS_MAX,
            now,
            is_over,
        );
        let next_id = ranges.iter().map(|range| range.id + 1).max().unwrap_or(0);
        let ranges = ranges.into_iter().map(ListingRange::new);
        BucketLister {
            jitter: RefCell::new(Jitter::new(setup.control.clock.now())),
            ranges: RefCell::new(ranges.collect()),
            next_id: Cell::new(next_id),
            changed: Notify::new(),
            failure: RefCell::new(None),
            has_told_truncation: Cell::new(false),
            client,
            setup,
        }
    }

    /// The first failure is the listing's; the other tasks end.
    fn fail(&self, error: Error) {
        self.failure.borrow_mut().get_or_insert(error);
        self.changed.notify_waiters();
    }

    fn is_over(&self) -> bool {
        self.setup.control.stop.get() != Stop::No || self.failure.borrow().is_some()
    }

    /// A task: lists one range after the other, and makes more of them where there is only one to wait for.
    async fn work(&self) {
        let mut connection = RestedConnection::default();
        while !self.is_over() && !self.ranges.borrow().is_empty() {
            let done = if let Some(id) = self.take() {
                self.list_range(&mut connection, id).await
            } else if let Some(id) = self.choose_split() {
                self.split(&mut connection, id).await
            } else {
                let _ = tokio::time::timeout(PATIENCE, self.changed.notified()).await;
                Ok(())
            };
            if let Err(error) = done {
                self.fail(error);
            }
        }
        self.changed.notify_waiters();
    }

    /// A range that nobody lists.
    fn take(&self) -> Option<u64> {
        let mut ranges = self.ranges.borrow_mut();
        let range = ranges.iter_mut().find(|range| !range.is_taken)?;
        range.is_taken = true;
        Some(range.id)
    }

    fn with<T>(&self, id: u64, look: impl FnOnce(&mut ListingRange) -> T) -> Option<T> {
        self.ranges.borrow_mut().iter_mut().find(|range| range.id == id).map(look)
    }

    /// Page after page to the end of a range.
    async fn list_range(&self, connection: &mut RestedConnection, id: u64) -> Result<()> {
        let mut token: Option<String> = None;
        let mut empty_pages = 0;
        while self.wait_for_room().await {
            let Some(after) = self.with(id, |range| range.after.clone()) else { return Ok(()) };
            let Some(page) =
                self.page(connection, &after, token.take().as_deref(), limits::S3_PAGE_KEYS).await?
            else {
                return Ok(());
            };
            let PageEnd { last_key, is_truncated, token: next, .. } = page.end;
            let Some(last) = last_key else {
                // Some stores give pages without a key where many were deleted.
                empty_pages += 1;
                if is_truncated && next.is_some() && empty_pages <= limits::EMPTY_PAGES_MAX {
                    token = next;
                    continue;
                }
                if is_truncated {
                    return Err(self.endless(&after));
                }
                self.advance(id, after, (Names::default(), Skips::default()), true);
                return Ok(());
            };
            empty_pages = 0;
            let is_end = !is_truncated && self.is_end(connection, &last).await?;
            if self.is_over() {
                return Ok(());
            }
            // From here on nothing is waited for: the range may have been split until now.
            let Some(until) = self.with(id, |range| range.until.clone()) else { return Ok(()) };
            let taken = RangePage { until: until.as_deref(), selection: &self.setup.selection };
            let (names, skipped, is_behind) = taken.select(&page.keys);
            let is_last = is_behind || is_end;
            self.advance(id, last, (names, skipped), is_last);
            if is_last {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether there is no key behind this one, as the store says. One that says so falsely is told of once.
    async fn is_end(&self, connection: &mut RestedConnection, last: &[u8]) -> Result<bool> {
        let Some(page) = self.page(connection, last, None, 1).await? else { return Ok(false) };
        let is_end = page.end.last_key.is_none();
        if !is_end && !self.has_told_truncation.replace(true) {
            self.setup.control.notice(&format!(
                "the bucket {} said that its listing was complete, and it was not: there are keys behind {}; they are \
                 listed as well",
                self.setup.bucket.text(),
                fetchmill_model::name::for_display(last)
            ));
        }
        Ok(is_end)
    }

    /// A piece of a range is listed: it goes to the journal with how far the range is.
    fn advance(&self, id: u64, after: Vec<u8>, (names, skipped): (Names, Skips), is_last: bool) {
        let cursor = PageCursor::Keys { range: id, after: after.clone(), is_last };
        hand_over(&self.setup.control, ListedPage { names, skipped, total: None, cursor });
        if is_last {
            self.ranges.borrow_mut().retain(|range| range.id != id);
            self.changed.notify_waiters();
        } else {
            self.with(id, |range| {
                if range.first.is_empty() {
                    range.first.clone_from(&after);
                }
                range.after = after;
                range.pages_since_split += 1;
            });
        }
    }

    /// The range that has been at it for longest, when the fetching has little to do.
    fn choose_split(&self) -> Option<u64> {
        if !self.setup.control.plan.lock().needs_targets() {
            return None;
        }
        let mut ranges = self.ranges.borrow_mut();
        let candidates = ranges.iter_mut().filter(|range| {
            range.is_taken && !range.is_being_split && range.pages_since_split >= PAGES_BEFORE_SPLIT
        });
        let chosen = candidates.max_by_key(|range| range.pages_since_split)?;
        chosen.is_being_split = true;
        Some(chosen.id)
    }

    /// Looks for a point with keys on both sides, and makes what is behind it a range of its own.
    async fn split(&self, connection: &mut RestedConnection, id: u64) -> Result<()> {
        let done = self.find_split(connection, id).await;
        self.with(id, |range| {
            range.is_being_split = false;
            range.pages_since_split = 0;
        });
        done
    }

    async fn find_split(&self, connection: &mut RestedConnection, id: u64) -> Result<()> {
        // While the end of the keys is looked for, the last point that has some behind it.
        let mut found = None;
        for looked in 0..PROBES_MAX {
            let prefix = self.setup.prefix.as_bytes();
            let Some(Some(at)) = self.with(id, |range| range.point(prefix, looked)) else { break };
            let Some(page) = self.page(connection, &at, None, 1).await? else { return Ok(()) };
            let key = page.end.last_key;
            let seen = self.with(id, |range| {
                let has_keys = key.is_some_and(|key| range.until.as_ref().is_none_or(|until| key <= *until));
                let had_end = range.ceiling.is_some() || range.until.is_some();
                if !has_keys && at > range.after {
                    range.ceiling = Some(at.clone());
                }
                (at > range.after, has_keys, had_end)
            });
            match seen {
                // It was listed meanwhile.
                None | Some((false, ..)) => return Ok(()),
                Some((_, true, true)) => {
                    self.divide(id, at);
                    return Ok(());
                }
                Some((_, true, false)) => found = Some(at),
                Some((_, false, _)) => {}
            }
            if self.is_over() {
                return Ok(());
            }
        }
        if let Some(at) = found.filter(|at| self.with(id, |range| *at > range.after) == Some(true)) {
            self.divide(id, at);
        }
        Ok(())
    }

    /// There are keys behind `at` in a range: they become one of their own, that whoever is free lists.
    fn divide(&self, id: u64, at: Vec<u8>) {
        let behind = self.next_id.replace(self.next_id.get() + 1);
        let Some((until, ceiling)) =
            self.with(id, |range| (range.until.replace(at.clone()), range.ceiling.take()))
        else {
            return;
        };
        self.setup.control.journal.list(ListingRequest::SplitRange { range: id, at: at.clone(), behind });
        self.ranges
            .borrow_mut()
            .push(ListingRange { ceiling, ..ListingRange::new(KeyRange { id: behind, after: at, until }) });
        self.changed.notify_waiters();
    }

    /// Waits until the planner wants another page; `false` when the job is to end.
    async fn wait_for_room(&self) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            let control = &self.setup.control;
            if control.plan.lock().wants_pages(control.plan.live_bytes.load(Ordering::Relaxed)) {
                return true;
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }

    /// What follows a key; `None` when the job is to end.
    async fn page(
        &self,
        connection: &mut RestedConnection,
        after: &[u8],
        token: Option<&str>,
        max_keys: u32,
    ) -> Result<Option<ListedKeys>> {
        let start_after = Some(after).filter(|after| !after.is_empty());
        let query = list_query(self.setup.prefix.as_bytes(), start_after, token, max_keys);
        let bucket = &self.setup.bucket;
        let ask = BucketRequest { method: "GET", bucket, key: None, query: &query, fields: &[], body: None };
        let mut state = AttemptState::default();
        let mut since = None;
        loop {
            let asked = self.client.ask(connection, &ask, &mut state, &Rules::default()).await;
            if self.is_over() {
                return Ok(None);
            }
            let (kind, retry_after, reason) = match asked? {
                (Verdict::Store, Ok(answer)) => {
                    let listed = self.read(&answer, after)?;
                    self.came(since.is_some());
                    return Ok(Some(listed));
                }
                (Verdict::Retry(kind), Ok(answer)) => {
                    (kind, answer.retry_after, format!("status {}", answer.status))
                }
                (Verdict::Retry(kind), Err(broken)) => (kind, None, broken.reason.to_string()),
                (_, Ok(answer)) => return Err(Error::Listing(complaint(&self.client, bucket, &answer))),
                (_, Err(broken)) => {
                    return Err(Error::Listing(format!(
                        "the bucket {} cannot be listed ({}): {}",
                        bucket.text(),
                        broken.kind.name(),
                        broken.reason
                    )));
                }
            };
            let since = *since.get_or_insert_with(|| self.setup.control.clock.now());
            if !self.wait_after(after, (kind, &reason), retry_after, state.attempts, since).await? {
                return Ok(None);
            }
        }
    }

    fn read(&self, answer: &BucketReply, after: &[u8]) -> Result<ListedKeys> {
        let bucket = self.setup.bucket.text();
        let unreadable = |why: String| Error::Listing(format!("the listing of the bucket {bucket} {why}"));
        let mut keys = Names::default();
        let mut entry = Vec::new();
        let mut stranger = None;
        let end = read_page(&answer.body, &mut |listed| {
            if listed.key <= after || !listed.key.starts_with(self.setup.prefix.as_bytes()) {
                stranger.get_or_insert_with(|| fetchmill_model::name::for_display(listed.key));
            }
            entry.clear();
            listed.write(&mut entry);
            keys.push(&entry);
        })
        .map_err(|error| unreadable(format!("cannot be read: {error}")))?;
        if let Some(key) = stranger {
            return Err(unreadable(format!(
                "goes in circles: {key} came where only keys behind {} were asked for; does the store know start-after?",
                fetchmill_model::name::for_display(after)
            )));
        }
        Ok(ListedKeys { keys, end })
    }

    fn endless(&self, after: &[u8]) -> Error {
        Error::Listing(format!(
            "the listing of the bucket {} never ends: its page behind {} says that there are more keys, and leads nowhere",
            self.setup.bucket.text(),
            fetchmill_model::name::for_display(after)
        ))
    }

    /// A page has come, perhaps one that had failed.
    fn came(&self, had_failed: bool) {
        let control = &self.setup.control;
        if had_failed {
            control.note_page(None);
        }
        control.observe_listing(Observations { successes: 1, ..Observations::default() });
    }

    /// Waits as a failure asks for, and while the store is down; `false` when the job is to end.
    async fn wait_after(
        &self,
        after: &[u8],
        (kind, reason): (FailureKind, &str),
        retry_after: Option<Millis>,
        attempts: u32,
        since: Millis,
    ) -> Result<bool> {
        let control = &self.setup.control;
        let mut observed = Observations::default();
        observed.note_failure(kind, attempts.saturating_sub(1), retry_after);
        control.observe_listing(observed);
        let now = control.clock.now();
        let given_up_at = since + self.setup.give_up_after;
        let page = format!(
            "of {} behind the key {:?}",
            self.setup.bucket.text(),
            fetchmill_model::name::for_display(after)
        );
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
                "the listing's page {page} failed for too long (--give-up-after): {reason}; run the same command again \
                 to resume"
            )));
        }
        Ok(true)
    }
}

/// A page's keys with what it says of them, all that came.
struct ListedKeys {
    keys: Names,
    end: PageEnd,
}

/// What a range takes of a page.
struct RangePage<'p> {
    until: Option<&'p [u8]>,
    selection: &'p Selection,
}

impl RangePage<'_> {
    /// The targets, how many keys were left out, and whether the range's end was reached.
    fn select(&self, keys: &Names) -> (Names, Skips, bool) {
        let (mut names, mut skipped) = (Names::default(), Skips::default());
        for entry in keys.iter() {
            let listed = ListedKey::read(entry);
            if self.until.is_some_and(|until| listed.key > until) {
                return (names, skipped, true);
            }
            match self.selection.reason_to_skip(&listed) {
                None => names.push(entry),
                Some(reason) => skipped.add(reason, listed.key),
            }
            if self.until == Some(listed.key) {
                return (names, skipped, true);
            }
        }
        (names, skipped, false)
    }
}
