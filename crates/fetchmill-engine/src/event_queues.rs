//! Event queues of threads, and how many threads this process should have.

use tokio::runtime::{Builder, LocalOptions, LocalRuntime, Runtime};

use fetchmill_model::error::{Error, Result};

/// Processors that this process may use.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// For a thread that waits for channels and clocks only. It has no tasks: what looks names up needs [`network_runtime`].
pub(super) fn waiting_runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_time().build().map_err(no_runtime)
}

/// For a thread that makes connections: look-ups and HTTP/2 are tasks beside what it waits for.
pub(super) fn network_runtime() -> Result<LocalRuntime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build_local(LocalOptions::default()).map_err(no_runtime)
}

fn no_runtime(error: std::io::Error) -> Error {
    Error::storage("make an event queue of", "this process", error)
}
