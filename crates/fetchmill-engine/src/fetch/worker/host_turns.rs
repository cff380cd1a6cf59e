//! Releases targets that wait for their host, in a job with many hosts. A target can start when another target leaves
//! the host, or when the host has rested. If the host is dead, its waiting targets fail.

use super::state::Worker;
use super::waiters::AdmissionStep;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::hosts::{HostId, RequestOutcome};

impl Worker {
    /// Records that a target has left its host, and releases the next one.
    pub(super) fn leave(&self, target: &mut CurrentTarget, seen: RequestOutcome) {
        if std::mem::take(&mut target.is_admitted) {
            let now = self.clock.now();
            let took = now.saturating_sub(target.admitted_at);
            self.waiters.leave(target.host, seen, took, now);
            self.release(target.host);
            self.release_crowded();
        }
    }

    /// Releases hosts that wait for a slot that fast hosts leave free.
    pub(super) fn release_crowded(&self) {
        while let Some(host) = self.waiters.take_crowded(self.clock.now()) {
            self.release(host);
        }
    }

    /// Releases the targets of a host that can start now.
    pub(super) fn release(&self, host: HostId) {
        let now = self.clock.now();
        loop {
            match self.waiters.step(host, now) {
                AdmissionStep::Goes => self.idle_connections.wake_one(),
                AdmissionStep::Waits => return,
                AdmissionStep::Rests(then) => {
                    for target in self.waiters.take_queue(host) {
                        self.defer(&target, then, now);
                    }
                    return;
                }
                AdmissionStep::Ends(kind) => {
                    for mut target in self.waiters.take_queue(host) {
                        self.close(&mut target, kind);
                    }
                    return;
                }
            }
        }
    }

    /// Finishes a target without another attempt, because its host is dead. If the job rechecks dead targets, the
    /// target waits for its recheck instead.
    pub(super) fn close(&self, target: &mut CurrentTarget, kind: FailureKind) {
        if target.state.wants_second_look(kind, &self.setup.rules) {
            self.look_again_later(target, kind);
        } else {
            self.settle_other(target, Outcome::Failed(kind), 0, 0, None);
        }
    }
}
