//! Small objects of a bucket, for the job directory of a shared job.

use std::path::PathBuf;
use std::time::Duration;

use fetchmill_engine::{Bucket as CoreBucket, StreamOptions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// Names with size, ETag and modification time, the token of the next page, and the time on the store's clock.
type PyPage = (Vec<(String, u64, String, u64)>, Option<String>, u64);

/// Small objects below a prefix of a bucket. Many threads may call the methods.
///
/// Each method waits up to `seconds` without the GIL, and repeats failed requests meanwhile. Times are seconds since
/// 1970 on the store's clock.
///
/// The constructor finds credentials. It does not send a request.
///
/// Args:
///     dest: bucket and prefix, `s3://BUCKET/PREFIX/`.
///     options: a JSON object with the fields of `fetchmill.StreamOptions` that define how to reach the store.
///
/// Raises:
///     UsageError: an option cannot be used, or (any method) the store refuses the request.
///     TemporaryError: (any method) the store does not answer in time.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Bucket {
    inner: CoreBucket,
}

#[pymethods]
impl Bucket {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn new(py: Python<'_>, dest: PathBuf, options: &str) -> PyResult<Self> {
        let open = || CoreBucket::open(&dest, &StreamOptions::from_json(options)?);
        let inner = py.detach(open).map_err(|error| errors::of(&error))?;
        Ok(Bucket { inner })
    }

    /// Returns the bucket and prefix in the form that users write.
    fn text(&self) -> String {
        self.inner.text()
    }

    /// Returns up to 8 MiB of an object, starting at an offset, and its modification time.
    ///
    /// None if the object does not exist. The time is 0 if the store does not send it. At the end of the object, the
    /// bytes are empty.
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        start: u64,
        seconds: f64,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, u64)>> {
        let found = py.detach(|| self.inner.get(name, start, patience(seconds)));
        let found = found.map_err(|error| errors::of(&error))?;
        Ok(found.map(|object| (PyBytes::new(py, &object.body), object.modified)))
    }

    /// Writes an object and replaces any existing one with the same name. Returns the time.
    fn put(&self, py: Python<'_>, name: &str, body: &[u8], seconds: f64) -> PyResult<u64> {
        let put = py.detach(|| self.inner.put(name, body, patience(seconds)));
        put.map_err(|error| errors::of(&error))
    }

    /// Sends one request that creates an object unless the name exists. Returns whether it was created.
    ///
    /// None if the result is unknown. Read the object to find out.
    fn create(&self, py: Python<'_>, name: &str, body: &[u8], seconds: f64) -> PyResult<Option<bool>> {
        let made = py.detach(|| self.inner.create(name, body, patience(seconds)));
        made.map_err(|error| errors::of(&error))
    }

    /// Returns a page of names that start with `begin`, the token of the next page if any, and the time.
    ///
    /// Each name has its size, ETag and modification time.
    fn list(&self, py: Python<'_>, begin: &str, token: Option<&str>, seconds: f64) -> PyResult<PyPage> {
        let page = py.detach(|| self.inner.list(begin, token, patience(seconds)));
        let page = page.map_err(|error| errors::of(&error))?;
        let keys = page.keys.into_iter().map(|key| (key.name, key.size, key.etag, key.modified));
        Ok((keys.collect(), page.token, page.sent))
    }

    /// Deletes an object if it exists.
    fn delete(&self, py: Python<'_>, name: &str, seconds: f64) -> PyResult<()> {
        py.detach(|| self.inner.delete(name, patience(seconds))).map_err(|error| errors::of(&error))
    }

    /// Uploads a file under a new name, in parts if it is large.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn put_file(&self, py: Python<'_>, name: &str, path: PathBuf, seconds: f64) -> PyResult<()> {
        py.detach(|| self.inner.put_file(name, &path, patience(seconds))).map_err(|error| errors::of(&error))
    }

    /// Aborts the multipart uploads of all names that start with `begin`.
    fn abort_uploads(&self, py: Python<'_>, begin: &str, seconds: f64) -> PyResult<()> {
        py.detach(|| self.inner.abort_uploads(begin, patience(seconds))).map_err(|error| errors::of(&error))
    }
}

fn patience(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
