//! Those who fetch, or make rows: a worker's thread, an engine in Python, a thread for a program, a worker of a list that is
//! written out. None of them knows another; the rest is what they have in common.

pub(super) mod dispatch;
pub(super) mod idle_connections;
pub(super) mod list_worker;
pub(super) mod load_counter;
pub(super) mod stream;
pub(super) mod target;
pub(super) mod worker;
