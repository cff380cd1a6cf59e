//! Targets in progress. The module is shared by workers, dispatchers and list workers.

mod current;
mod joined;
mod joined_request;
mod observed;
mod queue;

pub(crate) use current::CurrentTarget;
pub(crate) use observed::ObservedReply;
pub(crate) use queue::TargetQueue;
