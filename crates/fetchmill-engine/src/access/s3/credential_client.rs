//! Requests to servers that issue credentials. Each request has its own connection and limits.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use url::Url;

use crate::access::renewal::stopped;
use crate::event_queues::network_runtime;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::header_field::check_field;
use fetchmill_model::http1::{BodySink, Head, RequestParts};
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::origin::{OriginFields, OriginKey};
use fetchmill_model::outcome::FailureKind;
use fetchmill_net::{
    AddressPolicy, ConnectFailure, Connection, Deadlines, IoBuffers, Millis, Pool, PoolSettings,
    RequestTarget, Timeouts,
};

/// A server that issues credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CredentialEndpoint {
    pub(super) key: OriginKey,
    /// Path, including the query.
    pub(super) path: String,
}

impl CredentialEndpoint {
    /// Parses an endpoint URL. `from` names the source of the URL in messages.
    pub(super) fn parse(url: &str, from: &str) -> Result<Self> {
        let refused = || {
            let shown = for_display(url.as_bytes());
            Error::Usage(format!(
                "{from} must be a URL such as http://HOST:PORT/PATH or https://HOST:PORT/PATH, not {shown}"
            ))
        };
        let mut parsed = Url::parse(url).map_err(|_| refused())?;
        parsed.set_fragment(None);
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(refused());
        }
        let (key, path) = OriginKey::of_url(parsed.as_str()).ok_or_else(refused)?;
        let path = if path.is_empty() { "/" } else { path };
        Ok(CredentialEndpoint { key, path: path.to_owned() })
    }

    /// Returns this endpoint with `path` appended.
    pub(super) fn below(&self, path: &str) -> Self {
        CredentialEndpoint {
            key: self.key.clone(),
            path: format!("{}{path}", self.path.trim_end_matches('/')),
        }
    }
}

/// A request for credentials.
#[derive(Debug)]
pub(super) struct CredentialRequest<'a> {
    pub(super) place: &'a CredentialEndpoint,
    pub(super) method: &'a str,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Option<&'a [u8]>,
    /// Whether the server is part of this machine's environment and is therefore reached without a proxy.
    pub(super) is_near: bool,
}

/// Reply to a request for credentials.
#[derive(Debug, Default)]
pub(super) struct CredentialReply {
    pub(super) status: u16,
    body: Vec<u8>,
}

impl CredentialReply {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl BodySink for CredentialReply {
    fn head(&mut self, head: &Head, _bytes: &[u8]) {
        self.status = head.status;
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

/// Client for credential requests. It ends its requests when the job ends.
pub(super) struct CredentialClient<'a> {
    pub(super) pool: &'a PoolSettings,
    pub(super) is_over: &'a dyn Fn() -> bool,
}

impl CredentialClient<'_> {
    /// Sends the request up to `CREDENTIALS_TRIES` times and returns the first reply that is not a server error.
    pub(super) fn ask(&self, question: &CredentialRequest<'_>) -> Result<CredentialReply> {
        let mut wait = limits::CREDENTIALS_WAIT;
        let mut tries = 1;
        loop {
            let asked = self.ask_once(question, limits::CREDENTIALS_TIMEOUT)?;
            let problem = match asked {
                Ok(reply) if reply.status < 500 && reply.status != 429 => return Ok(reply),
                Ok(reply) => format!("status {}", reply.status),
                Err(kind) => format!("{} failed", kind.name()),
            };
            if tries == limits::CREDENTIALS_TRIES {
                let place = question.place.key.text();
                return Err(Error::Temporary(format!(
                    "cannot get credentials from {place}: {problem}; check that {place} is reachable, then \
                     run the same command again"
                )));
            }
            self.sleep(wait)?;
            wait *= 2;
            tries += 1;
        }
    }

    /// Sends the request once.
    pub(super) fn ask_once(
        &self,
        question: &CredentialRequest<'_>,
        patience: Duration,
    ) -> Result<std::result::Result<CredentialReply, FailureKind>> {
        question.fields.iter().try_for_each(|(name, value)| check_field(name, value))?;
        let runtime = network_runtime()?;
        let asked = runtime.block_on(async {
            tokio::select! {
                asked = self.exchange(question, patience) => asked,
                () = tokio::time::sleep(patience) => Ok(Err(FailureKind::TotalTimeout)),
                () = self.over() => Err(stopped()),
            }
        });
        runtime.shutdown_background();
        asked
    }

    async fn exchange(
        &self,
        question: &CredentialRequest<'_>,
        patience: Duration,
    ) -> Result<std::result::Result<CredentialReply, FailureKind>> {
        // The only deadline covers the whole request, so this clock does not have to advance.
        let clock = Rc::new(Cell::new(0));
        let timeouts = Timeouts { connect: patience, ..Timeouts::default() };
        let pool = Pool::new(self.settings(timeouts, question.is_near), Rc::clone(&clock));
        let origin = pool.origin(&question.place.key)?;
        let watch = Deadlines::new(Rc::clone(&clock), timeouts);
        let mut connection = Connection::default();
        pool.switch(&mut connection, &origin);
        let ticking = async {
            let start = Instant::now();
            let mut tick = tokio::time::interval(limits::TICK);
            loop {
                tick.tick().await;
                pool.tick(start.elapsed().as_millis() as Millis);
            }
        };
        let exchange = async {
            if let Err(failure) = pool.open(&mut connection, &watch, AddressPolicy::Anywhere).await {
                return Err(kind_of(failure));
            }
            let mut reply = CredentialReply::default();
            let call = RequestParts {
                method: question.method,
                path: &question.place.path,
                fields: &question.fields,
                body: question.body,
                cookies: None,
            };
            let max = limits::CREDENTIALS_BYTES_MAX as u64;
            let buffers = IoBuffers::default();
            let exchanged =
                connection.exchange(RequestTarget::Call(&call), &buffers, &mut reply, &watch, max).await;
            exchanged.map(|_| reply).map_err(|broken| broken.kind)
        };
        Ok(tokio::select! {
            replied = exchange => replied,
            () = ticking => Err(FailureKind::TotalTimeout),
        })
    }

    /// Returns the job's connection settings without those that apply to objects: user fields, signature and rate.
    fn settings(&self, timeouts: Timeouts, is_near: bool) -> PoolSettings {
        let pool = self.pool.clone();
        PoolSettings {
            timeouts,
            max_body: limits::CREDENTIALS_BYTES_MAX as u64,
            connections: 1,
            fields: OriginFields::default(),
            authority: None,
            paces: None,
            tls: Arc::new(pool.tls.without_http2()),
            idle_max: 0,
            // Cookies belong to the sites that the user fetches from.
            cookies: None,
            proxy: pool.proxy.clone().filter(|_| !is_near),
            // These servers are not taken from a list: the owner of this machine chose them.
            reach: AddressPolicy::Anywhere,
            times_phases: false,
            ..pool
        }
    }

    /// Waits for `wait`. Fails if the job is ending.
    pub(super) fn sleep(&self, wait: Duration) -> Result<()> {
        let end = Instant::now() + wait;
        while Instant::now() < end {
            if (self.is_over)() {
                return Err(stopped());
            }
            std::thread::sleep(limits::TICK.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    async fn over(&self) {
        let mut tick = tokio::time::interval(limits::TICK);
        while !(self.is_over)() {
            tick.tick().await;
        }
    }
}

fn kind_of(failure: ConnectFailure) -> FailureKind {
    match failure {
        ConnectFailure::Failed(kind) => kind,
        ConnectFailure::Exhausted(_) => FailureKind::Unreachable,
    }
}
