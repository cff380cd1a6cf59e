//! The way to the journal's thread: what it is asked for, and how.

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

/// What a listing asks the journal to record.
#[derive(Debug)]
pub(crate) enum ListingRequest {
    /// A page; its targets are announced to the planner.
    Page(ListedPage),
    /// A folder that gives no listing.
    FailFolder { path: Vec<u8>, status: Option<u16>, attempts: u32, detail: String },
    /// The keys after `at` in a range of keys become a range of their own.
    SplitRange { range: u64, at: Vec<u8>, behind: u64 },
    /// The listing is complete.
    End,
    /// The listing begins again at its start.
    Restart,
}

/// The number of the shard that was sealed, if a receipt says that one was.
pub(crate) type CommitAnswer = Option<ShardNumber>;

/// What must be durable before its sender continues.
#[derive(Debug)]
pub(crate) enum CommitRequest {
    /// What a worker's sink has made durable.
    Receipt(Box<Receipt>),
    /// The requests of these targets are about to be made, and must not be made twice.
    Begin(Runs),
    /// How far the upload of a shard is.
    Upload(ShardNumber, UploadState),
    /// From now on the listing of a bucket follows tokens.
    FollowTokens(TokenStart),
}

/// Where a listing by tokens begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenStart {
    /// With the page that this leads to, none: the first. Everything before it is in the journal.
    At(Option<String>),
    /// With the first page, again.
    Again,
}

/// Everything that the journal is asked for.
#[derive(Debug)]
pub(crate) enum JournalRequest {
    /// What a listing asks for.
    Listing(ListingRequest),
    /// What must be durable before its sender continues: the answer comes when it is.
    Commit(CommitRequest, SyncSender<CommitAnswer>),
    /// The replies of these have come, and this run makes nothing of them.
    Leave(Runs),
    /// Targets that were settled, and that a reply which came too late puts in doubt, with their names.
    Doubtful(Vec<(Sequence, Vec<u8>)>),
    /// Targets that wait longer than a commit window.
    Waiting(Vec<WaitingTarget>),
    /// What the job waits for, for who reads the journal: JSON.
    Waits(String),
    /// Samples of the job, each with the time of its end, as JSON (more than one replace all); and how fast it is.
    Samples(Vec<(f64, String)>, String),
    /// The planner has room for waiting targets.
    LoadWaiting { from: DueKey, max: usize },
    /// A worker's process has died: what it left is brought into agreement. The answer is what that has settled.
    Bury { worker: u32, pid: u32, reply: Sender<Runs> },
    /// Those of these names that no page of a walk has brought.
    KeepUnlisted(Names, Sender<Names>),
    /// The next folder to list.
    NextFolder(Sender<Option<PendingFolder>>),
    /// A page of an earlier run with targets that are not settled.
    NextLivePage(Sequence, Sender<Option<PendingPage>>),
}

/// What others are told when the journal's thread has failed; the failure itself is known by then.
pub(crate) fn ended() -> Error {
    Error::Internal("the journal's thread has ended".into())
}

/// See the module.
#[derive(Debug)]
pub(crate) struct JournalLink {
    /// Taken away at the end: the journal's thread works until nobody can send.
    sender: Mutex<Option<crossbeam_channel::Sender<JournalRequest>>>,
    /// Waiting targets that the journal has not yet written.
    unwritten: AtomicUsize,
}

impl JournalLink {
    pub(crate) fn new(sender: crossbeam_channel::Sender<JournalRequest>) -> Self {
        JournalLink { sender: Mutex::new(Some(sender)), unwritten: AtomicUsize::new(0) }
    }

    /// Sends a request. When the journal's thread has ended there is an error already, and the job is ending.
    pub(crate) fn send(&self, request: JournalRequest) {
        if let JournalRequest::Waiting(targets) = &request {
            self.unwritten.fetch_add(targets.len(), Ordering::Relaxed);
        }
        let sender = lock(&self.sender).clone();
        if let Some(sender) = sender {
            let _ = sender.send(request);
        }
    }

    /// Sends what the listing asks for.
    pub(crate) fn list(&self, request: ListingRequest) {
        self.send(JournalRequest::Listing(request));
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> JournalRequest) -> Result<T> {
        let (reply, answer) = channel();
        self.send(request(reply));
        answer.recv().map_err(|_| ended())
    }

    /// Sends what must be durable. Returns where the answer comes when it is.
    pub(crate) fn begin_commit(&self, request: CommitRequest) -> Receiver<CommitAnswer> {
        let (acknowledge, acknowledged) = sync_channel(1);
        self.send(JournalRequest::Commit(request, acknowledge));
        acknowledged
    }

    /// Sends what must be durable, and waits until it is. It fails only with an error that is known by then, and is the one
    /// that is shown.
    pub(crate) fn commit(&self, request: CommitRequest) -> Result<CommitAnswer> {
        self.begin_commit(request).recv().map_err(|_| ended())
    }

    /// Commits a receipt.
    pub(crate) fn commit_receipt(&self, receipt: Receipt) -> Result<CommitAnswer> {
        self.commit(CommitRequest::Receipt(Box::new(receipt)))
    }

    /// The journal has written so many waiting targets.
    pub(crate) fn written(&self, targets: usize) {
        self.unwritten.fetch_sub(targets, Ordering::Relaxed);
    }

    /// Whether the journal has enough waiting targets to write: no more are put aside.
    pub(crate) fn is_full(&self) -> bool {
        self.unwritten.load(Ordering::Relaxed) >= limits::DEFERRED_QUEUED_MAX
    }

    /// Nobody will send any more.
    pub(crate) fn end(&self) {
        lock(&self.sender).take();
    }
}
