//! Small objects in a bucket, for the job directory of a shared job.

use std::path::PathBuf;
use std::time::Duration;

use fetchmill_engine::{Bucket as CoreBucket, StreamOptions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// Names with size, ETag and modification time; the token of the next page; and the time on the store's clock.
type PyPage = (Vec<(String, u64, String, u64)>, Option<String>, u64);

/// Small objects below a prefix of a bucket. Several threads can call the methods at the same time.
///
/// Each method waits for up to `seconds` without the GIL, and retries failed requests during that time. Times are
/// seconds since 1970 on the store's clock.
///
/// The constructor looks for credentials but sends no request.
///
/// Args:
///     dest: bucket and prefix, as `s3://BUCKET/PREFIX/`.
///     options: a JSON object with the fields of `fetchmill.StreamOptions` that define how to reach the store.
///
/// Raises:
///     UsageError: an option is invalid. Methods also raise this error if the store refuses a request.
///     TemporaryError: raised by methods if the store does not answer in time.
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

    /// Return the bucket and prefix in the form that users write.
    fn text(&self) -> String {
        self.inner.text()
    }

    /// Return up to 8 MiB of an object, starting at offset `start`, and the object's modification time.
    ///
    /// Return None if the object does not exist. The time is 0 if the store does not send one. If `start` is past the
    /// end of the object, the bytes are empty.
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

    /// Write an object, replacing any existing one with the same name. Return the time.
    fn put(&self, py: Python<'_>, name: &str, body: &[u8], seconds: f64) -> PyResult<u64> {
        let put = py.detach(|| self.inner.put(name, body, patience(seconds)));
        put.map_err(|error| errors::of(&error))
    }

    /// Create an object unless the name exists, with a single request. Return whether it was created.
    ///
    /// Return None if the result is unknown. In that case, read the object to find out.
    fn create(&self, py: Python<'_>, name: &str, body: &[u8], seconds: f64) -> PyResult<Option<bool>> {
        let made = py.detach(|| self.inner.create(name, body, patience(seconds)));
        made.map_err(|error| errors::of(&error))
    }

    /// Return a page of names that start with `begin`, the token of the next page (if any), and the time.
    ///
    /// Each name comes with its size, ETag and modification time.
    fn list(&self, py: Python<'_>, begin: &str, token: Option<&str>, seconds: f64) -> PyResult<PyPage> {
        let page = py.detach(|| self.inner.list(begin, token, patience(seconds)));
        let page = page.map_err(|error| errors::of(&error))?;
        let keys = page.keys.into_iter().map(|key| (key.name, key.size, key.etag, key.modified));
        Ok((keys.collect(), page.token, page.sent))
    }

    /// Delete an object if it exists.
    fn delete(&self, py: Python<'_>, name: &str, seconds: f64) -> PyResult<()> {
        py.detach(|| self.inner.delete(name, patience(seconds))).map_err(|error| errors::of(&error))
    }

    /// Upload a file under a new name. A large file is uploaded in parts.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn put_file(&self, py: Python<'_>, name: &str, path: PathBuf, seconds: f64) -> PyResult<()> {
        py.detach(|| self.inner.put_file(name, &path, patience(seconds))).map_err(|error| errors::of(&error))
    }

    /// Abort all multipart uploads whose names start with `begin`.
    fn abort_uploads(&self, py: Python<'_>, begin: &str, seconds: f64) -> PyResult<()> {
        py.detach(|| self.inner.abort_uploads(begin, patience(seconds))).map_err(|error| errors::of(&error))
    }
}

fn patience(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
