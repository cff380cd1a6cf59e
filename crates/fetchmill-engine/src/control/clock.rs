//! The clock of a job.

use std::time::{Duration, Instant, SystemTime};

use fetchmill_model::object::Micros;
use fetchmill_model::planner::origin::Millis;

/// Clock in milliseconds since 1970 UTC. The job's start time comes from the system clock, and later times are measured
/// from there with a monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
    offset: Millis,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Clock { started: Instant::now(), offset: since.as_millis() as Millis }
    }

    pub(crate) fn now(&self) -> Millis {
        self.offset + self.started.elapsed().as_millis() as Millis
    }

    /// Returns the microseconds from the start of the job to `moment`.
    pub(crate) fn micros_at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.started).as_micros() as u64
    }

    /// Returns the microseconds since the start of the job.
    pub(crate) fn micros(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Returns the microseconds since 1970 UTC.
pub(crate) fn unix_micros() -> Micros {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as Micros
}
