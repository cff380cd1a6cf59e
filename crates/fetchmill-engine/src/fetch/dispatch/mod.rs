//! The dispatcher hands out targets to an engine that has its own transport, and receives the answers. All other parts
//! of the job (planning, outcomes, formats, durability) work as they do for the native engine.
//!
//! A dispatcher belongs to one thread of its engine. Targets and answers are passed in batches, so the dispatcher
//! locks, sends and writes once per batch. It has one sink, with a writer thread in the same process. A dispatcher in
//! the job's process calls the job directly. A dispatcher in another process is connected by two sockets
//! ([`worker_process`]) to a [`supervisor`] in the job's process. The supervisor tracks the dispatcher's targets, and
//! plans them again if the process dies.

mod answers;
mod arrivals;
mod dispatcher;
mod hand_out;
pub(crate) mod host_gate;
mod link;
mod messages;
mod outcomes;
mod rules;
mod supervisor;
mod verdict;
mod worker_process;
pub(crate) mod worker_registry;
mod worker_threads;

pub use arrivals::Arrivals;
pub use dispatcher::Dispatcher;
pub(crate) use rules::DispatchRules;
pub use rules::{AnswerFields, DispatchedTarget, WorkerAnswer};
pub(crate) use supervisor::{AttachedProcess, PoisonCandidates, Supervisor};
pub use worker_process::{WorkerProcessOptions, join_job};
