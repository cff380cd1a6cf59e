//! The listing's thread: hands page after page to the journal, ahead of the fetching. Before that it hands over what
//! an earlier run has listed and not settled.

mod input;
mod list;
pub(super) mod s3;
pub(super) mod server;

pub use list::open_list;
pub(super) use list::{List, note_origins};

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use super::control::{Control, Stop};
use super::recorder::{ToJournal, ended};
use crate::error::{Error, Result};
use crate::source::ListedPage;
use crate::target::{Page, Sequence};

/// Where the listing goes on.
pub(super) enum From {
    /// At a server that lists its objects.
    Server(Box<server::Setup>, server::Place),
    /// In a bucket.
    Bucket(Box<s3::Setup>),
    /// In a list.
    List(Box<List>),
    /// It was complete.
    Nowhere,
}

/// Works until everything is listed or the job is to end.
pub(super) fn run(control: &Arc<Control>, from: From) {
    let listed = hand_over_live_pages(control, matches!(from, From::List(..))).and_then(|()| match from {
        From::Server(setup, place) => server::list(*setup, &place),
        From::Bucket(setup) => s3::list(*setup),
        From::List(list) => list::read(control, *list),
        From::Nowhere => Ok(()),
    });
    match listed {
        Ok(()) if control.stop() == Stop::No => control.end_listing(),
        Ok(()) => {}
        Err(error @ (Error::Listing(_) | Error::Temporary(_) | Error::Security(_))) => {
            control.fail_listing(error);
        }
        Err(error) => control.fail(error),
    }
}

fn ask_journal<T>(
    control: &Control,
    message: impl FnOnce(std::sync::mpsc::Sender<T>) -> ToJournal,
) -> Result<T> {
    let (reply, answer) = channel();
    control.journal(message(reply));
    answer.recv().map_err(|_| ended())
}

fn hand_over_live_pages(control: &Control, is_list: bool) -> Result<()> {
    let mut from: Sequence = 0;
    while control.wait_for_room() {
        let Some((first, names, pending)) =
            ask_journal(control, |reply| ToJournal::NextLivePage(from, reply))?
        else {
            return Ok(());
        };
        from = first + 1;
        if is_list {
            note_origins(control, names.iter());
        }
        let targets = pending.iter().map(ExactSizeIterator::len).sum();
        let live_bytes = Arc::clone(&control.live_bytes);
        live_bytes.fetch_add(names.byte_len(), Ordering::Relaxed);
        let page = Arc::new(Page::new(first, names, Some(live_bytes)));
        let mut planner = control.planner();
        planner.announce(targets);
        planner.add_page(&page, pending);
        drop(planner);
        control.wake_all();
    }
    Ok(())
}

/// A page is on its way to the journal: from now on it counts.
fn hand_over(control: &Control, page: ListedPage) {
    control.planner().announce(page.names.len());
    control.live_bytes.fetch_add(page.names.byte_len(), Ordering::Relaxed);
    control.journal(ToJournal::Page(page));
}
