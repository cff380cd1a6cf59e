//! Targets on their way: what a worker, a dispatcher and the worker of a list have of them.

mod current;
mod joined;
mod joined_request;
mod observed;
mod queue;

pub(super) use current::CurrentTarget;
pub(super) use observed::ObservedReply;
pub(super) use queue::TargetQueue;
