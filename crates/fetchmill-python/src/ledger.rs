//! Read access to the journal of a destination.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fetchmill_model::error::Error;
use fetchmill_model::name;
use fetchmill_model::outcome::ShardEnd;
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_store::journal::{
    FailedFolder, JobLocation, SkippedOf, must_have_objects, read_command, read_failed_folders, read_samples,
    read_shards, read_skipped, read_status,
};
use fetchmill_store::sink::failures::{FailureRow, FailureRows};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors;
use crate::job::{read_json, set_opt_outs, set_statuses, set_tally, wait_dicts};
use crate::names::{set_doubtful, whole_text};
use crate::objects::kept_dict;

/// A reason for skipping targets, the number of skipped targets, and some of their names.
type SkippedTuple = (String, u64, Vec<Cow<'static, [u8]>>);

/// Number of rows in a batch.
const BATCH_ROWS: usize = 1000;

/// Return the counters from a destination's journal, as the fields of `fetchmill.Status`.
///
/// Raises:
///     UsageError: the job does not exist.
///     JournalError: the journal cannot be read.
#[pyfunction]
#[pyo3(signature = (dest, state))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
pub(crate) fn status(py: Python<'_>, dest: PathBuf, state: Option<PathBuf>) -> PyResult<Bound<'_, PyDict>> {
    let read = || read_status(&JobLocation::find(&dest, state.as_deref())?);
    let status = py.detach(read).map_err(|error| errors::of(&error))?;
    let dict = PyDict::new(py);
    set_tally(&dict, status.tally, &status.kinds)?;
    set_statuses(&dict, &status.statuses)?;
    dict.set_item("credentials", py.None())?;
    let part = |name: &str| status.identity.get(name).cloned().unwrap_or_default();
    dict.set_item("source", part("source"))?;
    dict.set_item("dest", dest.as_os_str())?;
    dict.set_item("format", part("format"))?;
    dict.set_item("waiting", status.waiting)?;
    dict.set_item("started_at", status.started_at)?;
    dict.set_item("listed_at", status.listed_at)?;
    dict.set_item("already_finished", status.finished_at.is_some())?;
    dict.set_item("finished_at", status.finished_at)?;
    dict.set_item("running", status.is_running)?;
    dict.set_item("waits", wait_dicts(py, &status.waits)?)?;
    let progress = status.progress.map(|text| read_json(py, &text)).transpose()?;
    dict.set_item("progress", progress)?;
    dict.set_item("interrupted", false)?;
    dict.set_item("stopped_by", py.None())?;
    dict.set_item("tolerated", false)?;
    dict.set_item("resumed", false)?;
    dict.set_item("seconds", 0.0)?;
    dict.set_item("attempts", 0)?;
    set_doubtful(&dict, &status.doubtful)?;
    dict.set_item("notices", Vec::<String>::new())?;
    dict.set_item("skipped_by", status.skipped)?;
    set_opt_outs(&dict, &status.opt_outs)?;
    dict.set_item("found_nothing", false)?;
    Ok(dict)
}

/// Return the options of a destination's job in the form of `to_json`.
///
/// Return None if the job did not store its options.
///
/// Raises:
///     UsageError: the job does not exist.
///     JournalError: the journal cannot be read.
#[pyfunction]
#[pyo3(signature = (dest, state))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
pub(crate) fn job_command(py: Python<'_>, dest: PathBuf, state: Option<PathBuf>) -> PyResult<Option<String>> {
    let read = || read_command(&JobLocation::find(&dest, state.as_deref())?);
    py.detach(read).map_err(|error| errors::of(&error))
}

/// Return the samples of a destination's job, oldest first, in the form of `Job.samples`.
///
/// This also works while the job is running.
///
/// Raises:
///     UsageError: the job does not exist.
///     JournalError: the journal cannot be read.
#[pyfunction]
#[pyo3(signature = (dest, state))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
pub(crate) fn samples(py: Python<'_>, dest: PathBuf, state: Option<PathBuf>) -> PyResult<Bound<'_, PyAny>> {
    let read = || read_samples(&JobLocation::find(&dest, state.as_deref())?);
    let samples = py.detach(read).map_err(|error| errors::of(&error))?;
    read_json(py, &format!("[{}]", samples.join(",")))
}

/// Return up to `count` paths of folders that could not be listed, in order, starting after `after`.
///
/// `dest` can also be the results file of a `list` run.
///
/// Raises:
///     UsageError: the job does not exist.
///     JournalError: the journal cannot be read.
#[pyfunction]
#[pyo3(signature = (dest, after, count))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
pub(crate) fn failed_folders(
    py: Python<'_>,
    dest: PathBuf,
    after: Option<Vec<u8>>,
    count: usize,
) -> PyResult<Vec<Cow<'static, [u8]>>> {
    let read = || read_failed_folders(&JobLocation::find(&dest, None)?, after.as_deref(), count);
    let folders = py.detach(read).map_err(|error| errors::of(&error))?;
    Ok(folders.into_iter().map(|folder| Cow::Owned(folder.path)).collect())
}

/// Return each reason for skipping targets, the number of skipped targets, and the names of the first 100.
#[pyfunction]
#[pyo3(signature = (dest, state))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
pub(crate) fn skipped(py: Python<'_>, dest: PathBuf, state: Option<PathBuf>) -> PyResult<Vec<SkippedTuple>> {
    let read = || read_skipped(&JobLocation::find(&dest, state.as_deref())?);
    let found = py.detach(read).map_err(|error| errors::of(&error))?;
    let of_reason = |(reason, of): (String, SkippedOf)| {
        (reason, of.count, of.names.into_iter().map(Cow::Owned).collect())
    };
    Ok(found.into_iter().map(of_reason).collect())
}

/// Return a name as it appears in a manifest: unchanged, or as `%bytes:` followed by the percent-encoded name.
#[pyfunction]
pub(crate) fn name_text(name: &[u8]) -> Cow<'_, str> {
    name::to_text(name)
}

/// Absent and failed targets of a job, read in batches.
///
/// The constructor opens the journal for reading.
///
/// Raises:
///     UsageError: the job does not exist.
///     JournalError: the journal or a failures shard cannot be read.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Failures {
    reader: Mutex<FailureReader>,
}

/// Reads the shards first, and then the folders that could not be listed.
struct FailureReader {
    place: JobLocation,
    columns: ExtraColumns,
    folder: PathBuf,
    shards: VecDeque<ShardEnd>,
    rows: Option<FailureRows>,
    last_folder: Option<Vec<u8>>,
}

enum FailureItem {
    Target(Box<FailureRow>),
    Folder(FailedFolder),
}

impl FailureReader {
    fn open(dest: &Path, state: Option<&Path>) -> Result<Self, Error> {
        let place = JobLocation::find(dest, state)?;
        let identity = read_status(&place)?.identity;
        must_have_objects(&identity, dest)?;
        let shards = read_shards(&place)?.into();
        let columns = ExtraColumns::of_identity(&identity);
        Ok(FailureReader {
            folder: place.failures_path(),
            place,
            columns,
            shards,
            rows: None,
            last_folder: None,
        })
    }

    fn next_batch(&mut self) -> Result<Vec<FailureItem>, Error> {
        let mut batch = Vec::new();
        while batch.len() < BATCH_ROWS {
            if let Some(rows) = &mut self.rows {
                match rows.next() {
                    Some(Ok(row)) if row.is_skipped() => {}
                    // Omit the replies. They are not reported here and can take up to 64 KiB each.
                    Some(row) => {
                        let row = FailureRow { replies_hex: None, ..row? };
                        batch.push(FailureItem::Target(Box::new(row)));
                    }
                    None => self.rows = None,
                }
            } else if let Some(shard) = self.shards.pop_front() {
                self.rows = Some(FailureRows::open(&self.folder, &shard)?);
            } else {
                break;
            }
        }
        if batch.is_empty() {
            let folders = read_failed_folders(&self.place, self.last_folder.as_deref(), BATCH_ROWS)?;
            if let Some(last) = folders.last() {
                self.last_folder = Some(last.path.clone());
            }
            batch.extend(folders.into_iter().map(FailureItem::Folder));
        }
        Ok(batch)
    }
}

#[pymethods]
impl Failures {
    #[new]
    #[pyo3(signature = (dest, state))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn new(dest: PathBuf, state: Option<PathBuf>) -> PyResult<Self> {
        let reader = FailureReader::open(&dest, state.as_deref()).map_err(|error| errors::of(&error))?;
        Ok(Failures { reader: Mutex::new(reader) })
    }

    /// Return the next failures, as the fields of `fetchmill.Failure`. The list is empty at the end.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let read = || {
            let mut reader = self.reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            Ok((reader.next_batch()?, reader.columns.clone()))
        };
        let (batch, columns) = py.detach(read).map_err(|error: Error| errors::of(&error))?;
        let list = PyList::empty(py);
        for row in &batch {
            list.append(row_dict(py, row, &columns)?)?;
        }
        Ok(list)
    }
}

fn row_dict<'py>(py: Python<'py>, row: &FailureItem, columns: &ExtraColumns) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match row {
        FailureItem::Target(row) => {
            dict.set_item("name", whole_text(&row.name_bytes().unwrap_or_default()))?;
            dict.set_item("sequence", row.sequence)?;
            dict.set_item("outcome", &row.outcome)?;
            dict.set_item("kind", row.kind.as_deref().unwrap_or("absent"))?;
            dict.set_item("status", row.status)?;
            dict.set_item("attempts", row.attempts)?;
            dict.set_item("detail", row.detail.as_deref().unwrap_or_default())?;
            dict.set_item("url", row.url_bytes().map(|url| whole_text(&url)))?;
            dict.set_item("columns", kept_dict(py, columns, row.extra_bytes().as_deref())?)?;
        }
        FailureItem::Folder(folder) => {
            dict.set_item("name", format!("{}/", whole_text(&folder.path)))?;
            dict.set_item("sequence", py.None())?;
            dict.set_item("outcome", "failed")?;
            dict.set_item("kind", "listing")?;
            dict.set_item("status", folder.status)?;
            dict.set_item("attempts", folder.attempts)?;
            dict.set_item("detail", &folder.detail)?;
            dict.set_item("url", py.None())?;
            dict.set_item("columns", PyDict::new(py))?;
        }
    }
    Ok(dict)
}
