//! Outcomes that are held on a connection until they are certain. They are certain once the connection has rested or
//! ended.

use super::held_outcomes::{HeldOutcomes, WorkerConnection};
use super::state::Worker;
use crate::control::journal_link::JournalRequest;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::Retry;
use fetchmill_model::target::TargetList;
use fetchmill_net::certain::Judged;

impl Worker {
    /// Returns the maximum number of bytes held on a connection.
    pub(super) fn held_bytes_max(&self) -> usize {
        let share = limits::HELD_BYTES_MAX / self.control().plan.workers() / self.in_flight.share().max(1);
        share.clamp(limits::HELD_BYTES_MIN, limits::HELD_BYTES_EACH_MAX)
    }

    /// Returns whether a connection must not hold more outcomes.
    pub(super) fn holds_enough(&self, held: &HeldOutcomes) -> bool {
        held.memory() >= self.held_bytes_max() || self.setup.body_memory.is_used_up()
    }

    /// Runs `settle` and adds its outcomes to those that are held on a connection ([`HeldOutcomes::collect`]).
    pub(super) fn hold<T>(
        &self,
        held: &mut HeldOutcomes,
        settle: impl FnOnce(&mut dyn FnMut(&CurrentTarget)) -> T,
    ) -> T {
        held.collect(&self.outcomes, &self.setup.body_memory, settle)
    }

    /// Applies a judgement to the outcomes held on a connection.
    pub(super) fn judge(&self, task: &mut WorkerConnection, judged: Judged) {
        match judged {
            Judged::Pending => {}
            Judged::Certain { may_be_shifted } => self.commit(task, may_be_shifted),
            Judged::Surplus { before } => {
                self.control().stray.note(task.held.targets().len());
                self.control().pipeline.note_broken();
                if let Some(targets) = before {
                    self.doubt(&targets);
                }
                self.fetch_again(&mut task.held, FailureKind::Framing);
            }
            Judged::Lost(kind) => self.fetch_again(&mut task.held, kind),
        }
    }

    /// Sends the held outcomes to the sink. If their replies might still belong to other requests, the connection
    /// remembers the targets.
    fn commit(&self, task: &mut WorkerConnection, may_be_shifted: bool) {
        let WorkerConnection { connection, held } = task;
        held.commit(&self.outcomes, &self.setup.body_memory, connection.last_certain(), may_be_shifted);
    }

    /// Plans the held targets again, because their replies can never become certain. This does not count as an attempt.
    /// Targets whose requests must not be repeated fail.
    pub(super) fn fetch_again(&self, held: &mut HeldOutcomes, kind: FailureKind) {
        for sequence in held.spilled() {
            if let Some(stage) = &self.setup.stage
                && let Err(error) = stage.remove(sequence)
            {
                self.control().stop.fail(error);
            }
        }
        self.part_etags.forget();
        let now = self.clock.now();
        self.fail_uncertain_of(held.targets());
        let again =
            held.targets().waiting(kind, now).filter(|target| !self.setup.requests.is_once(&target.name));
        let again = again.map(|target| Retry { target, retry_after: None, not_before: Some(now) });
        self.report.plan_all_again(again);
        held.clear(&self.setup.body_memory);
    }

    /// Marks finished targets as doubtful, because their replies might belong to other requests.
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
