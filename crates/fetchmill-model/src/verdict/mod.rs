//! What follows from an attempt. Whoever makes requests gathers what came of one, asks here, and carries out the
//! answer: the native worker, the dispatcher of engines in Python, a stream, a listing, and whoever talks to a store.
//!
//! Every budget stands in one [`AttemptState`]: attempts, connections that are forgiven, corrections. No I/O, no clock:
//! time is an argument. How long a target waits is the planner's business ([`crate::planner::retry`]).

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
