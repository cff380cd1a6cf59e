//! A worker is a thread that fetches. Its connections are tasks in a current-thread runtime.
//!
//! Fetching an object takes no lock, task, message or timer. A connection takes a target from the worker's batch, sends
//! the request, receives the reply, and appends the outcome to the worker's block. The planner's lock is taken once per
//! batch, the sink receives whole blocks, and the tick checks the deadlines.
//!
//! `state` builds the worker from small states, each with private fields in its own file:
//! - incoming targets: `target_supply`, and in a job with many hosts `waiters` (`host_queue`) and `start_quota`;
//! - locations of targets: `entry_reader`, `origin_lookup`, `part_etags`;
//! - number of targets in flight: `in_flight`, `load`;
//! - outgoing outcomes: `outcome_buffer` (`counted_outcomes`), `held_outcomes`, `pending_report`, `sink_queue`;
//! - this machine: `worker_clock`, `exhaustion`.
//!
//! The other files contain the operations on this state.

mod address;
mod admission;
mod batch;
mod begin;
mod body;
mod closing_request;
mod counted_outcomes;
mod credentials;
mod drive;
mod entry_reader;
mod exhaustion;
mod explain;
mod fetch;
mod held_outcomes;
mod host_queue;
mod host_turns;
mod host_waits;
mod in_flight;
mod joined;
mod judged_outcomes;
mod load;
mod origin_lookup;
mod outcome_buffer;
mod outcomes;
mod part_etags;
mod pending_report;
mod pipeline;
mod requester;
mod rests;
mod robots;
mod robots_body;
mod robots_gate;
mod robots_requester;
mod robots_verdict;
mod row;
mod settle;
mod sink_queue;
mod start_quota;
mod state;
mod target_supply;
mod verdict;
mod waiters;
mod worker_clock;

pub(crate) use drive::run;
pub(crate) use sink_queue::SinkQueue;
pub(crate) use state::WorkerSetup;
