//! The thread that fetches for a client's streams.

use std::path::{Path, PathBuf};

use fetchmill_engine::{Fetcher as CoreFetcher, StreamOptions, StreamProgress};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::batches::Batches;
use super::iterator::{ReplyStream, Stream};
use crate::errors;

/// The thread that fetches for streams, with its connections. It ends when this object is dropped.
///
/// The constructor starts the thread.
///
/// Args:
///     options: a JSON object with the fields of `fetchmill.StreamOptions`. Missing fields have their defaults.
///
/// Raises:
///     UsageError: an option is invalid.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Fetcher {
    inner: CoreFetcher,
}

#[pymethods]
impl Fetcher {
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let start = || StreamOptions::from_json(options).and_then(CoreFetcher::start);
        let inner = py.detach(start).map_err(|error| errors::of(&error))?;
        Ok(Fetcher { inner })
    }

    #[pyo3(signature = (items, *, ordered, raises, certain, owns, state=None))]
    #[expect(
        clippy::fn_params_excessive_bools,
        clippy::needless_pass_by_value,
        reason = "Python passes them by name"
    )]
    /// Open a stream.
    ///
    /// Without `items`, the caller adds the items with `Stream.add`. With `owns`, the thread ends together with the
    /// stream.
    fn stream(
        slf: &Bound<'_, Self>,
        items: Option<Bound<'_, PyAny>>,
        ordered: bool,
        raises: bool,
        certain: bool,
        owns: bool,
        state: Option<PathBuf>,
    ) -> PyResult<Stream> {
        Self::open(slf, items, (ordered, raises, certain), owns, state.as_deref()).map(Stream::new)
    }

    /// Open a stream that returns replies as rows of record batches.
    fn batches(
        slf: &Bound<'_, Self>,
        items: &Bound<'_, PyAny>,
        batch_size: usize,
        certain: bool,
        owns: bool,
    ) -> PyResult<Batches> {
        let stream = Self::open(slf, Some(items.clone()), (false, false, certain), owns, None)?;
        Ok(Batches::new(stream, batch_size))
    }

    /// Return the maximum number of requests that can currently be in flight.
    #[getter]
    fn concurrency(&self) -> usize {
        self.inner.concurrency()
    }

    /// End the thread. Streams that are still open then raise an InternalError.
    pub(super) fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.end());
    }
}

impl Fetcher {
    fn open(
        slf: &Bound<'_, Self>,
        items: Option<Bound<'_, PyAny>>,
        (ordered, raises, certain): (bool, bool, bool),
        owns: bool,
        state: Option<&Path>,
    ) -> PyResult<ReplyStream> {
        let iterator = items.map(|items| PyIterator::from_object(&items)).transpose()?;
        let start = || state.map(StreamProgress::start).transpose();
        let advance = slf.py().detach(start).map_err(|error| errors::of(&error))?;
        let (inner, owner) = (&slf.get().inner, owns.then(|| slf.clone().into_any().unbind()));
        let iterator = iterator.map(Bound::unbind);
        Ok(ReplyStream::new(inner.channel(certain), iterator, advance, (ordered, raises), owner))
    }
}
