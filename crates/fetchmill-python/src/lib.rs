//! The Python binding: thin classes over the core and the server. Options arrive as one JSON object, counters are
//! returned as dicts, and batches as lists. No call is made per object, and every wait releases the GIL.

#![allow(clippy::doc_markdown, reason = "comments become docstrings in Python's style")]

mod bucket;
mod certainty;
mod destination_content;
mod diff;
mod dispatcher;
mod errors;
mod export;
mod iterable;
mod job;
mod ledger;
mod list;
mod names;
mod objects;
mod options;
mod s3;
mod server;
mod start;
mod stream;
mod sync_store;
mod verify;
mod world;

use fetchmill_model::outcome::FailureKind;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The Rust core for Python. This module is private, and `fetchmill` exports the public names.
///
/// Options are passed as one JSON object. Counters are returned as dicts and batches as lists, so no call is made per
/// object. All exceptions are classes of `fetchmill.errors`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<bucket::Bucket>()?;
    module.add_class::<certainty::OriginReplies>()?;
    module.add_class::<certainty::ConnectionReplies>()?;
    module.add_class::<job::Job>()?;
    module.add_class::<dispatcher::Dispatcher>()?;
    module.add_class::<dispatcher::Target>()?;
    module.add_class::<export::Export>()?;
    module.add_class::<ledger::Failures>()?;
    module.add_class::<list::ListBytes>()?;
    module.add_class::<list::ListTargets>()?;
    module.add_class::<objects::Objects>()?;
    module.add_class::<objects::ObjectBatches>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<stream::ArrowBatch>()?;
    module.add_class::<stream::Batches>()?;
    module.add_class::<stream::BodyBuffer>()?;
    module.add_class::<stream::Fetcher>()?;
    module.add_class::<stream::Headers>()?;
    module.add_class::<stream::Reply>()?;
    module.add_class::<stream::Request>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<stream::Timings>()?;
    module.add_class::<sync_store::SyncStore>()?;
    module.add_class::<verify::Verify>()?;
    module.add_class::<world::World>()?;
    module.add_class::<s3::S3>()?;
    module
        .add("FAILURE_KINDS", PyTuple::new(module.py(), FailureKind::ALL.iter().map(|kind| kind.name()))?)?;
    module.add_function(wrap_pyfunction!(dispatcher::is_public, module)?)?;
    module.add_function(wrap_pyfunction!(diff::diff, module)?)?;
    module.add_function(wrap_pyfunction!(list::list_files, module)?)?;
    module.add_function(wrap_pyfunction!(list::split_parquet, module)?)?;
    module.add_function(wrap_pyfunction!(ledger::status, module)?)?;
    module.add_function(wrap_pyfunction!(ledger::job_command, module)?)?;
    module.add_function(wrap_pyfunction!(ledger::samples, module)?)?;
    module.add_function(wrap_pyfunction!(ledger::failed_folders, module)?)?;
    module.add_function(wrap_pyfunction!(ledger::name_text, module)?)?;
    module.add_function(wrap_pyfunction!(ledger::skipped, module)?)?;
    module.add_function(wrap_pyfunction!(options::no_proxy_covers, module)?)?;
    module.add_function(wrap_pyfunction!(objects::column_value, module)?)?;
    module.add_function(wrap_pyfunction!(errors::hide_secrets, module)?)?;
    module.add_function(wrap_pyfunction!(options::answer_matches, module)?)?;
    module.add_function(wrap_pyfunction!(options::options, module)?)?;
    module.add_function(wrap_pyfunction!(server::synthetic_body, module)?)
}
