//! Connections that hold replies until it is certain which requests they answer. They apply the rules of
//! [`certainty`](fetchmill_model::reply::certainty) for all clients.
//!
//! A connection judges how certain its replies are ([`Judged`]). Depending on the judgement, its owner stores the
//! replies, hands them over, or repeats the requests.

mod connection;
mod resting;
#[cfg(test)]
mod tests;

pub use connection::{AfterReply, CertainConnection, HeldReplies, Judged, RestedConnection};
pub use resting::RestingConnections;
