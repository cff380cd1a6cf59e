//! Everything that fetches or writes rows. There are four independent variants: a worker thread, a Python engine, a
//! thread that fetches for a program, and the worker of a list that is written out. The other modules are shared.

pub(super) mod dispatch;
pub(super) mod idle_connections;
pub(super) mod list_worker;
pub(super) mod load_counter;
pub(super) mod stream;
pub(super) mod target;
pub(super) mod worker;
