//! Replies that indicate that the server receives too many requests.

use serde::Deserialize;

use crate::error::Error;
use crate::options::OptionValue;
use crate::outcome::{FailureKind, Outcome};

/// Lowest status that can be retried. Lower statuses are successes and redirects.
const FIRST: u16 = 400;
/// Highest status that a head can have.
const LAST: u16 = 999;
/// Number of words for the bits of the statuses from `FIRST` to `LAST`.
const WORDS: usize = (LAST - FIRST) as usize / 64 + 1;
const FORBIDDEN: u16 = 403;

/// The statuses in `--retry-status`, which are retried like 503. Each status takes one bit, so checking a reply costs a
/// single lookup.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<u16>")]
pub struct RetriedStatuses([u64; WORDS]);

impl OptionValue for RetriedStatuses {}

impl TryFrom<Vec<u16>> for RetriedStatuses {
    type Error = Error;

    fn try_from(statuses: Vec<u16>) -> Result<Self, Error> {
        let mut retried = RetriedStatuses::default();
        for status in statuses {
            if !(FIRST..=LAST).contains(&status) {
                return Err(Error::Usage(format!(
                    "retry_status must be an error status, {FIRST} to {LAST}, not {status}"
                )));
            }
            let (word, bit) = Self::position(status);
            retried.0[word] |= bit;
        }
        Ok(retried)
    }
}

impl RetriedStatuses {
    /// Returns the word and the bit that belong to a status, which must not be below `FIRST`.
    fn position(status: u16) -> (usize, u64) {
        let index = usize::from(status - FIRST);
        (index / 64, 1 << (index % 64))
    }

    /// Returns whether the user has named this status.
    pub fn contains(&self, status: u16) -> bool {
        if !(FIRST..=LAST).contains(&status) {
            return false;
        }
        let (word, bit) = Self::position(status);
        self.0[word] & bit != 0
    }

    /// Returns the outcome or the failure of a complete reply. The status determines it, with two exceptions. A status
    /// that the user has named becomes `Throttled`. A 403 with `Retry-After`, which some servers use as a rate limit,
    /// also becomes `Throttled`.
    pub fn of_reply(&self, status: u16, asks_to_wait: bool) -> Result<Outcome, FailureKind> {
        if self.contains(status) || (status == FORBIDDEN && asks_to_wait) {
            return Err(FailureKind::Throttled);
        }
        FailureKind::of_status(status)
    }

    /// Returns whether the reply indicates too many requests, either to the server or for this object.
    pub fn throttles(&self, status: u16, asks_to_wait: bool) -> bool {
        status >= FIRST && self.of_reply(status, asks_to_wait) == Err(FailureKind::Throttled)
    }

    /// Returns whether the reply gives no sign that the server is in trouble.
    pub fn is_well(&self, status: u16, asks_to_wait: bool) -> bool {
        !self.of_reply(status, asks_to_wait).is_err_and(FailureKind::is_retryable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_statuses_and_403_with_a_time_throttle() {
        let retried = RetriedStatuses::try_from(vec![400, 404, 463, 464, 999]).unwrap();
        for status in 0..=1100 {
            assert_eq!(retried.contains(status), matches!(status, 400 | 404 | 463 | 464 | 999), "{status}");
        }
        let throttled = Err(FailureKind::Throttled);
        for (status, asks_to_wait, meaning) in [
            (404, false, throttled),
            (999, false, throttled),
            (403, true, throttled),
            (503, false, throttled),
            (403, false, Err(FailureKind::Status)),
            (401, true, Err(FailureKind::Status)),
            (410, false, Ok(Outcome::Absent)),
            (200, true, Ok(Outcome::Fetched)),
        ] {
            assert_eq!(retried.of_reply(status, asks_to_wait), meaning, "{status}");
            assert_eq!(retried.throttles(status, asks_to_wait), meaning == throttled, "{status}");
            assert_eq!(retried.is_well(status, asks_to_wait), meaning != throttled, "{status}");
        }
        assert!(!retried.is_well(500, false) && !retried.throttles(500, false));
    }

    #[test]
    fn statuses_of_no_error_are_refused() {
        for status in [0, 200, 302, 399, 1000, u16::MAX] {
            assert!(RetriedStatuses::try_from(vec![403, status]).is_err(), "{status}");
        }
    }
}
