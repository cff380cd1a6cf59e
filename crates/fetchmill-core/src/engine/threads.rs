//! Threads whose error, or panic, ends the job.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::control::{Control, Stop};
use crate::error::{Error, Result};

/// A runtime for a thread that does one thing at a time.
pub(super) fn waiting_runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| Error::storage("make an event queue of", "this process", error))
}

/// Starts a thread whose error, or panic, ends the job.
pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    control: &Arc<Control>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Option<T>>> {
    let control = Arc::clone(control);
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            let guard = PanicGuard(&control);
            let done = work();
            std::mem::forget(guard);
            done.map_err(|error| control.fail(error)).ok()
        })
        .map_err(|error| Error::storage("start a thread of", "this process", error))
}

/// A thread that panics ends the job at once: a half-alive one would wait for it for ever.
struct PanicGuard<'c>(&'c Control);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        self.0.fail(Error::Internal("a thread has panicked".into()));
        self.0.ask_to_stop(Stop::Abort);
    }
}

pub(super) fn join<T>(thread: JoinHandle<Option<T>>, control: &Control) -> Option<T> {
    thread.join().unwrap_or_else(|_| {
        control.fail(Error::Internal("a thread has panicked".into()));
        None
    })
}
