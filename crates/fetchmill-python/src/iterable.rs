//! Items of a Python iterable. The listing's thread reads them in batches, and attaches to the interpreter only once
//! per batch.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fetchmill_engine::CustomRequest;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::list::{ItemBatch, Items};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyString, PyTuple};

use crate::stream::Request;

/// Maximum time to fill a batch. After that, the batch is used even if it is not full.
const BATCH_TIME: Duration = Duration::from_millis(20);

/// Exception that an iterable raised, for the job's report.
pub(crate) type RaisedError = Arc<Mutex<Option<PyErr>>>;

/// Keeps an exception for the report.
pub(crate) fn keep(raised: &RaisedError, error: PyErr) {
    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
}

/// Takes the exception.
pub(crate) fn take(raised: &RaisedError) -> Option<PyErr> {
    raised.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// See the [module documentation](self).
pub(crate) struct IterableSource {
    iterator: Py<PyIterator>,
    raised: RaisedError,
    count: u64,
    /// Exception to raise once the items before it have been processed.
    pending: Option<PyErr>,
}

impl IterableSource {
    pub(crate) fn new(iterator: &Bound<'_, PyIterator>, raised: &RaisedError) -> Self {
        IterableSource {
            iterator: iterator.clone().unbind(),
            raised: Arc::clone(raised),
            count: 0,
            pending: None,
        }
    }

    /// Adds items until the batch is full, its time is up, or the iterable ends. Returns `false` at the end.
    fn fill(&mut self, py: Python<'_>, into: &mut ItemBatch) -> PyResult<bool> {
        let started = Instant::now();
        let mut iterator = self.iterator.bind(py).clone();
        while !into.is_full() {
            let Some(item) = iterator.next() else { return Ok(false) };
            self.count += 1;
            push(&item?, self.count, into)?;
            // In a long batch, do not read the clock for every item.
            let is_looked_at = into.len().is_multiple_of(16) || into.len() < 16;
            if is_looked_at && started.elapsed() >= BATCH_TIME {
                return Ok(true);
            }
        }
        Ok(true)
    }

    fn raise(&self, error: PyErr) -> Error {
        let said = format!("the iterable raised {error}");
        keep(&self.raised, error);
        Error::Listing(said)
    }
}

fn push(item: &Bound<'_, PyAny>, number: u64, into: &mut ItemBatch) -> PyResult<()> {
    if push_asked(item, None, into)? {
        return Ok(());
    }
    if let Ok(pair) = item.cast::<PyTuple>()
        && let Ok((asked, name)) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyString>)>()
        && push_asked(&asked, Some(name.to_str()?), into)?
    {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "item {number} of the iterable must be a URL, a fetchmill.Request, or a pair of one of these and a \
         name, not {}",
        item.get_type().name()?
    )))
}

/// Adds a URL, a request or a missing value. Returns whether the item was of one of these types.
fn push_asked(asked: &Bound<'_, PyAny>, name: Option<&str>, into: &mut ItemBatch) -> PyResult<bool> {
    let name = name.map(str::as_bytes);
    if asked.is_none() {
        // A missing value becomes a failed target. It does not end the job.
        into.push(b"", name, None);
        return Ok(true);
    }
    if let Ok(url) = asked.cast::<PyString>() {
        into.push(url.to_str()?.as_bytes(), name, None);
        return Ok(true);
    }
    let Ok(request) = asked.cast::<Request>().map(Bound::get) else { return Ok(false) };
    // Send the request unchanged, regardless of the job's options for URLs.
    let own = request.call.as_ref().map_or_else(CustomRequest::plain_bytes, |call| call.to_bytes());
    into.push(request.url(asked.py()).to_str()?.as_bytes(), name, Some(&own));
    Ok(true)
}

impl Items for IterableSource {
    fn read(&mut self, into: &mut ItemBatch) -> Result<bool> {
        if let Some(error) = self.pending.take() {
            return Err(self.raise(error));
        }
        match Python::attach(|py| self.fill(py, into)) {
            Ok(goes_on) => Ok(goes_on),
            Err(error) if into.is_empty() => Err(self.raise(error)),
            Err(error) => {
                self.pending = Some(error);
                Ok(true)
            }
        }
    }
}
