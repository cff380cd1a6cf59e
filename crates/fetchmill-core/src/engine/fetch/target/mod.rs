//! Targets on their way: what a worker, a dispatcher and the worker of a list have of them.

mod current;
mod joined;
mod joined_request;
mod observed;
mod queue;

pub(in crate::engine) use current::CurrentTarget;
pub(in crate::engine) use observed::ObservedReply;
pub(in crate::engine) use queue::TargetQueue;
