//! Decides the next step after an attempt. Every client collects the result of an attempt, calls this module, and
//! carries out the verdict. The clients are the native worker, the dispatcher for Python engines, streams, listings,
//! and the code that talks to a store.
//!
//! A single [`AttemptState`] contains every budget: attempts, forgiven connections and corrections. This module does no
//! I/O and has no clock: time is an argument. The planner decides how long a target waits ([`crate::planner::retry`]).

mod facts;
pub mod failure_detail;
mod head_fields;
mod part;
mod resumption;
mod retried_statuses;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub use facts::{
    BreakOff, BrokenFacts, Correction, ERROR_BYTES_MAX, ReplyFacts, Rules, StoreReply, Verdict, is_redirect,
    is_unauthorized,
};
pub use head_fields::{field_in, fields_in};
pub use part::ExpectedPart;
pub use resumption::{ResumedReply, Resumption};
pub use retried_statuses::RetriedStatuses;
pub use state::AttemptState;
