//! A dispatcher for engines in Python: targets in batches, answers in batches.

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

/// Hands targets to a worker of an engine in Python and takes its answers. One thread uses it.
///
/// Planning, formats, durability and what becomes of an answer are behind it. `Job.take_dispatcher` gives that of a job
/// in this process, `join` that of a worker's own process.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Dispatcher(SharedDispatcher);

/// A target that was handed out.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Target {
    handed: DispatchedTarget,
    dispatcher: SharedDispatcher,
}

/// What a worker answers: `ReplyAnswer` or `FailureAnswer` of `fetchmill.engines.answers`.
#[derive(FromPyObject)]
#[expect(clippy::large_enum_variant, reason = "most answers are replies, and a batch of them is bounded")]
enum AnswerTuple {
    #[pyo3(transparent)]
    Replied(ReplyTuple),
    #[pyo3(transparent)]
    Broken((u64, PyBackedStr, Option<PyBackedStr>)),
}

/// The values of a `ReplyAnswer`: more than a tuple of pyo3 has.
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
    /// In a worker's process: joins the job whose options these are, over its ends of two sockets.
    ///
    /// None: the job has nothing to do any more.
    ///
    /// Raises:
    ///     UsageError: the options are not those of an engine of processes.
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
            return Err(errors::usage("the options are not those of an engine of processes"));
        };
        let (turns, receipts) = (own_descriptor(turns)?, own_descriptor(receipts)?);
        let typed = |(name, kind): (String, String)| (name, ColumnType::parse(&kind).unwrap_or_default());
        let kept = kept.map(|columns| columns.into_iter().map(typed).collect());
        let joining = WorkerProcessOptions { worker, workers, kept, turns, receipts };
        let dispatcher = py.detach(|| join_job(request, joining)).map_err(|error| errors::of(&error))?;
        Ok(dispatcher.map(Dispatcher::new))
    }

    /// At most `max` targets; waits at most so many seconds for one, and may give none.
    ///
    /// Without the GIL. None: there will be no more, or the job is asked to stop.
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

    /// From now on what replies say of the origin is taken from here as they come, and not from their answers.
    fn observe_arrivals(&self, replies: &OriginReplies) {
        if let Some(dispatcher) = &mut *lock(&self.0) {
            dispatcher.observe_arrivals(Arc::clone(&replies.arrivals));
        }
    }

    /// Takes answers: each target that was handed out is answered once. Waits while the sink is behind.
    ///
    /// Raises:
    ///     UsageError: a target that is not being fetched, or a failure kind that does not exist.
    ///     StorageError: a large body could not be staged.
    #[expect(clippy::needless_pass_by_value, reason = "what comes from Python comes by value")]
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

    /// Says how many requests are out now, and how many targets that were handed out wait for a place.
    fn note_running(&self, requests: usize, waiting: usize) {
        if let Some(dispatcher) = &mut *lock(&self.0) {
            dispatcher.note_running(requests, waiting);
        }
    }

    /// Requests that this worker may have out at a time, now. It may change with every call.
    #[getter]
    fn concurrency(&self) -> usize {
        lock(&self.0).as_ref().map_or(0, fetchmill_engine::Dispatcher::concurrency)
    }

    /// Whether the job is asked to stop: what is in flight may be finished.
    #[getter]
    fn is_stopping(&self) -> bool {
        lock(&self.0).as_ref().is_none_or(fetchmill_engine::Dispatcher::is_stopping)
    }

    /// The end: what was answered is made durable, what was not stays pending. Once; again it does nothing.
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
    /// Its number in the job.
    #[getter]
    fn sequence(&self) -> u64 {
        self.handed.sequence
    }

    /// What it is stored as; bytes that are not UTF-8 as surrogates.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        name_of(py, &self.handed.name)
    }

    /// Where it is asked for.
    #[getter]
    fn url(&self) -> &str {
        &self.handed.url
    }

    /// 1 for the first attempt.
    #[getter]
    fn attempt(&self) -> u32 {
        self.handed.attempt
    }

    /// The fields of its request besides Host; those that may be secrets only for their origin.
    fn headers(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let of = |dispatcher: &Option<fetchmill_engine::Dispatcher>| match dispatcher {
            Some(dispatcher) => dispatcher.fields_of(&self.handed.url),
            None => Ok(Vec::new()),
        };
        // Asked for each request: giving the interpreter away and waiting for it costs more than the fields.
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

/// Whether an address is one of the public internet: what is not known to be one is none.
///
/// Args:
///     address: as text, without brackets and scope.
#[pyfunction]
pub(crate) fn is_public(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(fetchmill_net::is_public)
}

/// What Python has given up (`socket.detach()`): nobody else closes or uses it.
pub(crate) fn own_descriptor(number: i32) -> PyResult<OwnedFd> {
    if number < 0 {
        return Err(errors::usage(&format!("{number} is no descriptor")));
    }
    #[expect(unsafe_code, reason = "a descriptor cannot come from Python in another way")]
    // SAFETY: it is open, and the caller owns it and gives it away: both callers in this package pass what
    // `socket.detach()` has just given.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    Ok(descriptor)
}
