//! Rules with which Python engines decide which request a reply answers. They are the rules of the core, with times
//! in seconds on a monotonic clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fetchmill_engine::Arrivals;
use fetchmill_model::reply::certainty::{self, MonotonicMicros, NextStep};
use pyo3::prelude::*;

/// Statistics of one worker's replies for the certainty rules. The worker's connections share them.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct OriginReplies {
    inner: Mutex<certainty::OriginReplies>,
    pub(crate) arrivals: Arc<Arrivals>,
}

impl OriginReplies {
    fn lock(&self) -> MutexGuard<'_, certainty::OriginReplies> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl OriginReplies {
    #[new]
    fn new() -> Self {
        OriginReplies { inner: Mutex::default(), arrivals: Arc::default() }
    }

    /// Records a complete reply with a body of `bytes` bytes to a request that was sent at `started`.
    ///
    /// For callers that do not know the connection. Times are seconds on a monotonic clock.
    fn note_reply(&self, started: f64, ended: f64, status: u16, retry_after: Option<&str>, bytes: u64) {
        self.arrivals.note(status, retry_after, micros(ended - started), bytes);
    }

    /// Records that a connection broke.
    fn note_break(&self) {
        self.lock().note_break();
    }

    /// Records an unsolicited reply.
    fn note_surplus(&self) {
        self.lock().note_surplus();
    }
}

/// Replies of one connection since it was last known that no other reply was on its way.
///
/// Times are seconds on a monotonic clock.
#[pyclass(module = "fetchmill._native")]
pub(crate) struct ConnectionReplies {
    inner: certainty::ConnectionReplies,
    origin: Py<OriginReplies>,
}

fn micros(seconds: f64) -> MonotonicMicros {
    (seconds * 1e6) as MonotonicMicros
}

#[pymethods]
impl ConnectionReplies {
    #[new]
    fn new(origin: Py<OriginReplies>) -> Self {
        ConnectionReplies { inner: certainty::ConnectionReplies::default(), origin }
    }

    /// Records a reply with a body of `bytes` bytes to a request that was sent at `started`.
    ///
    /// Returns whether it is certain immediately. The dispatcher that observes these replies gets the facts about the
    /// origin.
    fn note(&mut self, started: f64, ended: f64, status: u16, retry_after: Option<&str>, bytes: u64) -> bool {
        let took = micros(ended - started);
        let is_certain = self.inner.replies() == 0;
        self.inner.start(micros(started));
        self.inner.note(took);
        self.origin.get().lock().note(took, micros(ended));
        self.origin.get().arrivals.note(status, retry_after, took, bytes);
        is_certain
    }

    /// Returns how many seconds (up to 1) the connection must rest now.
    ///
    /// None if it may continue. `is_full` means that the connection holds the maximum number of bytes.
    fn rest_seconds(&mut self, is_full: bool, now: f64) -> Option<f64> {
        let step = self.origin.get().lock().next_step(&self.inner, is_full, micros(now));
        match step {
            NextStep::GoOn => None,
            NextStep::LastRequest => {
                self.inner.end_with_next();
                None
            }
            NextStep::Rest(silence) => Some(silence as f64 / 1e6),
        }
    }

    /// Returns whether the next request asks the server to close the connection.
    #[getter]
    fn is_ending(&self) -> bool {
        self.inner.is_ending()
    }

    /// Returns after how many seconds without a request or a byte the connection's replies are certain.
    ///
    /// `waiting` is the time in seconds for which the oldest request in flight on another connection has waited.
    fn silence(&self, waiting: f64) -> f64 {
        self.origin.get().lock().silence_while(&self.inner, micros(waiting)) as f64 / 1e6
    }

    /// Records that the connection was silent for the required time.
    fn rested(&mut self) {
        self.inner.rested();
    }
}
