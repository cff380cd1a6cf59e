//! Targets in progress. Workers, dispatchers and list workers share this module.

mod current;
mod joined;
mod joined_request;
mod observed;
mod queue;

pub(crate) use current::CurrentTarget;
pub(crate) use observed::ObservedReply;
pub(crate) use queue::TargetQueue;
