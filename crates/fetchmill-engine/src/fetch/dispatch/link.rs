//! The link between a dispatcher and its job. It carries reports to the job and targets to the dispatcher. Within a
//! process, it calls the job directly. Between processes, it uses a socket ([`super::worker_process`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::control::Control;
use crate::control::counters::Delta;
use crate::control::stop::Stop;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::Outcome;
use fetchmill_model::planner::concurrency::Load;
use fetchmill_model::planner::origin::Observations;
use fetchmill_model::planner::{NextWork, Retry, WorkerReport};
use fetchmill_model::target::{Batch, Sequence};

/// Work that a dispatcher has completed since its last turn.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct TurnReport {
    pub(super) settled: Vec<Settlement>,
    pub(super) retries: Vec<Retry>,
    pub(super) observed: Observations,
    /// Entry of one of the fetched targets.
    pub(super) fetched: Option<Box<[u8]>>,
    /// Number of requests sent.
    pub(super) attempts: u64,
    /// Number of body bytes received.
    pub(super) received: u64,
    /// Number of requests in flight, or number of targets handed out if the engine does not report requests in flight.
    pub(super) in_flight: u64,
    /// Load report for the concurrency search.
    pub(super) load: Option<Load>,
}

/// A finished target with its outcome and body size.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Settlement {
    pub(super) sequence: Sequence,
    pub(super) outcome: Outcome,
    pub(super) bytes: u64,
}

/// Connection of a dispatcher to its job. See the [module documentation](self).
pub(super) trait JobLink: Send {
    /// Reports finished work, and requests up to `max` targets. If no targets are available, waits up to `patience`.
    fn turn(&mut self, done: TurnReport, max: usize, patience: Duration) -> Result<NextWork>;

    /// Returns whether the job has many hosts, so that each target must be admitted by its host.
    fn has_many_origins(&self) -> bool;

    /// Returns the maximum number of requests in flight.
    fn share(&self) -> usize;

    /// Hands unstarted targets back to the job. Returns those that the job cannot accept.
    fn give_back(&mut self, batch: Batch) -> Option<Batch>;

    /// Ends the link after the last turn, once everything is durable.
    fn end(&mut self) {}
}

/// Link within the job's own process.
pub(super) struct LocalLink {
    worker: usize,
    control: Arc<Control>,
    /// Runtime used only for waiting.
    runtime: Runtime,
}

impl LocalLink {
    pub(super) fn new(worker: usize, control: Arc<Control>, runtime: Runtime) -> Self {
        LocalLink { worker, control, runtime }
    }

    fn count(&self, done: &TurnReport) {
        let mut delta = Delta { received: done.received, attempts: done.attempts, ..Delta::default() };
        for settled in &done.settled {
            delta.count(settled.outcome, settled.bytes);
        }
        let counters = &self.control.counters[self.worker];
        counters.add(&mut delta);
        if let Some(meter) = &self.control.body_meter {
            meter.count(done.received);
        }
        counters.set_in_flight(done.in_flight);
    }

    /// Waits for a notification from the job until `until` or `due`, whichever is earlier.
    fn wait(&self, until: Instant, due: Option<u64>) {
        let now = self.control.clock.now();
        let left = until.saturating_duration_since(Instant::now());
        let left = due.map_or(left, |due| left.min(Duration::from_millis(due.saturating_sub(now).max(1))));
        let woken = self.control.plan.wake(self.worker).notified();
        // The caller checks again, whether the wait ended with a notification or a timeout.
        let _ = self.runtime.block_on(async { tokio::time::timeout(left, woken).await });
    }
}

impl JobLink for LocalLink {
    fn turn(&mut self, done: TurnReport, max: usize, patience: Duration) -> Result<NextWork> {
        let until = Instant::now() + patience;
        self.count(&done);
        let TurnReport { settled, retries, observed, fetched, load, .. } = done;
        let mut report = WorkerReport { settled: settled.len(), retries, observed, fetched, load };
        loop {
            let next = self.control.turn(self.worker, std::mem::take(&mut report), max);
            let due = match next {
                NextWork::WaitUntil(due) => Some(due),
                NextWork::Wait => None,
                NextWork::Batch(_) | NextWork::Done => return Ok(next),
            };
            if max == 0 || Instant::now() >= until || self.control.stop.get() != Stop::No {
                return Ok(next);
            }
            self.wait(until, due);
        }
    }

    fn has_many_origins(&self) -> bool {
        self.control.origins.are_many()
    }

    fn share(&self) -> usize {
        self.control.plan.share(self.worker)
    }

    fn give_back(&mut self, batch: Batch) -> Option<Batch> {
        self.control.plan.lock().give_back(batch);
        None
    }
}
