//! The job's side of a worker in a process of its own: answers its turns, carries its receipts to the journal, and knows
//! what it has. When the process dies its shard ends at its last receipt, and what it had is planned again.
//!
//! A target may be what kills the process. Of all that a dead one had, one after the other is given alone then; one that
//! was alone with a process that died has had an attempt.

use std::collections::{HashMap, HashSet};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::line::{Done, Line, OwnLine, Settled};
use super::wire::{Said, Todo, Told, Welcome, error_of, receive, send};
use crate::engine::control::{Control, Stop};
use crate::engine::counters::Delta;
use crate::engine::recorder::ToJournal;
use crate::engine::threads::waiting_runtime;
use crate::engine::worker::queue::{Queue, Target};
use crate::error::Result;
use crate::limits;
use crate::outcome::{FailureKind, Receipt, Runs, Tally};
use crate::planner::{Next, Report, Retry};
use crate::target::{Batch, Sequence, Waiting};

/// A worker's process that has come up.
#[derive(Debug)]
pub(in crate::engine) struct Attached {
    /// Its process: the names of its files begin with it.
    pub(in crate::engine) pid: u32,
    pub(in crate::engine) turns: UnixStream,
    pub(in crate::engine) receipts: UnixStream,
}

/// Targets that were with a process that died, and of which each may be why; of all workers of a job.
pub(in crate::engine) type Suspects = Arc<Mutex<HashSet<Sequence>>>;

/// See the module.
pub(in crate::engine) struct Steward {
    pub(in crate::engine) worker: usize,
    pub(in crate::engine) control: Arc<Control>,
    pub(in crate::engine) attachments: crossbeam_channel::Receiver<Attached>,
    pub(in crate::engine) suspects: Suspects,
}

/// What a process has: what it was given and no receipt has settled, a batch and two windows at most.
#[derive(Default)]
struct Ledger {
    given: HashMap<Sequence, Given>,
    /// What a receipt has settled before a turn has told of it.
    early: HashSet<Sequence>,
}

struct Given {
    target: Waiting,
    /// Its outcome, when it was told and is not durable yet.
    settled: Option<Settled>,
}

impl Ledger {
    fn give(&mut self, target: &Waiting) {
        self.given.insert(target.sequence, Given { target: target.clone(), settled: None });
    }

    fn note(&mut self, done: &Done) {
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

    /// Without an outcome.
    fn is_open(&self) -> bool {
        self.given.values().any(|given| given.settled.is_none())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Steward {
    /// Until the job has nothing more for this worker.
    pub(in crate::engine) fn run(self) -> Result<()> {
        let mut line = OwnLine::new(self.worker, Arc::clone(&self.control), waiting_runtime()?);
        while self.control.stop() == Stop::No && !self.control.planner().is_done() {
            let Ok(attached) = self.attachments.recv_timeout(limits::TICK) else { continue };
            let ledger = Mutex::new(Ledger::default());
            let has_ended = self.serve(&attached, &mut line, &ledger);
            self.control.counters[self.worker].set_in_flight(0);
            if !has_ended && self.control.stop() == Stop::No {
                self.bury(attached.pid, ledger.into_inner().unwrap_or_else(PoisonError::into_inner));
            }
        }
        Ok(())
    }

    /// One process, until it has ended; whether it had made everything durable.
    fn serve(&self, attached: &Attached, line: &mut OwnLine, ledger: &Mutex<Ledger>) -> bool {
        std::thread::scope(|scope| {
            let receipts = scope.spawn(|| self.take_receipts(&attached.receipts, ledger));
            let has_ended = self.take_turns(&attached.turns, line, ledger);
            // It sends no more, or is not waited for any longer.
            let _ = attached.receipts.shutdown(Shutdown::Both);
            let _ = attached.turns.shutdown(Shutdown::Both);
            receipts.join().is_ok() && has_ended
        })
    }

    fn welcome(&self) -> Welcome {
        let store = self.control.store();
        Welcome { region: store.region_of_job(), clock_offset: store.clock_offset() }
    }

    fn take_turns(&self, socket: &UnixStream, line: &mut OwnLine, ledger: &Mutex<Ledger>) -> bool {
        if send(socket, &self.welcome()).is_err() {
            return false;
        }
        while self.is_heard(socket) {
            let told = match receive(socket) {
                Ok(Some(Said::Turn { done, max, patience_ms })) => {
                    self.turn(line, ledger, done, max as usize, Duration::from_millis(patience_ms.into()))
                }
                Ok(Some(Said::Failed { code, text })) => {
                    self.control.fail(error_of(code, text));
                    continue;
                }
                Ok(Some(Said::Ended)) => return true,
                Ok(None) | Err(_) => return false,
            };
            if told.and_then(|told| send(socket, &told)).is_err() {
                return false;
            }
        }
        false
    }

    /// Waits for its next word; `false` when the job ends and it has said nothing for as long as a drain may take.
    fn is_heard(&self, socket: &UnixStream) -> bool {
        let tick = Timespec { tv_sec: 0, tv_nsec: limits::TICK.as_nanos() as i64 };
        let mut stopping_since = None;
        loop {
            let mut descriptors = [PollFd::new(socket, PollFlags::IN)];
            if !matches!(poll(&mut descriptors, Some(&tick)), Ok(0) | Err(rustix::io::Errno::INTR)) {
                return true;
            }
            match self.control.stop() {
                Stop::No => {}
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
        line: &mut OwnLine,
        ledger: &Mutex<Ledger>,
        done: Done,
        wanted: usize,
        patience: Duration,
    ) -> Result<Told> {
        lock(ledger).note(&done);
        let has_suspects = self.clear(&done);
        let max = match has_suspects {
            false => wanted,
            true if lock(ledger).is_open() => 0,
            true => wanted.min(1),
        };
        let next = line.turn(done, max, patience)?;
        if wanted > 0 && max == 0 {
            // It asks again at once.
            std::thread::sleep(patience.min(limits::TICK));
        }
        let next = match next {
            Next::Batch(batch) => Todo::Targets(give(batch, &mut lock(ledger))),
            Next::Done => Todo::Done,
            Next::Wait | Next::WaitUntil(_) => Todo::Wait,
        };
        let stop = self.control.stop() as u8;
        let rate = self.control.planner().rate().map(|rate| rate / self.control.workers() as f64);
        Ok(Told { stop, has_many_origins: line.has_many_origins(), rate, next })
    }

    /// What came back did not kill its process. Whether other suspects are left.
    fn clear(&self, done: &Done) -> bool {
        let mut suspects = lock(&self.suspects);
        if !suspects.is_empty() {
            let settled = done.settled.iter().map(|settled| settled.sequence);
            for sequence in settled.chain(done.retries.iter().map(|retry| retry.target.sequence)) {
                suspects.remove(&sequence);
            }
        }
        !suspects.is_empty()
    }

    fn take_receipts(&self, socket: &UnixStream, ledger: &Mutex<Ledger>) {
        while let Ok(Some(receipt)) = receive::<Receipt>(socket) {
            let settled = receipt.settled.clone();
            let (acknowledge, acknowledged) = sync_channel(1);
            self.control.journal(ToJournal::Receipt(Box::new(receipt), acknowledge));
            // The journal's thread ends only with an error, which is known by then.
            let Ok(number) = acknowledged.recv() else { return };
            lock(ledger).forget(&settled);
            if send(socket, &number).is_err() {
                return;
            }
        }
    }

    /// The process is dead: what is durable of its work counts, all else is planned again.
    fn bury(&self, pid: u32, mut ledger: Ledger) {
        let (reply, buried) = channel();
        self.control.journal(ToJournal::Bury { worker: self.worker as u32, pid, reply });
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
                lock(&self.suspects).insert(target.sequence);
            }
            retries.push(Retry { target, retry_after: None, not_before: Some(0) });
        }
        self.control.planner().take_back(was_settled);
        // Nobody will tell of these any more.
        let settled = ledger.early.len();
        counters.add(&mut Delta {
            tally: Tally { fetched: settled as u64, ..Tally::default() },
            ..Delta::default()
        });
        self.control.turn(self.worker, Report { settled, retries, ..Report::default() }, 0);
        self.control.wake_all();
    }
}

fn give(batch: Batch, ledger: &mut Ledger) -> Vec<Waiting> {
    let targets = waiting(batch);
    for target in &targets {
        ledger.give(target);
    }
    targets
}

/// The targets of a batch, each with its name.
fn waiting(batch: Batch) -> Vec<Waiting> {
    if let Batch::Retries(targets) = batch {
        return targets;
    }
    let mut queue = Queue::default();
    queue.set(batch);
    let mut targets = Vec::with_capacity(queue.len());
    let mut target = Target::default();
    while queue.take(&mut target) {
        targets.push(Waiting {
            sequence: target.sequence,
            name: target.entry.as_slice().into(),
            attempts: 0,
            // It has had none: nothing is made of it.
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
    use crate::outcome::Outcome;

    fn target(sequence: Sequence, kind: FailureKind) -> Waiting {
        let name = sequence.to_string().into_bytes().into();
        Waiting { sequence, name, attempts: 0, kind, not_before: 0, throttled_since: 0 }
    }

    #[test]
    fn a_ledger_has_what_no_receipt_has_settled() {
        let mut ledger = Ledger::default();
        for sequence in 0..5 {
            ledger.give(&target(sequence, FailureKind::Reset));
        }

        let settled = |sequence| Settled { sequence, outcome: Outcome::Fetched, bytes: 1 };
        let retry = Retry { target: target(2, FailureKind::Reset), retry_after: None, not_before: None };
        let done = Done {
            settled: vec![settled(0), settled(1), settled(4)],
            retries: vec![retry],
            ..Done::default()
        };
        ledger.note(&done);
        ledger.forget(&Runs::from_unsorted(&mut [0, 3]));

        let state = |given: &Given| (given.target.sequence, given.settled.is_some());
        let mut left: Vec<_> = ledger.given.values().map(state).collect();
        left.sort_unstable();
        assert_eq!(left, [(1, true), (4, true)]);
        assert!(!ledger.is_open());
        assert_eq!(ledger.early, HashSet::from([3]));
        ledger.note(&Done { settled: vec![settled(3)], ..Done::default() });
        assert!(ledger.early.is_empty());
    }
}
