//! What a thread has in flight, and the replies that came: for who finds out how many requests are useful.

use std::cell::Cell;

use fetchmill_model::planner::concurrency::Load;
use fetchmill_model::reply::certainty::MonotonicMicros;

/// A job is held back by a rate when so large a part of what is in flight waits for it.
const PACED_SHARE: usize = 4;

/// Counted once a reply, so without a lock; taken once a tick.
#[derive(Debug, Default)]
pub(crate) struct LoadCounter {
    replies: Cell<u32>,
    bytes: Cell<u64>,
    latency: Cell<MonotonicMicros>,
    /// Requests that are out, and targets that wait for a rate.
    exchanging: Cell<usize>,
    pacing: Cell<usize>,
    is_starved: Cell<bool>,
}

/// While one of these is there, one more is counted.
pub(crate) struct Counted<'c>(&'c Cell<usize>);

impl<'c> Counted<'c> {
    pub(crate) fn new(count: &'c Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl LoadCounter {
    /// A complete reply that is no sign of trouble.
    pub(crate) fn note(&self, took: MonotonicMicros, bytes: u64) {
        self.replies.set(self.replies.get() + 1);
        self.latency.set(self.latency.get() + took);
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Requests that are out, and targets that wait for a rate.
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.exchanging.get(), self.pacing.get())
    }

    /// Counts a request as out while the guard lives.
    pub(crate) fn count_exchange(&self) -> Counted<'_> {
        Counted::new(&self.exchanging)
    }

    /// Counts a target as waiting for a rate while the guard lives.
    pub(crate) fn wait_for_pace(&self) -> Counted<'_> {
        Counted::new(&self.pacing)
    }

    /// Nothing was there to do, or nothing may be done.
    pub(crate) fn starve(&self) {
        self.is_starved.set(true);
    }

    /// For who finds it out, once a tick.
    pub(crate) fn take(&self, in_flight: usize) -> Load {
        Load {
            replies: self.replies.take(),
            bytes: self.bytes.take(),
            latency_micros: self.latency.take(),
            in_flight: in_flight as u32,
            exchanging: self.exchanging.get() as u32,
            is_starved: self.is_starved.take() | (self.pacing.get() * PACED_SHARE > in_flight),
        }
    }
}
