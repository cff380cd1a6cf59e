//! Everything that fetches or makes rows: a worker's thread, an engine in Python, a thread for a program, and the
//! worker of a list that is written out. These four do not depend on each other. The other modules are shared by
//! several of them.

pub(super) mod dispatch;
pub(super) mod idle_connections;
pub(super) mod list_worker;
pub(super) mod load_counter;
pub(super) mod stream;
pub(super) mod target;
pub(super) mod worker;
