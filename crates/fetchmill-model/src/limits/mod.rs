//! All limits of the engine, and how they add up.
//!
//! The budget is 192 MiB for any number of objects: 32 for pages, 64 for sinks, 80 for bodies, and the rest for the
//! journal and the tables. Only data that is bounded by a constant in this module may grow.

mod budget;
mod jobs;
mod lists;
mod net;
mod replies;
mod retries;
mod sinks;

pub use jobs::*;
pub use lists::*;
pub use net::*;
pub(crate) use replies::RESTING_SHARE;
pub use replies::*;
pub use retries::*;
pub use sinks::*;

/// One mebibyte.
pub const MIB: usize = 1 << 20;
