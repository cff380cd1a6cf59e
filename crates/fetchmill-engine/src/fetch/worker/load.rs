//! Requests in flight and received replies of a worker, for the concurrency search and the job's samples.

use std::cell::{Cell, RefCell};
use std::ops::Deref;

use crate::control::telemetry::{LatencyHistogram, OriginHistograms, WorkerTelemetry};
use crate::fetch::load_counter::LoadCounter;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::certainty::MonotonicMicros;

/// The load is low if fewer than 1 / `FEW` of the allowed requests are in flight.
const FEW: usize = 8;
/// Interval between reports of reply times, in milliseconds.
const LATENCY_EVERY: Millis = 500;

/// Counters that are updated once per reply. They belong to one thread, so they need no lock.
#[derive(Debug, Default)]
pub(super) struct WorkerLoad {
    counter: LoadCounter,
    /// Number of replies to requests that were sent under low load, and the sum of their times.
    unloaded: Cell<(u64, MonotonicMicros)>,
    /// Size in bytes of the longest recent head, if heads are stored.
    head_bytes: Cell<u32>,
    /// Size in bytes of the largest reply in a pipelined batch.
    largest_reply: Cell<usize>,
    histogram: RefCell<LatencyHistogram>,
    origins: RefCell<OriginHistograms>,
    /// Time of the last report of reply times.
    reported_at: Cell<Millis>,
}

impl Deref for WorkerLoad {
    type Target = LoadCounter;

    fn deref(&self) -> &LoadCounter {
        &self.counter
    }
}

impl WorkerLoad {
    /// Records a complete reply that indicates no trouble. `is_unloaded` is the result of [`WorkerLoad::is_low`] at the
    /// time when the request was sent.
    pub(super) fn note_reply(&self, took: MonotonicMicros, bytes: u64, is_unloaded: bool) {
        self.histogram.borrow_mut().record(took);
        if is_unloaded {
            let (replies, micros) = self.unloaded.get();
            self.unloaded.set((replies + 1, micros + took));
        }
        self.counter.note(took, bytes);
    }

    /// Records a head that will be stored. A long head raises the estimate until a few dozen shorter ones have arrived.
    pub(super) fn note_stored_head(&self, length: u32) {
        let before = self.head_bytes.get();
        self.head_bytes.set(length.max(before - before / 16));
    }

    /// Returns how many bytes of memory the heads of expected replies might need. Bodies can wait in a file, but heads
    /// cannot.
    pub(super) fn heads_to_come(&self) -> usize {
        self.counter.places().0 * self.head_bytes.get() as usize
    }

    /// Records a reply time of this origin, in a job with many origins.
    pub(super) fn note_origin(&self, origin: &OriginKey, took: MonotonicMicros) {
        self.origins.borrow_mut().record(origin, took);
    }

    /// Returns whether the load is low compared with the allowed `share`.
    pub(super) fn is_low(&self, share: usize) -> bool {
        self.counter.places().0 < (share / FEW).max(1)
    }

    /// Records the size of the largest reply in a pipelined batch.
    pub(super) fn note_batch(&self, largest: usize) {
        self.largest_reply.set(self.largest_reply.get().max(largest));
    }

    /// Returns the size in bytes of the largest reply in a pipelined batch. 0 before the first batch.
    pub(super) fn largest_reply(&self) -> usize {
        self.largest_reply.get()
    }

    /// Reports reply times if a report is due.
    pub(super) fn report_latency_if_due(&self, telemetry: &WorkerTelemetry, now: Millis) {
        if now.saturating_sub(self.reported_at.get()) >= LATENCY_EVERY {
            self.reported_at.set(now);
            self.report_latency(telemetry);
        }
    }

    /// Reports reply times, for the job's samples.
    pub(super) fn report_latency(&self, telemetry: &WorkerTelemetry) {
        telemetry.add_latency(&mut self.histogram.borrow_mut());
        telemetry.add_origins(&mut self.origins.borrow_mut());
        let (replies, micros) = self.unloaded.take();
        telemetry.add_unloaded(replies, micros);
    }
}
