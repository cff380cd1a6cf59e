//! Counts the waiting hosts of a worker, by reason.

use std::cell::Cell;

use crate::control::telemetry::CapacityUse;
use fetchmill_model::planner::hosts::Admission;

/// Reason why a host's targets wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostWait {
    /// The host's address is being looked up.
    Address,
    /// The host has reached its request limit (`--limit-per-host`).
    Turn,
    /// The host has reached its rate limit (`--rate-per-host`).
    Rate,
    /// All slots are in use, or are reserved for fast hosts.
    Place,
    /// The host must rest: it asked for a pause or did not answer.
    Rest,
}

impl HostWait {
    const ALL: [HostWait; 5] =
        [HostWait::Address, HostWait::Turn, HostWait::Rate, HostWait::Place, HostWait::Rest];

    /// Returns the reason why a target was not admitted, or `None` if it does not have to wait.
    pub(super) fn of(admission: Admission) -> Option<Self> {
        Some(match admission {
            Admission::Full => HostWait::Turn,
            Admission::Later(_) => HostWait::Rate,
            Admission::Crowded => HostWait::Place,
            Admission::Resting(_) => HostWait::Rest,
            Admission::Go | Admission::Closed(_) => return None,
        })
    }

    /// Returns the use of capacity that corresponds to this reason.
    pub(super) fn capacity_use(self) -> CapacityUse {
        match self {
            HostWait::Address => CapacityUse::Names,
            HostWait::Turn => CapacityUse::HostTurns,
            HostWait::Rate => CapacityUse::HostRates,
            HostWait::Place => CapacityUse::HostPlaces,
            HostWait::Rest => CapacityUse::HostRests,
        }
    }
}

/// Number of waiting hosts per reason. See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct HostWaits([Cell<usize>; HostWait::ALL.len()]);

impl HostWaits {
    /// Records that the reason for a host's wait has changed. `None` means that the host does not wait.
    pub(super) fn change(&self, from: Option<HostWait>, to: Option<HostWait>) {
        if let Some(from) = from {
            let count = &self.0[from as usize];
            count.set(count.get() - 1);
        }
        if let Some(to) = to {
            let count = &self.0[to as usize];
            count.set(count.get() + 1);
        }
    }

    /// Returns the most common reason why hosts wait, or `None` if no host waits.
    pub(super) fn most(&self) -> Option<HostWait> {
        let count = |wait: &HostWait| self.0[*wait as usize].get();
        HostWait::ALL.into_iter().max_by_key(count).filter(|wait| count(wait) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_most_hosts_counts() {
        let waits = HostWaits::default();
        assert_eq!(waits.most(), None);

        waits.change(None, Some(HostWait::Rate));
        waits.change(None, Some(HostWait::Rate));
        waits.change(None, Some(HostWait::Turn));
        assert_eq!(waits.most(), Some(HostWait::Rate));

        waits.change(Some(HostWait::Rate), Some(HostWait::Turn));
        waits.change(Some(HostWait::Rate), None);
        assert_eq!(waits.most(), Some(HostWait::Turn));
    }
}
