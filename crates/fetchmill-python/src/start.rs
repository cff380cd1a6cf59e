//! What may block before it runs, a list in a pipe that nobody writes to among others: signals are handled meanwhile.

use std::sync::Arc;
use std::time::Duration;

use fetchmill_model::error::Result;
use fetchmill_store::background::Background;
use pyo3::prelude::*;

use crate::errors;

/// How often Python may handle a signal.
const STEP: Duration = Duration::from_millis(50);
/// What was about to start may take this long to end.
const END: Duration = Duration::from_secs(5);

/// Starts a job on a thread of its own. What a signal handler raises goes on; a job that starts later is given up.
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
            // What has its lock by then gives it back before the program goes on.
            py.detach(|| drop(starting.wait(END).then(|| starting.take())));
            return Err(raised);
        }
    }
    match starting.take() {
        Some(started) => started.map_err(|error| errors::of(&error)),
        None => Err(errors::exception("InternalError", "a job was started twice")),
    }
}
