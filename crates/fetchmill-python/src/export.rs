//! A running export.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fetchmill_engine::{ExportOptions, ExportSource, RangeCopies};
use fetchmill_model::error::{Error, Result};
use fetchmill_store::sink::Format;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;

use crate::errors;
use crate::iterable::{self, RaisedError};
use crate::job::{report_dict, snapshot_dict};
use crate::start::start;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportArguments {
    dest: PathBuf,
    /// Destinations of the ranges of a shared job, or the names of the ranges to copy. In either case, `dest` is the
    /// job directory.
    ranges: Option<Vec<PathBuf>>,
    source: Option<String>,
    other: PathBuf,
    format: String,
    state: Option<PathBuf>,
    other_state: Option<PathBuf>,
    shard_size: Option<u64>,
    durability: Option<String>,
}

impl ExportArguments {
    fn into_core(self) -> PyResult<ExportOptions> {
        let format = Format::from_name(&self.format)
            .ok_or_else(|| errors::usage(&format!("unknown format {}", self.format)))?;
        let is_durable = match self.durability.as_deref() {
            None | Some("power") => true,
            Some("process") => false,
            Some(other) => {
                return Err(errors::usage(&format!("durability must be power or process, not {other}")));
            }
        };
        let state = self.state;
        let from = match self.ranges {
            None => vec![ExportSource { dest: self.dest, state }],
            Some(ranges) => ranges.into_iter().map(|dest| ExportSource { dest, state: None }).collect(),
        };
        Ok(ExportOptions {
            from,
            source: self.source,
            dest: self.other,
            state: self.other_state,
            format,
            shard_size: self.shard_size,
            is_durable,
        })
    }
}

/// Calls a `fetchmill._destination.shared_export.RangeCopies`.
#[derive(Debug)]
struct PythonCopies {
    copies: Arc<Py<PyAny>>,
    raised: RaisedError,
}

impl RangeCopies for PythonCopies {
    fn copy(&self, range: &Path, with_objects: bool) -> Result<Option<PathBuf>> {
        let copied = Python::attach(|py| {
            self.copies.call_method1(py, "copy", (range.as_os_str(), with_objects))?.extract(py)
        });
        copied.map_err(|error: PyErr| {
            let message = format!("the ranges cannot be copied: {error}");
            iterable::keep(&self.raised, error);
            Error::Temporary(message)
        })
    }
}

/// Asks the copies to end early.
fn stop(py: Python<'_>, copies: Option<&Arc<Py<PyAny>>>) -> PyResult<()> {
    copies.map_or(Ok(()), |copies| copies.call_method0(py, "stop").map(drop))
}

/// An export, which starts on its own threads when it is created.
///
/// The constructor starts or resumes the export. Dropping an unfinished export aborts it.
///
/// Args:
///     options: a JSON object from `fetchmill.export`.
///     copies: an object that copies the ranges of a shared job in a bucket, if the options name such ranges.
///
/// Raises:
///     UsageError: an option is invalid, or the other destination belongs to another job.
///     BusyError: another process is working on one of the destinations.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Export {
    running: fetchmill_engine::Export,
    copies: Option<Arc<Py<PyAny>>>,
    raised: RaisedError,
    from: PathBuf,
    dest: PathBuf,
    format: &'static str,
}

#[pymethods]
impl Export {
    #[new]
    #[pyo3(signature = (options, copies=None))]
    fn new(py: Python<'_>, options: &str, copies: Option<Py<PyAny>>) -> PyResult<Self> {
        let options: ExportArguments =
            serde_json::from_str(options).map_err(|error| errors::usage(&format!("the options: {error}")))?;
        let from = options.dest.clone();
        let options = options.into_core()?;
        let (dest, format) = (options.dest.clone(), options.format.name());
        let (copies, raised) = (copies.map(Arc::new), RaisedError::default());
        let given = copies.clone().map(|copies| {
            Box::new(PythonCopies { copies, raised: Arc::clone(&raised) }) as Box<dyn RangeCopies>
        });
        match start(py, move || fetchmill_engine::Export::start(&options, given)) {
            Ok(running) => Ok(Export { running, copies, raised, from, dest, format }),
            Err(error) => {
                // If a signal interrupted the start, the copies may still be running.
                stop(py, copies.as_ref())?;
                Err(iterable::take(&raised).unwrap_or(error))
            }
        }
    }

    /// Wait for up to `seconds` for the export to end, without the GIL. Return whether it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| self.running.wait(timeout))
    }

    /// Ask the export to stop after a checkpoint. Return immediately.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.running.stop();
        stop(py, self.copies.as_ref())
    }

    /// End the export without a checkpoint, as if the process had been killed.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.running.abort();
        stop(py, self.copies.as_ref())
    }

    /// Return the current counters, as the fields of `fetchmill._job.report.Snapshot`. Cheap to call at any time.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        snapshot_dict(py, &self.running.snapshot())
    }

    /// Return the final counters of an export that has ended, as the fields of `fetchmill.Report`.
    ///
    /// Raises:
    ///     FetchmillError: an error stopped the export. The class depends on the exit code.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self
            .running
            .report()
            .ok_or_else(|| errors::usage("the export has not ended, or its report was already taken"))?;
        let report =
            report.map_err(|error| iterable::take(&self.raised).unwrap_or_else(|| errors::of(&error)))?;
        let dict = report_dict(py, &report)?;
        dict.set_item("source", self.from.to_string_lossy())?;
        dict.set_item("dest", self.dest.as_os_str())?;
        dict.set_item("format", self.format)?;
        Ok(dict)
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        Python::attach(|py| {
            self.running.abort();
            let _ = stop(py, self.copies.as_ref());
            // The export's thread may need the interpreter before it can end.
            py.detach(|| self.running.close());
        });
    }
}
