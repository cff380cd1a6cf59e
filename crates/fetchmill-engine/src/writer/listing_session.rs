//! Records the listing in the journal, page by page, until its end or the first rejected page.

use std::sync::Arc;

use crate::control::Control;
use crate::control::journal_link::ListingRequest;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::ListedPage;
use fetchmill_model::target::Page;
use fetchmill_store::journal::Journal;

/// Session of a listing. See the [module documentation](self). A rejection closes the session. Pages that are already
/// on their way are then ignored, because they would leave a gap.
#[derive(Debug, Default)]
pub(super) struct ListingSession {
    is_closed: bool,
}

impl ListingSession {
    /// Records listing data. Returns the page to announce to the planner once the transaction is durable.
    pub(super) fn record(
        &mut self,
        request: ListingRequest,
        journal: &mut Journal,
        control: &Control,
    ) -> Result<Option<Arc<Page>>> {
        if self.is_closed {
            if let ListingRequest::Page(page) = &request {
                withdraw(page, control);
            }
            return Ok(None);
        }
        match request {
            ListingRequest::Page(page) => return self.add_page(page, journal, control),
            ListingRequest::FailFolder { path, status, attempts, detail } => {
                journal.fail_folder(&path, status, attempts, &detail)?;
            }
            ListingRequest::SplitRange { range, at, behind } => journal.split_range(range, &at, behind)?,
            ListingRequest::Restart => journal.restart_listing()?,
            ListingRequest::End => {
                journal.begin()?;
                journal.end_listing()?;
            }
        }
        Ok(None)
    }

    fn add_page(
        &mut self,
        page: ListedPage,
        journal: &mut Journal,
        control: &Control,
    ) -> Result<Option<Arc<Page>>> {
        if let Some(preflight) = &control.preflight
            && let Err(error) = preflight.admit(&page, journal.tally(), journal.total())
        {
            self.close(&page, control);
            control.stop.fail(error);
            return Ok(None);
        }
        match journal.add_page(&page) {
            Ok(first) => {
                control.note_listed_page(journal.total());
                let skipped = page.skipped.total();
                control.listing_counters().add_listed(page.names.len() as u64 + skipped, skipped);
                let live_bytes = Arc::clone(&control.plan.live_bytes);
                let has_targets = !page.names.is_empty();
                Ok(has_targets.then(|| Arc::new(Page::new(first, page.names, Some(live_bytes)))))
            }
            Err(error @ Error::Listing(_)) => {
                self.close(&page, control);
                control.fail_listing(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Closes the session, because the listing failed at this page.
    fn close(&mut self, refused: &ListedPage, control: &Control) {
        self.is_closed = true;
        withdraw(refused, control);
    }
}

/// Withdraws the announcement of a page that does not count, so that the planner has room for other targets.
fn withdraw(page: &ListedPage, control: &Control) {
    control.plan.lock().withdraw(page.names.len());
}
