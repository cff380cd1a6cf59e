//! Lists ranges of keys in parallel.
//!
//! A range starts after a key (`start-after`) and continues with continuation tokens. A slow range is split near the
//! estimated middle of its keys. A request for one key shows whether any keys follow that point. The journal records
//! each split before any page of the new range.
//!
//! Ranges require ascending keys. [`OrderCheck`] checks the point where each range starts. The first key that is out of
//! order ends all ranges.
//!
//! When a store reports the end of the keys, a request for one more key confirms it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

use super::order::{Border, OrderCheck};
use super::pages::{BucketPageAnswer, BucketPages, ListedKeys, PATIENCE};
use crate::control::journal_link::{ListingRequest, TokenStart};
use crate::listing::hand_over::hand_over;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::outcome::skips::Skips;
use fetchmill_model::s3::{Disorder, PageEnd, between};
use fetchmill_model::source::{KeyRange, ListedPage, PageCursor};
use fetchmill_model::target::Names;
use fetchmill_net::certain::RestedConnection;

/// Number of pages of a range before it can be split. Most prefixes are small and need no split.
const PAGES_BEFORE_SPLIT: u32 = 2;
/// Byte that sorts after every printable ASCII character.
const AFTER_ALL: u8 = 0x7f;
/// Maximum number of requests that search for the middle of a range. After this many requests, the range is not split
/// for some time.
const PROBES_MAX: u32 = 64;

/// A range that is being listed or is waiting to be listed.
#[derive(Debug)]
struct ListingRange {
    id: u64,
    /// First listed key.
    first: Vec<u8>,
    after: Vec<u8>,
    /// Token of the next page, if the store returned one.
    token: Option<String>,
    until: Option<Vec<u8>>,
    /// Key after which no other key was found. A split there would be useless.
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
            token: None,
            until,
            ceiling: None,
            is_taken: false,
            is_being_split: false,
            pages_since_split: 0,
        }
    }

    /// Returns the next point at which to check whether more keys follow. If the end of the keys is known, this is the
    /// middle of the remaining keys. Otherwise it is the point after all keys that share the prefix of the listed keys.
    /// Later points use shorter and shorter prefixes.
    fn point(&self, prefix: &[u8], looked: u32) -> Option<Vec<u8>> {
        let end = self.ceiling.as_deref().or(self.until.as_deref());
        if end.is_some() || self.first.is_empty() {
            return between(&self.after, end, prefix);
        }
        let common = self.first.iter().zip(&self.after).take_while(|(one, other)| one == other).count();
        let kept = common.checked_sub(looked as usize).filter(|kept| *kept >= prefix.len())?;
        // The key is sent as a string, so no character is split.
        let text =
            String::from_utf8_lossy(self.after.get(..kept)?).trim_end_matches('\u{fffd}').as_bytes().to_vec();
        Some([text.as_slice(), &[AFTER_ALL]].concat())
    }
}

/// Result of the listing in ranges.
pub(super) enum RangesEnd {
    /// Everything was listed, or the job is ending.
    Over,
    /// The keys do not ascend. A listing by tokens starts at this page.
    Disordered(Disorder, TokenStart),
}

/// State shared by the tasks. No part of it stays borrowed across an await.
struct RangeLister {
    pages: Rc<BucketPages>,
    order: OrderCheck,
    ranges: RefCell<Vec<ListingRange>>,
    next_id: Cell<u64>,
    changed: Notify,
    failure: RefCell<Option<Error>>,
    disorder: RefCell<Option<Disorder>>,
    /// Whether the listing so far is a single range that started at the first key.
    is_one_walk: Cell<bool>,
    /// Whether a token led back to its own page. If so, each page is requested by the last key of the page before it.
    distrusts_tokens: Cell<bool>,
    has_told_truncation: Cell<bool>,
}

/// Lists all remaining keys. Stops early if the job is ending.
pub(super) async fn list(pages: &Rc<BucketPages>, ranges: Vec<KeyRange>) -> Result<RangesEnd> {
    let lister = Rc::new(RangeLister::new(Rc::clone(pages), ranges));
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
    lister.end()
}

impl RangeLister {
    fn new(pages: Rc<BucketPages>, ranges: Vec<KeyRange>) -> Self {
        let is_whole = |range: &KeyRange| range.after.is_empty() && range.until.is_none();
        RangeLister {
            is_one_walk: Cell::new(ranges.len() == 1 && ranges.iter().all(is_whole)),
            next_id: Cell::new(ranges.iter().map(|range| range.id + 1).max().unwrap_or(0)),
            ranges: RefCell::new(ranges.into_iter().map(ListingRange::new).collect()),
            order: OrderCheck::default(),
            changed: Notify::new(),
            failure: RefCell::new(None),
            disorder: RefCell::new(None),
            distrusts_tokens: Cell::new(false),
            has_told_truncation: Cell::new(false),
            pages,
        }
    }

    fn end(&self) -> Result<RangesEnd> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let Some(disorder) = self.disorder.take() else { return Ok(RangesEnd::Over) };
        let start = if self.is_one_walk.get() { self.next_page() } else { None };
        match start {
            // The page might be wrong, and nothing else leads to the next page.
            None if !self.pages.has_tokens() => Err(self.pages.circular(&disorder)),
            start => Ok(RangesEnd::Disordered(disorder, start.unwrap_or(TokenStart::Again))),
        }
    }

    /// Returns the page at which the only range continues. This page must be the first one or have a token.
    fn next_page(&self) -> Option<TokenStart> {
        let ranges = self.ranges.borrow();
        let range = ranges.first()?;
        let has_place = range.after.is_empty() || range.token.is_some();
        has_place.then(|| TokenStart::At(range.token.clone()))
    }

    /// Keeps the first failure as the failure of the listing. The other tasks then end.
    fn fail(&self, error: Error) {
        self.failure.borrow_mut().get_or_insert(error);
        self.changed.notify_waiters();
    }

    /// Ends all ranges because a key is out of order.
    fn found(&self, disorder: Disorder) {
        self.disorder.borrow_mut().get_or_insert(disorder);
        self.changed.notify_waiters();
    }

    fn is_over(&self) -> bool {
        self.pages.is_over() || self.failure.borrow().is_some() || self.disorder.borrow().is_some()
    }

    /// Runs a task, which lists one range after another. Splits ranges if there are too few.
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

    /// Takes a range that no task is listing.
    fn take(&self) -> Option<u64> {
        let mut ranges = self.ranges.borrow_mut();
        let range = ranges.iter_mut().find(|range| !range.is_taken)?;
        range.is_taken = true;
        Some(range.id)
    }

    fn with<T>(&self, id: u64, look: impl FnOnce(&mut ListingRange) -> T) -> Option<T> {
        self.ranges.borrow_mut().iter_mut().find(|range| range.id == id).map(look)
    }

    /// Lists the remaining pages of a range.
    async fn list_range(&self, connection: &mut RestedConnection, id: u64) -> Result<()> {
        let mut empty_pages = 0;
        while self.pages.wait_for_room().await && !self.is_over() {
            let Some((after, token)) = self.with(id, |range| (range.after.clone(), range.token.clone()))
            else {
                return Ok(());
            };
            let Some(page) = self.next_page_of(connection, &after, token.as_deref()).await? else { continue };
            let PageEnd { last_key, is_truncated, token: next, .. } = &page.end;
            let next = self.trusted(next.clone().filter(|_| *is_truncated), token.as_deref());
            let Some(last) = last_key else {
                // Some stores return empty pages where many keys were deleted.
                empty_pages += 1;
                if *is_truncated && (next.is_none() || empty_pages > limits::EMPTY_PAGES_MAX) {
                    return Err(self.pages.endless(&self.pages.after(&after, limits::S3_PAGE_KEYS)));
                }
                if *is_truncated {
                    self.with(id, |range| range.token = next);
                    continue;
                }
                self.advance(id, (after, None), (Names::default(), Skips::default()), true);
                return Ok(());
            };
            empty_pages = 0;
            let is_end = !is_truncated && self.is_end(connection, last).await?;
            if self.is_over() {
                return Ok(());
            }
            // No await is allowed below, because another task could split the range in the meantime.
            let Some(until) = self.with(id, |range| range.until.clone()) else { return Ok(()) };
            let (names, skipped, is_after) = page.select(until.as_deref());
            let is_last = is_after || is_end;
            self.advance(id, (last.clone(), next), (names, skipped), is_last);
            if is_last {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Fetches the next page of a range. Returns `None` if the page must be requested in another way, or cannot be
    /// requested now.
    async fn next_page_of(
        &self,
        connection: &mut RestedConnection,
        after: &[u8],
        token: Option<&str>,
    ) -> Result<Option<ListedKeys>> {
        let query = match token.filter(|_| !self.distrusts_tokens.get()) {
            Some(token) => self.pages.at_token(Some(token)),
            None if self.begins_well(connection, after).await? => {
                self.pages.after(after, limits::S3_PAGE_KEYS)
            }
            None => return Ok(None),
        };
        let page = match self.pages.ask(connection, &query).await? {
            BucketPageAnswer::Page(page) => page,
            BucketPageAnswer::Over => return Ok(None),
            BucketPageAnswer::Refused(error) if query.token.is_none() => return Err(error),
            BucketPageAnswer::Refused(_) => {
                self.distrusts_tokens.set(true);
                return Ok(None);
            }
        };
        if let Some(disorder) = page.disorder_after(after) {
            self.found(disorder);
            return Ok(None);
        }
        Ok(Some(page))
    }

    /// Returns the token of the next page, or `None` if any token has led back to its own page.
    fn trusted(&self, next: Option<String>, from: Option<&str>) -> Option<String> {
        if next.is_some() && next.as_deref() == from {
            self.distrusts_tokens.set(true);
        }
        next.filter(|_| !self.distrusts_tokens.get())
    }

    /// Returns whether the store lists all keys after this key.
    async fn begins_well(&self, connection: &mut RestedConnection, after: &[u8]) -> Result<bool> {
        match self.order.check(&self.pages, connection, after).await? {
            Border::Ordered => Ok(true),
            Border::Disordered(disorder) => {
                self.found(disorder);
                Ok(false)
            }
            Border::Over => Ok(false),
        }
    }

    /// Fetches a page that contains the first key after this one. Returns `None` if the job is ending or the keys do
    /// not ascend.
    async fn first_after(
        &self,
        connection: &mut RestedConnection,
        after: &[u8],
    ) -> Result<Option<ListedKeys>> {
        match self.pages.ask(connection, &self.pages.after(after, 1)).await? {
            BucketPageAnswer::Page(page) => match page.disorder_after(after) {
                None => return Ok(Some(page)),
                Some(disorder) => self.found(disorder),
            },
            BucketPageAnswer::Refused(error) => return Err(error),
            BucketPageAnswer::Over => {}
        }
        Ok(None)
    }

    /// Returns whether no key follows this key. If the store was wrong about the end, notifies the user, but only the
    /// first time.
    async fn is_end(&self, connection: &mut RestedConnection, last: &[u8]) -> Result<bool> {
        let Some(page) = self.first_after(connection, last).await? else { return Ok(false) };
        let is_end = page.end.last_key.is_none();
        if !is_end && !self.has_told_truncation.replace(true) {
            self.pages.control.notice(&format!(
                "the bucket {} reported the end of its listing too early; the keys after {} are listed as \
                 well",
                self.pages.bucket.text(),
                for_display(last)
            ));
        }
        Ok(is_end)
    }

    /// Sends listed keys of a range to the journal, together with the progress of the range.
    fn advance(
        &self,
        id: u64,
        (after, token): (Vec<u8>, Option<String>),
        (names, skipped): (Names, Skips),
        is_last: bool,
    ) {
        let cursor = PageCursor::Keys { range: id, after: after.clone(), is_last };
        hand_over(&self.pages.control, ListedPage { names, skipped, total: None, cursor });
        if is_last {
            self.ranges.borrow_mut().retain(|range| range.id != id);
            self.changed.notify_waiters();
        } else {
            self.with(id, |range| {
                if range.first.is_empty() {
                    range.first.clone_from(&after);
                }
                range.after = after;
                range.token = token;
                range.pages_since_split += 1;
            });
        }
    }

    /// Returns the range with the most pages since its last split, if fetching is running out of targets.
    fn choose_split(&self) -> Option<u64> {
        if !self.pages.control.plan.lock().needs_targets() {
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

    /// Searches for a point with keys on both sides and turns the keys after it into a new range.
    async fn split(&self, connection: &mut RestedConnection, id: u64) -> Result<()> {
        let done = self.find_split(connection, id).await;
        self.with(id, |range| {
            range.is_being_split = false;
            range.pages_since_split = 0;
        });
        done
    }

    async fn find_split(&self, connection: &mut RestedConnection, id: u64) -> Result<()> {
        // Last point that is known to be followed by keys, while the end of the keys is unknown.
        let mut found = None;
        for looked in 0..PROBES_MAX {
            let prefix = self.pages.prefix.as_bytes();
            let Some(Some(at)) = self.with(id, |range| range.point(prefix, looked)) else { break };
            let Some(page) = self.first_after(connection, &at).await? else { return Ok(()) };
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
                // In the meantime, another task listed the remaining keys of the range.
                None | Some((false, ..)) => return Ok(()),
                Some((_, true, true)) => return self.divide(connection, id, at).await,
                Some((_, true, false)) => found = Some(at),
                Some((_, false, _)) => {}
            }
            if self.is_over() {
                return Ok(());
            }
        }
        match found {
            Some(at) => self.divide(connection, id, at).await,
            None => Ok(()),
        }
    }

    /// Splits a range at `at`, which is known to be followed by keys. A free task lists the new range.
    async fn divide(&self, connection: &mut RestedConnection, id: u64, at: Vec<u8>) -> Result<()> {
        let is_good = self.begins_well(connection, &at).await?;
        // In the meantime, another task might have listed the remaining keys of the range.
        if is_good && !self.is_over() && self.with(id, |range| at > range.after) == Some(true) {
            self.divide_at(id, at);
        }
        Ok(())
    }

    fn divide_at(&self, id: u64, at: Vec<u8>) {
        self.is_one_walk.set(false);
        let behind = self.next_id.replace(self.next_id.get() + 1);
        let Some((until, ceiling)) =
            self.with(id, |range| (range.until.replace(at.clone()), range.ceiling.take()))
        else {
            return;
        };
        self.pages.control.journal.list(ListingRequest::SplitRange { range: id, at: at.clone(), behind });
        self.ranges
            .borrow_mut()
            .push(ListingRange { ceiling, ..ListingRange::new(KeyRange { id: behind, after: at, until }) });
        self.changed.notify_waiters();
    }
}
