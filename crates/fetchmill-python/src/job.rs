//! A running job.

use std::path::PathBuf;
use std::time::Duration;

use fetchmill_engine::{Interruption, JobReport, Latency, LimitedBy, OriginLatency, Snapshot, StopReason};
use fetchmill_model::error::Error;
use fetchmill_model::limits::OPT_OUT_HOSTS_REPORTED;
use fetchmill_model::outcome::opt_out_rule::OptOutCounts;
use fetchmill_model::outcome::{KindCounts, StatusCounts, Tally};
use fetchmill_model::source::list::Items;
use fetchmill_model::verdict::failure_detail::status_text;
use fetchmill_store::journal::Wait;
use fetchmill_store::results::Summary;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator};

use crate::dispatcher::{self, Dispatcher};
use crate::errors;
use crate::iterable::{self, IterableSource, RaisedError};
use crate::names::set_doubtful;
use crate::options;
use crate::start::start;

/// A job, which starts on its own threads when it is created.
///
/// The constructor starts or resumes the job. Dropping an unfinished job aborts it.
///
/// Args:
///     options: a JSON object from `to_json` that contains the given options and the source of the job.
///     iterator: the targets, if the source is an iterator. Each item is a URL, or a pair of a URL and a name. A thread
///         of the job reads the iterator.
///
/// Raises:
///     UsageError: an option is invalid, or the destination belongs to another job.
///     BusyError: another process is running this job.
///     JournalError: the journal is damaged.
///     StorageError: the destination or the journal cannot be written.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Job {
    running: fetchmill_engine::Job,
    source: String,
    dest: PathBuf,
    format: &'static str,
    raised: RaisedError,
}

#[pymethods]
impl Job {
    #[new]
    #[pyo3(signature = (options, iterator=None))]
    fn new(py: Python<'_>, options: &str, iterator: Option<&Bound<'_, PyIterator>>) -> PyResult<Self> {
        let request = options::parse(options)?;
        let (source, dest, format) = (request.source.text(), request.dest.clone(), request.format.name());
        let raised = RaisedError::default();
        let given =
            iterator.map(|iterator| Box::new(IterableSource::new(iterator, &raised)) as Box<dyn Items>);
        let running = start(py, move || fetchmill_engine::Job::start(request, given))?;
        Ok(Job { running, source, dest, format, raised })
    }

    /// Wait for up to `seconds` for the job to end, without the GIL. Return whether it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| self.running.wait(timeout))
    }

    /// Ask the job to stop. It sends no new requests, waits up to 3 s for those in flight, and writes a checkpoint.
    ///
    /// Return immediately.
    fn stop(&self) {
        self.running.stop();
    }

    /// Set the maximum number of requests per second. This has no effect on a job that started without a rate.
    ///
    /// Raises:
    ///     UsageError: the number is not greater than 0.
    fn set_rate(&self, per_second: f64) -> PyResult<()> {
        if !(per_second > 0.0 && per_second.is_finite()) {
            return Err(errors::usage("rate must be a number above 0"));
        }
        self.running.set_rate(per_second);
        Ok(())
    }

    /// Set the number of requests per second to send while the only origin throttles (`pace` in a snapshot).
    ///
    /// The job adjusts this number whenever the origin refuses requests.
    ///
    /// Raises:
    ///     UsageError: the number is not greater than 0.
    fn set_pace(&self, per_second: f64) -> PyResult<()> {
        if !(per_second > 0.0 && per_second.is_finite()) {
            return Err(errors::usage("pace must be a number above 0"));
        }
        self.running.set_pace(per_second);
        Ok(())
    }

    /// Set the total number of rows that the job can read from a range of a Parquet list.
    ///
    /// A page can exceed this limit.
    fn allow_rows(&self, rows: u64) {
        self.running.allow_rows(rows);
    }

    /// End the list after the rows read so far. The job finishes once their targets have outcomes.
    fn end_list(&self) {
        self.running.end_list();
    }

    /// End the job without a checkpoint, as if the process had been killed.
    fn abort(&self) {
        self.running.abort();
    }

    /// Return the dispatcher of an engine in this process. Wait for up to `seconds` for it.
    ///
    /// Return None if the dispatcher is not ready yet or was already taken, or if the job ended without one.
    fn take_dispatcher(&self, py: Python<'_>, seconds: f64) -> Option<Dispatcher> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| self.running.take_dispatcher(patience)).map(Dispatcher::new)
    }

    /// Attach a worker process that has started.
    ///
    /// The job takes over its own ends of two sockets, given as results of `socket.detach()`.
    fn attach(&self, worker: usize, pid: u32, turns: i32, receipts: i32) -> PyResult<()> {
        let (turns, receipts) = (dispatcher::own_descriptor(turns)?, dispatcher::own_descriptor(receipts)?);
        self.running.attach(worker, pid, turns, receipts);
        Ok(())
    }

    /// Return the next rows of a list that is passed to the program, as lines of JSON. Wait for up to `seconds`.
    ///
    /// Wait without the GIL. The result is empty if no row arrives in that time, and None after the last row.
    fn take_rows<'py>(&self, py: Python<'py>, seconds: f64) -> Option<Bound<'py, PyBytes>> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| self.running.take_rows(patience)).map(|rows| PyBytes::new(py, &rows))
    }

    /// Return the names and types of the columns that a list keeps. Worker processes need them.
    ///
    /// Return None if the source is a server.
    fn kept(&self) -> Option<Vec<(&str, &'static str)>> {
        let columns = self.running.kept()?;
        Some(columns.iter().map(|(name, kind)| (name.as_str(), kind.name())).collect())
    }

    /// Stop the job with this error, after a checkpoint.
    fn fail(&self, message: &str) {
        self.running.fail(Error::Usage(message.to_owned()));
    }

    /// Return the current counters, as the fields of `fetchmill._job.report.Snapshot`. Cheap to call at any time.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let snapshot = py.detach(|| self.running.snapshot());
        snapshot_dict(py, &snapshot)
    }

    /// Return the samples taken after a time (seconds since 1970 UTC), oldest first.
    ///
    /// The samples of earlier runs are included. Initially, one sample is kept per second. If more than 720 accumulate,
    /// adjacent samples are merged.
    #[pyo3(signature = (after=0.0))]
    fn samples<'py>(&self, py: Python<'py>, after: f64) -> PyResult<Bound<'py, PyAny>> {
        let samples = py.detach(|| self.running.samples(after));
        let text = serde_json::to_string(&samples).map_err(|error| errors::usage(&error.to_string()))?;
        read_json(py, &text)
    }

    /// Return the final counters of a job that has ended, as the fields of `fetchmill.Report`.
    ///
    /// Raises:
    ///     FetchmillError: an error stopped the job. The class depends on the exit code.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self
            .running
            .report()
            .ok_or_else(|| errors::usage("the job has not ended, or its report was already taken"))?;
        let report =
            report.map_err(|error| iterable::take(&self.raised).unwrap_or_else(|| errors::of(&error)))?;
        let dict = report_dict(py, &report)?;
        dict.set_item("source", &self.source)?;
        dict.set_item("dest", self.dest.as_os_str())?;
        dict.set_item("format", self.format)?;
        Ok(dict)
    }
}

/// Adds the counters to a dict.
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

/// Adds the number of failures per status to a dict, with the statuses as strings.
pub(crate) fn set_statuses(dict: &Bound<'_, PyDict>, statuses: &StatusCounts) -> PyResult<()> {
    let counts = PyDict::new(dict.py());
    for (status, count) in statuses.iter() {
        counts.set_item(status_text(status), count)?;
    }
    dict.set_item("failed_statuses", counts)
}

/// Adds the opt-outs to a dict, both by rule and by host. Only the hosts whose robots.txt forbids the most targets are
/// included.
pub(crate) fn set_opt_outs(dict: &Bound<'_, PyDict>, opt_outs: &OptOutCounts) -> PyResult<()> {
    let (rules, hosts) = (PyDict::new(dict.py()), PyDict::new(dict.py()));
    for (rule, count) in opt_outs.rules() {
        rules.set_item(rule.name(), count)?;
    }
    for (host, count) in opt_outs.largest_hosts(OPT_OUT_HOSTS_REPORTED) {
        hosts.set_item(host, count)?;
    }
    dict.set_item("opted_out_by", rules)?;
    dict.set_item("forbidding_hosts", hosts)?;
    let count = opt_outs.hosts().len() + usize::from(opt_outs.has_other_hosts());
    dict.set_item("forbidding_host_count", count)
}

pub(crate) fn snapshot_dict<'py>(py: Python<'py>, snapshot: &Snapshot) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_tally(&dict, snapshot.tally, &snapshot.kinds)?;
    dict.set_item("in_flight", snapshot.in_flight)?;
    dict.set_item("waiting", snapshot.waiting)?;
    dict.set_item("listing_done", snapshot.is_listing_done)?;
    dict.set_item("total", snapshot.total)?;
    dict.set_item("list_share", snapshot.list_share)?;
    dict.set_item("list_read", snapshot.list_read)?;
    dict.set_item("list_cut_at", snapshot.list_cut_at)?;
    dict.set_item("pages", snapshot.pages)?;
    dict.set_item("phase", snapshot.phase)?;
    dict.set_item("seconds", snapshot.elapsed.as_secs_f64())?;
    dict.set_item("resumed", snapshot.is_resumed)?;
    dict.set_item("start_settled", snapshot.settled_before)?;
    dict.set_item("stopped_by", snapshot.stopped_by.map(StopReason::name))?;
    dict.set_item("waits", wait_dicts(py, &snapshot.waits)?)?;
    dict.set_item("attempts", snapshot.attempts)?;
    dict.set_item("concurrency", snapshot.concurrency)?;
    dict.set_item("tries_concurrency", snapshot.tries_concurrency)?;
    dict.set_item("pace", snapshot.pace)?;
    dict.set_item("limited_by", limited_by_dict(py, snapshot.limited_by.as_ref())?)?;
    dict.set_item("latency", snapshot.latency.map(|latency| latency_dict(py, latency)).transpose()?)?;
    let origins = snapshot.origins.iter().map(|origin| origin_dict(py, origin));
    dict.set_item("origins", origins.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

fn origin_dict<'py>(py: Python<'py>, origin: &OriginLatency) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("origin", &origin.origin)?;
    dict.set_item("replies_per_second", origin.replies_per_second)?;
    dict.set_item("latency", latency_dict(py, origin.latency)?)?;
    Ok(dict)
}

/// Parses JSON with Python's own module.
pub(crate) fn read_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}

fn limited_by_dict<'py>(
    py: Python<'py>,
    limited_by: Option<&LimitedBy>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(LimitedBy { kind, text }) = limited_by else { return Ok(None) };
    let dict = PyDict::new(py);
    dict.set_item("kind", kind.name())?;
    dict.set_item("text", text)?;
    Ok(Some(dict))
}

/// Returns a dict of latencies in seconds.
fn latency_dict(py: Python<'_>, latency: Latency) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("p50", latency.p50)?;
    dict.set_item("p90", latency.p90)?;
    dict.set_item("p99", latency.p99)?;
    dict.set_item("max", latency.max)?;
    Ok(dict)
}

/// Returns a dict for each wait of a job.
pub(crate) fn wait_dicts<'py>(py: Python<'py>, waits: &[Wait]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let dict_of = |wait: &Wait| {
        let dict = PyDict::new(py);
        dict.set_item("what", &wait.what)?;
        dict.set_item("since", &wait.since)?;
        dict.set_item("until", &wait.until)?;
        Ok(dict)
    };
    waits.iter().map(dict_of).collect()
}

/// Returns the results of a check as a dict. Rows are JSON.
fn summary_dict<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let (dict, counts) = (PyDict::new(py), PyDict::new(py));
    for (answer, count) in summary.counts() {
        counts.set_item(answer.name(), count)?;
    }
    dict.set_item("rows", summary.rows)?;
    dict.set_item("counts", counts)?;
    dict.set_item("suspect", summary.suspect)?;
    dict.set_item("failed", &summary.failed)?;
    Ok(dict)
}

pub(crate) fn report_dict<'py>(py: Python<'py>, report: &JobReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_tally(&dict, report.tally, &report.kinds)?;
    set_statuses(&dict, &report.statuses)?;
    dict.set_item("credentials", report.gave_credentials)?;
    dict.set_item("seconds", report.elapsed.as_secs_f64())?;
    dict.set_item("attempts", report.attempts)?;
    dict.set_item("listed_at", report.listed_at.as_deref())?;
    dict.set_item("already_finished", report.was_finished)?;
    dict.set_item("interrupted", report.interruption.is_some())?;
    let rule = report.interruption.and_then(Interruption::rule);
    dict.set_item("stopped_by", rule.map(StopReason::name))?;
    dict.set_item("tolerated", report.is_tolerated)?;
    dict.set_item("resumed", report.is_resumed)?;
    let limited_by = match &report.limited_by {
        Some((limited_by, share)) => {
            let dict = limited_by_dict(py, Some(limited_by))?;
            dict.iter().try_for_each(|dict| dict.set_item("share", share))?;
            dict
        }
        None => None,
    };
    dict.set_item("limited_by", limited_by)?;
    set_doubtful(&dict, &report.doubtful)?;
    dict.set_item("notices", &report.notices)?;
    dict.set_item("skipped_by", report.skipped.counts())?;
    set_opt_outs(&dict, &report.opt_outs)?;
    dict.set_item("found_nothing", report.found_nothing)?;
    if let Some(summary) = &report.summary {
        dict.set_item("check", summary_dict(py, summary)?)?;
    }
    Ok(dict)
}
