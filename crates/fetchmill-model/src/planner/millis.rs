//! Time in the planner, which never reads a clock itself.

/// Milliseconds on the job's clock. At the start it is the time since 1970 UTC, and it is monotonic from there.
pub type Millis = u64;
