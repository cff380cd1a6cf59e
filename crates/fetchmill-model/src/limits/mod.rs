//! Every bound of the engine, with its arithmetic.
//!
//! The budget is 192 MiB at any number of objects: pages 32, sinks 64, replies 64, the rest for the journal and
//! the tables. What has no named bound here must not grow.

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
pub use replies::*;
pub use retries::*;
pub use sinks::*;

/// One mebibyte.
pub const MIB: usize = 1 << 20;
