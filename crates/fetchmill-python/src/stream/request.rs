//! Requests of a program.

use std::sync::Arc;

use fetchmill_engine::CustomRequest;
use fetchmill_model::http1::header_field::check_field;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString};

use crate::errors;

/// A request that needs more than a URL.
///
/// Args:
///     url: an absolute http or https URL.
///     method: any method except CONNECT and TRACE. The default is `POST` with `json`, otherwise `GET`.
///     headers: a mapping, or pairs of name and value. They replace the client's fields with the same names.
///     body: bytes to send.
///     tag: any object. The reply has the same tag.
///     idempotent: whether the request can safely be sent twice. Only such requests are retried after a failure. By
///         default, only GET and HEAD requests are considered safe.
///     json: a value to send as JSON instead of `body`. Adds `Content-Type: application/json` unless `headers` contains
///         this field.
///     params: a mapping, or pairs of name and value, to append to the query of the URL. For a list or tuple, the name
///         is repeated for each value. None adds nothing.
///
/// Raises:
///     `UsageError`: the method, a header field, `json` or `params` cannot be sent.
#[pyclass(frozen, module = "fetchmill")]
pub(crate) struct Request {
    /// The URL.
    #[pyo3(get)]
    url: Py<PyString>,
    /// Any object. The reply has the same tag.
    #[pyo3(get)]
    pub(super) tag: Option<Py<PyAny>>,
    method: String,
    /// `None` for a plain GET.
    pub(crate) call: Option<Arc<CustomRequest>>,
}

/// URL, method, header fields, body and tag of a request.
type NewArguments<'py> = (
    Bound<'py, PyString>,
    String,
    Vec<(String, String)>,
    Option<Bound<'py, PyBytes>>,
    Option<Bound<'py, PyAny>>,
);

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (url, method=None, headers=None, body=None, tag=None, *, idempotent=None, json=None, params=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        url: &Bound<'_, PyString>,
        method: Option<&str>,
        headers: Option<&Bound<'_, PyAny>>,
        body: Option<PyBackedBytes>,
        tag: Option<Py<PyAny>>,
        idempotent: Option<bool>,
        json: Option<&Bound<'_, PyAny>>,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut fields = headers.map(fields_of).transpose()?.unwrap_or_default();
        let mut body = body.map(|body| body.to_vec());
        if let Some(json) = json {
            if body.replace(json_text(json)?).is_some() {
                return Err(errors::usage("body and json cannot be combined; leave out one of them"));
            }
            if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                fields.push(("Content-Type".to_owned(), "application/json".to_owned()));
            }
        }
        let method = method.unwrap_or(if json.is_some() { "POST" } else { "GET" });
        let url = params.map_or_else(|| Ok(url.clone()), |params| with_query(url, params))?.unbind();
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

    /// Header fields of this request.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (name, value) in self.call.iter().flat_map(|call| &call.fields) {
            found.set_item(name, value)?;
        }
        Ok(found)
    }

    /// Body to send.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.call.as_ref()?.body.as_ref().map(|body| PyBytes::new(py, body))
    }

    /// Whether the request can safely be sent twice.
    #[getter]
    fn idempotent(&self) -> bool {
        self.call.as_ref().is_none_or(|call| call.is_idempotent)
    }

    /// Return the arguments of the constructor, for pickling and copying.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(NewArguments<'py>, Bound<'py, PyDict>)> {
        let fields = self.call.as_ref().map(|call| call.fields.clone()).unwrap_or_default();
        let tag = self.tag.as_ref().map(|tag| tag.bind(py).clone());
        let keywords = PyDict::new(py);
        keywords.set_item("idempotent", self.idempotent())?;
        Ok(((self.url(py).clone(), self.method.clone(), fields, self.body(py), tag), keywords))
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

/// Converts header fields given as a mapping or as pairs.
fn fields_of(headers: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let mut fields = Vec::new();
    for pair in pairs_of(headers)?.try_iter()? {
        let (name, value): (String, String) = pair?
            .extract()
            .map_err(|_| errors::usage("headers must be a mapping of strings, or pairs of name and value"))?;
        check_field(&name, &value).map_err(|error| errors::of(&error))?;
        fields.push((name, value));
    }
    Ok(fields)
}

/// Returns the pairs of a mapping. Returns any other value unchanged.
fn pairs_of<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match given.cast::<PyMapping>() {
        Ok(mapping) => Ok(mapping.items()?.into_any()),
        Err(_) => Ok(given.clone()),
    }
}

/// Formats a value as JSON with Python's own module. Rejects NaN and infinities, which JSON does not support.
fn json_text(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let py = value.py();
    let options = PyDict::new(py);
    options.set_item("allow_nan", false)?;
    options.set_item("ensure_ascii", false)?;
    options.set_item("separators", (",", ":"))?;
    let text = py.import("json")?.call_method("dumps", (value,), Some(&options));
    // Fails if the text contains a lone surrogate, which UTF-8 cannot encode.
    let bytes = text.and_then(|text| text.call_method1("encode", ("utf-8",)));
    let bytes = bytes.map_err(|error| errors::usage(&format!("json cannot be encoded as JSON: {error}")))?;
    Ok(bytes.extract::<PyBackedBytes>()?.to_vec())
}

/// Returns the URL with parameters appended to its query.
fn with_query<'py>(url: &Bound<'py, PyString>, params: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let py = url.py();
    let wrong = |_| errors::usage("params must be a mapping, or pairs of name and value");
    let pairs = PyList::empty(py);
    for pair in pairs_of(params)?.try_iter().map_err(wrong)? {
        let (name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract().map_err(wrong)?;
        if !value.is_none() {
            pairs.append((name, value))?;
        }
    }
    let encoded = py.import("urllib.parse")?.call_method1("urlencode", (pairs, true));
    let query: String =
        encoded.map_err(|error| errors::usage(&format!("params cannot be encoded: {error}")))?.extract()?;
    let whole = url.to_str()?;
    let (start, fragment) = whole.split_at(whole.find('#').unwrap_or(whole.len()));
    let between = match (query.is_empty(), start.find('?')) {
        (true, _) => "",
        (false, None) => "?",
        (false, Some(at)) if at + 1 == start.len() || start.ends_with('&') => "",
        (false, Some(_)) => "&",
    };
    Ok(PyString::new(py, &format!("{start}{between}{query}{fragment}")))
}
