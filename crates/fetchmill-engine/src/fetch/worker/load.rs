//! A worker's requests in flight and received replies. Used to find the useful number of requests, and to sample the
//! job.

use std::cell::{Cell, RefCell};
use std::ops::Deref;

use crate::control::telemetry::{LatencyHistogram, OriginHistograms, WorkerTelemetry};
use crate::fetch::load_counter::LoadCounter;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::certainty::MonotonicMicros;

/// Few requests are in flight if there are fewer than the allowed number divided by this.
const FEW: usize = 8;
/// Milliseconds between two reports of reply times.
const LATENCY_EVERY: Millis = 500;

/// Counters that are updated once a reply, so they have no lock.
#[derive(Debug, Default)]
pub(super) struct WorkerLoad {
    counter: LoadCounter,
    /// Replies whose requests went out while few others were in flight, and the sum of their times.
    unloaded: Cell<(u64, MonotonicMicros)>,
    /// Bytes of the longest recent head, if heads are stored.
    head_bytes: Cell<u32>,
    /// Bytes of the largest reply in a pipelined batch.
    largest_reply: Cell<usize>,
    histogram: RefCell<LatencyHistogram>,
    origins: RefCell<OriginHistograms>,
    /// When reply times were last reported.
    reported_at: Cell<Millis>,
}

impl Deref for WorkerLoad {
    type Target = LoadCounter;

    fn deref(&self) -> &LoadCounter {
        &self.counter
    }
}

impl WorkerLoad {
    /// Notes a complete reply that is not a sign of trouble. `is_unloaded` is the value of [`WorkerLoad::is_low`] when
    /// the request went out.
    pub(super) fn note_reply(&self, took: MonotonicMicros, bytes: u64, is_unloaded: bool) {
        self.histogram.borrow_mut().record(took);
        if is_unloaded {
            let (replies, micros) = self.unloaded.get();
            self.unloaded.set((replies + 1, micros + took));
        }
        self.counter.note(took, bytes);
    }

    /// Notes a head that is going to be stored. A long head counts for a few dozen shorter heads after it.
    pub(super) fn note_stored_head(&self, length: u32) {
        let before = self.head_bytes.get();
        self.head_bytes.set(length.max(before - before / 16));
    }

    /// Returns the bytes of memory that the heads of coming replies may take. Unlike bodies, heads cannot wait in a
    /// file.
    pub(super) fn heads_to_come(&self) -> usize {
        self.counter.places().0 * self.head_bytes.get() as usize
    }

    /// Notes the time of a reply for its origin, in a job over many origins.
    pub(super) fn note_origin(&self, origin: &OriginKey, took: MonotonicMicros) {
        self.origins.borrow_mut().record(origin, took);
    }

    /// Whether few requests are in flight, compared with the allowed `share`.
    pub(super) fn is_low(&self, share: usize) -> bool {
        self.counter.places().0 < (share / FEW).max(1)
    }

    /// Notes the largest reply of a pipelined batch.
    pub(super) fn note_batch(&self, largest: usize) {
        self.largest_reply.set(self.largest_reply.get().max(largest));
    }

    /// Returns the bytes of the largest reply in a pipelined batch. 0 before the first one.
    pub(super) fn largest_reply(&self) -> usize {
        self.largest_reply.get()
    }

    /// Reports reply times if that is due.
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
