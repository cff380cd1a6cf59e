//! The end of a job: the requested kind of stop, and the first error. Code that only reports an error or ends the job
//! needs no other module.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tokio::sync::Notify;

use super::block_sender::{self, SharedSender};
use super::clock::Clock;
use crate::request::stop_rules::StopReason;
use fetchmill_model::error::Error;
use fetchmill_model::limits;
use fetchmill_model::panics::PanicNote;
use fetchmill_model::panics::lock;

/// How the job was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Stop {
    /// Run to the end.
    No = 0,
    /// Finish the requests in flight, make them durable, and end.
    Drain = 1,
    /// End immediately.
    Abort = 2,
}

/// Wakes the waiting threads of a job. Each thread then checks its condition again.
#[derive(Debug)]
pub(crate) struct Wakers {
    pub(crate) workers: Vec<Notify>,
    /// Signalled when there might be room for a page.
    pub(crate) room: Condvar,
}

impl Wakers {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Wakers { workers: (0..workers).map(|_| Notify::new()).collect(), room: Condvar::new() })
    }

    pub(crate) fn wake_all(&self) {
        self.workers.iter().for_each(Notify::notify_one);
        self.room.notify_all();
    }
}

/// Stop state of a job. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct StopSignal {
    clock: Clock,
    stop: AtomicU8,
    /// Time of the first stop request, in microseconds on the clock.
    stopped_at: AtomicU64,
    /// Rule that stopped the job, or 0.
    reason: AtomicU8,
    failure: Mutex<Option<Error>>,
    /// Panics in any of the job's threads.
    pub(crate) panics: Arc<PanicNote>,
    /// Sender of a dispatcher that might never return.
    sender: Mutex<Option<SharedSender>>,
    wakers: Arc<Wakers>,
}

impl StopSignal {
    pub(crate) fn new(clock: Clock, wakers: Arc<Wakers>) -> Arc<Self> {
        Arc::new(StopSignal {
            clock,
            stop: AtomicU8::new(0),
            stopped_at: AtomicU64::new(u64::MAX),
            reason: AtomicU8::new(0),
            failure: Mutex::new(None),
            panics: Arc::default(),
            sender: Mutex::new(None),
            wakers,
        })
    }

    pub(crate) fn get(&self) -> Stop {
        match self.stop.load(Ordering::Relaxed) {
            0 => Stop::No,
            1 => Stop::Drain,
            _ => Stop::Abort,
        }
    }

    /// Keeps a dispatcher's sender. If the job is aborted, drops the sender so that the writer does not wait for the
    /// dispatcher.
    pub(crate) fn close_at_abort(&self, sender: SharedSender) {
        *lock(&self.sender) = Some(sender);
    }

    /// Returns whether the job was asked to stop and has nothing left to wait for.
    pub(crate) fn is_drained(&self) -> bool {
        let since = self.clock.micros().saturating_sub(self.stopped_at.load(Ordering::Relaxed));
        self.get() == Stop::Abort || since >= limits::DRAIN.as_micros() as u64
    }

    pub(crate) fn ask(&self, stop: Stop) {
        self.stopped_at.fetch_min(self.clock.micros(), Ordering::Relaxed);
        self.stop.fetch_max(stop as u8, Ordering::Relaxed);
        if stop == Stop::Abort
            && let Some(sender) = &*lock(&self.sender)
        {
            block_sender::close(sender);
        }
        self.wakers.wake_all();
    }

    /// Drains the run because of a rule.
    pub(crate) fn ask_because(&self, reason: StopReason) {
        self.reason.store(reason as u8, Ordering::Relaxed);
        self.ask(Stop::Drain);
    }

    /// Returns the rule that stopped the run, if any.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        StopReason::of(self.reason.load(Ordering::Relaxed))
    }

    /// Records the error unless one was already recorded, and drains the job. Requests in flight still become durable
    /// if possible.
    pub(crate) fn fail(&self, error: Error) {
        self.keep_failure(error);
        self.ask(Stop::Drain);
    }

    /// Aborts the job if a thread has panicked, because the other threads could wait for that thread forever.
    pub(crate) fn heed_panic(&self) {
        if let Some(error) = self.panics.error() {
            self.fail(error);
            self.ask(Stop::Abort);
        }
    }

    /// Records the error unless one was already recorded. The job continues.
    pub(crate) fn keep_failure(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.failure).take()
    }

    pub(crate) fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }
}
