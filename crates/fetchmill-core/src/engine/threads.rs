//! Threads whose error, or panic, ends the job, and the event queues that they have.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime, Runtime};

use super::stop::StopSignal;
use crate::error::{Error, Result};

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

/// Starts a thread whose error, or panic, ends the job.
pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    stop: &Arc<StopSignal>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Option<T>>> {
    let stop = Arc::clone(stop);
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            let done = stop.panics.watch(work);
            stop.heed_panic();
            done?.map_err(|error| stop.fail(error)).ok()
        })
        .map_err(|error| Error::storage("start a thread of", "this process", error))
}

/// What a thread has ended with; none after an error, which the job has by then.
pub(super) fn join<T>(thread: JoinHandle<Option<T>>) -> Option<T> {
    thread.join().ok().flatten()
}
