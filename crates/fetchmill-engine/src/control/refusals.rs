//! Detects that a job's only origin refuses everything. Many 401 or 403 replies in a row mean that the credentials are
//! wrong or have expired. Further requests would only make more targets fail.
//!
//! After each success, a worker reads one counter. While there are no refusals, no thread writes to that counter.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fetchmill_model::limits::REFUSED_TARGETS_MAX;

/// Bit offset of the status in the streak counter.
const STATUS_SHIFT: u32 = 48;
/// Factor by which the bound grows after a check has found that only the refused targets are forbidden.
const GROWTH: u64 = 4;

/// Meaning of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Only this target is refused.
    OfTarget,
    /// All targets are refused, and this run has fetched none.
    OfAll,
    /// Many targets in a row are refused, but others were fetched. To decide, one of the fetched objects must be
    /// requested again.
    InDoubt,
}

/// Detector of refusals. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct AccessRefusals {
    /// Status of the current streak of refusals, and the length of the streak.
    streak: AtomicU64,
    /// Streak length that triggers a check.
    bound: AtomicU64,
    has_success: AtomicBool,
    is_asking: AtomicBool,
    is_off: bool,
}

impl AccessRefusals {
    /// Creates the detector. `is_off` disables it, either because the user limits the number of failed targets, or
    /// because refusals are normal results of the job.
    pub(crate) fn new(is_off: bool) -> Self {
        AccessRefusals {
            streak: AtomicU64::new(0),
            bound: AtomicU64::new(REFUSED_TARGETS_MAX),
            has_success: AtomicBool::new(false),
            is_asking: AtomicBool::new(false),
            is_off,
        }
    }

    /// Records a fetched object.
    pub(crate) fn note_success(&self) {
        if self.streak.load(Ordering::Relaxed) > 0 {
            self.streak.store(0, Ordering::Relaxed);
        }
        if !self.has_success.load(Ordering::Relaxed) {
            self.has_success.store(true, Ordering::Relaxed);
        }
    }

    /// Records a target that was refused with this status, which is 401 or 403.
    pub(crate) fn note(&self, status: u16) -> Refusal {
        if self.is_off {
            return Refusal::OfTarget;
        }
        let first = u64::from(status) << STATUS_SHIFT;
        let next = |streak: u64| {
            Some(if streak >> STATUS_SHIFT == u64::from(status) { streak + 1 } else { first + 1 })
        };
        // The closure never returns `None`.
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

    /// Continues after the object was fetched again. This shows that only the refused targets are forbidden.
    pub(crate) fn go_on(&self) {
        self.bound.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bound| bound.checked_mul(GROWTH)).ok();
        self.streak.store(0, Ordering::Relaxed);
        self.is_asking.store(false, Ordering::Relaxed);
    }
}

/// Returns the error text for an origin that refuses everything.
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
        // A different status starts a new streak.
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
