//! The link between a dispatcher and its job: reports go to the job, targets come back. Directly inside a process;
//! over a socket from a process of its own ([`super::worker_process`]).

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

/// What a dispatcher has done since its last turn.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct TurnReport {
    pub(super) settled: Vec<Settlement>,
    pub(super) retries: Vec<Retry>,
    pub(super) observed: Observations,
    /// One that was fetched, as it stands in its page.
    pub(super) fetched: Option<Box<[u8]>>,
    /// Requests that were made.
    pub(super) attempts: u64,
    /// Bytes of bodies that came.
    pub(super) received: u64,
    /// Requests that are out now, or targets that are handed out.
    pub(super) in_flight: u64,
    /// For who finds out how many requests are useful.
    pub(super) load: Option<Load>,
}

/// A target with its outcome, and the bytes of its body.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Settlement {
    pub(super) sequence: Sequence,
    pub(super) outcome: Outcome,
    pub(super) bytes: u64,
}

/// See the module.
pub(super) trait JobLink: Send {
    /// Tells what was done and asks for at most `max` targets. When there are none now it waits for some, at most this
    /// long.
    fn turn(&mut self, done: TurnReport, max: usize, patience: Duration) -> Result<NextWork>;

    /// Whether targets go by their hosts: the job is one over many.
    fn has_many_origins(&self) -> bool;

    /// Requests that may be out at a time.
    fn share(&self) -> usize;

    /// Takes back what was not started; what it cannot take is returned.
    fn give_back(&mut self, batch: Batch) -> Option<Batch>;

    /// The last turn was made, and everything is durable that should be.
    fn end(&mut self) {}
}

/// Inside the job's process.
pub(super) struct LocalLink {
    worker: usize,
    control: Arc<Control>,
    /// Only to wait.
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

    /// Until the job has something to say, at most until then.
    fn wait(&self, until: Instant, due: Option<u64>) {
        let now = self.control.clock.now();
        let left = until.saturating_duration_since(Instant::now());
        let left = due.map_or(left, |due| left.min(Duration::from_millis(due.saturating_sub(now).max(1))));
        let woken = self.control.plan.wake(self.worker).notified();
        // Late or woken: the caller looks in either case.
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
