//! A list of URLs: read ahead of the fetching, as far as there is room.

use super::hand_over::hand_over;
use crate::control::Control;
use crate::control::journal_link::ListingRequest;
use crate::control::stop::Stop;
use crate::list_input::OpenedList;
use fetchmill_model::error::Result;
use fetchmill_model::source::list::ListStep;

/// Reads to the end of the list, or until the job is to end.
pub(super) fn read(control: &Control, mut list: OpenedList) -> Result<()> {
    if !list.take_sample(|| control.stop.get() == Stop::No)? {
        return Ok(());
    }
    while control.wait_for_room() {
        match list.next_page()? {
            ListStep::Page(page) => {
                control.note_origins(page.names.iter());
                control.note_list_share(list.share_read());
                hand_over(control, *page);
            }
            // It has waited a moment itself: time to look whether the job is to end.
            ListStep::NothingNow => {}
            ListStep::End => break,
        }
    }
    if let Some(notice) = list.notice() {
        control.notice(&notice);
    }
    if control.stop.get() == Stop::No {
        control.journal.list(ListingRequest::End);
    }
    Ok(())
}
