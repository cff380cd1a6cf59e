//! Connections that hold replies until it is certain which request each reply answers. They apply the rules of
//! [`certainty`](fetchmill_model::reply::certainty) for every client.
//!
//! A connection returns how certain its replies are ([`Judged`]). The owner of the replies acts on that: it stores
//! them, hands them over, or repeats the requests.

mod connection;
mod resting;
#[cfg(test)]
mod tests;

pub use connection::{AfterReply, CertainConnection, HeldReplies, Judged, RestedConnection};
pub use resting::RestingConnections;
