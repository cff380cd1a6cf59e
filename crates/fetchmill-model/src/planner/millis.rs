//! Time in the planner, which never reads a clock.

/// Milliseconds on the job's clock: 1970 UTC at the start, monotonic from there.
pub type Millis = u64;
