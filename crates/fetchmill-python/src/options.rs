//! Job options, which the core parses.

use fetchmill_engine::{JobRequest, option_tables};
use fetchmill_model::outcome::answer_pattern::AnswerPattern;
use fetchmill_net::NoProxy;
use pyo3::prelude::*;

use crate::errors;

pub(crate) fn parse(json: &str) -> PyResult<JobRequest> {
    JobRequest::from_json(json).map_err(|error| errors::of(&error))
}

/// Return whether a pattern of `--fail-on` or `--retry-failed` matches a failure kind, a status, or both.
#[pyfunction]
pub(crate) fn answer_matches(pattern: &str, kind: Option<&str>, status: Option<u16>) -> PyResult<bool> {
    let pattern = AnswerPattern::parse(pattern).map_err(|error| errors::of(&error))?;
    Ok(pattern.matches(kind, status))
}

/// Return whether the entries of no_proxy exclude a host from the proxy. The host has no brackets.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes owned values")]
pub(crate) fn no_proxy_covers(entries: Vec<String>, host: &str, port: u16) -> bool {
    NoProxy::parse(entries.iter().map(String::as_str)).covers(host, port)
}

/// Return all options of the core: those of jobs (`job`), checks and streams.
///
/// Each option has a name, a type, a unit and a default. Numbers also have a minimum and a maximum. Missing values are
/// None.
#[pyfunction]
pub(crate) fn options(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let tables: std::collections::BTreeMap<_, _> = option_tables().into();
    let json = serde_json::to_string(&tables).map_err(|error| errors::usage(&error.to_string()))?;
    py.import("json")?.call_method1("loads", (json,))
}
