//! Starts a job. Starting can block, for example on a list in a pipe without a writer, so signals are handled in the
//! meantime.

use std::sync::Arc;
use std::time::Duration;

use fetchmill_model::error::Result;
use fetchmill_store::background::Background;
use pyo3::prelude::*;

use crate::errors;

/// Interval at which Python can handle signals.
const STEP: Duration = Duration::from_millis(50);
/// Maximum time to wait for a start to end after a signal handler raised an exception.
const END: Duration = Duration::from_secs(5);

/// Starts a job on a separate thread. If a signal handler raises an exception, passes it on. If the job starts after
/// that, it is abandoned.
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
            // If the job already holds its lock, this releases the lock before the program continues.
            py.detach(|| drop(starting.wait(END).then(|| starting.take())));
            return Err(raised);
        }
    }
    match starting.take() {
        Some(started) => started.map_err(|error| errors::of(&error)),
        None => Err(errors::exception("InternalError", "the job was already started")),
    }
}
