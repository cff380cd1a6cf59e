//! Start of a job. It may block, for example on a list in a pipe without a writer. Signals are handled meanwhile.

use std::sync::Arc;
use std::time::Duration;

use fetchmill_model::error::Result;
use fetchmill_store::background::Background;
use pyo3::prelude::*;

use crate::errors;

/// Interval at which Python can handle a signal.
const STEP: Duration = Duration::from_millis(50);
/// Maximum wait for a start to end after a signal handler has raised.
const END: Duration = Duration::from_secs(5);

/// Starts a job on its own thread. An exception of a signal handler is passed on, and a job that starts later is
/// abandoned.
pub(crate) fn start<T: Send + 'static>(
    py: Python<'_>,
    start: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let started = py.detach(|| Background::start("fetchmill-start", &Arc::default(), start));
    let starting = Arc::new(started.map_err(|error| errors::of(&error))?);
    loop {
        let waiting = Arc::clone(&starting);
        if py.detach(move || waiting.wait(STEP)) {
            break;
        }
        if let Err(raised) = py.check_signals() {
            // If the job already has its lock, it releases the lock before the program continues.
            py.detach(|| drop(starting.wait(END).then(|| starting.take())));
            return Err(raised);
        }
    }
    match starting.take() {
        Some(started) => started.map_err(|error| errors::of(&error)),
        None => Err(errors::exception("InternalError", "the job was already started")),
    }
}
