//! The test world.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fetchmill_server::world::{Behaviour, WorldOptions, WorldStats};
use pyo3::prelude::*;

use crate::errors;

/// Test hosts with every behaviour, and their name server. They run on loopback, on their own threads.
///
/// The constructor binds all addresses and starts to serve.
///
/// Args:
///     options: a JSON object with the fields of `fetchmill.world.WorldOptions`.
///
/// Raises:
///     UsageError: an option is invalid, or an address is taken.
#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct World {
    running: Mutex<RunningWorld>,
    /// Host and port of the name server, such as `127.0.0.1:5353`.
    #[pyo3(get)]
    dns: String,
    /// HTTP port, which is the same at all addresses.
    #[pyo3(get)]
    http_port: u16,
    /// HTTPS port, which is the same at all addresses.
    #[pyo3(get)]
    https_port: u16,
    /// Certificate of the authority that clients must trust.
    #[pyo3(get)]
    ca_pem: String,
}

enum RunningWorld {
    Yes(fetchmill_server::world::World),
    /// Final counters.
    No(Box<WorldStats>),
}

#[pymethods]
impl World {
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let options: WorldOptions =
            serde_json::from_str(options).map_err(|error| errors::usage(&format!("the options: {error}")))?;
        let start = || fetchmill_server::world::World::start(&options);
        let world = py.detach(start).map_err(|error| errors::usage(&error.to_string()))?;
        Ok(World {
            dns: world.dns().to_string(),
            http_port: world.http_port(),
            https_port: world.https_port(),
            ca_pem: world.ca_pem().to_owned(),
            running: Mutex::new(RunningWorld::Yes(world)),
        })
    }

    /// Return the names of all behaviours.
    #[staticmethod]
    fn behaviours() -> Vec<&'static str> {
        Behaviour::ALL.iter().map(|behaviour| behaviour.name()).collect()
    }

    /// Return the current counters, or the final ones once the world has stopped.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = match &*self.running() {
            RunningWorld::Yes(world) => world.stats(),
            RunningWorld::No(stats) => (**stats).clone(),
        };
        let json = serde_json::to_string(&stats).map_err(|error| errors::usage(&error.to_string()))?;
        py.import("json")?.call_method1("loads", (json,))
    }

    /// Close all connections and end the threads. A second call does nothing.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| {
            let mut running = self.running();
            if let RunningWorld::Yes(world) = &*running {
                let stats = Box::new(world.stats());
                if let RunningWorld::Yes(world) = std::mem::replace(&mut *running, RunningWorld::No(stats)) {
                    world.stop();
                }
            }
        });
    }
}

impl World {
    /// Ignores poisoning, because a thread that panicked has left the value unchanged.
    fn running(&self) -> MutexGuard<'_, RunningWorld> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
