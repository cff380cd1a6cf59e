//! Requests in flight and received replies of one thread, for the concurrency search.

use std::cell::Cell;

use fetchmill_model::planner::concurrency::Load;
use fetchmill_model::reply::certainty::MonotonicMicros;

/// A rate counts as slowing down a job if at least 1 / `PACED_SHARE` of the targets in flight wait for it.
const PACED_SHARE: usize = 4;

/// Counters that are read once per tick. Their own thread updates them once per reply, so they need no lock.
#[derive(Debug, Default)]
pub(crate) struct LoadCounter {
    replies: Cell<u32>,
    bytes: Cell<u64>,
    latency: Cell<MonotonicMicros>,
    /// Number of requests being exchanged, and number of targets waiting for a rate.
    exchanging: Cell<usize>,
    pacing: Cell<usize>,
    is_starved: Cell<bool>,
}

/// Guard that keeps a counter incremented until it is dropped.
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
    /// Records a complete reply that indicates no trouble.
    pub(crate) fn note(&self, took: MonotonicMicros, bytes: u64) {
        self.replies.set(self.replies.get() + 1);
        self.latency.set(self.latency.get() + took);
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Returns the number of requests being exchanged, and the number of targets waiting for a rate.
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.exchanging.get(), self.pacing.get())
    }

    /// Counts a request as being exchanged until the guard is dropped.
    pub(crate) fn count_exchange(&self) -> Counted<'_> {
        Counted::new(&self.exchanging)
    }

    /// Counts a target as waiting for a rate until the guard is dropped.
    pub(crate) fn wait_for_pace(&self) -> Counted<'_> {
        Counted::new(&self.pacing)
    }

    /// Records that there was nothing to request, or that no request was allowed.
    pub(crate) fn starve(&self) {
        self.is_starved.set(true);
    }

    /// Takes the load for the concurrency search. Called once per tick.
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
