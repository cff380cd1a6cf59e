//! The channel to the journal's thread, and the requests that it carries.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::outcome::{Receipt, Runs, ShardNumber};
use fetchmill_model::panics::lock;
use fetchmill_model::planner::waiting::DueKey;
use fetchmill_model::source::{ListedPage, PendingFolder};
use fetchmill_model::target::{Names, Sequence, WaitingTarget};
use fetchmill_store::journal::{PendingPage, UploadState};

/// Listing data to be recorded in the journal.
#[derive(Debug)]
pub(crate) enum ListingRequest {
    /// A page. The journal announces its targets to the planner.
    Page(ListedPage),
    /// A folder that could not be listed.
    FailFolder { path: Vec<u8>, status: Option<u16>, attempts: u32, detail: String },
    /// A range of keys was split: the keys after `at` become a separate range.
    SplitRange { range: u64, at: Vec<u8>, behind: u64 },
    /// The listing is complete.
    End,
    /// The listing restarts.
    Restart,
}

/// Number of the shard that was sealed with the receipt, if any.
pub(crate) type CommitAnswer = Option<ShardNumber>;

/// Data that must be durable before its sender continues.
#[derive(Debug)]
pub(crate) enum CommitRequest {
    /// A receipt from a worker's sink.
    Receipt(Box<Receipt>),
    /// These targets are about to be requested, and must never be requested twice.
    Begin(Runs),
    /// The progress of a shard's upload.
    Upload(ShardNumber, UploadState),
    /// From now on, the bucket is listed with continuation tokens.
    FollowTokens(TokenStart),
}

/// Point at which a listing with continuation tokens starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenStart {
    /// At the page with this token, or at the first page if there is none. The journal already contains everything
    /// before that page.
    At(Option<String>),
    /// At the first page again, because the listing starts over.
    Again,
}

/// A request to the journal.
#[derive(Debug)]
pub(crate) enum JournalRequest {
    /// Data of a listing.
    Listing(ListingRequest),
    /// Data that must be durable before its sender continues. The answer is sent once the data is durable.
    Commit(CommitRequest, SyncSender<CommitAnswer>),
    /// Targets that were requested but get no outcome in this run.
    Leave(Runs),
    /// Finished targets, with their names, that a late reply made doubtful.
    Doubtful(Vec<(Sequence, Vec<u8>)>),
    /// Targets that have to wait for longer than a commit window.
    Waiting(Vec<WaitingTarget>),
    /// Outages that the job is waiting out, as JSON for readers of the journal.
    Waits(String),
    /// Samples as JSON with their end times, and the current speed. If there are several samples, they replace all
    /// earlier ones.
    Samples(Vec<(f64, String)>, String),
    /// Asks for waiting targets, because the planner has room for them.
    LoadWaiting { from: DueKey, max: usize },
    /// Recovers the files of a dead worker process. The reply lists the targets that are finished as a result.
    Bury { worker: u32, pid: u32, reply: Sender<Runs> },
    /// Asks which of these names have not appeared on any page of the listing so far.
    KeepUnlisted(Names, Sender<Names>),
    /// Asks for the next folder to list.
    NextFolder(Sender<Option<PendingFolder>>),
    /// Asks for the next page of an earlier run that has unfinished targets.
    NextLivePage(Sequence, Sender<Option<PendingPage>>),
}

/// Returns the error for other threads after the journal's thread has failed. The job already has the actual error.
pub(crate) fn ended() -> Error {
    Error::Internal("the journal's thread has ended".into())
}

/// Sending side of the channel. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct JournalLink {
    /// `None` after the end. The journal's thread runs until all senders have been dropped.
    sender: Mutex<Option<crossbeam_channel::Sender<JournalRequest>>>,
    /// Number of waiting targets not yet written to the journal.
    unwritten: AtomicUsize,
}

impl JournalLink {
    pub(crate) fn new(sender: crossbeam_channel::Sender<JournalRequest>) -> Self {
        JournalLink { sender: Mutex::new(Some(sender)), unwritten: AtomicUsize::new(0) }
    }

    /// Sends a request. If the journal's thread has ended, does nothing: the job already has the error and is ending.
    pub(crate) fn send(&self, request: JournalRequest) {
        if let JournalRequest::Waiting(targets) = &request {
            self.unwritten.fetch_add(targets.len(), Ordering::Relaxed);
        }
        let sender = lock(&self.sender).clone();
        if let Some(sender) = sender {
            let _ = sender.send(request);
        }
    }

    /// Sends listing data.
    pub(crate) fn list(&self, request: ListingRequest) {
        self.send(JournalRequest::Listing(request));
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> JournalRequest) -> Result<T> {
        let (reply, answer) = channel();
        self.send(request(reply));
        answer.recv().map_err(|_| ended())
    }

    /// Sends data that must be durable. Returns a receiver for the answer.
    pub(crate) fn begin_commit(&self, request: CommitRequest) -> Receiver<CommitAnswer> {
        let (acknowledge, acknowledged) = sync_channel(1);
        self.send(JournalRequest::Commit(request, acknowledge));
        acknowledged
    }

    /// Sends data and waits until it is durable. If this fails, the job already has the actual error, which the user
    /// sees.
    pub(crate) fn commit(&self, request: CommitRequest) -> Result<CommitAnswer> {
        self.begin_commit(request).recv().map_err(|_| ended())
    }

    /// Commits a receipt.
    pub(crate) fn commit_receipt(&self, receipt: Receipt) -> Result<CommitAnswer> {
        self.commit(CommitRequest::Receipt(Box::new(receipt)))
    }

    /// Records that the journal has written this many waiting targets.
    pub(crate) fn written(&self, targets: usize) {
        self.unwritten.fetch_sub(targets, Ordering::Relaxed);
    }

    /// Returns whether no more targets should be deferred, because the journal still has many to write.
    pub(crate) fn is_full(&self) -> bool {
        self.unwritten.load(Ordering::Relaxed) >= limits::DEFERRED_QUEUED_MAX
    }

    /// Closes the channel.
    pub(crate) fn end(&self) {
        lock(&self.sender).take();
    }
}
