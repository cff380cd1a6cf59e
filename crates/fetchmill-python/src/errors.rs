//! Converts errors of the core to exceptions in `fetchmill.errors`, depending on the exit code. No other module does
//! this.

use fetchmill_model::error::Error;
use fetchmill_model::text::redacted;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Creates an exception from `fetchmill.errors`.
pub(crate) fn exception(class: &str, message: &str) -> PyErr {
    Python::attach(|py| {
        let made = py
            .import("fetchmill.errors")
            .and_then(|errors| errors.getattr(class))
            .and_then(|class| class.call1((message,)));
        match made {
            Ok(value) => PyErr::from_value(value),
            Err(_) => PyRuntimeError::new_err(message.to_owned()),
        }
    })
}

/// Creates the exception for an error that stopped a job.
pub(crate) fn of(error: &Error) -> PyErr {
    let class = match error {
        Error::Internal(_) => "InternalError",
        Error::Usage(_) => "UsageError",
        Error::Listing(_) => "ListingError",
        Error::Temporary(_) => "TemporaryError",
        Error::Security(_) => "SecurityError",
        Error::Storage { .. } | Error::NoRoom(_) | Error::Moved(_) => "StorageError",
        Error::Refused(_) => "AccessError",
        Error::Busy(_) => "BusyError",
        Error::Journal(_) => "JournalError",
    };
    exception(class, &redacted::hide_secrets(&error.to_string()))
}

/// Return the text with signatures, tokens and passwords in URLs redacted.
#[pyfunction]
pub(crate) fn hide_secrets(text: &str) -> String {
    redacted::hide_secrets(text).into_owned()
}

/// Creates the exception for replies that may answer other requests. `indexes` are their positions in the stream's
/// input.
pub(crate) fn stray_reply(py: Python<'_>, indexes: Vec<u64>) -> PyErr {
    let made = py
        .import("fetchmill.errors")
        .and_then(|errors| errors.getattr("StrayReplyError"))
        .and_then(|class| class.call1((indexes,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

pub(crate) fn usage(message: &str) -> PyErr {
    exception("UsageError", message)
}
