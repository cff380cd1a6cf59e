//! The Python binding: thin classes over the core and the server. Options come as one JSON object, counters go out
//! as dicts, batches as lists. No call is made for an object, and the GIL is released wherever something waits.

mod errors;
mod export;
mod job;
mod ledger;
mod objects;
mod served;
mod server;
mod verify;

use pyo3::prelude::*;

/// The module `fetchmill._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<job::Job>()?;
    module.add_class::<export::Export>()?;
    module.add_class::<ledger::Failures>()?;
    module.add_class::<objects::Objects>()?;
    module.add_class::<objects::ObjectBatches>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<verify::Verify>()?;
    module.add_function(wrap_pyfunction!(ledger::status, module)?)?;
    module.add_function(wrap_pyfunction!(server::synthetic_body, module)?)
}
