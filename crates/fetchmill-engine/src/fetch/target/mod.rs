//! Targets on their way: what a worker, a dispatcher and the worker of a list have of them.

mod current;
mod joined;
mod joined_request;
mod observed;
mod queue;

pub(crate) use current::CurrentTarget;
pub(crate) use observed::ObservedReply;
pub(crate) use queue::TargetQueue;
