//! An S3 store for tests and measurements.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fetchmill_server::s3::{S3 as Store, S3Options, S3Stats};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::de::DeserializeOwned;

use crate::errors;

/// An S3 store on loopback that runs on its own threads. After `stop`, most calls raise a UsageError.
///
/// The constructor binds the port and starts to serve. Initially, the store has no buckets and no credentials.
///
/// Args:
///     options: a JSON object with port, threads, region and virtual_host_suffix.
///
/// Raises:
///     UsageError: an option is invalid, or the port is taken.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct S3 {
    running: Mutex<RunningStore>,
    /// Host and port, such as `127.0.0.1:8080`.
    #[pyo3(get)]
    address: String,
}

enum RunningStore {
    Yes(Store),
    /// Final counters.
    No(S3Stats),
}

#[pymethods]
impl S3 {
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let options: S3Options = read(options)?;
        let store = py.detach(|| Store::start(&options)).map_err(|error| refused(&error))?;
        Ok(S3 { address: store.address().to_string(), running: Mutex::new(RunningStore::Yes(store)) })
    }

    /// Add a bucket. `options` is a JSON object with name, region, public, synthetic, size and key_prefix.
    fn add_bucket(&self, py: Python<'_>, options: &str) -> PyResult<()> {
        let options = read(options)?;
        self.with(py, |store| store.add_bucket(options))
    }

    /// Store an object. `modified` is its modification time in milliseconds since 1970.
    #[pyo3(signature = (bucket, key, body, modified=None))]
    fn put(
        &self,
        py: Python<'_>,
        bucket: &str,
        key: &str,
        body: &[u8],
        modified: Option<i64>,
    ) -> PyResult<()> {
        let body = Bytes::copy_from_slice(body);
        self.with(py, |store| store.put(bucket, key, body, modified))
    }

    /// Return the objects that were stored, sorted by key.
    fn objects<'py>(&self, py: Python<'py>, bucket: &str) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (key, body) in self.with(py, |store| store.objects(bucket))? {
            found.set_item(key, PyBytes::new(py, &body))?;
        }
        Ok(found)
    }

    /// Add credentials. `options` is a JSON object with access_key, secret_key, token and expires_in.
    fn set_credentials(&self, py: Python<'_>, options: &str) -> PyResult<()> {
        let options = read(options)?;
        self.with(py, |store| store.set_credentials(options))
    }

    /// Change the behaviour. `values` is a JSON object with fields of `S3Behaviour`, except `changed`.
    fn change(&self, py: Python<'_>, values: &str) -> PyResult<()> {
        let values = read(values)?;
        self.with(py, |store| store.change(&values))
    }

    /// Set the bodies that GET requests return instead of the listed ones.
    fn set_changed(&self, py: Python<'_>, changed: HashMap<String, Vec<u8>>) -> PyResult<()> {
        let changed = changed.into_iter().map(|(key, body)| (key, Bytes::from(body))).collect();
        self.with(py, |store| store.set_changed(changed))
    }

    /// Return the current counters, or the final ones once the store has stopped.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = match &*self.running() {
            RunningStore::Yes(store) => store.stats(),
            RunningStore::No(stats) => *stats,
        };
        let json = serde_json::to_string(&stats).map_err(|error| errors::usage(&error.to_string()))?;
        py.import("json")?.call_method1("loads", (json,))
    }

    /// Reset the counters to 0.
    fn reset_stats(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |store| {
            store.reset_stats();
            Ok(())
        })
    }

    /// Close all connections and end the threads. A second call does nothing.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| {
            let mut running = self.running();
            if let RunningStore::Yes(store) = &*running {
                let stats = store.stats();
                if let RunningStore::Yes(store) = std::mem::replace(&mut *running, RunningStore::No(stats)) {
                    store.stop();
                }
            }
        });
    }
}

impl S3 {
    /// Ignores poisoning, because a thread that panicked has left the value unchanged.
    fn running(&self) -> MutexGuard<'_, RunningStore> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with the store if it is running.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl Send + FnOnce(&Store) -> Result<T, fetchmill_server::Error>,
    ) -> PyResult<T> {
        let done = py.detach(|| match &*self.running() {
            RunningStore::Yes(store) => Some(work(store)),
            RunningStore::No(_) => None,
        });
        done.ok_or_else(|| errors::usage("the store is stopped"))?.map_err(|error| refused(&error))
    }
}

fn read<T: DeserializeOwned>(json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| errors::usage(&format!("the options: {error}")))
}

fn refused(error: &fetchmill_server::Error) -> PyErr {
    errors::usage(&error.to_string())
}
