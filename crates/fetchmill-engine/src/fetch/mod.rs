//! Everything that fetches targets or writes rows. The four independent variants are worker threads, Python engines, a
//! thread that fetches for a program, and the worker that writes out a list. They share all other modules.

pub(super) mod dispatch;
pub(super) mod idle_connections;
pub(super) mod list_worker;
pub(super) mod load_counter;
pub(super) mod stream;
pub(super) mod target;
pub(super) mod worker;
