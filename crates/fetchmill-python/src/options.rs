//! The options of a job, as the core reads them.

use fetchmill_engine::{JobRequest, option_tables};
use fetchmill_model::outcome::answer_pattern::AnswerPattern;
use fetchmill_net::NoProxy;
use pyo3::prelude::*;

use crate::errors;

pub(crate) fn parse(json: &str) -> PyResult<JobRequest> {
    JobRequest::from_json(json).map_err(|error| errors::of(&error))
}

/// Whether a pattern of `--fail-on` or `--retry-failed` means an answer: a failure kind, a status, or both.
#[pyfunction]
pub(crate) fn answer_matches(pattern: &str, kind: Option<&str>, status: Option<u16>) -> PyResult<bool> {
    let pattern = AnswerPattern::parse(pattern).map_err(|error| errors::of(&error))?;
    Ok(pattern.matches(kind, status))
}

/// Whether the entries of no_proxy say that a host, without brackets, is reached without a proxy.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python gives values")]
pub(crate) fn no_proxy_covers(entries: Vec<String>, host: &str, port: u16) -> bool {
    NoProxy::parse(entries.iter().map(String::as_str)).covers(host, port)
}

/// All options of the core: those of jobs (`job`), of checks and of streams.
///
/// Each has its name, type, unit, default, and the minimum and maximum of a number; None is what there is none of.
#[pyfunction]
pub(crate) fn options(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let tables: std::collections::BTreeMap<_, _> = option_tables().into();
    let json = serde_json::to_string(&tables).map_err(|error| errors::usage(&error.to_string()))?;
    py.import("json")?.call_method1("loads", (json,))
}
