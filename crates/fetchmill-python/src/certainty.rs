//! Whose a reply is, for engines in Python: the core's rules with times in seconds of a monotonic clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fetchmill_engine::Arrivals;
use fetchmill_model::reply::certainty::{self, MonotonicMicros, NextStep};
use pyo3::prelude::*;

/// What the replies of one worker were like: the rules of certainty, shared by its connections.
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

    /// A complete reply with so many bytes came to a request that was sent at `started`.
    ///
    /// For who does not know its connection. Times are seconds of a monotonic clock.
    fn note_reply(&self, started: f64, ended: f64, status: u16, retry_after: Option<&str>, bytes: u64) {
        self.arrivals.note(status, retry_after, micros(ended - started), bytes);
    }

    /// A connection broke.
    fn note_break(&self) {
        self.lock().note_break();
    }

    /// A reply came that nobody asked for.
    fn note_surplus(&self) {
        self.lock().note_surplus();
    }
}

/// What one connection has brought since it was last known that nothing else is on its way.
///
/// Times are seconds of a monotonic clock.
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

    /// A reply with so many bytes came, to a request that was sent at `started`; whether it is certain at once.
    ///
    /// What it says of the origin is told to the dispatcher that observes these replies.
    fn note(&mut self, started: f64, ended: f64, status: u16, retry_after: Option<&str>, bytes: u64) -> bool {
        let took = micros(ended - started);
        let is_certain = self.inner.replies() == 0;
        self.inner.start(micros(started));
        self.inner.note(took);
        self.origin.get().lock().note(took, micros(ended));
        self.origin.get().arrivals.note(status, retry_after, took, bytes);
        is_certain
    }

    /// How long it must rest now, at most a second; None when it may go on. `is_full`: it holds all that it may.
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

    /// Whether its next request asks the server to close it.
    #[getter]
    fn is_ending(&self) -> bool {
        self.inner.is_ending()
    }

    /// Seconds without a request and without a byte after which what it has brought is certain.
    ///
    /// Meanwhile the oldest request that is out on another connection has waited for `waiting` seconds.
    fn silence(&self, waiting: f64) -> f64 {
        self.origin.get().lock().silence_while(&self.inner, micros(waiting)) as f64 / 1e6
    }

    /// It was silent for so long.
    fn rested(&mut self) {
        self.inner.rested();
    }
}
