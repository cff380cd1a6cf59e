//! Admits a dispatcher's targets to their hosts. In a job with many hosts, each host belongs to one worker and
//! therefore to one dispatcher (docs/internals/decisions/0013). If there is only one host, the dispatchers share its
//! limits.

use std::collections::VecDeque;

use crate::fetch::target::CurrentTarget;
use crate::plan::job_plan::JobPlan;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::hosts::{Admission, HostId, HostRules, HostTable, RequestOutcome};
use fetchmill_model::planner::origin::Millis;

/// Gate that admits targets to their hosts. See the [module documentation](self).
pub(crate) struct HostGate {
    hosts: HostTable,
    /// Rules per host, in a job with many hosts.
    many: HostRules,
    is_of_many: bool,
    /// Whether the only host has its own limit.
    is_limited: bool,
    /// Targets whose host has reached its limit, at most one batch.
    held: VecDeque<CurrentTarget>,
    ready: VecDeque<GateResult>,
}

/// Decision about a target.
pub(crate) enum GateResult {
    Go(CurrentTarget),
    /// The gate keeps the target.
    Held,
    /// The gate has no room for the target, which must not return before this time.
    Aside(CurrentTarget, Millis),
    /// The host is dead for the given reason.
    Closed(CurrentTarget, FailureKind),
}

impl HostGate {
    /// Creates the gate for one of a job's `dispatchers` dispatchers.
    pub(crate) fn of_job(plan: &JobPlan, dispatchers: usize) -> Self {
        let many = plan.host_rules(dispatchers);
        let only = HostRules {
            connections: plan.request.http.part_of_host_limit(plan.request.limit_per_host.unwrap_or(0)),
            rate: plan.request.http.host_rate(),
            places: 0,
            ..many
        };
        Self::new(many, only, dispatchers)
    }

    /// Creates the gate for one of `dispatchers` dispatchers. `only` contains the limits of a single host, which all
    /// dispatchers share equally.
    pub(crate) fn new(many: HostRules, only: HostRules, dispatchers: usize) -> Self {
        let only = HostRules {
            connections: only.connections.div_ceil(dispatchers as u32),
            rate: only.rate.map(|rate| rate / dispatchers as f64),
            ..only
        };
        HostGate {
            is_limited: only.rate.is_some() || only.connections > 0,
            hosts: HostTable::new(only),
            many,
            is_of_many: false,
            held: VecDeque::new(),
            ready: VecDeque::new(),
        }
    }

    /// Returns whether targets must be admitted. `has_many_origins` means that the job has many hosts.
    pub(crate) fn is_needed(&mut self, has_many_origins: bool) -> bool {
        if has_many_origins && !self.is_of_many {
            self.is_of_many = true;
            self.hosts = HostTable::new(self.many);
        }
        self.is_of_many || self.is_limited
    }

    pub(crate) fn has_targets(&self) -> bool {
        !self.held.is_empty() || !self.ready.is_empty()
    }

    /// Decides what happens to a new target.
    pub(crate) fn admit(&mut self, mut target: CurrentTarget, now: Millis) -> GateResult {
        target.host = HostId::of_url(target.at.url.as_bytes());
        match self.ask(target, now) {
            GateResult::Aside(target, _) if self.held.len() < limits::BATCH_TARGETS_MAX => {
                self.held.push_back(target);
                GateResult::Held
            }
            admitted => admitted,
        }
    }

    fn ask(&mut self, mut target: CurrentTarget, now: Millis) -> GateResult {
        match self.hosts.admit(target.host, now) {
            Admission::Go => {
                target.is_admitted = true;
                target.admitted_at = now;
                GateResult::Go(target)
            }
            Admission::Closed(kind) => GateResult::Closed(target, kind),
            Admission::Full | Admission::Crowded | Admission::Later(_) | Admission::Resting(_) => {
                let earliest = now + limits::DEFERRED_FOR.as_millis() as Millis;
                let outlook = self.hosts.outlook(target.host, self.held.len(), now);
                GateResult::Aside(target, outlook.max(earliest))
            }
        }
    }

    /// Checks once whether the kept targets can be requested.
    pub(crate) fn look(&mut self, now: Millis) {
        for _ in 0..self.held.len() {
            let Some(target) = self.held.pop_front() else { return };
            match self.ask(target, now) {
                GateResult::Aside(target, _) => self.held.push_back(target),
                admitted => self.ready.push_back(admitted),
            }
        }
    }

    /// Takes a kept target that its host has admitted, or whose host is dead.
    pub(crate) fn take_ready(&mut self) -> Option<GateResult> {
        self.ready.pop_front()
    }

    /// Records the end of an attempt.
    pub(crate) fn left(&mut self, target: &CurrentTarget, seen: RequestOutcome, now: Millis) {
        if target.is_admitted {
            self.hosts.left_after(target.host, seen, now.saturating_sub(target.admitted_at), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::Location;

    fn rules(connections: u32, rate: Option<f64>) -> HostRules {
        HostRules { connections, rate, probes: 1, dead_for: 900_000, held_max: 100, places: 0 }
    }

    fn target(sequence: u64, url: &str) -> CurrentTarget {
        CurrentTarget { sequence, at: Location::at(url.to_owned()), ..CurrentTarget::default() }
    }

    fn taken(admitted: Option<GateResult>) -> Option<u64> {
        match admitted? {
            GateResult::Go(target) => Some(target.sequence),
            _ => None,
        }
    }

    #[test]
    fn a_host_has_its_places_and_the_next_one_follows() {
        let mut gate = HostGate::new(rules(1, None), rules(0, None), 1);
        assert!(!gate.is_needed(false));
        assert!(gate.is_needed(true));

        let GateResult::Go(first) = gate.admit(target(1, "http://a/"), 0) else { panic!("it was refused") };
        assert!(matches!(gate.admit(target(2, "http://a/"), 0), GateResult::Held));
        assert!(matches!(gate.admit(target(3, "http://b/"), 0), GateResult::Go(_)));
        gate.look(1);
        assert_eq!(taken(gate.take_ready()), None);
        gate.left(&first, RequestOutcome::Answer, 2);
        gate.look(3);

        assert_eq!(taken(gate.take_ready()), Some(2));
        assert!(!gate.has_targets());
    }

    #[test]
    fn dispatchers_share_the_rate_of_the_only_host() {
        let mut gate = HostGate::new(rules(0, None), rules(0, Some(20.0)), 2);
        assert!(gate.is_needed(false));

        let admitted =
            |gate: &mut HostGate, now| matches!(gate.admit(target(1, "http://a/"), now), GateResult::Go(_));
        let now = 1_000_000;
        let count = (0..1000).filter(|step| admitted(&mut gate, now + step)).count();

        assert!((9..=12).contains(&count), "{count}");
    }

    #[test]
    fn what_finds_no_room_is_put_aside() {
        let mut gate = HostGate::new(rules(1, None), rules(0, None), 1);
        gate.is_needed(true);
        for sequence in 0..=limits::BATCH_TARGETS_MAX as u64 {
            assert!(!matches!(gate.admit(target(sequence, "http://a/"), 0), GateResult::Aside(..)));
        }

        let GateResult::Aside(target, then) = gate.admit(target(9, "http://a/"), 0) else {
            panic!("the gate still had room")
        };
        assert_eq!((target.sequence, then), (9, limits::DEFERRED_FOR.as_millis() as Millis));
    }
}
