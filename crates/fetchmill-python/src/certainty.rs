//! The core's rules for deciding which request a reply answers, as used by Python engines. Times are seconds on a
//! monotonic clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fetchmill_engine::Arrivals;
use fetchmill_model::reply::certainty::{self, MonotonicMicros, NextStep};
use pyo3::prelude::*;

/// Statistics of one worker's replies, which the certainty rules need. The worker's connections share them.
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

    /// Record a complete reply with a body of `bytes` bytes. The request was sent at `started`.
    ///
    /// For callers that do not know which connection was used. Times are seconds on a monotonic clock.
    fn note_reply(&self, started: f64, ended: f64, status: u16, retry_after: Option<&str>, bytes: u64) {
        self.arrivals.note(status, retry_after, micros(ended - started), bytes);
    }

    /// Record that a connection broke.
    fn note_break(&self) {
        self.lock().note_break();
    }

    /// Record an unsolicited reply.
    fn note_surplus(&self) {
        self.lock().note_surplus();
    }
}

/// Replies received on a connection since it was last certain that no other reply could still arrive.
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

    /// Record a reply with a body of `bytes` bytes. The request was sent at `started`.
    ///
    /// Return whether the reply is certain immediately. The facts about the origin go to the dispatcher that observes
    /// these replies.
    fn note(&mut self, started: f64, ended: f64, status: u16, retry_after: Option<&str>, bytes: u64) -> bool {
        let took = micros(ended - started);
        let is_certain = self.inner.replies() == 0;
        self.inner.start(micros(started));
        self.inner.note(took);
        self.origin.get().lock().note(took, micros(ended));
        self.origin.get().arrivals.note(status, retry_after, took, bytes);
        is_certain
    }

    /// Return the number of seconds (up to 1) that the connection must rest now.
    ///
    /// Return None if the connection can continue. `is_full` means that the connection holds its maximum number of
    /// bytes.
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

    /// Return whether the next request asks the server to close the connection.
    #[getter]
    fn is_ending(&self) -> bool {
        self.inner.is_ending()
    }

    /// Return how many seconds of silence make the connection's replies certain.
    ///
    /// During the silence, no request is sent and no byte arrives. `waiting` is the number of seconds that the oldest
    /// request in flight on any other connection has waited.
    fn silence(&self, waiting: f64) -> f64 {
        self.origin.get().lock().silence_while(&self.inner, micros(waiting)) as f64 / 1e6
    }

    /// Record that the connection was silent for the required time.
    fn rested(&mut self) {
        self.inner.rested();
    }
}
