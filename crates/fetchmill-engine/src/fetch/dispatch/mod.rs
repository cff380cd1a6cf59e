//! The dispatcher hands targets to a worker whose transport is not ours, and takes its answers. Everything else about a
//! job (planning, what becomes of an answer, formats, durability) is as for the native engine.
//!
//! A dispatcher belongs to one thread of its engine. It is asked for targets and told answers in batches: what is
//! locked, sent or written is so once a batch. It has one sink, with a writer beside it, in the process that it is in.
//! In the job's own process it talks to the job directly; in a process of its own over two sockets
//! ([`worker_process`]), to a [`supervisor`] of the job that knows what it has, and plans that again when the process
//! dies.

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
