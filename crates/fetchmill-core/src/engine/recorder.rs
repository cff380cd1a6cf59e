//! The journal's thread: the only one that writes it. It takes what has come, makes one transaction of it, and tells
//! everybody afterwards. Pages are handed to the planner only when they are durable.

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

use crossbeam_channel::Receiver;

use super::control::Control;
use super::listing::note_origins;
use super::recovery::Estate;
use crate::error::{Error, Result};
use crate::journal::{Journal, PendingPage, Upload};
use crate::outcome::{Receipt, Runs, ShardNumber};
use crate::planner::waiting::Key;
use crate::source::{Folder, ListedPage};
use crate::target::{Page, Sequence, Waiting};

/// Messages that make one transaction: pages of 16 MiB at the worst, a few hundred rows usually.
const MESSAGES_MAX: usize = 64;

/// Everything that the journal is asked for.
#[derive(Debug)]
pub(super) enum ToJournal {
    /// A page; its targets are announced to the planner.
    Page(ListedPage),
    /// A folder that gives no listing.
    FailFolder { path: Vec<u8>, status: Option<u16>, attempts: u32, detail: String },
    /// What is behind a key in a range of keys becomes a range of its own.
    SplitRange { range: u64, at: Vec<u8>, behind: u64 },
    /// The listing is complete.
    EndListing,
    /// What a worker's sink has made durable; the sender is told when that is in the journal, with the number of the
    /// shard that was sealed.
    Receipt(Box<Receipt>, SyncSender<Option<ShardNumber>>),
    /// How far the upload of a shard is; the sender is told when that is in the journal.
    Upload(ShardNumber, Upload, SyncSender<Option<ShardNumber>>),
    /// Targets that wait longer than a commit window.
    Waiting(Vec<Waiting>),
    /// The planner has room for waiting targets.
    LoadWaiting { from: Key, max: usize },
    /// A worker's process has died: what it left is brought into agreement. The answer is what that has settled.
    Bury { worker: u32, pid: u32, reply: Sender<Runs> },
    /// The next folder to list.
    NextFolder(Sender<Option<Folder>>),
    /// A page of an earlier run with targets that are not settled.
    NextLivePage(Sequence, Sender<Option<PendingPage>>),
}

/// What is told to others once the transaction is durable.
#[derive(Default)]
struct Afterwards {
    pages: Vec<Arc<Page>>,
    acknowledge: Vec<(SyncSender<Option<ShardNumber>>, Option<ShardNumber>)>,
}

/// Works until every sender has gone. Returns the journal.
pub(super) fn run(
    mut journal: Journal,
    messages: &Receiver<ToJournal>,
    control: &Control,
    estate: &Estate,
) -> Result<Journal> {
    while let Ok(first) = messages.recv() {
        let mut afterwards = Afterwards::default();
        if let Err(error) = transact(&mut journal, first, (messages, control, estate), &mut afterwards) {
            // Before those who wait for an answer are let go: all that they know is that none comes.
            control.fail(error);
            return Err(ended());
        }
        afterwards.tell(control);
    }
    Ok(journal)
}

/// What others are told when the journal's thread has failed; the failure itself is known by then.
pub(super) fn ended() -> Error {
    Error::Internal("the journal's thread has ended".into())
}

fn transact(
    journal: &mut Journal,
    first: ToJournal,
    (messages, control, estate): (&Receiver<ToJournal>, &Control, &Estate),
    afterwards: &mut Afterwards,
) -> Result<()> {
    let mut next = Some(first);
    for _ in 0..MESSAGES_MAX {
        let Some(message) = next.take() else { break };
        handle(journal, message, (control, estate), afterwards)?;
        next = messages.try_recv().ok();
    }
    if let Some(message) = next {
        handle(journal, message, (control, estate), afterwards)?;
    }
    journal.commit()
}

/// Who asked may have ended meanwhile.
fn answer<T>(reply: &Sender<T>, found: Result<T>, control: &Control) -> Result<()> {
    match found {
        Ok(found) => {
            let _ = reply.send(found);
            Ok(())
        }
        Err(error) => {
            control.fail(error);
            Err(ended())
        }
    }
}

fn handle(
    journal: &mut Journal,
    message: ToJournal,
    (control, estate): (&Control, &Estate),
    afterwards: &mut Afterwards,
) -> Result<()> {
    match message {
        ToJournal::Page(page) => add_page(journal, page, control, afterwards)?,
        ToJournal::FailFolder { path, status, attempts, detail } => {
            journal.fail_folder(&path, status, attempts, &detail)?;
        }
        ToJournal::SplitRange { range, at, behind } => journal.split_range(range, &at, behind)?,
        ToJournal::EndListing => {
            journal.begin()?;
            journal.end_listing()?;
        }
        ToJournal::Receipt(receipt, sender) => {
            let number = journal.settle(&receipt)?;
            afterwards.acknowledge.push((sender, number));
        }
        ToJournal::Upload(number, upload, sender) => {
            journal.note_upload(number, upload)?;
            afterwards.acknowledge.push((sender, None));
        }
        ToJournal::Waiting(targets) => {
            journal.add_waiting(&targets)?;
            control.parked(targets.len());
        }
        ToJournal::LoadWaiting { from, max } => {
            let (rows, complete) = journal.load_waiting(from, max)?;
            note_origins(control, rows.iter().map(|row| &*row.name));
            control.planner().loaded_waiting(rows, complete);
            control.wake_all();
        }
        ToJournal::Bury { worker, pid, reply } => answer(&reply, estate.bury(journal, worker, pid), control)?,
        ToJournal::NextFolder(reply) => answer(&reply, journal.next_folder(), control)?,
        ToJournal::NextLivePage(from, reply) => answer(&reply, journal.next_live_page(from), control)?,
    }
    Ok(())
}

fn add_page(
    journal: &mut Journal,
    page: ListedPage,
    control: &Control,
    afterwards: &mut Afterwards,
) -> Result<()> {
    if let Some(preflight) = &control.preflight
        && let Err(error) = preflight.admit(&page, journal.tally(), journal.total())
    {
        control.planner().withdraw(page.names.len());
        control.fail(error);
        return Ok(());
    }
    match journal.add_page(&page) {
        Ok(first) => {
            control.listing_counters().add_listed(page.names.len() as u64 + page.skipped, page.skipped);
            if !page.names.is_empty() {
                let live_bytes = Arc::clone(&control.live_bytes);
                afterwards.pages.push(Arc::new(Page::new(first, page.names, Some(live_bytes))));
            }
            Ok(())
        }
        Err(error @ Error::Listing(_)) => {
            control.planner().withdraw(page.names.len());
            control.fail_listing(error);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

impl Afterwards {
    fn tell(self, control: &Control) {
        for (sender, number) in self.acknowledge {
            let _ = sender.send(number);
        }
        if !self.pages.is_empty() {
            let mut planner = control.planner();
            for page in self.pages {
                let all = 0..page.names.len();
                planner.add_page(&page, std::iter::once(all));
            }
            drop(planner);
            control.wake_all();
        }
    }
}
