//! Hosts of a job over many: who waits for one goes when another leaves it, when it has rested, or never, when it is dead.

use super::state::Worker;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::hosts::{Admission, HostId, RequestOutcome};
use fetchmill_model::planner::origin::Millis;

/// A rest that is shorter than this is waited for in memory.
pub(super) const SHORT_REST: Millis = 1000;

/// What is done with the first target that waits for a host.
enum AdmissionStep {
    Goes(Box<CurrentTarget>),
    Waits,
    Rests(Millis),
    Ends(FailureKind),
}

impl Worker {
    /// A target has left its host: the next one may go.
    pub(super) fn leave(&self, target: &mut CurrentTarget, seen: RequestOutcome) {
        if std::mem::take(&mut target.is_admitted) {
            let now = self.clock.now();
            let took = now.saturating_sub(target.admitted_at);
            self.waiters.hosts.borrow_mut().left_after(target.host, seen, took, now);
            self.release(target.host);
            self.release_crowded();
        }
    }

    /// Lets those go that wait for a place beside prompt hosts.
    pub(super) fn release_crowded(&self) {
        while let Some(host) = self.waiters.take_crowded(self.clock.now()) {
            self.release(host);
        }
    }

    /// Lets those go that wait for a host, as far as they may.
    pub(super) fn release(&self, host: HostId) {
        let now = self.clock.now();
        loop {
            match self.step(host, now) {
                AdmissionStep::Goes(target) => {
                    self.waiters.push_ready(*target);
                    self.idle_connections.wake_one();
                }
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

    fn step(&self, host: HostId, now: Millis) -> AdmissionStep {
        let mut queues = self.waiters.queues.borrow_mut();
        let Some(queue) = queues.get_mut(&host) else { return AdmissionStep::Waits };
        if queue.is_looked_up {
            return AdmissionStep::Waits;
        }
        if queue.targets.is_empty() {
            queues.remove(&host);
            return AdmissionStep::Waits;
        }
        if let Some(first) = queue.targets.front() {
            self.doubt_what_was_seen(first);
        }
        match self.waiters.hosts.borrow_mut().admit(host, now) {
            Admission::Go => {
                queue.gone += 1;
                self.waiters.held.set(self.waiters.held.get() - 1);
                let mut target = queue.targets.pop_front().unwrap_or_default();
                target.is_admitted = true;
                target.admitted_at = now;
                AdmissionStep::Goes(Box::new(target))
            }
            Admission::Full => AdmissionStep::Waits,
            Admission::Crowded => {
                self.waiters.wait_for_room(queue, host);
                AdmissionStep::Waits
            }
            Admission::Resting(then) if then > now + SHORT_REST => AdmissionStep::Rests(then),
            Admission::Later(then) | Admission::Resting(then) => {
                self.waiters.wake_at(queue, host, then);
                AdmissionStep::Waits
            }
            Admission::Closed(kind) => AdmissionStep::Ends(kind),
        }
    }

    /// The host is dead: so is the target, without an attempt more.
    pub(super) fn close(&self, target: &mut CurrentTarget, kind: FailureKind) {
        if target.state.wants_second_look(kind, &self.setup.rules) {
            self.look_again_later(target, kind);
        } else {
            self.settle_other(target, Outcome::Failed(kind), 0, 0, None);
        }
    }

    /// A second look is to find a host as it is then.
    pub(super) fn doubt_what_was_seen(&self, target: &CurrentTarget) {
        if self.is_second_look(target) {
            self.waiters.hosts.borrow_mut().doubt(
                target.host,
                target.state.throttled_since,
                self.clock.now(),
            );
        }
    }
}
