//! A list of URLs. It is read ahead of fetching, as far as the planner has room.

use std::thread;
use std::time::Duration;

use super::hand_over::hand_over;
use crate::control::Control;
use crate::control::journal_link::ListingRequest;
use crate::control::list_gate::ListTurn;
use crate::control::stop::Stop;
use crate::list_input::OpenedList;
use fetchmill_model::error::Result;
use fetchmill_model::source::PageCursor;
use fetchmill_model::source::list::ListStep;

/// Interval at which a paused listing checks whether it can continue.
const GATE_PATIENCE: Duration = Duration::from_millis(5);

/// Reads to the end of the list. Stops early if the job is ending.
pub(super) fn read(control: &Control, mut list: OpenedList) -> Result<()> {
    if !list.take_sample(|| control.stop.get() == Stop::No)? {
        return Ok(());
    }
    while control.wait_for_room() {
        match control.list_gate.turn() {
            ListTurn::Read => {}
            ListTurn::Wait => {
                thread::sleep(GATE_PATIENCE);
                continue;
            }
            ListTurn::End => break,
        }
        match list.next_page()? {
            ListStep::Page(page) => {
                if let PageCursor::List { position, .. } = &page.cursor {
                    control.list_gate.note_read(position.offset);
                }
                control.note_origins(page.names.iter());
                control.note_list_share(list.share_read());
                hand_over(control, *page);
            }
            // The reader has already waited for a short time, so only check whether the job is ending.
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
