//! A desk's way to its job: what was done goes there, what is to be done comes from there. Directly inside a process;
//! over a socket from a process of its own ([`super::branch`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::engine::control::Control;
use crate::engine::counters::Delta;
use crate::error::Result;
use crate::outcome::Outcome;
use crate::planner::origin::Observed;
use crate::planner::{Next, Report, Retry};
use crate::target::Sequence;

/// What a desk has done since its last turn.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) settled: Vec<Settled>,
    pub(super) retries: Vec<Retry>,
    pub(super) observed: Observed,
    /// Requests that were made.
    pub(super) attempts: u64,
    /// Targets that are handed out now.
    pub(super) in_flight: u64,
}

/// A target with its outcome, and the bytes of its body.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Settled {
    pub(super) sequence: Sequence,
    pub(super) outcome: Outcome,
    pub(super) bytes: u64,
}

/// See the module.
pub(super) trait Line: Send {
    /// Tells what was done and asks for at most `max` targets. When there are none now it waits for some, at most this
    /// long.
    fn turn(&mut self, done: Done, max: usize, patience: Duration) -> Result<Next>;

    /// Whether targets go by their hosts: the job is one over many.
    fn has_many_origins(&self) -> bool;

    /// The last turn was made, and everything is durable that should be.
    fn end(&mut self) {}
}

/// Inside the job's process.
pub(super) struct OwnLine {
    worker: usize,
    control: Arc<Control>,
    /// Only to wait.
    runtime: Runtime,
}

impl OwnLine {
    pub(super) fn new(worker: usize, control: Arc<Control>, runtime: Runtime) -> Self {
        OwnLine { worker, control, runtime }
    }

    fn count(&self, done: &Done) {
        let mut delta = Delta { attempts: done.attempts, ..Delta::default() };
        for settled in &done.settled {
            delta.count(settled.outcome, settled.bytes);
        }
        let counters = &self.control.counters[self.worker];
        counters.add(&mut delta);
        counters.set_in_flight(done.in_flight);
    }

    /// Until the job has something to say, at most until then.
    fn wait(&self, until: Instant, due: Option<u64>) {
        let now = self.control.clock.now();
        let left = until.saturating_duration_since(Instant::now());
        let left = due.map_or(left, |due| left.min(Duration::from_millis(due.saturating_sub(now).max(1))));
        let woken = self.control.wake(self.worker).notified();
        // Late or woken: the caller looks in either case.
        let _ = self.runtime.block_on(async { tokio::time::timeout(left, woken).await });
    }
}

impl Line for OwnLine {
    fn turn(&mut self, done: Done, max: usize, patience: Duration) -> Result<Next> {
        let until = Instant::now() + patience;
        self.count(&done);
        let mut report =
            Report { settled: done.settled.len(), retries: done.retries, observed: done.observed };
        loop {
            let next = self.control.turn(self.worker, std::mem::take(&mut report), max);
            let due = match next {
                Next::WaitUntil(due) => Some(due),
                Next::Wait => None,
                Next::Batch(_) | Next::Done => return Ok(next),
            };
            if max == 0 || Instant::now() >= until || self.control.stop() != super::Stop::No {
                return Ok(next);
            }
            self.wait(until, due);
        }
    }

    fn has_many_origins(&self) -> bool {
        self.control.has_many_origins()
    }
}
