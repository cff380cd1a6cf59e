//! The channel to the journal's thread, and its requests.

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

/// Listing data for the journal to record.
#[derive(Debug)]
pub(crate) enum ListingRequest {
    /// A page. Its targets are announced to the planner.
    Page(ListedPage),
    /// A folder that cannot be listed.
    FailFolder { path: Vec<u8>, status: Option<u16>, attempts: u32, detail: String },
    /// A range of keys is split: the keys after `at` become a range of their own.
    SplitRange { range: u64, at: Vec<u8>, behind: u64 },
    /// The listing is complete.
    End,
    /// The listing begins again at its start.
    Restart,
}

/// The number of the sealed shard, if a receipt reports one.
pub(crate) type CommitAnswer = Option<ShardNumber>;

/// Data that must be durable before its sender continues.
#[derive(Debug)]
pub(crate) enum CommitRequest {
    /// A receipt of a worker's sink.
    Receipt(Box<Receipt>),
    /// The requests of these targets are about to be made, and must not be made twice.
    Begin(Runs),
    /// The progress of a shard's upload.
    Upload(ShardNumber, UploadState),
    /// From now on the listing of a bucket follows tokens.
    FollowTokens(TokenStart),
}

/// Start of a listing by tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenStart {
    /// At the page of this token, or the first page. Everything before it is in the journal.
    At(Option<String>),
    /// At the first page, again.
    Again,
}

/// All requests to the journal.
#[derive(Debug)]
pub(crate) enum JournalRequest {
    /// Data of a listing.
    Listing(ListingRequest),
    /// Data that must be durable before its sender continues. The answer comes once it is durable.
    Commit(CommitRequest, SyncSender<CommitAnswer>),
    /// Replies to these targets have come, but this run ignores them.
    Leave(Runs),
    /// Finished targets, with their names, that a late reply has made doubtful.
    Doubtful(Vec<(Sequence, Vec<u8>)>),
    /// Targets that wait longer than a commit window.
    Waiting(Vec<WaitingTarget>),
    /// The outages that the job waits for, as JSON, for readers of the journal.
    Waits(String),
    /// Samples of the job with the times of their ends, as JSON (several replace all), and the current speed.
    Samples(Vec<(f64, String)>, String),
    /// The planner has room for waiting targets.
    LoadWaiting { from: DueKey, max: usize },
    /// A worker process has died, and its files must be recovered. The answer has the targets that are finished by
    /// this.
    Bury { worker: u32, pid: u32, reply: Sender<Runs> },
    /// The names, among the given ones, that no page of a walk has listed.
    KeepUnlisted(Names, Sender<Names>),
    /// The next folder to list.
    NextFolder(Sender<Option<PendingFolder>>),
    /// The next page of an earlier run with unfinished targets.
    NextLivePage(Sequence, Sender<Option<PendingPage>>),
}

/// Error for other threads after the journal's thread has failed. The job already has the actual error.
pub(crate) fn ended() -> Error {
    Error::Internal("the journal's thread has ended".into())
}

/// See the module.
#[derive(Debug)]
pub(crate) struct JournalLink {
    /// Removed at the end, because the journal's thread works until no sender is left.
    sender: Mutex<Option<crossbeam_channel::Sender<JournalRequest>>>,
    /// Waiting targets that the journal has not written yet.
    unwritten: AtomicUsize,
}

impl JournalLink {
    pub(crate) fn new(sender: crossbeam_channel::Sender<JournalRequest>) -> Self {
        JournalLink { sender: Mutex::new(Some(sender)), unwritten: AtomicUsize::new(0) }
    }

    /// Sends a request. If the journal's thread has ended, there is already an error, and the job is ending.
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

    /// Sends data that must be durable. Returns the receiver of the answer.
    pub(crate) fn begin_commit(&self, request: CommitRequest) -> Receiver<CommitAnswer> {
        let (acknowledge, acknowledged) = sync_channel(1);
        self.send(JournalRequest::Commit(request, acknowledge));
        acknowledged
    }

    /// Sends data that must be durable, and waits until it is. If this fails, the job already has the actual error,
    /// which the user sees.
    pub(crate) fn commit(&self, request: CommitRequest) -> Result<CommitAnswer> {
        self.begin_commit(request).recv().map_err(|_| ended())
    }

    /// Commits a receipt.
    pub(crate) fn commit_receipt(&self, receipt: Receipt) -> Result<CommitAnswer> {
        self.commit(CommitRequest::Receipt(Box::new(receipt)))
    }

    /// Notes that the journal has written this number of waiting targets.
    pub(crate) fn written(&self, targets: usize) {
        self.unwritten.fetch_sub(targets, Ordering::Relaxed);
    }

    /// Whether no more targets are deferred, because the journal has many waiting targets to write.
    pub(crate) fn is_full(&self) -> bool {
        self.unwritten.load(Ordering::Relaxed) >= limits::DEFERRED_QUEUED_MAX
    }

    /// Closes the channel.
    pub(crate) fn end(&self) {
        lock(&self.sender).take();
    }
}
