//! Replies as record batches, which need no Python object per reply.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array as _, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use fetchmill_engine::{ReplyRows, reply_schema};
use fetchmill_model::limits::MIB;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString};
use pyo3::{PyTraverseError, PyVisit};

use super::input::{PendingRequest, url_text};
use super::iterator::{Closable, Close, MoreBatches, ReplyStream};
use super::request::Request;

/// Maximum size of a batch in bytes. A batch with a single reply can be larger.
const BATCH_BYTES: usize = 16 * MIB;

/// Record batches of replies. This is an iterator, and also a stream of Arrow's C data interface.
#[pyclass(frozen, module = "fetchmill")]
pub(crate) struct Batches {
    inner: Closable<BatchStream>,
}

struct BatchStream {
    stream: ReplyStream,
    rows: ReplyRows,
    batch_size: usize,
}

fn broken(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

impl Batches {
    pub(super) fn new(stream: ReplyStream, batch_size: usize) -> Self {
        let is_closing = Arc::clone(stream.is_closing());
        let inner = BatchStream { stream, rows: ReplyRows::default(), batch_size };
        Batches { inner: Closable::new(inner, is_closing) }
    }
}

impl Close for BatchStream {
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        self.stream.close(py)
    }
}

impl BatchStream {
    /// Returns the next batch. Only the last batch has fewer rows than requested.
    fn read(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        while !self.stream.is_closing().load(Ordering::SeqCst)
            && self.rows.len() < self.batch_size
            && self.rows.bytes() < BATCH_BYTES
        {
            self.stream.pull_ahead(py)?;
            if let Some((asked, position)) = self.stream.take_record()? {
                self.push(py, &asked, position)?;
                continue;
            }
            match self.stream.advance(py)? {
                MoreBatches::Some => {}
                MoreBatches::Later => self.stream.wait(py)?,
                MoreBatches::End => break,
            }
        }
        if self.rows.is_empty() {
            self.stream.close(py)?;
            return Ok(None);
        }
        self.rows.finish().map(Some).map_err(|error| broken(&error))
    }

    fn push(&mut self, py: Python<'_>, asked: &PendingRequest, position: usize) -> PyResult<()> {
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
        // The first error is the one to report.
        self.read(py).inspect_err(|_| drop(self.stream.close(py)))
    }
}

#[pymethods]
impl Batches {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.inner.visit(|batches| batches.stream.visit(&visit))
    }

    fn __clear__(&self) {
        self.inner.clear(|batches| batches.stream.clear_objects());
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let batch = self.inner.using(py, |batches| batches.read_or_close(py))?;
        Ok(batch.map(|batch| ArrowBatch { batch }))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Only one schema is available. A consumer that wants a different one must cast.
        let _ = requested_schema;
        let reader = BatchReader { batches: slf.clone().unbind() };
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(slf.py(), stream, c"arrow_array_stream")
    }

    /// Abandon the requests in flight. Any thread can call this.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.close(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _class: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.inner.close(py)
    }
}

/// Batches for a consumer that may or may not hold the GIL.
struct BatchReader {
    batches: Py<Batches>,
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Python::attach(|py| {
            let read = self.batches.get().inner.using(py, |batches| batches.read_or_close(py));
            read.map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
        })
    }
}

impl RecordBatchReader for BatchReader {
    fn schema(&self) -> SchemaRef {
        reply_schema()
    }
}

/// A record batch for consumers of Arrow's C data interface.
#[pyclass(frozen, name = "Batch", module = "fetchmill")]
pub(crate) struct ArrowBatch {
    batch: RecordBatch,
}

#[pymethods]
impl ArrowBatch {
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
