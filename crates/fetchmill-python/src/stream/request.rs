//! What a program asks for.

use std::sync::Arc;

use fetchmill_core::engine::CustomRequest;
use fetchmill_core::http1::check_field;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyString};

use crate::errors;

/// Methods whose requests may be made twice, unless the program says otherwise.
const IDEMPOTENT: &[&str] = &["GET", "HEAD", "PUT", "DELETE", "OPTIONS"];
/// Methods that always have a body, be it empty.
const BODIED: &[&str] = &["POST", "PUT", "PATCH"];
/// The longest method that is registered has 17 letters.
const METHOD_BYTES_MAX: usize = 32;

/// What to ask for, when a URL alone does not say it.
///
/// Args:
///     url: an absolute http or https URL.
///     method: any but CONNECT and TRACE.
///     headers: a mapping, or pairs of name and value: they stand instead of the client's of the same name.
///     body: bytes to send.
///     tag: any object; the reply has it.
///     idempotent: whether the request may be made twice. Only then it is tried again after a failure. If not given,
///         GET, HEAD, PUT, DELETE and OPTIONS are, and other methods are not.
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
    pub(super) call: Option<Arc<CustomRequest>>,
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
        let method = method.to_ascii_uppercase();
        let is_token = method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        let is_length = (1..=METHOD_BYTES_MAX).contains(&method.len());
        if !is_token || !is_length || matches!(method.as_str(), "CONNECT" | "TRACE") {
            return Err(errors::usage(&format!(
                "the method {method:?} cannot be used; GET, HEAD, POST and others can"
            )));
        }
        let fields = headers.map(fields_of).transpose()?.unwrap_or_default();
        let body = body.map(|body| body.to_vec());
        let body = body.or_else(|| BODIED.contains(&method.as_str()).then(Vec::new));
        let is_idempotent = idempotent.unwrap_or_else(|| IDEMPOTENT.contains(&method.as_str()));
        let is_plain = method == "GET" && fields.is_empty() && body.is_none() && is_idempotent;
        let call = (!is_plain)
            .then(|| Arc::new(CustomRequest { method: method.clone(), fields, body, is_idempotent }));
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
    pub(super) fn url<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
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
