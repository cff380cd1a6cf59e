//! Stored objects of a job, read in place.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use fetchmill_model::error::Error;
use fetchmill_model::target::extra_columns::{ColumnType, ExtraColumns, TypedValue, extra_values};
use fetchmill_store::reader::{
    ArrowBatches, Destination, FoundObject, ListedName, Objects as Iter, Position,
};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyString, PyTuple};

use crate::errors;

/// Maximum number of objects in a batch.
const BATCH_OBJECTS: usize = 1000;
/// Maximum total size of the bodies in a batch. A batch with a single body can be larger.
const BATCH_BYTES: usize = 1 << 20;

/// Stored objects of a job, read in place. Several threads can call the methods at the same time.
///
/// An object is a tuple: name, body, status, content_type, etag, last_modified (seconds since 1970), fetched_at
/// (microseconds), sequence, crc32c, url, columns, content_encoding. The name is a str with surrogates for bytes that
/// are not UTF-8. `columns` is a dict that maps the names of the kept columns to their values. Unknown values are None.
///
/// The constructor opens the journal and the files that it names.
///
/// Raises:
///     UsageError: the job does not exist, or its format does not store objects.
///     JournalError: the journal cannot be read.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Objects {
    /// `None` after closing.
    destination: Mutex<Option<Arc<Destination>>>,
}

impl Objects {
    fn destination(&self) -> PyResult<Arc<Destination>> {
        let open = self.destination.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| errors::usage("the objects are closed; open the destination again"))
    }
}

#[pymethods]
impl Objects {
    #[new]
    #[pyo3(signature = (dest, state))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn new(py: Python<'_>, dest: PathBuf, state: Option<PathBuf>) -> PyResult<Self> {
        let open = || Destination::open(&dest, state.as_deref());
        let destination = py.detach(open).map_err(|error| errors::of(&error))?;
        Ok(Objects { destination: Mutex::new(Some(Arc::new(destination))) })
    }

    /// Return the format in which the objects are stored.
    fn format(&self) -> PyResult<&'static str> {
        Ok(self.destination()?.format().name())
    }

    /// Close the files. After this, every other method raises a UsageError.
    fn close(&self) {
        self.destination.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Return the object with this name, or None if it does not exist.
    ///
    /// Raises:
    ///     JournalError: a manifest, the shard or the object is damaged.
    fn get<'py>(&self, py: Python<'py>, name: &[u8]) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let destination = self.destination()?;
        let found = py.detach(|| destination.find(name)).map_err(|error| errors::of(&error))?;
        found.map(|found| object_tuple(py, &found, destination.columns())).transpose()
    }

    /// Return the size in bytes of the object with this name, or None if it does not exist.
    ///
    /// Only the manifests are read.
    fn length(&self, py: Python<'_>, name: Vec<u8>) -> PyResult<Option<u64>> {
        let destination = self.destination()?;
        py.detach(move || destination.length_of(&name)).map_err(|error| errors::of(&error))
    }

    /// Return the number of names.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let destination = self.destination()?;
        py.detach(|| destination.count()).map_err(|error| errors::of(&error))
    }

    /// Return up to `max` names, starting at a position, and the next position, if any.
    ///
    /// With `with_lengths`, each name is a tuple of name and length.
    #[pyo3(signature = (position, max, with_lengths))]
    fn names<'py>(
        &self,
        py: Python<'py>,
        position: Option<&str>,
        max: usize,
        with_lengths: bool,
    ) -> PyResult<(Bound<'py, PyList>, Option<String>)> {
        let destination = self.destination()?;
        let from = position
            .map(|text| Position::from_text(text).ok_or_else(|| errors::usage("no such position")))
            .transpose()?;
        let read = || destination.names(from.as_ref(), max, with_lengths);
        let page = py.detach(read).map_err(|error| errors::of(&error))?;
        let list = PyList::empty(py);
        for listed in &page.names {
            list.append(if with_lengths {
                listed_tuple(py, listed)?.into_any()
            } else {
                name_of(py, &listed.name)?
            })?;
        }
        Ok((list, page.next.as_ref().map(Position::to_text)))
    }

    /// Return all objects, in storage order.
    fn batches(&self) -> PyResult<ObjectBatches> {
        let destination = self.destination()?;
        let columns = destination.columns().clone();
        Ok(ObjectBatches { objects: Mutex::new(Iter::new(destination, None)), columns })
    }

    /// Return all objects, in storage order, as an `arrow_array_stream` capsule.
    fn arrow_stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = ArrowBatches::new(Iter::new(self.destination()?, None));
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// Iterates over the objects in batches.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct ObjectBatches {
    objects: Mutex<Iter>,
    columns: ExtraColumns,
}

impl ObjectBatches {
    fn read(&self) -> Result<Vec<FoundObject>, Error> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_OBJECTS && bytes < BATCH_BYTES {
            let Some(found) = objects.next().transpose()? else { break };
            bytes += found.object.body.len();
            batch.push(found);
        }
        Ok(batch)
    }
}

#[pymethods]
impl ObjectBatches {
    /// Return the next objects. The list is empty at the end.
    ///
    /// Raises:
    ///     JournalError: a manifest, a shard or an object is damaged.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let batch = py.detach(|| self.read()).map_err(|error| errors::of(&error))?;
        let list = PyList::empty(py);
        for found in &batch {
            list.append(object_tuple(py, found, &self.columns)?)?;
        }
        Ok(list)
    }
}

/// Returns a name as a string. Bytes that are not UTF-8 become surrogates, as in Python file names.
pub(crate) fn name_of<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(name) = str::from_utf8(name) {
        Ok(PyString::new(py, name).into_any())
    } else {
        PyBytes::new(py, name).call_method1("decode", ("utf-8", "surrogateescape"))
    }
}

fn listed_tuple<'py>(py: Python<'py>, listed: &ListedName) -> PyResult<Bound<'py, PyTuple>> {
    (name_of(py, &listed.name)?, listed.length).into_pyobject(py)
}

/// Returns the fields of `fetchmill.Object`, in order. Times are numbers.
fn object_tuple<'py>(
    py: Python<'py>,
    found: &FoundObject,
    columns: &ExtraColumns,
) -> PyResult<Bound<'py, PyTuple>> {
    let object = &found.object;
    let text = |text: &Option<Vec<u8>>| text.as_deref().map(|text| name_of(py, text)).transpose();
    (
        name_of(py, &object.name)?,
        PyBytes::new(py, &object.body),
        (object.status != 0).then_some(object.status),
        text(&object.content_type)?,
        text(&object.etag)?,
        object.last_modified,
        (object.fetched_at != 0).then_some(object.fetched_at),
        found.sequence,
        found.crc32c,
        text(&object.url)?,
        kept_dict(py, columns, object.kept.as_deref())?,
        text(&object.content_encoding)?,
    )
        .into_pyobject(py)
}

/// Returns the typed values of the kept columns by name. Bytes that are not UTF-8 are replaced.
pub(crate) fn kept_dict<'py>(
    py: Python<'py>,
    columns: &ExtraColumns,
    kept: Option<&[u8]>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let mut values = extra_values(kept.unwrap_or_default());
    for (name, kind) in columns.typed() {
        let value = values.next().flatten().map(|text| value_of(py, kind, text)).transpose()?;
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

/// Converts a kept value to its type. Text that cannot be converted stays text, and its target has failed for this
/// reason.
fn value_of<'py>(py: Python<'py>, kind: ColumnType, text: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match kind.read(text) {
        Some(TypedValue::Int64(number)) => number.into_bound_py_any(py),
        Some(TypedValue::Float64(number)) => number.into_bound_py_any(py),
        Some(TypedValue::Bool(value)) => value.into_bound_py_any(py),
        Some(TypedValue::String(_)) | None => String::from_utf8_lossy(text).into_bound_py_any(py),
    }
}

/// Convert a kept value to the type of its column. Text that cannot be converted stays text.
#[pyfunction]
pub(crate) fn column_value<'py>(py: Python<'py>, text: &str, kind: &str) -> PyResult<Bound<'py, PyAny>> {
    value_of(py, ColumnType::parse(kind).unwrap_or_default(), text.as_bytes())
}
