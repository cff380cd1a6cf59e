//! Compares and changes the destination of a sync, for the program that runs its passes.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fetchmill_model::error::{Error, Result};
use fetchmill_store::passes::{
    PlanCounts, PlanOptions, PlannedAction, SyncDestination, SyncLedger, SyncStore as Store,
};
use fetchmill_store::sink::Format;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::job::read_json;

/// A name, an outcome, a failure kind, and a one-line description.
type FailureTuple = (Cow<'static, [u8]>, String, Option<String>, Option<String>);

/// The contents of a sync's destination, the plan of the current pass, and a lock that keeps out other processes.
///
/// Args:
///     dest: the destination. It is created if it is missing.
///     scratch: a folder for the plan of a dry run, in which `dest` is neither changed nor locked.
///     format: the format in which objects are stored.
///     shard_size: the size of a shard in bytes. None means the default of the format.
///     accept_foreign: whether `dest` can contain files that were not written by a job or a sync.
///
/// Raises:
///     UsageError: the destination contains something else.
///     BusyError: another process is working on the destination.
///     JournalError: the state in the destination is damaged.
///     StorageError: the destination cannot be read or written.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct SyncStore {
    /// `None` after closing.
    store: Mutex<Option<Store>>,
}

impl SyncStore {
    /// Calls a function with the store, without the GIL.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Store) -> Result<T> + Send,
    ) -> PyResult<T> {
        let called = py.detach(|| {
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            call(store.as_mut().ok_or_else(|| Error::Usage("the sync is closed".into()))?)
        });
        called.map_err(|error| errors::of(&error))
    }
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
impl SyncStore {
    #[new]
    #[pyo3(signature = (dest, scratch=None, *, format="files", shard_size=None, accept_foreign=false))]
    fn new(
        py: Python<'_>,
        dest: PathBuf,
        scratch: Option<PathBuf>,
        format: &str,
        shard_size: Option<u64>,
        accept_foreign: bool,
    ) -> PyResult<Self> {
        let format = Format::from_name(format).ok_or_else(|| errors::usage("unknown format"))?;
        let destination =
            SyncDestination { path: dest, format, shard_bytes: shard_size, accepts_foreign: accept_foreign };
        let open = || Store::open(&destination, scratch.as_deref());
        let store = py.detach(open).map_err(|error| errors::of(&error))?;
        Ok(SyncStore { store: Mutex::new(Some(store)) })
    }

    /// Return the state after the last pass. Return None before the first pass.
    fn base<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(base) = self.with(py, |store| store.base())? else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("pass", base.pass)?;
        dict.set_item("source", base.source)?;
        dict.set_item("filters", base.filters)?;
        dict.set_item("objects", base.objects)?;
        dict.set_item("ledger", base.ledger.map(|text| read_json(py, &text)).transpose()?)?;
        Ok(Some(dict))
    }

    /// Return whether the destination belongs to a `get` job.
    fn has_job(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |store| store.has_job())
    }

    /// Take over the objects of a `get` job and return their number. With `scratch`, the job stays unchanged.
    fn adopt(&self, py: Python<'_>, source: String, filters: String) -> PyResult<u64> {
        self.with(py, |store| store.adopt(&source, &filters))
    }

    /// Return the values that the job of the next pass needs (`first_sequence`, `has_url`).
    ///
    /// Return None if objects are stored as files.
    fn next_numbers<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(next) = self.with(py, |store| store.next_numbers())? else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("first_sequence", next.first_sequence)?;
        dict.set_item("has_url", next.has_url)?;
        Ok(Some(dict))
    }

    /// Return whether an unfinished pass has left a plan.
    fn has_plan(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |store| store.has_plan())
    }

    /// Compare a listing with the destination. Return how many objects need each action.
    fn plan<'py>(&self, py: Python<'py>, listing: PathBuf, options: &str) -> PyResult<Bound<'py, PyDict>> {
        let read = serde_json::from_str::<PlanOptions>(options);
        let options = read.map_err(|error| errors::usage(&format!("invalid options of a plan: {error}")))?;
        let counts = self.with(py, |store| store.plan(&listing, &options))?;
        counts_dict(py, &counts)
    }

    /// Return how many objects need each action, according to the existing plan.
    fn planned<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.with(py, |store| store.planned())?;
        counts_dict(py, &counts)
    }

    /// Return up to `count` names that need an action, in order, starting after `after`.
    ///
    /// The action is `fetch`, `ask`, `remove` or `leave`.
    #[pyo3(signature = (action, after, count))]
    fn names(
        &self,
        py: Python<'_>,
        action: &str,
        after: Option<Vec<u8>>,
        count: usize,
    ) -> PyResult<Vec<Cow<'static, [u8]>>> {
        let action = PlannedAction::from_name(action).ok_or_else(|| errors::usage("no such action"))?;
        let names = self.with(py, |store| store.names(action, after.as_deref(), count))?;
        Ok(names.into_iter().map(Cow::Owned).collect())
    }

    /// Write the list of targets to request. Return the number of rows.
    fn write_requests(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        self.with(py, |store| store.write_requests(&path))
    }

    /// Spend up to `seconds` preparing the changes. Return whether all of them are ready.
    ///
    /// The destination stays unchanged.
    #[pyo3(signature = (fetched, seconds))]
    fn prepare(&self, py: Python<'_>, fetched: Option<PathBuf>, seconds: f64) -> PyResult<bool> {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        self.with(py, |store| store.prepare(fetched.as_deref(), time))
    }

    /// Spend up to `seconds` moving the objects of a finished job into place. Return whether all are in place.
    #[pyo3(signature = (fetched, overwrite_local, seconds))]
    fn apply(
        &self,
        py: Python<'_>,
        fetched: Option<PathBuf>,
        overwrite_local: bool,
        seconds: f64,
    ) -> PyResult<bool> {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        self.with(py, |store| store.apply(fetched.as_deref(), overwrite_local, time))
    }

    /// Return the numbers of planned (`total`) and applied (`done`) objects.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (done, total) = self.with(py, |store| store.progress())?;
        let dict = PyDict::new(py);
        dict.set_item("done", done)?;
        dict.set_item("total", total)?;
        Ok(dict)
    }

    /// End the pass and return its counters.
    fn conclude<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ledger: SyncLedger = self.with(py, Store::conclude)?;
        let text = serde_json::to_string(&ledger).map_err(|error| errors::usage(&error.to_string()))?;
        read_json(py, &text)
    }

    /// Return up to `count` failures of the last pass, starting after `after`.
    ///
    /// Each failure is a tuple: name, outcome, failure kind and detail.
    #[pyo3(signature = (after, count))]
    fn failures(&self, py: Python<'_>, after: Option<Vec<u8>>, count: usize) -> PyResult<Vec<FailureTuple>> {
        let failures = self.with(py, |store| store.failures(after.as_deref(), count))?;
        let tuple = |failure: fetchmill_store::passes::PassFailure| {
            (Cow::Owned(failure.name), failure.outcome, failure.kind, failure.detail)
        };
        Ok(failures.into_iter().map(tuple).collect())
    }

    /// Delete the plan.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Store::discard)
    }

    /// Close the store, so that another process can work on the destination.
    fn close(&self) {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn counts_dict<'py>(py: Python<'py>, counts: &PlanCounts) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in [
        ("listed", counts.listed),
        ("unchanged", counts.unchanged),
        ("fetch", counts.fetch),
        ("ask", counts.ask),
        ("remove", counts.remove),
        ("kept", counts.kept),
        ("skipped", counts.skipped),
        ("without_url", counts.without_url),
        ("local", counts.local),
        ("gone_local", counts.gone_local),
        ("base", counts.base),
    ] {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}
