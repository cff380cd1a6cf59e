//! A running export.

use std::path::PathBuf;
use std::time::Duration;

use fetchmill_engine::{ExportOptions, ExportSource};
use fetchmill_store::sink::Format;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;

use crate::errors;
use crate::job::{report_dict, snapshot_dict};
use crate::start::start;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportArguments {
    dest: PathBuf,
    /// Destinations of a shared job's ranges. `dest` is the job directory in this case.
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

/// An export that runs on its own threads as soon as it is created.
///
/// It is aborted if it is dropped before it ends. The constructor starts or resumes it.
///
/// Args:
///     options: a JSON object from `fetchmill.export`.
///
/// Raises:
///     UsageError: an option cannot be used, or the other destination belongs to another job.
///     BusyError: a process works on one of the two destinations.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Export {
    running: fetchmill_engine::Export,
    from: PathBuf,
    dest: PathBuf,
    format: &'static str,
}

#[pymethods]
impl Export {
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let options: ExportArguments =
            serde_json::from_str(options).map_err(|error| errors::usage(&format!("the options: {error}")))?;
        let from = options.dest.clone();
        let options = options.into_core()?;
        let (dest, format) = (options.dest.clone(), options.format.name());
        let running = start(py, move || fetchmill_engine::Export::start(&options))?;
        Ok(Export { running, from, dest, format })
    }

    /// Waits up to `seconds` for the export to end, without the GIL. Returns whether it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| self.running.wait(timeout))
    }

    /// Asks the export to stop after a checkpoint. Returns immediately.
    fn stop(&self) {
        self.running.stop();
    }

    /// Ends the export without a checkpoint, as if the process had been killed.
    fn abort(&self) {
        self.running.abort();
    }

    /// Returns the current counters: the fields of `fetchmill._job.report.Snapshot`. Cheap at any time.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        snapshot_dict(py, &self.running.snapshot())
    }

    /// Returns the final counters after the end: the fields of `fetchmill.Report`.
    ///
    /// Raises:
    ///     FetchmillError: an error stopped the export. The class depends on the exit code.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self
            .running
            .report()
            .ok_or_else(|| errors::usage("the export has not ended, or its report was already taken"))?;
        let dict = report_dict(py, &report.map_err(|error| errors::of(&error))?)?;
        dict.set_item("source", self.from.to_string_lossy())?;
        dict.set_item("dest", self.dest.as_os_str())?;
        dict.set_item("format", self.format)?;
        Ok(dict)
    }
}
