//! The journal's thread, which is the only one that writes to the journal. It writes all pending messages in one
//! transaction, and then notifies their senders. Pages are announced to the planner only once they are durable.

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

use crossbeam_channel::Receiver;

use super::listing_session::ListingSession;
use super::recovery::ProcessRecovery;
use crate::control::Control;
use crate::control::journal_link::{CommitAnswer, CommitRequest, JournalRequest, TokenStart, ended};
use fetchmill_model::error::Result;
use fetchmill_model::target::Page;
use fetchmill_store::journal::Journal;

/// Maximum number of messages per transaction. They usually amount to a few hundred rows, or to pages of 16 MiB in the
/// worst case.
const MESSAGES_MAX: usize = 64;

/// Notifications to send once the transaction is durable.
#[derive(Default)]
struct CommitEffects {
    pages: Vec<Arc<Page>>,
    acknowledge: Vec<(SyncSender<CommitAnswer>, CommitAnswer)>,
    /// Whether one of the acknowledgements is for a worker that waits without its own thread.
    wakes_workers: bool,
}

/// Runs until all senders have been dropped and returns the journal.
pub(crate) fn run(
    journal: Journal,
    messages: &Receiver<JournalRequest>,
    control: &Control,
    recovery: &ProcessRecovery,
) -> Result<Journal> {
    let mut recorder = Recorder { journal, control, recovery, listing: ListingSession::default() };
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
    listing: ListingSession,
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
            JournalRequest::Listing(request) => {
                afterwards.pages.extend(self.listing.record(request, journal, control)?);
            }
            JournalRequest::Doubtful(targets) => journal.doubt(&targets)?,
            JournalRequest::Commit(request, sender) => {
                afterwards.wakes_workers |= matches!(request, CommitRequest::Begin(_));
                afterwards.acknowledge.push((sender, known(self.commit(request), control)?));
            }
            JournalRequest::Leave(targets) => journal.leave_requests(&targets),
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
            JournalRequest::KeepUnlisted(names, reply) => {
                answer(&reply, journal.keep_unlisted(&names), control)?;
            }
            JournalRequest::NextFolder(reply) => answer(&reply, journal.next_folder(), control)?,
            JournalRequest::NextLivePage(from, reply) => {
                answer(&reply, journal.next_live_page(from), control)?;
            }
        }
        Ok(())
    }

    fn commit(&mut self, request: CommitRequest) -> Result<CommitAnswer> {
        match request {
            CommitRequest::Receipt(receipt) => {
                self.recovery.place.must_be_in_place()?;
                self.control.note_same_bodies(&receipt.same_bodies);
                self.journal.settle(&receipt)
            }
            CommitRequest::Begin(targets) => self.journal.begin_requests(&targets).map(|()| None),
            CommitRequest::Upload(number, upload) => self.journal.note_upload(number, upload).map(|()| None),
            CommitRequest::FollowTokens(TokenStart::At(from)) => {
                self.journal.follow_tokens(from.as_deref()).map(|()| None)
            }
            CommitRequest::FollowTokens(TokenStart::Again) => self.journal.relist_by_tokens().map(|()| None),
        }
    }
}

/// Publishes a failure before the waiting threads are released, because those threads only notice that there is no
/// answer.
fn known<T>(found: Result<T>, control: &Control) -> Result<T> {
    found.map_err(|error| {
        control.stop.fail(error);
        ended()
    })
}

/// Sends an answer. The receiver might be gone.
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
