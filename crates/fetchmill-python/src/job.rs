//! A running job.

use std::path::PathBuf;
use std::time::Duration;

use fetchmill_core::engine::{self, JobOptions, Listing, Report, Snapshot};
use fetchmill_core::outcome::{KindCounts, Tally};
use fetchmill_core::sink::Format;
use fetchmill_core::source::{ApiNames, OriginUrl};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;

use crate::errors;

/// The options of `fetchmill.GetOptions`; what is missing has the core's default.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    source: String,
    dest: PathBuf,
    format: Option<String>,
    listing: Option<String>,
    list_path: Option<String>,
    names_field: Option<String>,
    marker_field: Option<String>,
    total_field: Option<String>,
    marker_param: Option<String>,
    get_path: Option<String>,
    shard_size: Option<u64>,
    seal_after: Option<f64>,
    limit: Option<u32>,
    threads: Option<usize>,
    commit_window: Option<f64>,
    durability: Option<String>,
    state: Option<PathBuf>,
    preflight: Option<bool>,
    retry_failed: Option<bool>,
    attempts: Option<u32>,
    connect_timeout: Option<f64>,
    head_timeout: Option<f64>,
    idle_timeout: Option<f64>,
    total_timeout: Option<f64>,
    max_size: Option<u64>,
    allow_eof_bodies: Option<bool>,
    give_up_after: Option<f64>,
}

/// Only for the tests of the crash tests; see `FilesSink::settle_before_rename`.
const BREAK_ORDER: &str = "FETCHMILL_TEST_SETTLE_BEFORE_RENAME_MS";

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn set_seconds(place: &mut Duration, seconds: Option<f64>) -> PyResult<()> {
    if let Some(seconds) = seconds {
        *place = Duration::try_from_secs_f64(seconds)
            .map_err(|_| errors::usage(&format!("{seconds} is no number of seconds")))?;
    }
    Ok(())
}

impl Options {
    fn listing(&self) -> PyResult<Listing> {
        match self.listing.as_deref() {
            None | Some("api") => {
                let mut names = ApiNames::default();
                set(&mut names.list_path, self.list_path.clone());
                set(&mut names.names_field, self.names_field.clone());
                set(&mut names.marker_field, self.marker_field.clone());
                set(&mut names.total_field, self.total_field.clone());
                set(&mut names.marker_param, self.marker_param.clone());
                set(&mut names.get_path, self.get_path.clone());
                Ok(Listing::Api(names))
            }
            Some("autoindex") => Ok(Listing::Autoindex),
            Some(other) => Err(errors::usage(&format!("listing must be api or autoindex, not {other}"))),
        }
    }

    fn into_core(self) -> PyResult<JobOptions> {
        let source = OriginUrl::parse(&self.source).map_err(|error| errors::of(&error))?;
        let listing = self.listing()?;
        let mut options = JobOptions::new(source, self.dest);
        options.listing = listing;
        if let Some(name) = self.format.as_deref() {
            options.format = Format::from_name(name)
                .ok_or_else(|| errors::usage(&format!("format must be one that --help lists, not {name}")))?;
        }
        options.shard_size = self.shard_size;
        set_seconds(&mut options.seal_after, self.seal_after)?;
        options.is_durable = match self.durability.as_deref() {
            None | Some("power") => true,
            Some("process") => false,
            Some(other) => {
                return Err(errors::usage(&format!("durability must be power or process, not {other}")));
            }
        };
        options.state = self.state;
        options.threads = self.threads;
        set(&mut options.limit, self.limit);
        set(&mut options.attempts, self.attempts);
        set(&mut options.max_size, self.max_size);
        set(&mut options.preflight, self.preflight);
        set(&mut options.retry_failed, self.retry_failed);
        set(&mut options.allow_eof_bodies, self.allow_eof_bodies);
        set_seconds(&mut options.commit_window, self.commit_window)?;
        set_seconds(&mut options.give_up_after, self.give_up_after)?;
        set_seconds(&mut options.timeouts.connect, self.connect_timeout)?;
        set_seconds(&mut options.timeouts.head, self.head_timeout)?;
        set_seconds(&mut options.timeouts.idle, self.idle_timeout)?;
        set_seconds(&mut options.timeouts.total, self.total_timeout)?;
        options.settle_before_rename =
            std::env::var(BREAK_ORDER).ok().and_then(|text| text.parse().ok()).map(Duration::from_millis);
        Ok(options)
    }
}

#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Job {
    running: engine::Job,
    source: String,
    dest: PathBuf,
    format: &'static str,
}

#[pymethods]
impl Job {
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let options: Options =
            serde_json::from_str(options).map_err(|error| errors::usage(&format!("the options: {error}")))?;
        let options = options.into_core()?;
        let (source, dest, format) = (options.source.text(), options.dest.clone(), options.format.name());
        let running = py.detach(|| engine::Job::start(options)).map_err(|error| errors::of(&error))?;
        Ok(Job { running, source, dest, format })
    }

    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| self.running.wait(timeout))
    }

    fn stop(&self) {
        self.running.stop();
    }

    fn abort(&self) {
        self.running.abort();
    }

    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let snapshot = py.detach(|| self.running.snapshot());
        snapshot_dict(py, &snapshot)
    }

    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report =
            self.running.report().ok_or_else(|| errors::usage("the job has not ended, or was reported"))?;
        let report = report.map_err(|error| errors::of(&error))?;
        let dict = report_dict(py, &report)?;
        dict.set_item("source", &self.source)?;
        dict.set_item("dest", &self.dest)?;
        dict.set_item("format", self.format)?;
        Ok(dict)
    }
}

/// The counters, for every dict that has them.
pub(crate) fn set_tally(dict: &Bound<'_, PyDict>, tally: Tally, kinds: &KindCounts) -> PyResult<()> {
    dict.set_item("listed", tally.listed)?;
    dict.set_item("fetched", tally.fetched)?;
    dict.set_item("absent", tally.absent)?;
    dict.set_item("failed", tally.failed)?;
    dict.set_item("skipped", tally.skipped)?;
    dict.set_item("bytes", tally.bytes)?;
    dict.set_item("pending", tally.pending())?;
    let failures = PyDict::new(dict.py());
    for (kind, count) in kinds.iter() {
        failures.set_item(kind.name(), count)?;
    }
    dict.set_item("failures", failures)
}

pub(crate) fn snapshot_dict<'py>(py: Python<'py>, snapshot: &Snapshot) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_tally(&dict, snapshot.tally, &snapshot.kinds)?;
    dict.set_item("in_flight", snapshot.in_flight)?;
    dict.set_item("waiting", snapshot.waiting)?;
    dict.set_item("listing_done", snapshot.is_listing_done)?;
    dict.set_item("phase", snapshot.phase)?;
    dict.set_item("seconds", snapshot.elapsed.as_secs_f64())?;
    dict.set_item("resumed", snapshot.is_resumed)?;
    dict.set_item("start_settled", snapshot.settled_before)?;
    Ok(dict)
}

pub(crate) fn report_dict<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_tally(&dict, report.tally, &report.kinds)?;
    dict.set_item("seconds", report.elapsed.as_secs_f64())?;
    dict.set_item("attempts", report.attempts)?;
    dict.set_item("listed_at", report.listed_at.as_deref())?;
    dict.set_item("already_finished", report.was_finished)?;
    dict.set_item("interrupted", report.is_interrupted)?;
    dict.set_item("resumed", report.is_resumed)?;
    dict.set_item("notices", &report.notices)?;
    Ok(dict)
}
