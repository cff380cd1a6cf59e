//! Replies as record batches: no Python object is made for a reply.

use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array as _, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use fetchmill_core::engine::{ReplyRows, reply_schema};
use fetchmill_core::limits::MIB;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString};
use pyo3::{PyTraverseError, PyVisit};

use super::feed::{Asked, url_text};
use super::iterator::{More, Stream};
use super::request::Request;

/// Bytes of a batch, unless one reply has more.
const BATCH_BYTES: usize = 16 * MIB;

/// Record batches of replies: an iterator of them, and a stream of Arrow's C data interface itself.
#[pyclass(module = "fetchmill")]
pub(crate) struct Batches {
    stream: Stream,
    rows: ReplyRows,
    batch_size: usize,
}

fn broken(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

impl Batches {
    pub(super) fn new(stream: Stream, batch_size: usize) -> Self {
        Batches { stream, rows: ReplyRows::default(), batch_size }
    }

    /// The next batch: as many rows as it may have, fewer at the end.
    fn read(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        while self.rows.len() < self.batch_size && self.rows.bytes() < BATCH_BYTES {
            self.stream.pull_ahead(py)?;
            if let Some((asked, position)) = self.stream.take_record()? {
                self.push(py, &asked, position)?;
                continue;
            }
            match self.stream.advance(py)? {
                More::Some => {}
                More::Later => self.stream.wait(py)?,
                More::End => break,
            }
        }
        if self.rows.is_empty() {
            self.stream.close(py)?;
            return Ok(None);
        }
        self.rows.finish().map(Some).map_err(|error| broken(&error))
    }

    fn push(&mut self, py: Python<'_>, asked: &Asked, position: usize) -> PyResult<()> {
        let object = asked.object.bind(py);
        let replies = self.stream.replies();
        let Some(record) = replies.get(position) else { return Ok(()) };
        if let Ok(request) = object.cast::<Request>() {
            let request = request.get();
            let tag = request.tag.as_ref().map(|tag| tag.bind(py).str()).transpose()?;
            let tag = tag.as_ref().map(|tag| tag.to_str()).transpose()?;
            self.rows.push(asked.index, url_text(request.url(py)), tag, replies, record);
        } else {
            let url = object.cast::<PyString>()?;
            self.rows.push(asked.index, url_text(url), None, replies, record);
        }
        Ok(())
    }

    fn read_or_close(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        // What went wrong first is told.
        self.read(py).inspect_err(|_| drop(self.stream.close(py)))
    }
}

#[pymethods]
impl Batches {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.stream.visit(&visit)
    }

    fn __clear__(&mut self) {
        self.stream.clear_objects();
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Batch>> {
        Ok(self.read_or_close(py)?.map(|batch| Batch { batch }))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // There is one schema; a consumer casts what it wants otherwise.
        let _ = requested_schema;
        let reader = Reader { batches: slf.clone().unbind() };
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(slf.py(), stream, c"arrow_array_stream")
    }

    /// Gives up what is in flight.
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        self.stream.close(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &mut self,
        py: Python<'_>,
        _class: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.stream.close(py)
    }
}

/// The batches for a consumer that may hold the GIL or not.
struct Reader {
    batches: Py<Batches>,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Python::attach(|py| {
            let mut batches = self.batches.bind(py).try_borrow_mut().map_err(PyErr::from);
            let read = batches
                .as_mut()
                .map_err(|error| error.clone_ref(py))
                .and_then(|batches| batches.read_or_close(py));
            read.map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
        })
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        reply_schema()
    }
}

/// One record batch, for whatever reads Arrow's C data interface.
#[pyclass(frozen, module = "fetchmill")]
pub(crate) struct Batch {
    batch: RecordBatch,
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema =
            FFI_ArrowSchema::try_from(self.batch.schema_ref().as_ref()).map_err(|error| broken(&error))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let rows = StructArray::from(self.batch.clone());
        let (array, schema) = to_ffi(&rows.to_data()).map_err(|error| broken(&error))?;
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }
}
