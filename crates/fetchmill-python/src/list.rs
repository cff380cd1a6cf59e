//! Reads lists without sending requests: their targets for `--dry-run`, and their files for shared jobs.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Mutex;

use fetchmill_engine::{ListFile, SourceOptions, open_list};
use fetchmill_model::error::Error;
use fetchmill_model::source::list::{ListReader, ListSource, ListStep};
use fetchmill_model::target::entry::{ListEntry, Naming};
use fetchmill_model::target::stored_name::StoredNames;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::options;

/// A URL and a name. The URL is `None` for a line without one.
type TargetTuple = (Option<String>, String);

/// Targets of a list, read without sending requests.
///
/// The constructor opens the list.
///
/// Args:
///     options: as for `Job`.
///
/// Raises:
///     UsageError: the list cannot be opened, or an option is invalid.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct ListTargets {
    reading: Mutex<OpenList>,
}

struct OpenList {
    reader: ListReader,
    naming: Naming,
    names: StoredNames,
    count: u64,
}

#[pymethods]
impl ListTargets {
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let request = options::parse(options)?;
        let SourceOptions::List(path) = &request.source else {
            return Err(errors::usage(
                "--dry-run works only with lists, because the names on a server are unknown without requests",
            ));
        };
        let (format, list) = (request.list_format, &request.list);
        let open = || {
            let mut reader = open_list(path.as_deref(), format, list)?;
            if let Some(count) = list.sample {
                let found = open_list(path.as_deref(), format, list)?.find_sample(count, || true)?;
                if let Some(sample) = found {
                    reader.set_sample(sample);
                }
            }
            Ok(reader)
        };
        let reader = py.detach(open).map_err(|error| errors::of(&error))?;
        let naming = request.naming(request.listing);
        let names = request.stored_names(naming);
        Ok(ListTargets { reading: Mutex::new(OpenList { reader, naming, names, count: 0 }) })
    }

    /// Return the next targets, and the number of targets left out.
    ///
    /// Return None at the end. Each target is a pair of a URL and a name. The URL is None for a line without one.
    ///
    /// Raises:
    ///     ListingError: the list cannot be read.
    fn next_page(&self, py: Python<'_>) -> PyResult<Option<(Vec<TargetTuple>, u64)>> {
        let page = py.detach(|| {
            let mut reading = self.reading.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            reading.next_page()
        });
        page.map_err(|error| errors::of(&error))
    }
}

impl OpenList {
    fn next_page(&mut self) -> fetchmill_model::error::Result<Option<(Vec<TargetTuple>, u64)>> {
        let page = match self.reader.next_page()? {
            ListStep::End => return Ok(None),
            ListStep::NothingNow => return Ok(Some((Vec::new(), 0))),
            ListStep::Page(page) => page,
        };
        let mut name = Vec::new();
        let rows = page.names.iter().map(|entry| {
            self.naming.write_name(self.count, entry, &mut name);
            self.count += 1;
            let url = ListEntry::read(entry).url;
            let url = (!url.is_empty()).then(|| String::from_utf8_lossy(url).into_owned());
            (url, String::from_utf8_lossy(&self.names.stored(entry, &name, None)).into_owned())
        });
        Ok(Some((rows.collect(), page.skipped.total())))
    }
}

/// A path, the name of its format, whether the file can be divided at line endings, its number of Parquet rows, and its
/// inventory.
type FileTuple = (PathBuf, &'static str, bool, Option<u64>, Option<(String, String)>);

/// Return the files of a list, sorted by name: a single file, the files in a folder, or the matches of a glob.
///
/// Args:
///     options: as for `Job`.
///
/// Returns:
///     For each file: its path, the name of its format, whether it can be divided at line endings, its number of
///         Parquet rows, and its inventory. For an inventory, the files are its data files. The last item then holds
///         the `manifest.json` without the data files, and its MD5.
///
/// Raises:
///     UsageError: a file cannot be opened or is a pipe, the files have different formats, or an option is invalid.
#[pyfunction]
pub(crate) fn list_files(py: Python<'_>, options: &str) -> PyResult<Vec<FileTuple>> {
    let request = options::parse(options)?;
    request.check().map_err(|error| errors::of(&error))?;
    let SourceOptions::List(Some(path)) = &request.source else {
        return Err(errors::usage("standard input, programs and servers have no list files"));
    };
    let find = || {
        let found = fetchmill_engine::list_files(path, request.list_format, &request.list)?;
        fetchmill_engine::check_list(path, request.list_format, &request.list)?;
        Ok(found)
    };
    let files = py.detach(find).map_err(|error| errors::of(&error))?;
    let tuple = |file: ListFile| (file.path, file.format.name(), file.has_lines, file.rows, file.inventory);
    Ok(files.into_iter().map(tuple).collect())
}

/// Number of bytes of a list that are returned per call.
const READ_BYTES: usize = 256 << 10;

/// Decompressed content of a list file. The first bytes of the file determine the compression.
///
/// The constructor opens the file.
///
/// Args:
///     path: the file.
///
/// Raises:
///     UsageError: the file cannot be opened.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct ListBytes {
    label: String,
    input: Mutex<Box<dyn Read + Send>>,
}

#[pymethods]
impl ListBytes {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn new(path: PathBuf) -> PyResult<Self> {
        let input = fetchmill_engine::open_decoded(&path).map_err(|error| errors::of(&error))?;
        Ok(ListBytes { label: path.display().to_string(), input: Mutex::new(input) })
    }

    /// Return the next bytes, or empty bytes at the end.
    ///
    /// Raises:
    ///     ListingError: the file is damaged or cannot be read.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let read = py.detach(|| {
            let mut input = self.input.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let mut bytes = Vec::new();
            input.by_ref().take(READ_BYTES as u64).read_to_end(&mut bytes).map(|_| bytes)
        });
        let bytes = read.map_err(|error| {
            errors::of(&Error::Listing(format!("cannot read the list {}: {error}", self.label)))
        })?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// Write each row of some Parquet lists to one of several files, which all have the same columns.
///
/// Args:
///     lists: for each list, its path and the path of a file that contains one byte per row. The row goes to part
///         `byte % len(parts)`.
///     parts: paths of the parts.
///
/// Returns:
///     The number of rows in each part.
///
/// Raises:
///     UsageError: a list does not have the same columns as the first one.
///     ListingError: a list cannot be read.
///     StorageError: a part cannot be written.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
pub(crate) fn split_parquet(
    py: Python<'_>,
    lists: Vec<(PathBuf, PathBuf)>,
    parts: Vec<PathBuf>,
) -> PyResult<Vec<u64>> {
    py.detach(|| fetchmill_engine::split_parquet(&lists, &parts)).map_err(|error| errors::of(&error))
}
