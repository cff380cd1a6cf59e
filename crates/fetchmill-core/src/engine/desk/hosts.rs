//! Which targets of a desk may go to their host now. In a job over many hosts a host belongs to one worker, and so to
//! one desk (docs/decisions/0013); with only one host its desks share what the host may be asked.

use std::collections::VecDeque;

use crate::engine::worker::queue::Target;
use crate::limits;
use crate::outcome::FailureKind;
use crate::planner::hosts::{Admission, HostId, HostRules, Hosts, Seen};
use crate::planner::origin::Millis;

/// See the module.
pub(in crate::engine) struct HostGate {
    hosts: Hosts,
    /// What holds when there are many.
    many: HostRules,
    is_of_many: bool,
    /// Whether the only host has a limit of its own.
    is_limited: bool,
    /// Those whose host has no place now, at most a batch's worth.
    held: VecDeque<Target>,
    ready: VecDeque<Admitted>,
}

/// What becomes of a target.
pub(super) enum Admitted {
    Go(Target),
    /// It is kept here.
    Held,
    /// There is no room for it here: not before then.
    Aside(Target, Millis),
    /// Its host is dead, for this reason.
    Closed(Target, FailureKind),
}

impl HostGate {
    /// For one of so many desks. `only` is what holds while there is one host, for all desks together.
    pub(in crate::engine) fn new(many: HostRules, only: HostRules, desks: usize) -> Self {
        let only = HostRules {
            connections: only.connections.div_ceil(desks as u32),
            rate: only.rate.map(|rate| rate / desks as f64),
            ..only
        };
        HostGate {
            is_limited: only.rate.is_some() || only.connections > 0,
            hosts: Hosts::new(only),
            many,
            is_of_many: false,
            held: VecDeque::new(),
            ready: VecDeque::new(),
        }
    }

    /// Whether targets must be admitted; it is told whether there are many hosts.
    pub(super) fn is_needed(&mut self, has_many_origins: bool) -> bool {
        if has_many_origins && !self.is_of_many {
            self.is_of_many = true;
            self.hosts = Hosts::new(self.many);
        }
        self.is_of_many || self.is_limited
    }

    pub(super) fn has_targets(&self) -> bool {
        !self.held.is_empty() || !self.ready.is_empty()
    }

    /// Asks for a target that has not been asked for.
    pub(super) fn admit(&mut self, mut target: Target, now: Millis) -> Admitted {
        target.host = HostId::of_url(target.url.as_bytes());
        match self.ask(target, now) {
            Admitted::Aside(target, _) if self.held.len() < limits::BATCH_TARGETS_MAX => {
                self.held.push_back(target);
                Admitted::Held
            }
            admitted => admitted,
        }
    }

    fn ask(&mut self, mut target: Target, now: Millis) -> Admitted {
        match self.hosts.admit(target.host, now) {
            Admission::Go => {
                target.is_admitted = true;
                Admitted::Go(target)
            }
            Admission::Closed(kind) => Admitted::Closed(target, kind),
            Admission::Full | Admission::Later(_) | Admission::Resting(_) => {
                let earliest = now + limits::PARKED_FOR.as_millis() as Millis;
                let outlook = self.hosts.outlook(target.host, self.held.len(), now);
                Admitted::Aside(target, outlook.max(earliest))
            }
        }
    }

    /// Looks once at those that are kept here.
    pub(super) fn look(&mut self, now: Millis) {
        for _ in 0..self.held.len() {
            let Some(target) = self.held.pop_front() else { return };
            match self.ask(target, now) {
                Admitted::Aside(target, _) => self.held.push_back(target),
                admitted => self.ready.push_back(admitted),
            }
        }
    }

    /// One whose host has a place since, or has died.
    pub(super) fn take_ready(&mut self) -> Option<Admitted> {
        self.ready.pop_front()
    }

    /// An attempt is over.
    pub(super) fn left(&mut self, target: &Target, seen: Seen, now: Millis) {
        if target.is_admitted {
            self.hosts.left(target.host, seen, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(connections: u32, rate: Option<f64>) -> HostRules {
        HostRules { connections, rate, probes: 1, dead_for: 900_000, held_max: 100 }
    }

    fn target(sequence: u64, url: &str) -> Target {
        Target { sequence, url: url.to_owned(), ..Target::default() }
    }

    fn taken(admitted: Option<Admitted>) -> Option<u64> {
        match admitted? {
            Admitted::Go(target) => Some(target.sequence),
            _ => None,
        }
    }

    #[test]
    fn a_host_has_its_places_and_the_next_one_follows() {
        let mut gate = HostGate::new(rules(1, None), rules(0, None), 1);
        assert!(!gate.is_needed(false));
        assert!(gate.is_needed(true));

        let Admitted::Go(first) = gate.admit(target(1, "http://a/"), 0) else { panic!("it has a place") };
        assert!(matches!(gate.admit(target(2, "http://a/"), 0), Admitted::Held));
        assert!(matches!(gate.admit(target(3, "http://b/"), 0), Admitted::Go(_)));
        gate.look(1);
        assert_eq!(taken(gate.take_ready()), None);
        gate.left(&first, Seen::Answer, 2);
        gate.look(3);

        assert_eq!(taken(gate.take_ready()), Some(2));
        assert!(!gate.has_targets());
    }

    #[test]
    fn desks_share_the_rate_of_the_only_host() {
        let mut gate = HostGate::new(rules(0, None), rules(0, Some(20.0)), 2);
        assert!(gate.is_needed(false));

        let admitted =
            |gate: &mut HostGate, now| matches!(gate.admit(target(1, "http://a/"), now), Admitted::Go(_));
        let now = 1_000_000;
        let count = (0..1000).filter(|step| admitted(&mut gate, now + step)).count();

        assert!((9..=12).contains(&count), "{count}");
    }

    #[test]
    fn what_finds_no_room_is_put_aside() {
        let mut gate = HostGate::new(rules(1, None), rules(0, None), 1);
        gate.is_needed(true);
        for sequence in 0..=limits::BATCH_TARGETS_MAX as u64 {
            assert!(!matches!(gate.admit(target(sequence, "http://a/"), 0), Admitted::Aside(..)));
        }

        let Admitted::Aside(target, then) = gate.admit(target(9, "http://a/"), 0) else {
            panic!("there is no room")
        };
        assert_eq!((target.sequence, then), (9, limits::PARKED_FOR.as_millis() as Millis));
    }
}
