//! The journal's thread: the only one that writes it. It takes what has come, makes one transaction of it, and tells
//! everybody afterwards. Pages are handed to the planner only when they are durable.

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

use crossbeam_channel::Receiver;

use super::recovery::ProcessRecovery;
use crate::control::Control;
use crate::control::journal_link::{JournalRequest, ended};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::ShardNumber;
use fetchmill_model::source::ListedPage;
use fetchmill_model::target::Page;
use fetchmill_store::journal::Journal;

/// Messages that make one transaction: pages of 16 MiB at the worst, a few hundred rows usually.
const MESSAGES_MAX: usize = 64;

/// What is told to others once the transaction is durable.
#[derive(Default)]
struct CommitEffects {
    pages: Vec<Arc<Page>>,
    acknowledge: Vec<(SyncSender<Option<ShardNumber>>, Option<ShardNumber>)>,
    /// A worker waits for one of them without a thread of its own.
    wakes_workers: bool,
}

/// Works until every sender has gone. Returns the journal.
pub(crate) fn run(
    journal: Journal,
    messages: &Receiver<JournalRequest>,
    control: &Control,
    recovery: &ProcessRecovery,
) -> Result<Journal> {
    let mut recorder = Recorder { journal, control, recovery, is_listing_refused: false };
    while let Ok(first) = messages.recv() {
        let mut afterwards = CommitEffects::default();
        if let Err(error) = recorder.transact(first, messages, &mut afterwards) {
            return known(Err(error), control);
        }
        afterwards.tell(control);
    }
    Ok(recorder.journal)
}

struct Recorder<'r> {
    journal: Journal,
    control: &'r Control,
    recovery: &'r ProcessRecovery,
    /// Whether a page was refused. Pages after it are on their way, and none of them counts: the listing would go on
    /// after the gap.
    is_listing_refused: bool,
}

impl Recorder<'_> {
    fn transact(
        &mut self,
        first: JournalRequest,
        messages: &Receiver<JournalRequest>,
        afterwards: &mut CommitEffects,
    ) -> Result<()> {
        let mut next = Some(first);
        for _ in 0..MESSAGES_MAX {
            let Some(message) = next.take() else { break };
            self.handle(message, afterwards)?;
            next = messages.try_recv().ok();
        }
        if let Some(message) = next {
            self.handle(message, afterwards)?;
        }
        self.journal.commit()
    }

    fn handle(&mut self, message: JournalRequest, afterwards: &mut CommitEffects) -> Result<()> {
        let (journal, control) = (&mut self.journal, self.control);
        match message {
            JournalRequest::Page(page) => self.add_page(page, afterwards)?,
            JournalRequest::FailFolder { .. }
            | JournalRequest::SplitRange { .. }
            | JournalRequest::EndListing
                if self.is_listing_refused => {}
            JournalRequest::FailFolder { path, status, attempts, detail } => {
                journal.fail_folder(&path, status, attempts, &detail)?;
            }
            JournalRequest::SplitRange { range, at, behind } => journal.split_range(range, &at, behind)?,
            JournalRequest::EndListing => {
                journal.begin()?;
                journal.end_listing()?;
            }
            JournalRequest::RestartListing => journal.restart_listing()?,
            JournalRequest::Doubtful(targets) => journal.doubt(&targets)?,
            JournalRequest::Receipt(receipt, sender) => {
                let in_place = self.recovery.place.must_be_in_place();
                let number = known(in_place.and_then(|()| journal.settle(&receipt)), control)?;
                afterwards.acknowledge.push((sender, number));
            }
            JournalRequest::Begin(targets, sender) => {
                known(journal.begin_requests(&targets), control)?;
                afterwards.acknowledge.push((sender, None));
                afterwards.wakes_workers = true;
            }
            JournalRequest::Leave(targets) => journal.leave_requests(&targets),
            JournalRequest::Upload(number, upload, sender) => {
                known(journal.note_upload(number, upload), control)?;
                afterwards.acknowledge.push((sender, None));
            }
            JournalRequest::Waiting(targets) => {
                journal.add_waiting(&targets)?;
                control.journal.written(targets.len());
            }
            JournalRequest::Waits(waits) => {
                journal.begin()?;
                journal.set("waits", &waits)?;
            }
            JournalRequest::Samples(samples, progress) => journal.add_samples(&samples, &progress)?,
            JournalRequest::LoadWaiting { from, max } => {
                let (rows, complete) = journal.load_waiting(from, max)?;
                control.note_origins(rows.iter().map(|row| &*row.name));
                control.plan.loaded_waiting(rows, complete, &control.journal);
                control.plan.wake_all();
            }
            JournalRequest::Bury { worker, pid, reply } => {
                answer(&reply, self.recovery.recover_process(journal, worker, pid), control)?;
            }
            JournalRequest::NextFolder(reply) => answer(&reply, journal.next_folder(), control)?,
            JournalRequest::NextLivePage(from, reply) => {
                answer(&reply, journal.next_live_page(from), control)?;
            }
        }
        Ok(())
    }

    fn add_page(&mut self, page: ListedPage, afterwards: &mut CommitEffects) -> Result<()> {
        let control = self.control;
        if self.is_listing_refused {
            control.plan.lock().withdraw(page.names.len());
            return Ok(());
        }
        if let Some(preflight) = &control.preflight
            && let Err(error) = preflight.admit(&page, self.journal.tally(), self.journal.total())
        {
            self.refuse_page(&page);
            control.stop.fail(error);
            return Ok(());
        }
        match self.journal.add_page(&page) {
            Ok(first) => {
                control.note_listed_page(self.journal.total());
                let skipped = page.skipped.total();
                control.listing_counters().add_listed(page.names.len() as u64 + skipped, skipped);
                if !page.names.is_empty() {
                    let live_bytes = Arc::clone(&control.plan.live_bytes);
                    afterwards.pages.push(Arc::new(Page::new(first, page.names, Some(live_bytes))));
                }
                Ok(())
            }
            Err(error @ Error::Listing(_)) => {
                self.refuse_page(&page);
                control.fail_listing(error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The listing has failed at this page.
    fn refuse_page(&mut self, page: &ListedPage) {
        self.is_listing_refused = true;
        self.control.plan.lock().withdraw(page.names.len());
    }
}

/// Makes a failure known before whoever waits for the answer is let go: all that they know is that none comes.
fn known<T>(found: Result<T>, control: &Control) -> Result<T> {
    found.map_err(|error| {
        control.stop.fail(error);
        ended()
    })
}

/// Who asked may have ended meanwhile.
fn answer<T>(reply: &Sender<T>, found: Result<T>, control: &Control) -> Result<()> {
    let _ = reply.send(known(found, control)?);
    Ok(())
}

impl CommitEffects {
    fn tell(self, control: &Control) {
        for (sender, number) in self.acknowledge {
            let _ = sender.send(number);
        }
        if self.wakes_workers {
            control.plan.wake_all();
        }
        if !self.pages.is_empty() {
            let mut planner = control.plan.lock();
            for page in self.pages {
                let all = 0..page.names.len();
                planner.add_page(&page, std::iter::once(all));
            }
            drop(planner);
            control.plan.wake_all();
        }
    }
}
