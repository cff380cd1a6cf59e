//! The state of a server thread, and its answers to requests. Converts the bytes of a request to the bytes of the
//! reply. Does no I/O on the connection.
//!
//! The fast path takes no lock and does not allocate. It appends the reply to the output buffer of the thread. If a
//! reply must wait, is affected by a fault, or does not fit into a buffer, it is returned as a [`Continuation`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::call::{self, Call, CallKind, CallResult, Continuation, LargeReply, ReplyParts, Script, TEXT};
use crate::content::{Body, ContentError, Page, WrittenBody};
use crate::hash::{self, GOLDEN};
use crate::options::RuleScope;
use crate::reply::{self, Framing, GetHead, Persistence};
use crate::request::{self, BadRequest, BadText, Method, Request, Route};
use crate::rules::Action;
use crate::server_state::ServerState;
use crate::stats::Counters;
use crate::stray::Stray;

const JSON: &str = "application/json";
/// Text that fills stray replies for objects.
const STRAY_TEXT: &[u8] = b"nobody asked for this; ";

/// State of a thread.
pub(crate) struct Worker {
    pub(crate) shared: Arc<ServerState>,
    position: usize,
    random: AtomicU64,
}

/// Buffers that consecutive requests reuse.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    text: Vec<u8>,
    page: Vec<u8>,
}

impl Worker {
    pub(crate) fn new(shared: Arc<ServerState>, position: usize) -> Self {
        let random = AtomicU64::new(hash::mix(shared.seed ^ (position as u64 + 1).wrapping_mul(GOLDEN)));
        Worker { shared, position, random }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters[self.position]
    }

    /// Returns a random word. Must be called only by this thread.
    pub(crate) fn random(&self) -> u64 {
        let state = self.random.load(Ordering::Relaxed).wrapping_add(GOLDEN);
        self.random.store(state, Ordering::Relaxed);
        hash::mix(state)
    }

    /// Answers one request.
    pub(crate) fn answer(
        &self,
        request: &Request<'_>,
        stray: &mut Stray,
        buffers: &mut Buffers,
        out: &mut Vec<u8>,
    ) -> CallResult {
        let counters = self.counters();
        counters.requests.add(1);
        let head = request.method == Method::Head;
        if head {
            counters.head.add(1);
        }
        let persistence = match (request.keep_alive, request.old) {
            (true, false) => Persistence::Keep,
            (true, true) => Persistence::KeepOld,
            (false, _) => Persistence::Close,
        };
        if let Some(status) = self.misdirected(request) {
            self.plain(status, head, Persistence::Close, out);
            return CallResult::Last;
        }
        if request.method == Method::Other || request.body {
            // The body is not read, so it is unknown where the next request starts.
            let persistence = if request.body { Persistence::Close } else { persistence };
            let status = if request.method == Method::Other { 405 } else { 400 };
            self.plain(status, head, persistence, out);
            return done(persistence);
        }
        let call = |what| Call { what, head, old: request.old, persistence };
        match request::route(request.target) {
            Route::Get(name) => {
                counters.get.add(1);
                match request::decode(name, &mut buffers.text) {
                    Ok(name) => return self.start(call(CallKind::Get(name)), stray, &mut buffers.page, out),
                    Err(BadText::Escape) => self.plain(400, head, persistence, out),
                    Err(BadText::NotUtf8) => self.plain(404, head, persistence, out),
                }
            }
            Route::List(marker) => {
                counters.list.add(1);
                match marker.map(|marker| request::decode(marker, &mut buffers.text)).transpose() {
                    Ok(marker) => {
                        return self.start(call(CallKind::List(marker)), stray, &mut buffers.page, out);
                    }
                    Err(_) => self.plain(400, head, persistence, out),
                }
            }
            Route::Stats => {
                counters.stats.add(1);
                self.stats(head, persistence, out);
            }
            Route::Unknown => self.plain(404, head, persistence, out),
        }
        done(persistence)
    }

    /// Returns the status for a request whose host is missing or not allowed. `None` if the host is allowed.
    fn misdirected(&self, request: &Request<'_>) -> Option<u16> {
        let Some(host) = request::host_of_target(request.target).or(request.host) else {
            return (!request.old).then_some(400);
        };
        let hosts = self.shared.hosts.as_ref()?;
        (!hosts.allow(host)).then_some(421)
    }

    /// Appends the reply to a request that did not arrive in time.
    pub(crate) fn time_out(&self, out: &mut Vec<u8>) {
        self.plain(408, false, Persistence::Close, out);
    }

    /// Answers bytes that are not a request. The connection ends after that.
    pub(crate) fn refuse(&self, refused: BadRequest, out: &mut Vec<u8>) {
        let status = match refused {
            BadRequest::Malformed => 400,
            BadRequest::TooLarge => 431,
        };
        self.plain(status, false, Persistence::Close, out);
    }

    fn start(&self, call: Call<'_>, stray: &mut Stray, page: &mut Vec<u8>, out: &mut Vec<u8>) -> CallResult {
        self.note_stray(call, stray);
        if self.shared.scripted
            && let Some(script) = self.script(call)
        {
            return CallResult::Later(Continuation::Script(Box::new(script)));
        }
        self.carry_out(call, page, out)
    }

    fn script(&self, call: Call<'_>) -> Option<Script> {
        let shared = &*self.shared;
        let (on, text, delay) = match call.what {
            CallKind::Get(name) => (RuleScope::Get, Some(name), shared.get_delay),
            CallKind::List(marker) => (RuleScope::List, marker, shared.list_delay),
        };
        let slow = shared.slow.filter(|(rate, _)| on == RuleScope::Get && hash::unit(self.random()) < *rate);
        let delay = slow.map(|(_, delay)| delay).or(delay).map(|delay| delay.pick(self.random()));
        let fault = shared.faults.pick(on, text.unwrap_or_default());
        if delay.is_none() && fault.is_none() {
            return None;
        }
        Some(Script {
            list: on == RuleScope::List,
            text: text.map(str::to_owned),
            head: call.head,
            old: call.old,
            persistence: call.persistence,
            delay,
            fault,
        })
    }

    /// Counts a request towards the connection's stray reply. If the stray reply follows this request, creates it.
    fn note_stray(&self, call: Call<'_>, stray: &mut Stray) {
        let Some(plan) = stray.plan() else { return };
        let (on, text) = match call.what {
            CallKind::Get(name) => (RuleScope::Get, name),
            CallKind::List(marker) => (RuleScope::List, marker.unwrap_or_default()),
        };
        if call.head || !self.shared.faults.stray_counts(plan, on, text) {
            return;
        }
        plan.left = plan.left.saturating_sub(1);
        if plan.left == 0
            && let Some(reply) = self.stray_reply(call, plan.random)
            && self.shared.faults.take_stray(plan)
        {
            stray.arm(reply);
        }
    }

    /// Returns a complete reply that does not answer the call. `None` if no object or page is available for it.
    fn stray_reply(&self, call: Call<'_>, random: u64) -> Option<Vec<u8>> {
        let (content_type, body) = match call.what {
            CallKind::Get(name) => {
                let mut bytes = Vec::new();
                let mut body = Body::alone(&mut bytes);
                let size = self.shared.content.get(name, &mut body).and_then(|()| body.finish()).ok()?.size;
                let text = STRAY_TEXT.iter().copied().cycle().take(usize::try_from(size).ok()?).collect();
                (self.shared.content.content_type(), text)
            }
            CallKind::List(marker) => (JSON, self.stray_page(marker, random)?),
        };
        let mut out = Vec::new();
        reply::head(200, content_type, Framing::Length(body.len() as u64), Persistence::Keep, b"", &mut out);
        out.extend_from_slice(&body);
        Some(out)
    }

    /// Returns the same page, another page, or an invented page that ends the listing.
    fn stray_page(&self, marker: Option<&str>, random: u64) -> Option<Vec<u8>> {
        let mut page = Vec::new();
        self.page(marker, None, &mut page).ok()?;
        match hash::below(random, 3) {
            0 => {}
            1 => {
                let next = serde_json::from_slice::<serde_json::Value>(&page).ok()?;
                let other = if marker.is_some() { None } else { next["NextMarker"].as_str() };
                page.clear();
                self.page(other, None, &mut page).ok()?;
            }
            _ => page = br#"{"FileNames": ["stray"]}"#.to_vec(),
        }
        Some(page)
    }

    /// Answers a call without any faults.
    pub(crate) fn carry_out(&self, call: Call<'_>, page: &mut Vec<u8>, out: &mut Vec<u8>) -> CallResult {
        let start = out.len();
        let result = match call.what {
            CallKind::Get(name) => self.get(name, call, out),
            CallKind::List(marker) => self.list(marker, call, page, out).map(|()| None),
        };
        match result {
            Ok(None) => {}
            Ok(Some(large)) => return CallResult::Later(Continuation::Large(large)),
            Err(error) => {
                out.truncate(start);
                self.plain(status(&error), call.head, call.persistence, out);
            }
        }
        done(call.persistence)
    }

    /// Appends a body. If the body is large, appends only its head.
    fn get(&self, name: &str, call: Call<'_>, out: &mut Vec<u8>) -> Result<Option<LargeReply>, ContentError> {
        let head = GetHead { prepared: &self.shared.get_head, persistence: call.persistence };
        let mut body = Body::with_head(out, head);
        self.shared.content.get(name, &mut body)?;
        let WrittenBody { start, size, stream } = body.finish()?;
        if call.head {
            out.truncate(start);
            return Ok(None);
        }
        let keep_alive = call.persistence != Persistence::Close;
        Ok(stream.map(|stream| LargeReply { size, stream, keep_alive }))
    }

    fn list(
        &self,
        marker: Option<&str>,
        call: Call<'_>,
        page: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), ContentError> {
        page.clear();
        self.page(marker, None, page)?;
        reply::head(200, JSON, Framing::Length(page.len() as u64), call.persistence, b"", out);
        if !call.head {
            out.extend_from_slice(page);
        }
        Ok(())
    }

    /// Appends a page. With a `period`, the marker of the page leads back by this number of pages, once enough pages
    /// have been listed.
    pub(crate) fn page(
        &self,
        marker: Option<&str>,
        period: Option<u32>,
        out: &mut Vec<u8>,
    ) -> Result<(), ContentError> {
        let shared = &*self.shared;
        let mut page = Page::new(out);
        shared.content.list(marker, shared.page_size, &mut page)?;
        match period.and_then(|period| shared.faults.earlier(marker, period)) {
            Some(earlier) => page.next_marker(earlier),
            None if shared.scripted => shared.faults.note_step(marker, page.next()),
            None => {}
        }
        page.finish();
        Ok(())
    }

    /// Returns the reply to a call in parts, which a script can change.
    pub(crate) fn parts(&self, call: Call<'_>, fault: Action) -> ReplyParts {
        let mut bytes = Vec::new();
        let result = match call.what {
            CallKind::Get(name) => {
                let mut body = Body::alone(&mut bytes);
                self.shared.content.get(name, &mut body).and_then(|()| body.finish())
            }
            CallKind::List(marker) => {
                let period = if let Action::RepeatMarker { period } = fault { Some(period) } else { None };
                self.page(marker, period, &mut bytes).map(|()| WrittenBody {
                    start: 0,
                    size: bytes.len() as u64,
                    stream: None,
                })
            }
        };
        match result {
            Ok(WrittenBody { size, stream, .. }) => {
                let content_type = match call.what {
                    CallKind::Get(_) => self.shared.content.content_type(),
                    CallKind::List(_) => JSON,
                };
                ReplyParts { status: 200, content_type, extra: Vec::new(), body: bytes, size, stream }
            }
            Err(error) => {
                let status = status(&error);
                self.count_status(status);
                ReplyParts::text(status)
            }
        }
    }

    fn stats(&self, head: bool, persistence: Persistence, out: &mut Vec<u8>) {
        // A map of numbers can always be written as JSON.
        let mut body = serde_json::to_vec(&self.shared.stats()).unwrap_or_default();
        body.push(b'\n');
        reply::head(200, JSON, Framing::Length(body.len() as u64), persistence, b"", out);
        if !head {
            out.extend_from_slice(&body);
        }
    }

    /// Appends a reply whose body only states its status.
    fn plain(&self, status: u16, head: bool, persistence: Persistence, out: &mut Vec<u8>) {
        self.count_status(status);
        let body = call::text(status);
        let extra: &[u8] = if status == 405 { b"Allow: GET, HEAD\r\n" } else { b"" };
        reply::head(status, TEXT, Framing::Length(body.len() as u64), persistence, extra, out);
        if !head {
            out.extend_from_slice(body.as_bytes());
        }
    }

    fn count_status(&self, status: u16) {
        let counters = self.counters();
        match status {
            404 => counters.not_found.add(1),
            403 | 500 => counters.errors.add(1),
            _ => counters.bad_requests.add(1),
        }
    }
}

fn done(persistence: Persistence) -> CallResult {
    if persistence == Persistence::Close { CallResult::Last } else { CallResult::Done }
}

fn status(error: &ContentError) -> u16 {
    match error {
        ContentError::NotFound => 404,
        ContentError::Forbidden => 403,
        ContentError::UnknownMarker => 400,
        ContentError::Io(_) => 500,
    }
}
