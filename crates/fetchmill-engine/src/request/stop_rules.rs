//! Rules that can stop a run early, and the limit on failed targets: `--max-failed`, `--max-duration`, `--max-bytes`. A
//! separate thread checks them, so that they cost nothing per object.

use std::time::Duration;

use serde::Deserialize;

use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::options::OptionValue;
use fetchmill_model::outcome::Tally;

/// Denominator of a share, which is stored in billionths.
const WHOLE: u64 = 1_000_000_000;
const PERCENT: f64 = WHOLE as f64 / 100.0;

/// Maximum number or share of failed targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum MaxFailed {
    /// A number.
    Count(u64),
    /// A share in billionths.
    Share(u64),
}

impl OptionValue for MaxFailed {}

impl TryFrom<String> for MaxFailed {
    type Error = Error;

    /// Parses a number (`100`) or a percentage (`0.5%`).
    fn try_from(text: String) -> Result<Self> {
        let share = |percent: &str| {
            let percent = percent.trim_end().parse::<f64>().ok()?;
            let is_within = (0.0..=100.0).contains(&percent);
            is_within.then(|| MaxFailed::Share((percent * PERCENT).round() as u64))
        };
        let read = match text.trim().strip_suffix('%') {
            Some(percent) => share(percent),
            None => text.trim().parse().ok().map(MaxFailed::Count),
        };
        read.ok_or_else(|| {
            Error::Usage(format!(
                "--max-failed must be a number of targets, or a percentage such as 1% (0% to 100%), not \
                 {text}"
            ))
        })
    }
}

impl MaxFailed {
    /// Returns whether `failed` targets out of `of` exceed the limit.
    fn is_exceeded(self, failed: u64, of: u64) -> bool {
        match self {
            MaxFailed::Count(most) => failed > most,
            MaxFailed::Share(share) => {
                u128::from(failed) * u128::from(WHOLE) > u128::from(share) * u128::from(of)
            }
        }
    }

    /// Returns whether the share of failures will probably exceed the limit in the end. This is assumed if the failures
    /// so far exceed the allowed share of finished targets by more than three standard deviations.
    fn is_foreseen(self, failed: u64, settled: u64) -> bool {
        let MaxFailed::Share(share) = self else { return false };
        let expected = share as f64 / WHOLE as f64 * settled as f64;
        settled >= limits::FAILED_SHARE_TARGETS_MIN && failed as f64 > expected + 3.0 * expected.sqrt()
    }
}

/// Rule that stopped a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum StopReason {
    /// Too many targets have failed.
    MaxFailed = 1,
    /// The run reached its maximum duration.
    MaxDuration = 2,
    /// The run received its maximum number of bytes.
    MaxBytes = 3,
    /// All targets that this run was asked to fetch have outcomes, and the job has more targets.
    First = 4,
}

impl StopReason {
    /// Returns the name of the rule's option.
    pub fn name(self) -> &'static str {
        match self {
            StopReason::MaxFailed => "max_failed",
            StopReason::MaxDuration => "max_duration",
            StopReason::MaxBytes => "max_bytes",
            StopReason::First => "first",
        }
    }

    pub(crate) fn of(number: u8) -> Option<Self> {
        [StopReason::MaxFailed, StopReason::MaxDuration, StopReason::MaxBytes, StopReason::First]
            .into_iter()
            .find(|reason| *reason as u8 == number)
    }
}

/// Limits of a run and its job.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StopRules {
    /// Maximum number of failed targets in the whole job.
    pub(crate) max_failed: Option<MaxFailed>,
    /// Whether absent targets count as failed.
    pub(crate) counts_absent: bool,
    /// Maximum duration of the run.
    pub(crate) max_duration: Option<Duration>,
    /// Maximum number of body bytes in the run.
    pub(crate) max_bytes: Option<u64>,
    /// Number of targets, counted from the start of the job. The run fetches those targets that have no outcome yet.
    pub(crate) first: Option<u64>,
}

/// State of a job that the rules depend on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Standing {
    /// Counts of the whole job.
    pub(crate) tally: Tally,
    /// Whether the listing is complete.
    pub(crate) is_listing_done: bool,
    /// Time since the start of the run.
    pub(crate) elapsed: Duration,
    /// Body bytes received in this run.
    pub(crate) bytes: u64,
    /// Whether the run has fetched everything that it was asked to fetch.
    pub(crate) is_at_end: bool,
}

impl StopRules {
    pub(crate) fn are_none(&self) -> bool {
        self.max_failed.is_none()
            && self.max_duration.is_none()
            && self.max_bytes.is_none()
            && self.first.is_none()
    }

    fn failed(&self, tally: Tally) -> u64 {
        tally.failed + if self.counts_absent { tally.absent } else { 0 }
    }

    /// Returns the first rule that applies, if any.
    pub(crate) fn broken(&self, now: &Standing) -> Option<StopReason> {
        let is_over = |max_failed: MaxFailed| {
            let failed = self.failed(now.tally);
            let settled = now.tally.fetched + now.tally.absent + now.tally.failed;
            let is_certain = match max_failed {
                MaxFailed::Count(_) | MaxFailed::Share(0) => max_failed.is_exceeded(failed, 0),
                MaxFailed::Share(_) => {
                    now.is_listing_done && max_failed.is_exceeded(failed, asked_for(now.tally))
                }
            };
            is_certain || max_failed.is_foreseen(failed, settled)
        };
        if self.max_failed.is_some_and(is_over) {
            Some(StopReason::MaxFailed)
        } else if self.max_bytes.is_some_and(|most| now.bytes >= most) {
            Some(StopReason::MaxBytes)
        } else if self.max_duration.is_some_and(|most| now.elapsed >= most) {
            Some(StopReason::MaxDuration)
        } else if now.is_at_end {
            Some(StopReason::First)
        } else {
            None
        }
    }

    /// Returns whether a finished job stays within its failure limit. Returns `false` if there is no limit.
    pub(crate) fn tolerate(&self, tally: Tally) -> bool {
        self.max_failed.is_some_and(|most| !most.is_exceeded(self.failed(tally), asked_for(tally)))
    }
}

/// Returns the number of listed targets, not counting skipped ones.
fn asked_for(tally: Tally) -> u64 {
    tally.listed.saturating_sub(tally.skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn max_failed(text: &str) -> MaxFailed {
        MaxFailed::try_from(text.to_owned()).unwrap()
    }

    fn standing(fetched: u64, failed: u64, listed: Option<u64>) -> Standing {
        let listed_so_far = listed.unwrap_or(fetched + failed);
        let tally = Tally { listed: listed_so_far, fetched, failed, ..Tally::default() };
        Standing { tally, is_listing_done: listed.is_some(), ..Standing::default() }
    }

    fn stops(text: &str, standing: Standing) -> bool {
        let rules = StopRules { max_failed: Some(max_failed(text)), ..StopRules::default() };
        rules.broken(&standing) == Some(StopReason::MaxFailed)
    }

    #[test]
    fn a_limit_of_failures_is_a_number_or_a_percentage() {
        assert_eq!(max_failed("0"), MaxFailed::Count(0));
        assert_eq!(max_failed(" 250 "), MaxFailed::Count(250));
        assert_eq!(max_failed("1%"), MaxFailed::Share(10_000_000));
        assert_eq!(max_failed("0.0005 %"), MaxFailed::Share(5_000));
        assert_eq!(max_failed("100%"), MaxFailed::Share(WHOLE));
        for text in ["", "%", "-1", "1.5", "101%", "-1%", "nan%", "inf%", "1%%", "one"] {
            let refused = MaxFailed::try_from(text.to_owned()).unwrap_err().to_string();
            assert!(refused.starts_with("--max-failed must be a number of targets"), "{refused}");
        }
    }

    #[test]
    fn a_number_stops_above_it() {
        assert!(!stops("3", standing(0, 3, None)));
        assert!(stops("3", standing(0, 4, None)));
        assert!(stops("0", standing(10, 1, None)));
        assert!(stops("0%", standing(10, 1, None)));
    }

    #[test]
    fn a_percentage_is_judged_early_only_beyond_what_chance_makes_of_it() {
        // There are not enough targets to judge.
        assert!(!stops("1%", standing(0, 999, None)));
        // 10 failures out of 1,000 are expected. Three standard deviations above that is 19.5.
        assert!(!stops("1%", standing(981, 19, None)));
        assert!(stops("1%", standing(980, 20, None)));
        // A share of 1.1 % might be a coincidence with ten thousand targets, but not with a hundred thousand.
        assert!(!stops("1%", standing(9_890, 110, None)));
        assert!(stops("1%", standing(98_900, 1_100, None)));
        assert!(!stops("100%", standing(0, 100_000, None)));
    }

    #[test]
    fn a_percentage_that_is_exceeded_whatever_comes_stops_at_once() {
        assert!(!stops("10%", standing(0, 10, Some(100))));
        assert!(stops("10%", standing(0, 11, Some(100))));
        // The listing might continue.
        assert!(!stops("10%", standing(0, 11, None)));
    }

    #[test]
    fn what_may_fail_is_exact_and_leaves_out_what_was_skipped() {
        let rules = |text: &str, counts_absent| StopRules {
            max_failed: Some(max_failed(text)),
            counts_absent,
            ..StopRules::default()
        };
        let tally = |listed, failed, absent, skipped| Tally {
            listed,
            failed,
            absent,
            skipped,
            fetched: listed - failed - absent - skipped,
            bytes: 0,
        };
        assert!(rules("29%", true).tolerate(tally(100, 29, 0, 0)));
        assert!(!rules("29%", true).tolerate(tally(100, 30, 0, 0)));
        assert!(!rules("1%", true).tolerate(tally(150, 1, 1, 0)));
        assert!(rules("1%", false).tolerate(tally(150, 1, 1, 0)));
        assert!(!rules("10%", true).tolerate(tally(100, 6, 0, 50)));
        assert!(rules("5", true).tolerate(tally(100, 2, 3, 0)));
        assert!(!StopRules::default().tolerate(tally(1, 1, 0, 0)));
    }

    #[test]
    fn bytes_and_time_are_those_of_a_run() {
        let rules = StopRules {
            max_bytes: Some(1000),
            max_duration: Some(Duration::from_secs(60)),
            ..StopRules::default()
        };
        let now = |bytes, seconds| Standing {
            bytes,
            elapsed: Duration::from_secs(seconds),
            ..standing(1_000_000, 1_000_000, Some(2_000_000))
        };
        assert_eq!(rules.broken(&now(999, 59)), None);
        assert_eq!(rules.broken(&now(1000, 59)), Some(StopReason::MaxBytes));
        assert_eq!(rules.broken(&now(999, 60)), Some(StopReason::MaxDuration));
        assert!(StopRules::default().are_none() && !rules.are_none());
    }
}
