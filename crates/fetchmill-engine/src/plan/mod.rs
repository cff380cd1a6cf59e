//! What follows from a request before anything is fetched: whether it will fit, how much of it others are spared, and what
//! this machine allows.

pub(super) mod courtesy;
pub(super) mod descriptors;
pub(super) mod job_origins;
mod memory_limits;
pub(super) mod preflight;
