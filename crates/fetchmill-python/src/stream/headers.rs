//! The header fields of a reply. Each access looks them up in the reply's head.

use std::borrow::Cow;

use fetchmill_model::http1::field_lines;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList};

use super::pickling::{Reduced, reduced};

/// Header fields by name, ignoring case.
///
/// The values of repeated fields are joined by commas. `get_all` returns them separately.
#[pyclass(frozen, mapping, module = "fetchmill")]
pub(crate) struct Headers {
    head: Box<[u8]>,
}

/// Returns a value as a string. If the value is not UTF-8, each byte becomes one character.
fn text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Iterates over the names and values in a head that was validated on arrival.
pub(super) fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], Cow<'_, [u8]>)> {
    field_lines(head).map(|line| (line.name, line.unfolded()))
}

/// Returns the value of a field, if it exists.
pub(super) fn value(head: &[u8], name: &str) -> Option<String> {
    let mut found: Option<String> = None;
    for (_, value) in fields(head).filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())) {
        match &mut found {
            Some(joined) => joined.extend([", ", &text(&value)]),
            None => found = Some(text(&value)),
        }
    }
    found
}

impl Headers {
    pub(super) fn new(head: &[u8]) -> Self {
        Headers { head: head.into() }
    }

    /// Returns each name once, in its first spelling.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (name, _) in fields(&self.head) {
            if !names.iter().any(|other| other.as_bytes().eq_ignore_ascii_case(name)) {
                names.push(text(name));
            }
        }
        names
    }

    fn pairs(&self) -> Vec<(String, String)> {
        let with_value = |name: String| value(&self.head, &name).map(|value| (name, value));
        self.names().into_iter().filter_map(with_value).collect()
    }
}

#[pymethods]
impl Headers {
    fn __getitem__(&self, name: &str) -> PyResult<String> {
        value(&self.head, name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    fn __contains__(&self, name: &str) -> bool {
        value(&self.head, name).is_some()
    }

    fn __len__(&self) -> usize {
        self.names().len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.names())?.try_iter()
    }

    fn __repr__(&self) -> String {
        format!("Headers({:?})", self.pairs())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py, (Bound<'py, PyBytes>,)>> {
        reduced::<Self, _>(py, (PyBytes::new(py, &self.head),))
    }

    #[staticmethod]
    fn _restored(head: &[u8]) -> Self {
        Headers::new(head)
    }

    /// Return the value of a field, or the default.
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match value(&self.head, name) {
            Some(value) => Ok(value.into_pyobject(py)?.into_any()),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    /// Return all values of a field, in the order in which they appear in the reply.
    fn get_all(&self, name: &str) -> Vec<String> {
        let own = fields(&self.head).filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
        own.map(|(_, value)| text(&value)).collect()
    }

    /// Return the names, each one once.
    fn keys(&self) -> Vec<String> {
        self.names()
    }

    /// Return the values, in the order of the names.
    fn values(&self) -> Vec<String> {
        self.pairs().into_iter().map(|(_, value)| value).collect()
    }

    /// Return pairs of name and value.
    fn items(&self) -> Vec<(String, String)> {
        self.pairs()
    }
}
