//! Replies in Python.

use fetchmill_engine::{NoReply, ReplyBatch, ReplyBody, RequestTimes};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::borrow::Cow;

use super::body::BodyBuffer;
use super::headers::{Headers, value};
use super::pickling::{Reduced, reduced};
use super::request::Request;
use crate::errors;

/// Times of a request in seconds.
#[pyclass(frozen, get_all, module = "fetchmill")]
pub(crate) struct Timings {
    /// Time between taking the request from the input and starting its last attempt.
    queue: f64,
    /// Time to open the connection. Zero if an existing connection was used.
    connect: f64,
    /// Time between the start of the last attempt and the first bytes of the reply.
    first_byte: f64,
    /// Time between taking the request from the input and the end of the reply.
    total: f64,
}

#[pymethods]
impl Timings {
    fn __repr__(&self) -> String {
        format!(
            "Timings(queue={:.6}, connect={:.6}, first_byte={:.6}, total={:.6})",
            self.queue, self.connect, self.first_byte, self.total
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py, (f64, f64, f64, f64)>> {
        reduced::<Self, _>(py, (self.queue, self.connect, self.first_byte, self.total))
    }

    #[staticmethod]
    fn _restored(queue: f64, connect: f64, first_byte: f64, total: f64) -> Self {
        Timings { queue, connect, first_byte, total }
    }
}

/// State of a pickled reply: request, body, head, status, failure, final URL, times and index.
type PickledReply<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    u16,
    Option<(String, String)>,
    Option<String>,
    (u64, u64, u64, u64),
    u64,
);

/// Result of a request: a complete reply with any status, or the error that prevented one.
#[pyclass(frozen, module = "fetchmill")]
pub(crate) struct Reply {
    /// The program's item: text or a `Request`.
    pub(super) asked: Py<PyAny>,
    body: Py<PyAny>,
    head: Box<[u8]>,
    status: u16,
    pub(super) failure: Option<(NoReply, Cow<'static, str>)>,
    final_url: Option<Box<str>>,
    times: RequestTimes,
    pub(super) index: u64,
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

impl Reply {
    /// Takes a reply out of a batch. Copies a small body, so that keeping the reply does not keep the whole batch in
    /// memory.
    pub(super) fn of(
        py: Python<'_>,
        replies: &mut ReplyBatch,
        position: usize,
        asked: Py<PyAny>,
        index: u64,
    ) -> PyResult<Option<Self>> {
        let large = match replies.get_mut(position).map(|record| &mut record.body) {
            Some(ReplyBody::Large(bytes)) => Some(std::mem::take(bytes)),
            _ => None,
        };
        let Some(record) = replies.get(position) else { return Ok(None) };
        let body = match large {
            Some(bytes) => BodyBuffer::view(py, bytes)?.unbind(),
            None => PyBytes::new(py, replies.body(record)).into_any().unbind(),
        };
        Ok(Some(Reply {
            asked,
            body,
            head: replies.head(record).into(),
            status: record.status,
            failure: record.failure.clone(),
            final_url: record.url.clone(),
            times: record.times,
            index,
        }))
    }

    fn url_object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        let asked = self.asked.bind(py);
        match asked.cast::<Request>() {
            Ok(request) => request.get().url(py).clone().into_any(),
            Err(_) => asked.clone(),
        }
    }

    /// Returns whether `on_error="raise"` raises this reply's error. An opt-out is not an error.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.failure, Some((NoReply::Failed(_), _)))
    }

    /// Returns the error as a `fetchmill.ReplyError`.
    pub(super) fn error_object<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((kind, reason)) = &self.failure else { return Ok(None) };
        let class = py.import("fetchmill.errors")?.getattr("ReplyError")?;
        class.call1((self.url_object(py), kind.name(), reason.as_ref())).map(Some)
    }
}

#[pymethods]
impl Reply {
    /// Status, such as 200. None if no complete reply arrived, or if the reply opted out.
    #[getter]
    fn status(&self) -> Option<u16> {
        (self.status != 0).then_some(self.status)
    }

    /// Whether the status is 2xx.
    #[getter]
    fn ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Body as bytes. A body of 64 KiB or more is a read-only memoryview, which avoids a copy.
    #[getter]
    fn body(&self, py: Python<'_>) -> Py<PyAny> {
        self.body.clone_ref(py)
    }

    /// The header fields.
    #[getter]
    fn headers(&self) -> Headers {
        Headers::new(&self.head)
    }

    /// URL of the request, unchanged.
    #[getter]
    fn url<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.url_object(py)
    }

    /// URL that the reply came from. After a redirect, it differs from the requested URL.
    #[getter]
    fn final_url<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        match &self.final_url {
            Some(url) => PyString::new(py, url).into_any(),
            None => self.url_object(py),
        }
    }

    /// Tag of the `Request`.
    #[getter]
    fn tag(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let request = self.asked.bind(py).cast::<Request>().ok()?;
        request.get().tag.as_ref().map(|tag| tag.clone_ref(py))
    }

    /// Position of the request in the input, counted from 0.
    #[getter]
    fn index(&self) -> u64 {
        self.index
    }

    /// Reason for a missing reply: a `ReplyError` whose `kind` can be `opted-out`. None if there is a reply.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.error_object(py)
    }

    /// Times of the request.
    #[getter]
    fn timings(&self) -> Timings {
        Timings {
            queue: seconds(self.times.queue),
            connect: seconds(self.times.connect),
            first_byte: seconds(self.times.first_byte),
            total: seconds(self.times.total),
        }
    }

    /// Body as text, decoded with the charset of the reply or with UTF-8. Malformed bytes are replaced.
    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let named = value(&self.head, "content-type").and_then(|text| charset(&text));
        let decode =
            |charset: &str| py.get_type::<PyString>().call1((self.body.bind(py), charset, "replace"));
        match named {
            // Fall back to UTF-8 if Python does not know the charset.
            Some(named) => decode(&named).or_else(|_| decode("utf-8")),
            None => decode("utf-8"),
        }
    }

    /// Return the body parsed as JSON.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = py.get_type::<PyBytes>().call1((self.body.bind(py),))?;
        py.import("json")?.call_method1("loads", (bytes,))
    }

    /// Raise a `StatusError` if the status is not 2xx. Raise the reply's error if there is no complete reply.
    fn raise_for_status(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(error) = self.error_object(py)? {
            return Err(PyErr::from_value(error));
        }
        if self.ok() {
            return Ok(());
        }
        let class = py.import("fetchmill.errors")?.getattr("StatusError")?;
        Err(PyErr::from_value(class.call1((self.url_object(py), self.status))?))
    }

    /// Copies a large body to bytes, because a memoryview cannot be pickled.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py, (PickledReply<'py>,)>> {
        let body = py.get_type::<PyBytes>().call1((self.body.bind(py),))?.cast_into::<PyBytes>()?;
        let RequestTimes { queue, connect, first_byte, total } = self.times;
        let state = (
            self.asked.bind(py).clone(),
            body,
            PyBytes::new(py, &self.head),
            self.status,
            self.failure.as_ref().map(|(kind, reason)| (kind.name().to_owned(), reason.to_string())),
            self.final_url.as_deref().map(str::to_owned),
            (queue, connect, first_byte, total),
            self.index,
        );
        reduced::<Self, _>(py, (state,))
    }

    #[staticmethod]
    fn _restored(state: PickledReply<'_>) -> PyResult<Self> {
        let (asked, body, head, status, failure, final_url, (queue, connect, first_byte, total), index) =
            state;
        Ok(Reply {
            asked: asked.unbind(),
            body: body.into_any().unbind(),
            head: head.as_bytes().into(),
            status,
            failure: failure.map(known_failure).transpose()?,
            final_url: final_url.map(String::into_boxed_str),
            times: RequestTimes { queue, connect, first_byte, total },
            index,
        })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let url = self.url_object(py);
        let url = url.repr()?;
        match &self.failure {
            Some((kind, _)) => Ok(format!("<Reply {} of {url}>", kind.name())),
            None => Ok(format!("<Reply {} of {url}>", self.status)),
        }
    }
}

/// Restores the failure of a pickled reply.
fn known_failure((kind, reason): (String, String)) -> PyResult<(NoReply, Cow<'static, str>)> {
    match NoReply::from_name(&kind) {
        Some(kind) => Ok((kind, reason.into())),
        None => Err(errors::usage(&format!(
            "cannot unpickle the reply: unknown failure kind ({kind:?}); use the fetchmill release that \
             pickled it"
        ))),
    }
}

/// Returns the `charset` parameter of a content type.
fn charset(content_type: &str) -> Option<String> {
    let parameters = content_type.split(';').skip(1);
    let charset = parameters
        .filter_map(|part| part.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    charset.map(|(_, value)| value.trim().trim_matches('"').to_owned())
}
