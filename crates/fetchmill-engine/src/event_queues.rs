//! Event queues of threads, and the number of processors available to this process.

use tokio::runtime::{Builder, LocalOptions, LocalRuntime, Runtime};

use fetchmill_model::error::{Error, Result};

/// Returns the number of processors that this process can use.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Creates the runtime for a thread that waits only for channels and clocks, and runs no tasks. Name lookups need
/// [`network_runtime`].
pub(super) fn waiting_runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_time().build().map_err(no_runtime)
}

/// Creates the runtime for a thread with connections. Name lookups and HTTP/2 run as separate tasks in this runtime.
pub(super) fn network_runtime() -> Result<LocalRuntime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build_local(LocalOptions::default()).map_err(no_runtime)
}

fn no_runtime(error: std::io::Error) -> Error {
    Error::storage("create an event queue in", "this process", error)
}
