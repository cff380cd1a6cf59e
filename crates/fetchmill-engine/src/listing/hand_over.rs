//! Sends pages to the planner, both from an earlier run and from the current listing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::control::Control;
use crate::control::journal_link::{JournalRequest, ListingRequest};
use fetchmill_model::error::Result;
use fetchmill_model::source::ListedPage;
use fetchmill_model::target::{Page, Sequence};

/// Sends the unfinished targets that an earlier run listed. `names_urls` means that targets are URLs, possibly at many
/// origins.
pub(super) fn hand_over_live_pages(control: &Control, names_urls: bool) -> Result<()> {
    let mut from: Sequence = 0;
    while control.wait_for_room() {
        let Some((first, names, pending)) =
            control.journal.ask(|reply| JournalRequest::NextLivePage(from, reply))?
        else {
            return Ok(());
        };
        from = first + 1;
        if names_urls {
            control.note_origins(names.iter());
        }
        let targets = pending.iter().map(ExactSizeIterator::len).sum();
        let live_bytes = Arc::clone(&control.plan.live_bytes);
        live_bytes.fetch_add(names.byte_len(), Ordering::Relaxed);
        let page = Arc::new(Page::new(first, names, Some(live_bytes)));
        let mut planner = control.plan.lock();
        planner.announce(targets);
        planner.add_page(&page, pending);
        drop(planner);
        control.plan.wake_all();
    }
    Ok(())
}

/// Sends a page to the journal. Its targets count from now on.
pub(super) fn hand_over(control: &Control, page: ListedPage) {
    control.plan.lock().announce(page.names.len());
    control.plan.live_bytes.fetch_add(page.names.byte_len(), Ordering::Relaxed);
    control.journal.list(ListingRequest::Page(page));
}
