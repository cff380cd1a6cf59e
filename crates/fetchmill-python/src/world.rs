//! The test world.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fetchmill_server::world::{Behaviour, WorldOptions, WorldStats};
use pyo3::prelude::*;

use crate::errors;

#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct World {
    running: Mutex<RunningWorld>,
    #[pyo3(get)]
    dns: String,
    #[pyo3(get)]
    http_port: u16,
    #[pyo3(get)]
    https_port: u16,
    #[pyo3(get)]
    ca_pem: String,
}

enum RunningWorld {
    Yes(fetchmill_server::world::World),
    /// What it had seen at its end.
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

    #[staticmethod]
    fn behaviours() -> Vec<&'static str> {
        Behaviour::ALL.iter().map(|behaviour| behaviour.name()).collect()
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = match &*self.running() {
            RunningWorld::Yes(world) => world.stats(),
            RunningWorld::No(stats) => (**stats).clone(),
        };
        let json = serde_json::to_string(&stats).map_err(|error| errors::usage(&error.to_string()))?;
        py.import("json")?.call_method1("loads", (json,))
    }

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
    /// A thread that panicked has left it as it was.
    fn running(&self) -> MutexGuard<'_, RunningWorld> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
