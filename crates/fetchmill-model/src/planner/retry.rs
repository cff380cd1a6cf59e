//! The delay before a target is tried again. [`crate::verdict`] decides whether a target is tried again.
//!
//! The delay has full jitter: it is a random fraction of base x 2^attempt, up to a cap. A server's `Retry-After` is
//! obeyed up to `RETRY_AFTER_MAX`.

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::outcome::{FailureClass, FailureKind};
use crate::planner::origin::Millis;
use crate::target::WaitingTarget;

/// A target that needs another attempt because the last one failed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Retry {
    /// The target. The planner sets the time before which it must not start.
    pub target: WaitingTarget,
    /// Pause that the server requested.
    pub retry_after: Option<Millis>,
    /// Time at which the target is due, if known. The target is then deferred without an attempt.
    pub not_before: Option<Millis>,
}

/// Maximum result of [`delay`]: `Retry-After` plus some jitter.
pub const LONGEST_DELAY: Millis = limits::RETRY_AFTER_MAX.as_millis() as Millis * 11 / 10;

/// Returns how long a target waits. `random` is a random number. `retry_after` is the pause that the server requested.
pub fn delay(kind: FailureKind, attempts: u32, retry_after: Option<Millis>, random: u64) -> Millis {
    let (base, cap) = match kind.class() {
        FailureClass::Throttle => (limits::THROTTLE_BASE, limits::THROTTLE_CAP),
        _ => (limits::BACKOFF_BASE, limits::BACKOFF_CAP),
    };
    let most =
        (base.as_millis() as Millis).saturating_mul(1 << attempts.min(16)).min(cap.as_millis() as Millis);
    let jitter = random % (most + 1);
    let asked = retry_after.unwrap_or(0).min(limits::RETRY_AFTER_MAX.as_millis() as Millis);
    // Jitter prevents targets with the same `Retry-After` from being tried again together.
    if asked > 0 { asked + jitter.min(asked / 10) } else { jitter }
}

/// A small random number generator (splitmix64, public domain, Vigna 2015). Jitter does not need a better generator.
#[derive(Debug, Clone)]
pub struct Jitter(u64);

impl Jitter {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Jitter(seed)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_followed_and_clamped() {
        let mut jitter = Jitter::new(1);
        for _ in 0..1000 {
            let waited = delay(FailureKind::Throttled, 1, Some(30_000), jitter.draw());
            assert!((30_000..=33_000).contains(&waited), "{waited}");
            assert!(delay(FailureKind::Throttled, 1, Some(u64::MAX), jitter.draw()) <= 330_000);
            assert!(delay(FailureKind::Reset, 30, None, jitter.draw()) <= 20_000);
            assert!(delay(FailureKind::Reset, 1, None, jitter.draw()) <= 100);
        }
    }
}
