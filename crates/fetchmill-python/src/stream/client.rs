//! The thread that fetches for a client's streams.

use std::path::PathBuf;

use fetchmill_core::engine::{Advance, Fetcher as CoreFetcher, StreamOptions};
use fetchmill_core::origin::OriginKey;
use fetchmill_core::transport::Proxy;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use serde::Deserialize;

use super::batches::Batches;
use super::iterator::Stream;
use crate::errors;
use crate::options::{resolvers, s3_options, set, set_seconds};

/// The options of `fetchmill.StreamOptions`; what is missing has the core's default.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    limit: Option<u32>,
    attempts: Option<u32>,
    connect_timeout: Option<f64>,
    head_timeout: Option<f64>,
    idle_timeout: Option<f64>,
    total_timeout: Option<f64>,
    max_size: Option<u64>,
    allow_eof_bodies: Option<bool>,
    redirects: Option<u32>,
    headers: Option<Vec<(String, String)>>,
    credentials_for: Option<String>,
    ca_file: Option<PathBuf>,
    #[serde(default)]
    insecure_host: Vec<String>,
    http2: Option<bool>,
    proxy: Option<String>,
    #[serde(default)]
    no_proxy: Vec<String>,
    rate: Option<f64>,
    rate_per_host: Option<f64>,
    #[serde(default)]
    resolver: Vec<String>,
    #[serde(default)]
    public_only: bool,
    endpoint_url: Option<String>,
    region: Option<String>,
    profile: Option<String>,
    no_sign_request: Option<bool>,
    addressing_style: Option<String>,
}

impl Options {
    fn into_core(self) -> PyResult<StreamOptions> {
        let (system_resolver, resolvers) = resolvers(&self.resolver)?;
        let mut options = StreamOptions {
            rate: self.rate,
            rate_per_host: self.rate_per_host,
            system_resolver,
            resolvers,
            public_only: self.public_only,
            ..StreamOptions::default()
        };
        set(&mut options.limit, self.limit);
        set(&mut options.attempts, self.attempts);
        set(&mut options.max_size, self.max_size);
        set(&mut options.allow_eof_bodies, self.allow_eof_bodies);
        set(&mut options.redirects, self.redirects);
        set(&mut options.headers, self.headers);
        options.s3 = s3_options(
            self.endpoint_url.as_deref(),
            (self.region, self.profile),
            self.no_sign_request,
            self.addressing_style.as_deref(),
        )?;
        options.tls.ca_file = self.ca_file;
        options.tls.insecure_hosts = self.insecure_host;
        set(&mut options.tls.http2, self.http2);
        options.proxy =
            self.proxy.as_deref().map(Proxy::parse).transpose().map_err(|error| errors::of(&error))?;
        options.no_proxy = self.no_proxy;
        set_seconds(&mut options.timeouts.connect, self.connect_timeout)?;
        set_seconds(&mut options.timeouts.head, self.head_timeout)?;
        set_seconds(&mut options.timeouts.idle, self.idle_timeout)?;
        set_seconds(&mut options.timeouts.total, self.total_timeout)?;
        if let Some(text) = self.credentials_for {
            let parsed = OriginKey::of_url(&text).filter(|(_, path)| matches!(*path, "" | "/"));
            let wrong = || errors::usage(&format!("credentials_for must be https://HOST[:PORT], not {text}"));
            options.credentials_for = Some(parsed.ok_or_else(wrong)?.0);
        }
        Ok(options)
    }
}

#[pyclass(frozen, module = "fetchmill._native")]
pub(crate) struct Fetcher {
    inner: CoreFetcher,
}

#[pymethods]
impl Fetcher {
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let options: Options =
            serde_json::from_str(options).map_err(|error| errors::usage(&format!("the options: {error}")))?;
        let options = options.into_core()?;
        let inner = py.detach(|| CoreFetcher::start(options)).map_err(|error| errors::of(&error))?;
        Ok(Fetcher { inner })
    }

    #[expect(clippy::needless_pass_by_value, reason = "Python gives values")]
    #[pyo3(signature = (items, *, ordered, raises, owns, state=None))]
    fn stream(
        slf: &Bound<'_, Self>,
        items: Option<Bound<'_, PyAny>>,
        ordered: bool,
        raises: bool,
        owns: bool,
        state: Option<PathBuf>,
    ) -> PyResult<Stream> {
        let iterator = items.map(|items| PyIterator::from_object(&items)).transpose()?;
        let start = || state.as_deref().map(Advance::start).transpose();
        let advance = slf.py().detach(start).map_err(|error| errors::of(&error))?;
        let (inner, owner) = (&slf.get().inner, owns.then(|| slf.clone().unbind()));
        let outstanding_max = inner.options().outstanding_max();
        let iterator = iterator.map(Bound::unbind);
        Ok(Stream::new(inner.channel(), iterator, outstanding_max, advance, (ordered, raises), owner))
    }

    /// The same as batches of rows.
    fn batches(
        slf: &Bound<'_, Self>,
        items: &Bound<'_, PyAny>,
        batch_size: usize,
        owns: bool,
    ) -> PyResult<Batches> {
        let stream = Self::stream(slf, Some(items.clone()), false, false, owns, None)?;
        Ok(Batches::new(stream, batch_size))
    }

    pub(super) fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.end());
    }
}
