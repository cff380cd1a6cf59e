//! Targets in progress: the parts that a worker, a dispatcher and a list worker share.

mod current;
mod joined;
mod joined_request;
mod observed;
mod queue;

pub(crate) use current::CurrentTarget;
pub(crate) use observed::ObservedReply;
pub(crate) use queue::TargetQueue;
