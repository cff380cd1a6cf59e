//! Connections that hold replies until it is certain which request each of them answers: the rules of
//! [`certainty`](fetchmill_model::reply::certainty), carried out for everyone who makes requests.
//!
//! A connection returns how certain its replies are ([`Judged`]). Their owner acts on that: it stores them, hands them
//! over, or asks for them again.

mod connection;
mod resting;
#[cfg(test)]
mod tests;

pub use connection::{AfterReply, CertainConnection, HeldReplies, Judged, RestedConnection};
pub use resting::RestingConnections;
