//! Threads whose error or panic ends the job.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::stop::StopSignal;
use fetchmill_model::error::{Error, Result};

/// Starts a thread whose error or panic ends the job.
pub(crate) fn spawn<T: Send + 'static>(
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
        .map_err(|error| Error::storage("start a thread in", "this process", error))
}

/// Returns the result of a thread, or `None` after an error. The job already has that error.
pub(crate) fn join<T>(thread: JoinHandle<Option<T>>) -> Option<T> {
    thread.join().ok().flatten()
}
