//! The file server.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use fetchmill_server::{Options, Stats, synthetic_body as body};
use fetchmill_store::reader::Destination;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::destination_content::DestinationContent;
use crate::errors;

/// A file server on its own threads.
///
/// The constructor binds the address and starts to serve.
///
/// Args:
///     options: a JSON object from `fetchmill._server`.
///     dest: the destination of a job, which is served instead of the options' content.
///     state: the folder of the journal, if the job was started with one.
///
/// Raises:
///     UsageError: an option is invalid, the address is taken, or the job does not store objects.
///     JournalError: the journal cannot be read.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Server {
    running: Mutex<RunningServer>,
    address: String,
    ca_pem: Option<String>,
}

enum RunningServer {
    Yes(fetchmill_server::Server),
    /// Final counters.
    No(Box<Stats>),
}

#[pymethods]
impl Server {
    /// `dest` is the destination of a job, which is served instead of the options' content.
    #[new]
    #[pyo3(signature = (options, dest=None, state=None))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
    fn new(py: Python<'_>, options: &str, dest: Option<PathBuf>, state: Option<PathBuf>) -> PyResult<Self> {
        let options: Options =
            serde_json::from_str(options).map_err(|error| errors::usage(&format!("the options: {error}")))?;
        let open = || dest.map(|dest| Destination::open(&dest, state.as_deref())).transpose();
        let destination = py.detach(open).map_err(|error| errors::of(&error))?;
        let start = || match destination.map(DestinationContent::new) {
            Some(content) => fetchmill_server::Server::start_with(Arc::new(content), &options),
            None => fetchmill_server::Server::start(&options),
        };
        let server = py.detach(start).map_err(|error| errors::usage(&error.to_string()))?;
        let address = server.address().to_string();
        let ca_pem = server.ca_pem().map(str::to_owned);
        Ok(Server { running: Mutex::new(RunningServer::Yes(server)), address, ca_pem })
    }

    /// Host and port, such as `127.0.0.1:8080`.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// With TLS, the certificate of the authority that clients must trust, as PEM.
    #[getter]
    fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Return the numbers of requests and replies by kind, as `GET /stats` does.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = match &*self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            RunningServer::Yes(server) => server.stats(),
            RunningServer::No(stats) => (**stats).clone(),
        };
        let json = serde_json::to_string(&stats).map_err(|error| errors::usage(&error.to_string()))?;
        py.import("json")?.call_method1("loads", (json,))
    }

    /// Close all connections and end the threads. A second call does nothing.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| {
            let mut running = self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let RunningServer::Yes(server) = &*running {
                let stats = Box::new(server.stats());
                if let RunningServer::Yes(server) = std::mem::replace(&mut *running, RunningServer::No(stats))
                {
                    server.stop();
                }
            }
        });
    }
}

/// Return the body that a synthetic server sends for a name.
///
/// Args:
///     name: the name, as listed.
///     size: the size of the body in bytes.
#[pyfunction]
pub(crate) fn synthetic_body<'py>(py: Python<'py>, name: &str, size: usize) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &body(name, size))
}
