//! Time in the planner, which never reads a clock itself.

/// Milliseconds on the job's clock, which starts at the current time since 1970 UTC and is monotonic from then on.
pub type Millis = u64;
