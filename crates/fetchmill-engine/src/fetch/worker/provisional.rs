//! Outcomes that wait until it is certain whose replies they are: a connection's, until it has rested or has ended.

use super::held_outcomes::{HeldOutcomes, WorkerConnection};
use super::state::Worker;
use crate::control::counters::Delta;
use crate::control::journal_link::JournalRequest;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::Retry;
use fetchmill_model::target::TargetList;
use fetchmill_model::verdict::AttemptState;
use fetchmill_net::certain::Judged;
use fetchmill_store::sink::BlockBody;

/// What is held is counted in steps of this size, so that a small object costs nothing here.
const COUNTED_BYTES: usize = 4096;

impl Worker {
    /// Bytes that a connection may hold.
    pub(super) fn held_bytes_max(&self) -> usize {
        let share = limits::HELD_BYTES_MAX / self.control().plan.workers() / self.in_flight.share().max(1);
        share.clamp(limits::HELD_BYTES_MIN, limits::HELD_BYTES_EACH_MAX)
    }

    /// Whether no more may be held on a connection.
    pub(super) fn holds_enough(&self, held: &HeldOutcomes) -> bool {
        held.block.memory() + held.targets.memory() >= self.held_bytes_max()
            || self.setup.body_memory.is_used_up()
    }

    /// Has `settle` write what becomes of targets, of each of which it takes note, to what their connection holds, in place of
    /// what goes to the sink next. Nothing in it waits, so nothing else can be written there.
    pub(super) fn hold<T>(
        &self,
        held: &mut HeldOutcomes,
        settle: impl FnOnce(&mut dyn FnMut(&CurrentTarget)) -> T,
    ) -> T {
        let mut settled = held.settled;
        self.exchange_outcomes(held);
        let done = settle(&mut |target| {
            let before = std::mem::replace(&mut settled, self.report.borrow().settled);
            if settled > before {
                let AttemptState { attempts, throttled_since, .. } = target.state;
                held.targets.push(target.sequence, &target.entry, attempts, throttled_since);
            }
        });
        self.exchange_outcomes(held);
        let bytes = held.block.memory() + held.targets.memory();
        if bytes - held.bytes >= COUNTED_BYTES {
            self.setup.body_memory.reserve(bytes - held.bytes);
            held.bytes = bytes;
        }
        done
    }

    fn exchange_outcomes(&self, held: &mut HeldOutcomes) {
        std::mem::swap(&mut *self.block.borrow_mut(), &mut held.block);
        std::mem::swap(&mut *self.delta.borrow_mut(), &mut held.delta);
        std::mem::swap(&mut self.report.borrow_mut().settled, &mut held.settled);
    }

    /// Acts on what is known of the outcomes that a connection holds.
    pub(super) fn judge(&self, task: &mut WorkerConnection, judged: Judged) {
        match judged {
            Judged::Pending => {}
            Judged::Certain { may_be_shifted } => self.commit(task, may_be_shifted),
            Judged::Surplus { before } => {
                self.control().stray.note(task.held.targets.len());
                self.control().pipeline.note_broken();
                if let Some(targets) = before {
                    self.doubt(&targets);
                }
                self.fetch_again(&mut task.held, FailureKind::Framing);
            }
            Judged::Lost(kind) => self.fetch_again(&mut task.held, kind),
        }
    }

    /// What is held goes to the sink. The connection remembers the targets if it may turn out that their replies were others'.
    fn commit(&self, task: &mut WorkerConnection, may_be_shifted: bool) {
        let WorkerConnection { connection, held } = task;
        self.release_held(held);
        self.block.borrow_mut().append_block(&mut held.block);
        self.delta.borrow_mut().append(&mut held.delta);
        self.report.borrow_mut().settled += std::mem::take(&mut held.settled);
        match connection.last_certain() {
            Some(last) if may_be_shifted => std::mem::swap(&mut *last.borrow_mut(), &mut held.targets),
            Some(last) => last.borrow_mut().clear(),
            None => {}
        }
        held.targets.clear();
    }

    /// It will never be certain: the targets are planned again, without an attempt more. Those whose requests must not be
    /// made twice have failed.
    pub(super) fn fetch_again(&self, held: &mut HeldOutcomes, kind: FailureKind) {
        self.release_held(held);
        for entry in held.block.entries() {
            if matches!(entry.body, BlockBody::Spilled(_))
                && let Some(stage) = &self.setup.stage
                && let Err(error) = stage.remove(entry.sequence)
            {
                self.control().stop.fail(error);
            }
        }
        self.part_etags.borrow_mut().forget();
        let now = self.clock.now();
        self.fail_uncertain_of(&held.targets);
        let again =
            held.targets.waiting(kind, now).filter(|target| !self.setup.requests.is_once(&target.name));
        let again = again.map(|target| Retry { target, retry_after: None, not_before: Some(now) });
        self.report.borrow_mut().retries.extend(again);
        held.block.clear();
        held.targets.clear();
        (held.delta, held.settled) = (Delta::default(), 0);
    }

    fn release_held(&self, held: &mut HeldOutcomes) {
        self.setup.body_memory.release(std::mem::take(&mut held.bytes));
    }

    /// Targets that were settled before it turned out that their replies may have been others'.
    pub(super) fn doubt(&self, targets: &TargetList) {
        let naming = self.setup.naming;
        let named = targets.waiting(FailureKind::Framing, 0).map(|target| {
            let mut name = Vec::new();
            naming.write_name(target.sequence, &target.name, &mut name);
            (target.sequence, self.setup.names.stored(&target.name, &name, None).into_owned())
        });
        self.control().journal.send(JournalRequest::Doubtful(named.collect()));
    }
}
