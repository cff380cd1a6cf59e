//! Whether the only origin of a job refuses everything: after many equal answers of 401 or 403 in a row, and no success,
//! the credentials are wrong or have expired, and each further request would only use up a target.
//!
//! A worker that has a success looks at one counter, which nobody writes while nothing is refused.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fetchmill_model::limits::REFUSED_TARGETS_MAX;

/// Where the status is in the counter of a streak.
const STATUS_SHIFT: u32 = 48;
/// By how much the bound grows when it turns out that the refused targets are forbidden, and others are not.
const GROWTH: u64 = 4;

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The target has failed.
    OfTarget,
    /// All are refused, and nothing was given in this run.
    OfAll,
    /// Many in a row are refused, and others were given: an object that was fetched is to be asked for again.
    InDoubt,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct AccessRefusals {
    /// Refusals with one status since the last success, and that status.
    streak: AtomicU64,
    /// A streak of so many is looked into.
    bound: AtomicU64,
    has_success: AtomicBool,
    is_asking: AtomicBool,
    is_off: bool,
}

impl AccessRefusals {
    /// `is_off` when the user says how many targets may fail, or refusals are what a job is about.
    pub(crate) fn new(is_off: bool) -> Self {
        AccessRefusals {
            streak: AtomicU64::new(0),
            bound: AtomicU64::new(REFUSED_TARGETS_MAX),
            has_success: AtomicBool::new(false),
            is_asking: AtomicBool::new(false),
            is_off,
        }
    }

    /// An object was given.
    pub(crate) fn note_success(&self) {
        if self.streak.load(Ordering::Relaxed) > 0 {
            self.streak.store(0, Ordering::Relaxed);
        }
        if !self.has_success.load(Ordering::Relaxed) {
            self.has_success.store(true, Ordering::Relaxed);
        }
    }

    /// A target was refused with this status, 401 or 403.
    pub(crate) fn note(&self, status: u16) -> Refusal {
        if self.is_off {
            return Refusal::OfTarget;
        }
        let first = u64::from(status) << STATUS_SHIFT;
        let next = |streak: u64| {
            Some(if streak >> STATUS_SHIFT == u64::from(status) { streak + 1 } else { first + 1 })
        };
        // The closure never refuses.
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

    /// An object that was fetched was given again: the refused ones are forbidden, each for itself.
    pub(crate) fn go_on(&self) {
        self.bound.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bound| bound.checked_mul(GROWTH)).ok();
        self.streak.store(0, Ordering::Relaxed);
        self.is_asking.store(false, Ordering::Relaxed);
    }
}

/// What a user is to do when everything is refused.
pub(crate) fn describe(status: u16) -> String {
    format!(
        "the server answered {status} to {REFUSED_TARGETS_MAX} targets in a row and gave none of them: the credentials are \
         missing, wrong or expired; run the same command again with valid ones to resume, and with \
         --retry-failed={status} to fetch these targets, too (if each target is forbidden individually, add \
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
        // Another status is another answer.
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
