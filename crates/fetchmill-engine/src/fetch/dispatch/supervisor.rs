//! The job's side of a worker process. The supervisor answers the process's turns, forwards its receipts to the
//! journal, and tracks its targets. If the process dies, its shard is truncated to the last receipt, and the targets
//! after that receipt are planned again.
//!
//! A target might have caused the death. The targets of the dead process are therefore handed out one at a time. If the
//! new process dies as well, this counts as an attempt at the single target that it held.

use std::collections::{HashMap, HashSet};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::link::{JobLink, LocalLink, Settlement, TurnReport};
use super::messages::{Assignment, JobMessage, JoinReply, WorkerMessage, error_of, receive, send};
use crate::control::Control;
use crate::control::counters::Delta;
use crate::control::journal_link::JournalRequest;
use crate::control::stop::Stop;
use crate::event_queues::waiting_runtime;
use crate::fetch::target::{CurrentTarget, TargetQueue};
use crate::request::source_options::Listing;
use fetchmill_model::error::Result;
use fetchmill_model::limits;
use fetchmill_model::outcome::{FailureKind, Receipt, Runs, Tally};
use fetchmill_model::panics::lock;
use fetchmill_model::planner::concurrency::Load;
use fetchmill_model::planner::{NextWork, Retry, WorkerReport};
use fetchmill_model::target::{Batch, Sequence, WaitingTarget};

/// A worker process that has registered.
#[derive(Debug)]
pub(crate) struct AttachedProcess {
    /// Process id, which is the prefix of the process's file names.
    pub(crate) pid: u32,
    pub(crate) turns: UnixStream,
    pub(crate) receipts: UnixStream,
}

/// Targets that processes held when they died, for all workers. Any of them might have caused the death.
pub(crate) type PoisonCandidates = Arc<Mutex<HashSet<Sequence>>>;

/// Supervisor of one worker. See the [module documentation](self).
pub(crate) struct Supervisor {
    pub(crate) worker: usize,
    pub(crate) control: Arc<Control>,
    /// Type of the server's listing, which might have been detected.
    pub(crate) listing: Listing,
    pub(crate) attachments: crossbeam_channel::Receiver<AttachedProcess>,
    pub(crate) poison_candidates: PoisonCandidates,
}

/// Targets of a process that are not in any receipt yet: at most one batch, plus the targets of two commit windows.
#[derive(Default)]
struct ProcessTargets {
    given: HashMap<Sequence, AssignedTarget>,
    /// Targets that were committed before a turn reported them.
    early: HashSet<Sequence>,
}

struct AssignedTarget {
    target: WaitingTarget,
    /// Outcome that was reported but is not durable yet.
    settled: Option<Settlement>,
}

impl ProcessTargets {
    fn give(&mut self, target: &WaitingTarget) {
        self.given.insert(target.sequence, AssignedTarget { target: target.clone(), settled: None });
    }

    fn note(&mut self, done: &TurnReport) {
        for settled in &done.settled {
            match self.given.get_mut(&settled.sequence) {
                Some(given) => given.settled = Some(*settled),
                None => _ = self.early.remove(&settled.sequence),
            }
        }
        for retry in &done.retries {
            self.given.remove(&retry.target.sequence);
        }
    }

    fn forget(&mut self, settled: &Runs) {
        for sequence in settled.numbers() {
            if self.given.remove(&sequence).is_some_and(|given| given.settled.is_none()) {
                self.early.insert(sequence);
            }
        }
    }

    /// Returns whether any target still has no outcome.
    fn is_open(&self) -> bool {
        self.given.values().any(|given| given.settled.is_none())
    }
}

impl Supervisor {
    /// Serves the worker's processes, one after another, until the job no longer needs this worker.
    pub(crate) fn run(self) -> Result<()> {
        let mut link = LocalLink::new(self.worker, Arc::clone(&self.control), waiting_runtime()?);
        while self.control.stop.get() == Stop::No && !self.control.plan.lock().is_done() {
            let Ok(attached) = self.attachments.recv_timeout(limits::TICK) else {
                // Without a process, nothing is in flight.
                self.tell_in_flight(0);
                continue;
            };
            let ledger = Mutex::new(ProcessTargets::default());
            let has_ended = self.serve(&attached, &mut link, &ledger);
            self.control.counters[self.worker].set_in_flight(0);
            if !has_ended && self.control.stop.get() == Stop::No {
                self.recover_process(
                    attached.pid,
                    ledger.into_inner().unwrap_or_else(PoisonError::into_inner),
                );
            }
        }
        Ok(())
    }

    /// Reports the requests in flight at each tick, for the concurrency search. The process itself reports nothing
    /// while it waits for replies.
    fn tell_in_flight(&self, in_flight: u32) {
        if self.control.finds_concurrency() {
            let load = Load { in_flight, exchanging: in_flight, ..Load::default() };
            let report = WorkerReport { load: Some(load), ..WorkerReport::default() };
            self.control.turn(self.worker, report, 0);
        }
    }

    /// Serves one process until it ends. Returns whether the process has made everything durable.
    fn serve(
        &self,
        attached: &AttachedProcess,
        link: &mut LocalLink,
        ledger: &Mutex<ProcessTargets>,
    ) -> bool {
        std::thread::scope(|scope| {
            let receipts = scope.spawn(|| self.take_receipts(&attached.receipts, ledger));
            let has_ended = self.take_turns(&attached.turns, link, ledger);
            // Either the process sends nothing more, or the job no longer waits for it.
            let _ = attached.receipts.shutdown(Shutdown::Both);
            let _ = attached.turns.shutdown(Shutdown::Both);
            receipts.join().is_ok() && has_ended
        })
    }

    fn join_reply(&self) -> JoinReply {
        let store = &self.control.store;
        JoinReply { region: store.region_of_job(), clock_offset: store.clock_offset(), listing: self.listing }
    }

    fn take_turns(&self, socket: &UnixStream, link: &mut LocalLink, ledger: &Mutex<ProcessTargets>) -> bool {
        if send(socket, &self.join_reply()).is_err() {
            return false;
        }
        let mut in_flight = 0;
        while self.is_heard(socket, in_flight) {
            let told = match receive(socket) {
                Ok(Some(WorkerMessage::Turn { done, max, patience_ms })) => {
                    in_flight = done.load.map_or(in_flight, |load| load.in_flight);
                    self.turn(link, ledger, done, max as usize, Duration::from_millis(patience_ms.into()))
                }
                Ok(Some(WorkerMessage::Failed { code, text })) => {
                    self.control.stop.fail(error_of(code, text));
                    continue;
                }
                Ok(Some(WorkerMessage::Ended)) => return true,
                Ok(None) | Err(_) => return false,
            };
            if told.and_then(|told| send(socket, &told)).is_err() {
                return false;
            }
        }
        false
    }

    /// Waits for the next message from the process. Returns `false` if the job is ending and the process is silent for
    /// longer than a drain can take.
    fn is_heard(&self, socket: &UnixStream, in_flight: u32) -> bool {
        let tick = Timespec { tv_sec: 0, tv_nsec: limits::TICK.as_nanos() as i64 };
        let mut stopping_since = None;
        loop {
            let mut descriptors = [PollFd::new(socket, PollFlags::IN)];
            if !matches!(poll(&mut descriptors, Some(&tick)), Ok(0) | Err(rustix::io::Errno::INTR)) {
                return true;
            }
            match self.control.stop.get() {
                Stop::No => self.tell_in_flight(in_flight),
                Stop::Drain => {
                    let since = *stopping_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= limits::DRAIN + limits::DRAIN {
                        return false;
                    }
                }
                Stop::Abort => return false,
            }
        }
    }

    fn turn(
        &self,
        link: &mut LocalLink,
        ledger: &Mutex<ProcessTargets>,
        done: TurnReport,
        wanted: usize,
        patience: Duration,
    ) -> Result<JobMessage> {
        lock(ledger).note(&done);
        let has_poison_candidates = self.clear(&done);
        let max = match has_poison_candidates {
            false => wanted,
            true if lock(ledger).is_open() => 0,
            true => wanted.min(1),
        };
        let next = link.turn(done, max, patience)?;
        if wanted > 0 && max == 0 {
            // The process calls again immediately.
            std::thread::sleep(patience.min(limits::TICK));
        }
        let next = match next {
            NextWork::Batch(batch) => Assignment::Targets(give(batch, &mut lock(ledger))),
            NextWork::Done => Assignment::Done,
            NextWork::Wait | NextWork::WaitUntil(_) => Assignment::Wait,
        };
        let stop = self.control.stop.get() as u8;
        let rate = self.control.plan.lock().rate().map(|rate| rate / self.control.plan.workers() as f64);
        let (held_until, probe) = self.control.plan.gate();
        Ok(JobMessage {
            stop,
            has_many_origins: link.has_many_origins(),
            share: self.control.plan.share(self.worker) as u32,
            rate,
            held_until,
            probe,
            next,
        })
    }

    /// Removes the returned targets from the suspects, because they did not kill their process. Returns whether any
    /// suspects remain.
    fn clear(&self, done: &TurnReport) -> bool {
        let mut poison_candidates = lock(&self.poison_candidates);
        if !poison_candidates.is_empty() {
            let settled = done.settled.iter().map(|settled| settled.sequence);
            for sequence in settled.chain(done.retries.iter().map(|retry| retry.target.sequence)) {
                poison_candidates.remove(&sequence);
            }
        }
        !poison_candidates.is_empty()
    }

    fn take_receipts(&self, socket: &UnixStream, ledger: &Mutex<ProcessTargets>) {
        while let Ok(Some(receipt)) = receive::<Receipt>(socket) {
            let settled = receipt.settled.clone();
            let Ok(number) = self.control.journal.commit_receipt(receipt) else { return };
            lock(ledger).forget(&settled);
            if send(socket, &number).is_err() {
                return;
            }
        }
    }

    /// Handles the death of a process. Keeps its durable outcomes and plans its other targets again.
    fn recover_process(&self, pid: u32, mut ledger: ProcessTargets) {
        let (reply, buried) = channel();
        self.control.journal.send(JournalRequest::Bury { worker: self.worker as u32, pid, reply });
        let Ok(settled) = buried.recv() else { return };
        ledger.forget(&settled);
        let open = ledger.given.values().filter(|given| given.settled.is_none()).count();
        let counters = &self.control.counters[self.worker];
        let mut retries = Vec::with_capacity(ledger.given.len());
        let mut was_settled = 0;
        for given in ledger.given.into_values() {
            let mut target = given.target;
            if let Some(settled) = given.settled {
                was_settled += 1;
                counters.take_back(settled.outcome, settled.bytes);
            } else {
                target.kind = FailureKind::Worker;
                target.attempts += u32::from(open == 1);
                lock(&self.poison_candidates).insert(target.sequence);
            }
            retries.push(Retry { target, retry_after: None, not_before: Some(0) });
        }
        self.control.plan.lock().take_back(was_settled);
        // No turn reports these targets any more.
        let settled = ledger.early.len();
        counters.add(&mut Delta {
            tally: Tally { fetched: settled as u64, ..Tally::default() },
            ..Delta::default()
        });
        self.control.turn(self.worker, WorkerReport { settled, retries, ..WorkerReport::default() }, 0);
        self.control.plan.wake_all();
    }
}

fn give(batch: Batch, ledger: &mut ProcessTargets) -> Vec<WaitingTarget> {
    let targets = waiting(batch);
    for target in &targets {
        ledger.give(target);
    }
    targets
}

/// Returns the targets of a batch, with their names.
fn waiting(batch: Batch) -> Vec<WaitingTarget> {
    if let Batch::Retries(targets) = batch {
        return targets;
    }
    let mut queue = TargetQueue::default();
    queue.set(batch);
    let mut targets = Vec::with_capacity(queue.len());
    let mut target = CurrentTarget::default();
    while queue.take(&mut target) {
        targets.push(WaitingTarget {
            sequence: target.sequence,
            name: target.entry.as_slice().into(),
            attempts: 0,
            // The kind is not used, because these targets had no attempt.
            kind: FailureKind::Reset,
            not_before: 0,
            throttled_since: 0,
        });
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::outcome::Outcome;

    fn target(sequence: Sequence, kind: FailureKind) -> WaitingTarget {
        let name = sequence.to_string().into_bytes().into();
        WaitingTarget { sequence, name, attempts: 0, kind, not_before: 0, throttled_since: 0 }
    }

    #[test]
    fn a_ledger_has_what_no_receipt_has_settled() {
        let mut ledger = ProcessTargets::default();
        for sequence in 0..5 {
            ledger.give(&target(sequence, FailureKind::Reset));
        }

        let settled = |sequence| Settlement { sequence, outcome: Outcome::Fetched, bytes: 1 };
        let retry = Retry { target: target(2, FailureKind::Reset), retry_after: None, not_before: None };
        let done = TurnReport {
            settled: vec![settled(0), settled(1), settled(4)],
            retries: vec![retry],
            ..TurnReport::default()
        };
        ledger.note(&done);
        ledger.forget(&Runs::from_unsorted(&mut [0, 3]));

        let state = |given: &AssignedTarget| (given.target.sequence, given.settled.is_some());
        let mut left: Vec<_> = ledger.given.values().map(state).collect();
        left.sort_unstable();
        assert_eq!(left, [(1, true), (4, true)]);
        assert!(!ledger.is_open());
        assert_eq!(ledger.early, HashSet::from([3]));
        ledger.note(&TurnReport { settled: vec![settled(3)], ..TurnReport::default() });
        assert!(ledger.early.is_empty());
    }
}
