//! Detects that the only origin of a job refuses everything. Many equal 401 or 403 answers in a row without a success
//! mean that the credentials are wrong or have expired. Each further request would only waste a target.
//!
//! A worker with a success reads one counter. Without refusals, this counter is never written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fetchmill_model::limits::REFUSED_TARGETS_MAX;

/// Bit position of the status in the counter of a streak.
const STATUS_SHIFT: u32 = 48;
/// Factor by which the bound grows after a check has shown that only the refused targets are forbidden.
const GROWTH: u64 = 4;

/// The meaning of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The target has failed.
    OfTarget,
    /// All targets are refused, and this run has not fetched any.
    OfAll,
    /// Many targets in a row are refused, but others were fetched. A fetched object must be requested again.
    InDoubt,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct AccessRefusals {
    /// Status of the current refusals, and their number since the last success.
    streak: AtomicU64,
    /// Length of a streak that needs a check.
    bound: AtomicU64,
    has_success: AtomicBool,
    is_asking: AtomicBool,
    is_off: bool,
}

impl AccessRefusals {
    /// Makes the detector. `is_off` if the user limits the failed targets, or if refusals are normal results of the
    /// job.
    pub(crate) fn new(is_off: bool) -> Self {
        AccessRefusals {
            streak: AtomicU64::new(0),
            bound: AtomicU64::new(REFUSED_TARGETS_MAX),
            has_success: AtomicBool::new(false),
            is_asking: AtomicBool::new(false),
            is_off,
        }
    }

    /// Notes a fetched object.
    pub(crate) fn note_success(&self) {
        if self.streak.load(Ordering::Relaxed) > 0 {
            self.streak.store(0, Ordering::Relaxed);
        }
        if !self.has_success.load(Ordering::Relaxed) {
            self.has_success.store(true, Ordering::Relaxed);
        }
    }

    /// Notes a target that was refused with this status, 401 or 403.
    pub(crate) fn note(&self, status: u16) -> Refusal {
        if self.is_off {
            return Refusal::OfTarget;
        }
        let first = u64::from(status) << STATUS_SHIFT;
        let next = |streak: u64| {
            Some(if streak >> STATUS_SHIFT == u64::from(status) { streak + 1 } else { first + 1 })
        };
        // The closure always returns a value.
        let before = self.streak.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default();
        let count = next(before).unwrap_or_default() - first;
        if count < self.bound.load(Ordering::Relaxed) {
            Refusal::OfTarget
        } else if !self.has_success.load(Ordering::Relaxed) {
            Refusal::OfAll
        } else if self.is_asking.swap(true, Ordering::Relaxed) {
            Refusal::OfTarget
        } else {
            Refusal::InDoubt
        }
    }

    /// Continues after a check: the fetched object was given again, so only the refused targets are forbidden.
    pub(crate) fn go_on(&self) {
        self.bound.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bound| bound.checked_mul(GROWTH)).ok();
        self.streak.store(0, Ordering::Relaxed);
        self.is_asking.store(false, Ordering::Relaxed);
    }
}

/// Returns the advice for the user if everything is refused.
pub(crate) fn describe(status: u16) -> String {
    format!(
        "the server answered {status} to {REFUSED_TARGETS_MAX} targets in a row: the credentials are \
         missing, wrong or expired; to resume, run the same command again with valid credentials, and with \
         --retry-failed={status} to fetch these targets too (if each target is forbidden individually, add \
         --max-failed N)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(refusals: &AccessRefusals, status: u16, count: u64) -> Vec<Refusal> {
        let mut seen: Vec<_> = (0..count).map(|_| refusals.note(status)).collect();
        seen.dedup();
        seen
    }

    #[test]
    fn nothing_but_refusals_ends_the_job() {
        let refusals = AccessRefusals::new(false);
        assert_eq!(refuse(&refusals, 403, REFUSED_TARGETS_MAX - 1), [Refusal::OfTarget]);
        // Another status begins another streak.
        assert_eq!(refuse(&refusals, 401, REFUSED_TARGETS_MAX - 1), [Refusal::OfTarget]);
        assert_eq!(refuse(&refusals, 401, 2), [Refusal::OfAll]);
        assert_eq!(refuse(&AccessRefusals::new(true), 403, 3 * REFUSED_TARGETS_MAX), [Refusal::OfTarget]);
    }

    #[test]
    fn refusals_after_a_success_are_looked_into_once() {
        let refusals = AccessRefusals::new(false);
        refusals.note_success();
        let looked_into = [Refusal::OfTarget, Refusal::InDoubt, Refusal::OfTarget];
        assert_eq!(refuse(&refusals, 403, 2 * REFUSED_TARGETS_MAX), looked_into);
        refusals.go_on();
        assert_eq!(refuse(&refusals, 403, GROWTH * REFUSED_TARGETS_MAX - 1), [Refusal::OfTarget]);
        assert_eq!(refusals.note(403), Refusal::InDoubt);
        refusals.go_on();
        refusals.note(403);
        refusals.note_success();
        assert_eq!(refuse(&refusals, 403, GROWTH * REFUSED_TARGETS_MAX), [Refusal::OfTarget]);
    }
}
