//! A running verification.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fetchmill_model::outcome::KindCounts;
use fetchmill_store::reader::verify::{
    self as core, Finding, FindingKind, SampledObject, VerifyOptions, VerifyReport,
};
use fetchmill_store::reader::{ObjectOrigin, SampleReader};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use serde::Deserialize;

use crate::errors;
use crate::job::set_tally;
use crate::names::whole_text;
use crate::start::start;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VerifyArguments {
    dest: PathBuf,
    state: Option<PathBuf>,
    threads: Option<usize>,
    #[serde(default)]
    repair: bool,
    /// Number of objects to compare with the origin, if any.
    sample: Option<usize>,
    #[serde(default)]
    seed: u64,
    /// Origin to compare with, if it differs from the job's origin.
    against: Option<String>,
}

/// A verification, which starts on its own threads when it is created.
///
/// The constructor locks the destination against jobs and starts the verification. Dropping a verification ends it
/// early.
///
/// Args:
///     options: a JSON object from `fetchmill.verify`.
///
/// Raises:
///     UsageError: the job does not exist.
///     BusyError: a process is running the job.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Verify {
    running: core::Verify,
    dest: PathBuf,
    state: Option<PathBuf>,
    sample: Mutex<Option<DrawnSample>>,
}

/// Sampled objects, with everything that is needed to read and request them.
struct DrawnSample {
    objects: std::vec::IntoIter<SampledObject>,
    reader: SampleReader,
    asked: ObjectOrigin,
}

#[pymethods]
impl Verify {
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let options: VerifyArguments =
            serde_json::from_str(options).map_err(|error| errors::usage(&format!("the options: {error}")))?;
        let VerifyArguments { dest, state, threads, repair, sample, seed, against } = options;
        let sample = sample.unwrap_or(0);
        let asked = VerifyOptions {
            dest: dest.clone(),
            state: state.clone(),
            threads,
            repair,
            sample,
            seed,
            against,
        };
        let running = start(py, move || core::Verify::start(asked))?;
        Ok(Verify { running, dest, state, sample: Mutex::new(None) })
    }

    /// Wait for up to `seconds` for the verification to end, without the GIL.
    ///
    /// Return whether it has ended. While it runs, the caller must keep taking findings.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| self.running.wait(timeout))
    }

    /// Ask the verification to end early. A repair ends after the current shard.
    fn abort(&self) {
        self.running.abort();
    }

    /// Return the progress, as the fields of `fetchmill._destination.verify.Progress`. Cheap to call at any time.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let progress = self.running.progress();
        let dict = PyDict::new(py);
        dict.set_item("bytes", progress.bytes)?;
        dict.set_item("bytes_total", progress.bytes_total)?;
        dict.set_item("objects", progress.objects)?;
        dict.set_item("findings", progress.findings)?;
        Ok(dict)
    }

    /// Return up to `max` findings that have not been taken yet, as the fields of `fetchmill.Finding`.
    fn findings<'py>(&self, py: Python<'py>, max: usize) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for finding in self.running.take_findings(max) {
            list.append(finding_dict(py, &finding)?)?;
        }
        Ok(list)
    }

    /// Return the result of a verification that has ended, as the fields of `fetchmill.VerifyReport`.
    ///
    /// Raises:
    ///     FetchmillError: an error stopped the verification. The class depends on the exit code.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let none = || errors::usage("the verification has not ended, or its report was already taken");
        let report = self.running.report().ok_or_else(none)?.map_err(|error| errors::of(&error))?;
        let dict = report_dict(py, &report)?;
        if let Some(asked) = report.asked {
            let opened = SampleReader::open(&self.dest, self.state.as_deref());
            let reader = opened.map_err(|error| errors::of(&error))?;
            dict.set_item("follows", asked.follows())?;
            let drawn = DrawnSample { objects: report.sample.into_iter(), reader, asked };
            *self.sample.lock().unwrap_or_else(PoisonError::into_inner) = Some(drawn);
        }
        Ok(dict)
    }

    /// Return the next sampled object: its name, the path to request, and its bytes.
    ///
    /// Return None after the last one.
    fn next_sampled<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let read = || {
            let mut drawn = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(DrawnSample { objects, reader, asked }) = &mut *drawn else { return Ok(None) };
            let Some(object) = objects.next() else { return Ok(None) };
            let stored = reader.read(&object)?.map(|stored| (asked.url(&stored), stored.body));
            Ok(Some((object, stored)))
        };
        let Some((object, stored)) = py.detach(read).map_err(|error| errors::of(&error))? else {
            return Ok(None);
        };
        let dict = PyDict::new(py);
        dict.set_item("name", whole_text(&object.name))?;
        dict.set_item("sequence", object.sequence)?;
        if let Some((url, body)) = stored {
            dict.set_item("url", url)?;
            dict.set_item("body", PyBytes::new(py, &body))?;
        }
        Ok(Some(dict))
    }
}

fn finding_dict<'py>(py: Python<'py>, finding: &Finding) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("what", finding.what.name())?;
    dict.set_item("name", whole_text(&finding.name))?;
    dict.set_item("sequence", finding.sequence)?;
    dict.set_item("shard", finding.shard)?;
    dict.set_item("objects", finding.objects)?;
    dict.set_item("detail", &finding.detail)?;
    Ok(dict)
}

fn report_dict<'py>(py: Python<'py>, report: &VerifyReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_tally(&dict, report.tally, &KindCounts::default())?;
    let part = |name: &str| report.identity.get(name).cloned().unwrap_or_default();
    dict.set_item("source", part("source"))?;
    dict.set_item("format", part("format"))?;
    dict.set_item("checked", report.progress.objects)?;
    dict.set_item("findings", report.progress.findings)?;
    for (what, count) in FindingKind::ALL.iter().zip(report.found) {
        dict.set_item(what.name(), count)?;
    }
    dict.set_item("interrupted", report.is_interrupted)?;
    dict.set_item("seconds", report.elapsed.as_secs_f64())?;
    let repaired = report.repaired.unwrap_or_default();
    dict.set_item("repaired", report.repaired.is_some())?;
    dict.set_item("mended", report.is_mended)?;
    dict.set_item("planned", repaired.planned)?;
    dict.set_item("dropped", repaired.dropped)?;
    dict.set_item("shards_replaced", repaired.shards)?;
    dict.set_item("unnamed", repaired.unnamed)?;
    dict.set_item("without_url", repaired.without_url)?;
    Ok(dict)
}
