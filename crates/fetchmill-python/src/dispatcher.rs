//! A dispatcher for engines written in Python. Targets and answers are passed in batches.

use std::net::IpAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fetchmill_engine::{AnswerFields, DispatchedTarget, WorkerAnswer, WorkerProcessOptions, join_job};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::target::extra_columns::ColumnType;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};

use crate::certainty::OriginReplies;
use crate::errors;
use crate::objects::name_of;
use crate::options;

type SharedDispatcher = Arc<Mutex<Option<fetchmill_engine::Dispatcher>>>;

/// The dispatcher of a Python engine's worker, which hands out targets and accepts answers.
///
/// Only one thread can use a dispatcher.
/// The dispatcher takes care of planning, formats, durability, and the consequences of each answer.
/// `Job.take_dispatcher` returns the dispatcher of a job in this process. `join` returns the dispatcher of a worker
/// that has its own process.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Dispatcher(SharedDispatcher);

/// A target that was handed out.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Target {
    handed: DispatchedTarget,
    dispatcher: SharedDispatcher,
}

/// A worker's answer: `ReplyAnswer` or `FailureAnswer` from `fetchmill.engines.answers`.
#[derive(FromPyObject)]
#[expect(clippy::large_enum_variant, reason = "most answers are replies, and a batch of them is bounded")]
enum AnswerTuple {
    #[pyo3(transparent)]
    Replied(ReplyTuple),
    #[pyo3(transparent)]
    Broken((u64, PyBackedStr, Option<PyBackedStr>)),
}

/// Values of a `ReplyAnswer`. This is a struct because pyo3 does not support tuples with that many values.
#[derive(FromPyObject)]
struct ReplyTuple {
    #[pyo3(item(0))]
    sequence: u64,
    #[pyo3(item(1))]
    status: u16,
    #[pyo3(item(2))]
    body: PyBackedBytes,
    #[pyo3(item(3))]
    is_verified: bool,
    #[pyo3(item(4))]
    content_type: Option<PyBackedStr>,
    #[pyo3(item(5))]
    etag: Option<PyBackedStr>,
    #[pyo3(item(6))]
    last_modified: Option<PyBackedStr>,
    #[pyo3(item(7))]
    retry_after: Option<PyBackedStr>,
    #[pyo3(item(8))]
    content_encoding: Option<PyBackedStr>,
    #[pyo3(item(9))]
    date: Option<PyBackedStr>,
    #[pyo3(item(10))]
    bucket_region: Option<PyBackedStr>,
    #[pyo3(item(11))]
    checksums: Option<PyBackedStr>,
    #[pyo3(item(12))]
    location: Option<PyBackedStr>,
    #[pyo3(item(13))]
    challenge: Option<PyBackedStr>,
}

fn lock(dispatcher: &SharedDispatcher) -> MutexGuard<'_, Option<fetchmill_engine::Dispatcher>> {
    dispatcher.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dispatcher {
    pub(crate) fn new(dispatcher: fetchmill_engine::Dispatcher) -> Self {
        Dispatcher(Arc::new(Mutex::new(Some(dispatcher))))
    }
}

#[pymethods]
impl Dispatcher {
    /// Join the job with these options from a worker process, which passes its ends of two sockets.
    ///
    /// Return None if the job has no work left.
    ///
    /// Raises:
    ///     UsageError: the options do not belong to an engine with worker processes.
    ///     StorageError: the sink cannot be opened.
    #[staticmethod]
    fn join(
        py: Python<'_>,
        options: &str,
        worker: usize,
        kept: Option<Vec<(String, String)>>,
        turns: i32,
        receipts: i32,
    ) -> PyResult<Option<Self>> {
        let request = options::parse(options)?;
        let fetchmill_engine::Workers::Processes(workers) = request.workers else {
            return Err(errors::usage("the options do not belong to an engine with worker processes"));
        };
        let (turns, receipts) = (own_descriptor(turns)?, own_descriptor(receipts)?);
        let typed = |(name, kind): (String, String)| (name, ColumnType::parse(&kind).unwrap_or_default());
        let kept = kept.map(|columns| columns.into_iter().map(typed).collect());
        let joining = WorkerProcessOptions { worker, workers, kept, turns, receipts };
        let dispatcher = py.detach(|| join_job(request, joining)).map_err(|error| errors::of(&error))?;
        Ok(dispatcher.map(Dispatcher::new))
    }

    /// Return up to `max` targets. Wait for up to `seconds` for the first one, so the list may be empty.
    ///
    /// Wait without the GIL. Return None if no targets are left, or if the job was asked to stop.
    fn next_batch(&self, py: Python<'_>, max: usize, seconds: f64) -> PyResult<Option<Vec<Target>>> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let batch = py.detach(|| match &mut *lock(&self.0) {
            Some(dispatcher) => dispatcher.next_batch(max, patience),
            None => Ok(None),
        });
        let batch = batch.map_err(|error| errors::of(&error))?;
        Ok(batch.map(|batch| {
            let target = |handed| Target { handed, dispatcher: Arc::clone(&self.0) };
            batch.into_iter().map(target).collect()
        }))
    }

    /// Take facts about the origin from `replies` as they arrive from now on, rather than from the answers.
    fn observe_arrivals(&self, replies: &OriginReplies) {
        if let Some(dispatcher) = &mut *lock(&self.0) {
            dispatcher.observe_arrivals(Arc::clone(&replies.arrivals));
        }
    }

    /// Accept answers. Every target that was handed out must be answered once. Wait if the sink lags behind.
    ///
    /// Raises:
    ///     UsageError: a target is not being fetched, or a failure kind does not exist.
    ///     StorageError: a large body could not be staged.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn report(&self, py: Python<'_>, answers: Vec<AnswerTuple>) -> PyResult<()> {
        let kinds = answers.iter().map(kind_of).collect::<PyResult<Vec<_>>>()?;
        let answers = answers.iter().zip(kinds).map(|(given, kind)| answer(given, kind));
        let answers: Vec<WorkerAnswer<'_>> = answers.collect();
        let reported = py.detach(|| match &mut *lock(&self.0) {
            Some(dispatcher) => dispatcher.report(answers),
            None => Ok(()),
        });
        reported.map_err(|error| errors::of(&error))
    }

    /// Record how many requests are in flight, and how many of this worker's targets are waiting for a free slot.
    fn note_running(&self, requests: usize, waiting: usize) {
        if let Some(dispatcher) = &mut *lock(&self.0) {
            dispatcher.note_running(requests, waiting);
        }
    }

    /// Return the maximum number of requests that this worker can have in flight. Every call can change it.
    #[getter]
    fn concurrency(&self) -> usize {
        lock(&self.0).as_ref().map_or(0, fetchmill_engine::Dispatcher::concurrency)
    }

    /// Return whether the job was asked to stop. Requests in flight can still be finished.
    #[getter]
    fn is_stopping(&self) -> bool {
        lock(&self.0).as_ref().is_none_or(fetchmill_engine::Dispatcher::is_stopping)
    }

    /// End the work. Answered targets become durable, and the others stay pending. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| {
            let dispatcher = lock(&self.0).take();
            dispatcher.map_or(Ok(()), fetchmill_engine::Dispatcher::close)
        });
        closed.map_err(|error| errors::of(&error))
    }
}

fn kind_of(given: &AnswerTuple) -> PyResult<Option<FailureKind>> {
    let AnswerTuple::Broken((_, name, _)) = given else { return Ok(None) };
    let unknown = || errors::usage(&format!("unknown failure kind {name}"));
    FailureKind::from_name(name).map(Some).ok_or_else(unknown)
}

fn answer(given: &AnswerTuple, kind: Option<FailureKind>) -> WorkerAnswer<'_> {
    match given {
        AnswerTuple::Broken((sequence, _, detail)) => WorkerAnswer::Broken {
            sequence: *sequence,
            kind: kind.unwrap_or(FailureKind::Function),
            detail: detail.as_deref(),
        },
        AnswerTuple::Replied(reply) => WorkerAnswer::Replied {
            sequence: reply.sequence,
            status: reply.status,
            body: &reply.body,
            is_verified: reply.is_verified,
            fields: AnswerFields {
                content_type: reply.content_type.as_deref(),
                etag: reply.etag.as_deref(),
                last_modified: reply.last_modified.as_deref(),
                retry_after: reply.retry_after.as_deref(),
                content_encoding: reply.content_encoding.as_deref(),
                date: reply.date.as_deref(),
                bucket_region: reply.bucket_region.as_deref(),
                checksums: reply.checksums.as_deref(),
                location: reply.location.as_deref(),
                challenge: reply.challenge.as_deref(),
            },
        },
    }
}

#[pymethods]
impl Target {
    /// Sequence number of the target in the job.
    #[getter]
    fn sequence(&self) -> u64 {
        self.handed.sequence
    }

    /// Name under which the object is stored. Bytes that are not UTF-8 become surrogates.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        name_of(py, &self.handed.name)
    }

    /// URL of the request.
    #[getter]
    fn url(&self) -> &str {
        &self.handed.url
    }

    /// Number of the attempt, starting at 1.
    #[getter]
    fn attempt(&self) -> u32 {
        self.handed.attempt
    }

    /// Return the header fields of the request, except Host.
    ///
    /// Fields that may contain secrets are included only if the request goes to the origin that they belong to.
    fn headers(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let of = |dispatcher: &Option<fetchmill_engine::Dispatcher>| match dispatcher {
            Some(dispatcher) => dispatcher.fields_of(&self.handed.url),
            None => Ok(Vec::new()),
        };
        // This runs for every request. Releasing the GIL to wait would cost more than computing the fields.
        let fields = match self.dispatcher.try_lock() {
            Ok(dispatcher) => of(&dispatcher),
            Err(_) => py.detach(|| of(&lock(&self.dispatcher))),
        };
        fields.map_err(|error| errors::of(&error))
    }

    fn __repr__(&self) -> String {
        format!(
            "Target(sequence={}, url={:?}, attempt={})",
            self.handed.sequence, self.handed.url, self.handed.attempt
        )
    }
}

/// Return whether an address is known to be on the public internet.
///
/// Args:
///     address: the address as text, without brackets or a scope.
#[pyfunction]
pub(crate) fn is_public(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(fetchmill_net::is_public)
}

/// Takes ownership of a descriptor that `socket.detach()` released in Python. The descriptor must not be used or closed
/// elsewhere.
pub(crate) fn own_descriptor(number: i32) -> PyResult<OwnedFd> {
    if number < 0 {
        return Err(errors::usage(&format!("{number} is not a file descriptor")));
    }
    #[expect(unsafe_code, reason = "Python passes a descriptor as a number")]
    // SAFETY: the descriptor is open, and the caller passes on its ownership. Both callers pass a new result of
    // `socket.detach()`.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    Ok(descriptor)
}
