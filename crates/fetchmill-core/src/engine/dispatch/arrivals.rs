//! What replies say of their origin as they come, while it is not certain yet whose they are: its pace must not follow
//! what it gave a second ago. A reply that turns out to be another's costs a little pace, and nothing else.

use std::sync::Mutex;

use crate::engine::clock::unix_micros;
use crate::http1::RetryAfter;
use crate::outcome::{FailureClass, FailureKind};
use crate::planner::origin::{Millis, Observations};
use crate::sync::lock;

/// See the module. The connections of an engine in Python share it with its dispatcher.
#[derive(Debug, Default)]
pub struct Arrivals {
    observed: Mutex<Observations>,
}

impl Arrivals {
    /// A complete reply, with the value of its `Retry-After`.
    pub fn note(&self, status: u16, retry_after: Option<&str>) {
        match FailureKind::of_status(status) {
            Err(kind) if kind.class() == FailureClass::Throttle => {
                let asked = retry_after.and_then(|value| RetryAfter::parse(value.as_bytes(), None));
                let asked = asked.map(|asked| asked.wait(unix_seconds()).saturating_mul(1000));
                lock(&self.observed).note_failure(kind, 0, asked);
            }
            // What it says depends on what its target has been through.
            Err(kind) if kind.is_retryable() => {}
            _ => lock(&self.observed).successes += 1,
        }
    }

    pub(super) fn take(&self) -> Observations {
        std::mem::take(&mut *lock(&self.observed))
    }
}

fn unix_seconds() -> Millis {
    unix_micros() as Millis / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reply_says_of_its_origin_is_taken_once() {
        let arrivals = Arrivals::default();
        for status in [200, 204, 304, 404, 403] {
            arrivals.note(status, None);
        }
        arrivals.note(503, Some("7"));
        arrivals.note(429, None);
        arrivals.note(500, None);

        let observed = Observations {
            successes: 5,
            throttled: 2,
            retry_after: 7000,
            last_failure: Some(FailureKind::Throttled),
            ..Observations::default()
        };
        assert_eq!(arrivals.take(), observed);
        assert_eq!(arrivals.take(), Observations::default());
    }
}
