//! Observes replies on arrival, before they are matched to requests. Waiting for the match would delay changes to the pace
//! and to the concurrency by a second. A reply that is later rejected only makes the pace slightly less accurate.

use std::sync::Mutex;

use crate::control::clock::unix_micros;
use fetchmill_model::http1::RetryAfter;
use fetchmill_model::outcome::FailureClass;
use fetchmill_model::panics::lock;
use fetchmill_model::planner::concurrency::Load;
use fetchmill_model::planner::origin::{Millis, Observations};
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::verdict::RetriedStatuses;

/// Replies that have arrived. See the [module documentation](self). The connections of a Python engine and its
/// dispatcher share them.
#[derive(Debug, Default)]
pub struct Arrivals {
    seen: Mutex<SeenReplies>,
}

#[derive(Debug, Default)]
struct SeenReplies {
    observed: Observations,
    retried: RetriedStatuses,
    /// Count, total bytes and total time of the replies.
    load: Load,
}

impl Arrivals {
    /// Treats these statuses in the same way as 503 from now on.
    pub(super) fn retry(&self, statuses: RetriedStatuses) {
        lock(&self.seen).retried = statuses;
    }

    /// Records a complete reply and its `Retry-After`. `took` is the time since the request was sent, and `bytes` is
    /// the body size.
    pub fn note(&self, status: u16, retry_after: Option<&str>, took: MonotonicMicros, bytes: u64) {
        let mut seen = lock(&self.seen);
        let asked = retry_after.and_then(|value| RetryAfter::parse(value.as_bytes(), None));
        match seen.retried.of_reply(status, asked.is_some()) {
            Err(kind) if kind.class() == FailureClass::Throttle => {
                let asked = asked.map(|asked| asked.wait(unix_seconds()).saturating_mul(1000));
                seen.observed.note_failure(kind, 0, asked);
            }
            // Earlier attempts decide whether this counts as a failure.
            Err(kind) if kind.is_retryable() => {}
            _ => {
                seen.observed.successes += 1;
                seen.load.replies += 1;
                seen.load.bytes += bytes;
                seen.load.latency_micros += took;
            }
        }
    }

    pub(super) fn take(&self) -> Observations {
        std::mem::take(&mut lock(&self.seen).observed)
    }

    /// Takes the replies that have not been reported yet. Requests in flight are counted elsewhere.
    pub(super) fn take_load(&self) -> Load {
        std::mem::take(&mut lock(&self.seen).load)
    }
}

fn unix_seconds() -> Millis {
    unix_micros() as Millis / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::outcome::FailureKind;

    #[test]
    fn what_a_reply_says_of_its_origin_is_taken_once() {
        let arrivals = Arrivals::default();
        for status in [200, 204, 304, 404, 403] {
            arrivals.note(status, None, 100, 7);
        }
        arrivals.note(503, Some("7"), 100, 7);
        arrivals.note(429, None, 100, 7);
        arrivals.note(500, None, 100, 7);

        let observed = Observations {
            successes: 5,
            throttled: 2,
            retry_after: 7000,
            last_failure: Some(FailureKind::Throttled),
            ..Observations::default()
        };
        assert_eq!(arrivals.take(), observed);
        assert_eq!(arrivals.take(), Observations::default());
        let load = Load { replies: 5, bytes: 35, latency_micros: 500, ..Load::default() };
        assert_eq!(arrivals.take_load(), load);
        assert_eq!(arrivals.take_load(), Load::default());
    }
}
