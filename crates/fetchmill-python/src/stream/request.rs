//! What a program asks for.

use std::sync::Arc;

use fetchmill_core::engine::CustomRequest;
use fetchmill_core::http1::check_field;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyString};

use crate::errors;

/// What to ask for, when a URL alone does not say it.
///
/// Args:
///     url: an absolute http or https URL.
///     method: any but CONNECT and TRACE.
///     headers: a mapping, or pairs of name and value: they stand instead of the client's of the same name.
///     body: bytes to send.
///     tag: any object; the reply has it.
///     idempotent: whether the request may be made twice. Only then it is tried again after a failure. If not given,
///         GET and HEAD may, and other methods may not.
///
/// Raises:
///     `UsageError`: the method or a header field cannot be sent.
#[pyclass(frozen, module = "fetchmill")]
pub(crate) struct Request {
    /// The URL.
    #[pyo3(get)]
    url: Py<PyString>,
    /// Any object; the reply has it.
    #[pyo3(get)]
    pub(super) tag: Option<Py<PyAny>>,
    method: String,
    /// None for a plain GET.
    pub(crate) call: Option<Arc<CustomRequest>>,
}

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (url, method="GET", headers=None, body=None, tag=None, *, idempotent=None))]
    fn new(
        url: Py<PyString>,
        method: &str,
        headers: Option<&Bound<'_, PyAny>>,
        body: Option<PyBackedBytes>,
        tag: Option<Py<PyAny>>,
        idempotent: Option<bool>,
    ) -> PyResult<Self> {
        let fields = headers.map(fields_of).transpose()?.unwrap_or_default();
        let body = body.map(|body| body.to_vec());
        let request =
            CustomRequest::new(method, fields, body, idempotent).map_err(|error| errors::of(&error))?;
        let method = request.method.clone();
        let call = (!request.is_plain()).then(|| Arc::new(request));
        Ok(Request { url, tag, method, call })
    }

    /// The method, in capitals.
    #[getter]
    fn method(&self) -> &str {
        &self.method
    }

    /// Its own header fields.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (name, value) in self.call.iter().flat_map(|call| &call.fields) {
            found.set_item(name, value)?;
        }
        Ok(found)
    }

    /// What is sent.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.call.as_ref()?.body.as_ref().map(|body| PyBytes::new(py, body))
    }

    /// Whether it may be made twice.
    #[getter]
    fn idempotent(&self) -> bool {
        self.call.as_ref().is_none_or(|call| call.is_idempotent)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Request({}, method={:?})", self.url.bind(py).repr()?.to_str()?, self.method))
    }
}

impl Request {
    pub(crate) fn url<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        self.url.bind(py)
    }
}

/// Header fields of a mapping, or of pairs.
fn fields_of(headers: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let pairs = match headers.cast::<PyMapping>() {
        Ok(mapping) => mapping.items()?.into_any(),
        Err(_) => headers.clone(),
    };
    let mut fields = Vec::new();
    for pair in pairs.try_iter()? {
        let (name, value): (String, String) = pair?
            .extract()
            .map_err(|_| errors::usage("headers must be a mapping of text, or pairs of name and value"))?;
        check_field(&name, &value).map_err(|error| errors::of(&error))?;
        fields.push((name, value));
    }
    Ok(fields)
}
