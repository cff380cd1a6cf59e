//! The channel between a program and the fetching thread. Each stream has its own channel, and each side takes one lock
//! per batch.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::batch::{ReplyBatch, RequestBatch};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::{STREAM_CERTAIN_WINDOW, STREAM_WINDOW};

/// Maximum number of batches kept for reuse.
const SPARE_MAX: usize = 4;

/// State shared by the fetching thread and all its streams.
#[derive(Debug)]
pub(super) struct FetcherState {
    submitted: Mutex<Submission>,
    pub(super) wake: Notify,
    /// Whether the thread was asked to end.
    pub(super) is_ended: AtomicBool,
    /// Whether the thread has ended.
    is_dead: AtomicBool,
    /// Body bytes that were handed over but that the program has not taken yet.
    pub(super) untaken: AtomicUsize,
    /// Whether the thread waits for `untaken` to decrease.
    pub(super) is_holding: AtomicBool,
    /// Current maximum number of requests in flight.
    pub(super) concurrency: AtomicUsize,
    /// Id of the process in which the thread runs.
    process: u32,
}

#[derive(Debug, Default)]
struct Submission {
    batches: Vec<(Arc<StreamState>, RequestBatch)>,
    spare: Vec<RequestBatch>,
    /// All streams, which are notified when the thread ends.
    streams: Vec<Weak<StreamState>>,
}

/// State of a stream, shared by both ends.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    replies: Mutex<ReplyQueue>,
    arrived: Condvar,
    is_closed: AtomicBool,
    /// Whether each reply is held until it is certain to answer its request.
    pub(super) is_certain: bool,
    /// Number of replies that were handed over before they were certain.
    uncertain: AtomicUsize,
    /// Slot + 1 of the reply that the program needs before it can use any later reply, or 0 if there is none. This
    /// reply is fetched even if memory is full, because the later replies that fill the memory wait for it.
    wanted: AtomicU64,
}

#[derive(Debug, Default)]
struct ReplyQueue {
    batches: VecDeque<ReplyBatch>,
    spare: Vec<ReplyBatch>,
    /// Input positions of replies that were handed over but might belong to other requests.
    doubtful: Vec<u64>,
    /// Whether the program is waiting. It waits on the descriptor if one exists, and on the condition variable if not.
    is_awaited: bool,
    event: Option<OwnedFd>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FetcherState {
    pub(super) fn new(concurrency: usize) -> Self {
        FetcherState {
            submitted: Mutex::default(),
            wake: Notify::new(),
            is_ended: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            untaken: AtomicUsize::new(0),
            is_holding: AtomicBool::new(false),
            concurrency: AtomicUsize::new(concurrency),
            process: std::process::id(),
        }
    }

    /// Returns whether this process is a fork of the process that runs the thread. A fork does not copy threads.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.process != std::process::id()
    }

    /// Takes the batches submitted since the last call.
    pub(super) fn take_submitted(&self) -> Vec<(Arc<StreamState>, RequestBatch)> {
        std::mem::take(&mut lock(&self.submitted).batches)
    }

    /// Keeps the memory of a batch for reuse.
    pub(super) fn give_back(&self, mut requests: RequestBatch) {
        requests.clear();
        let mut submitted = lock(&self.submitted);
        if submitted.spare.len() < SPARE_MAX {
            submitted.spare.push(requests);
        }
    }

    /// Notifies all waiting streams that the thread has ended.
    pub(super) fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        for shared in lock(&self.submitted).streams.drain(..).filter_map(|stream| stream.upgrade()) {
            shared.signal(&mut lock(&shared.replies));
        }
    }
}

impl StreamState {
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Records that a reply was handed over before it is certain.
    pub(super) fn give_uncertain(&self) {
        self.uncertain.fetch_add(1, Ordering::SeqCst);
    }

    /// Records that `count` of the uncertain replies became certain or turned out to be doubtful.
    pub(super) fn decide(&self, count: usize) {
        if self.uncertain.fetch_sub(count, Ordering::SeqCst) == count {
            self.signal(&mut lock(&self.replies));
        }
    }

    /// Records that the reply at this input position might belong to another request, although the program already has
    /// it.
    pub(super) fn doubt(&self, index: u64) {
        let mut handed = lock(&self.replies);
        handed.doubtful.push(index);
        self.signal(&mut handed);
    }

    /// Returns whether the program needs this reply before it can use the later replies that it keeps.
    pub(super) fn wants(&self, slot: u32) -> bool {
        self.wanted.load(Ordering::SeqCst) == u64::from(slot) + 1
    }

    /// Hands `replies` to the program and replaces them with an empty batch.
    pub(super) fn hand_over(&self, replies: &mut ReplyBatch, hub: &FetcherState) {
        let mut handed = lock(&self.replies);
        if self.is_closed() {
            replies.clear();
            return;
        }
        hub.untaken.fetch_add(replies.body_bytes, Ordering::SeqCst);
        let empty = handed.spare.pop().unwrap_or_default();
        handed.batches.push_back(std::mem::replace(replies, empty));
        self.signal(&mut handed);
    }

    fn signal(&self, handed: &mut ReplyQueue) {
        if std::mem::take(&mut handed.is_awaited) {
            match &handed.event {
                // The write fails only if the buffer is full of unread signals. Even then, the descriptor is readable.
                Some(event) => drop(rustix::io::write(event, &1_u64.to_ne_bytes())),
                None => self.arrived.notify_one(),
            }
        }
    }
}

/// Result of a check for replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenReplies {
    /// Replies were taken.
    Some,
    /// No replies have arrived yet.
    None,
    /// Some of the replies handed over might belong to other requests. [`Channel::take_doubtful`] returns their
    /// positions.
    Doubtful,
    /// Same as `Doubtful`, but other replies are still uncertain. [`TakenReplies::Doubtful`] follows soon.
    Settling,
    /// No more replies follow, because the fetching thread has ended as requested.
    Ended,
    /// No more replies follow, because the fetching thread is gone: it panicked, or this process is a fork.
    Dead,
}

/// Request limit of a stream. It counts requests that are waiting or in flight, and requests whose replies have not
/// been taken yet.
#[derive(Debug)]
pub struct StreamWindow {
    hub: Arc<FetcherState>,
    beside: usize,
}

impl StreamWindow {
    /// Returns the current limit.
    pub fn most(&self) -> usize {
        self.hub.concurrency.load(Ordering::Relaxed) + self.beside
    }
}

/// The program's end of a stream. Dropping it cancels the requests in flight.
#[derive(Debug)]
pub struct Channel {
    hub: Arc<FetcherState>,
    shared: Arc<StreamState>,
}

impl Channel {
    pub(super) fn new(hub: Arc<FetcherState>, is_certain: bool) -> Self {
        let shared = Arc::new(StreamState { is_certain, ..StreamState::default() });
        let mut submitted = lock(&hub.submitted);
        submitted.streams.retain(|stream| stream.strong_count() > 0);
        submitted.streams.push(Arc::downgrade(&shared));
        drop(submitted);
        Channel { hub, shared }
    }

    /// Returns the stream's request limit.
    pub fn window(&self) -> StreamWindow {
        let beside = if self.shared.is_certain { STREAM_CERTAIN_WINDOW } else { STREAM_WINDOW };
        StreamWindow { hub: Arc::clone(&self.hub), beside }
    }

    /// Submits requests and replaces them with an empty batch.
    pub fn submit(&self, requests: &mut RequestBatch) {
        requests.submitted = Some(Instant::now());
        let mut submitted = lock(&self.hub.submitted);
        let empty = submitted.spare.pop().unwrap_or_default();
        submitted.batches.push((Arc::clone(&self.shared), std::mem::replace(requests, empty)));
        drop(submitted);
        self.hub.wake.notify_one();
    }

    /// Replaces used replies with the next ones, waiting up to `wait`.
    pub fn take(&self, replies: &mut ReplyBatch, wait: Duration) -> TakenReplies {
        let mut handed = lock(&self.shared.replies);
        if !self.has_news(&handed) && !wait.is_zero() && !self.is_dead() {
            handed.is_awaited = true;
            let waited = self.shared.arrived.wait_timeout(handed, wait);
            handed = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(handed, _)| handed);
            handed.is_awaited = false;
        }
        if !handed.doubtful.is_empty() {
            return if self.is_uncertain() { TakenReplies::Settling } else { TakenReplies::Doubtful };
        }
        let Some(next) = handed.batches.pop_front() else {
            let is_waited = !wait.is_zero();
            return match () {
                () if self.is_dead() && self.hub.is_ended.load(Ordering::SeqCst) => TakenReplies::Ended,
                () if self.is_dead() || (is_waited && self.hub.is_elsewhere()) => TakenReplies::Dead,
                () => TakenReplies::None,
            };
        };
        let mut used = std::mem::replace(replies, next);
        used.clear();
        if handed.spare.len() < SPARE_MAX {
            handed.spare.push(used);
        }
        drop(handed);
        self.taken(replies.body_bytes);
        TakenReplies::Some
    }

    /// Returns whether there are replies to take. After an unsolicited reply, returns whether all doubtful replies are
    /// known.
    fn has_news(&self, handed: &ReplyQueue) -> bool {
        if handed.doubtful.is_empty() { !handed.batches.is_empty() } else { !self.is_uncertain() }
    }

    /// Takes the input positions of doubtful replies, in order and without duplicates.
    pub fn take_doubtful(&self) -> Vec<u64> {
        let mut doubtful = std::mem::take(&mut lock(&self.shared.replies).doubtful);
        doubtful.sort_unstable();
        doubtful.dedup();
        doubtful
    }

    /// Returns whether any of the replies handed over are still uncertain.
    pub fn is_uncertain(&self) -> bool {
        self.shared.uncertain.load(Ordering::SeqCst) > 0
    }

    fn is_dead(&self) -> bool {
        self.hub.is_dead.load(Ordering::SeqCst)
    }

    /// Counts a large body as untaken again. The program has taken it, but must keep it until the body can be used in
    /// order.
    pub fn keep(&self, bytes: usize) {
        self.hub.untaken.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Sets the reply that all kept replies are waiting for, or `None` if no replies are kept.
    pub fn want(&self, slot: Option<u32>) {
        self.shared.wanted.store(slot.map_or(0, |slot| u64::from(slot) + 1), Ordering::SeqCst);
        if slot.is_some() {
            self.tell();
        }
    }

    /// Records that the program has taken `bytes` bytes of bodies.
    pub fn taken(&self, bytes: usize) {
        self.hub.untaken.fetch_sub(bytes, Ordering::SeqCst);
        self.tell();
    }

    /// Wakes the thread if it is waiting for memory.
    fn tell(&self) {
        if self.hub.is_holding.swap(false, Ordering::SeqCst) {
            self.hub.wake.notify_one();
        }
    }

    /// Returns a descriptor that becomes readable when there are replies. [`Channel::arm`] must be called before each
    /// wait.
    pub fn use_event(&self) -> Result<std::os::fd::RawFd> {
        use rustix::event::{EventfdFlags, eventfd};
        use std::os::fd::AsRawFd as _;
        let mut handed = lock(&self.shared.replies);
        if handed.event.is_none() {
            let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            let made = made.map_err(|error| Error::storage("create an event in", "this process", error))?;
            handed.event = Some(made);
        }
        Ok(handed.event.as_ref().map_or(-1, OwnedFd::as_raw_fd))
    }

    /// Arms the descriptor. Returns `false` if there are replies already.
    pub fn arm(&self) -> bool {
        let mut handed = lock(&self.shared.replies);
        handed.is_awaited = !self.has_news(&handed) && !self.is_dead();
        handed.is_awaited
    }

    /// Resets the descriptor so that it can signal the next event.
    pub fn clear_event(&self) {
        if let Some(event) = &lock(&self.shared.replies).event {
            // The read fails harmlessly if there was no signal.
            let _ = rustix::io::read(event, &mut [0_u8; 8]);
        }
    }

    /// Cancels the requests in flight and closes the descriptor.
    pub fn close(&self) {
        let mut handed = lock(&self.shared.replies);
        // Set this flag while holding the lock, so that nothing is handed over afterwards.
        if self.shared.is_closed.swap(true, Ordering::SeqCst) {
            return;
        }
        let bytes = handed.batches.drain(..).map(|replies| replies.body_bytes).sum();
        handed.event = None;
        drop(handed);
        self.taken(bytes);
        self.hub.wake.notify_one();
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}
