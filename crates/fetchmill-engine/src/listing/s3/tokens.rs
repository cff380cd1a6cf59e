//! Lists a bucket whose keys do not ascend. Each page is requested with the token from the page before it.

use super::pages::{BucketPageAnswer, BucketPages};
use crate::control::journal_link::{CommitRequest, TokenStart};
use crate::listing::hand_over::hand_over;
use crate::listing::relisting::Relisting;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::s3::Disorder;
use fetchmill_model::source::{ListedPage, PageCursor};
use fetchmill_net::certain::RestedConnection;

/// State of a listing by tokens. See the [module documentation](self).
pub(super) struct TokenWalk<'a> {
    pages: &'a BucketPages,
    relisting: Option<Relisting>,
    /// Token of the next page. `None` means the first page.
    token: Option<String>,
    /// Whether the token comes from an earlier run, and might therefore have expired.
    is_of_earlier_run: bool,
}

impl<'a> TokenWalk<'a> {
    /// Resumes the walk of an earlier run. `is_relisting` means that the earlier run had restarted the listing and
    /// skipped known targets.
    pub(super) fn resume(
        pages: &'a BucketPages,
        mut relisting: Option<Relisting>,
        token: Option<String>,
        is_relisting: bool,
    ) -> Result<Self> {
        if let Some(relisting) = relisting.as_mut().filter(|_| is_relisting) {
            relisting.gather()?;
        }
        Ok(TokenWalk { pages, relisting, is_of_earlier_run: token.is_some(), token })
    }

    /// Starts a walk after the bucket turned out not to support ranges.
    pub(super) fn begin(
        pages: &'a BucketPages,
        relisting: Option<Relisting>,
        start: TokenStart,
        disorder: &Disorder,
    ) -> Result<Self> {
        let mut walk = TokenWalk { pages, relisting, token: None, is_of_earlier_run: false };
        match start {
            TokenStart::Again => walk.begin_again(&|| {
                let [key, after] = [&disorder.key, &disorder.after].map(|key| for_display(key));
                format!(
                    "the keys of the bucket {} are not in ascending order: {key} comes after {after}",
                    pages.bucket.text()
                )
            })?,
            TokenStart::At(token) => {
                walk.token.clone_from(&token);
                pages.control.journal.commit(CommitRequest::FollowTokens(TokenStart::At(token)))?;
            }
        }
        Ok(walk)
    }

    /// Starts again with the first page, without the targets that the job already contains.
    fn begin_again(&mut self, why: &dyn Fn() -> String) -> Result<()> {
        let Some(relisting) = &mut self.relisting else {
            return Err(Error::Listing(format!(
                "{}; the listing must start over, but this job does not keep the names of its targets; use \
                 another destination",
                why()
            )));
        };
        // Names are collected from durable data only, so the pages of this run are committed first.
        self.pages.control.journal.commit(CommitRequest::FollowTokens(TokenStart::Again))?;
        relisting.gather()?;
        (self.token, self.is_of_earlier_run) = (None, false);
        Ok(())
    }

    /// Lists pages until one has no token.
    pub(super) async fn list(mut self) -> Result<()> {
        let mut connection = RestedConnection::default();
        let mut empty_pages = 0;
        while self.pages.wait_for_room().await {
            let from = self.token.clone();
            let query = self.pages.at_token(from.as_deref());
            let page = match self.pages.ask(&mut connection, &query).await? {
                BucketPageAnswer::Page(page) => page,
                BucketPageAnswer::Over => return Ok(()),
                BucketPageAnswer::Refused(error) => {
                    self.token_refused(error)?;
                    continue;
                }
            };
            self.is_of_earlier_run = false;
            empty_pages = if page.keys.is_empty() { empty_pages + 1 } else { 0 };
            let next = page.end.token.clone().filter(|_| page.end.is_truncated);
            if page.end.is_truncated && next.is_none() || empty_pages > limits::EMPTY_PAGES_MAX {
                return Err(self.pages.endless(&query));
            }
            let (names, skipped, _) = page.select(None);
            let cursor = PageCursor::Marker { from, next: next.clone() };
            self.hand_over(ListedPage { names, skipped, total: None, cursor })?;
            if next.is_none() {
                return Ok(());
            }
            self.token = next;
        }
        Ok(())
    }

    /// Restarts the walk if the rejected token comes from an earlier run, and might therefore have expired. Any other
    /// rejection is an error.
    fn token_refused(&mut self, error: Error) -> Result<()> {
        if !self.is_of_earlier_run {
            return Err(error);
        }
        self.begin_again(&|| format!("{error}; the token from an earlier run may have expired"))?;
        let notice =
            "the token from an earlier run has expired, so the listing starts over; fetched objects are kept";
        self.pages.control.notice(notice);
        Ok(())
    }

    fn hand_over(&self, page: ListedPage) -> Result<()> {
        let page = match &self.relisting {
            Some(relisting) => relisting.without_known(page)?,
            None => page,
        };
        hand_over(&self.pages.control, page);
        Ok(())
    }
}
