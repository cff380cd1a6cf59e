//! Requests the pages of a listing ([`crate::attempt`]), one at a time, on connections that are new or have rested.
//! Without the rest, an unsolicited reply could be mistaken for the page.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use super::page_body::PageBody;
use super::page_failure::PageFailure;
use crate::access::bearer::BearerTokens;
use crate::access::renewal::Renewal;
use crate::attempt::{
    AttemptEnd, CertainReplies, Failure, Location, RedirectHead, RedirectPolicy, Requester, Resumable, fulfil,
};
use crate::control::Control;
use crate::control::rate_wait::keep_pace;
use crate::control::stop::Stop;
use crate::plan::job_origins::ListingServer;
use fetchmill_model::error::Error;
use fetchmill_model::http1::RequestParts;
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::reply::patience::Patience;
use fetchmill_model::verdict::{AttemptState, BrokenFacts, ReplyFacts, Rules, Verdict, field_in};
use fetchmill_net::certain::{Judged, RestedConnection};
use fetchmill_net::{
    BrokenExchange, ConnectFailure, Connection, Deadlines, IoBuffers, OriginConnections, Pool, PoolSettings,
    Proxy, ReceivedReply, RequestTarget, Timeouts,
};

/// Requester of pages. See the [module documentation](self).
pub(super) struct PageRequester {
    control: Arc<Control>,
    key: OriginKey,
    /// Connections to the server.
    server: Rc<OriginConnections>,
    pool: Pool,
    /// Time of the last tick.
    clock: Rc<Cell<Millis>>,
    timeouts: Timeouts,
    buffers: IoBuffers,
    /// Bearer tokens for the server, if the user specified a command.
    tokens: Option<Arc<BearerTokens>>,
}

/// Request for a page.
pub(super) struct PageRequest {
    /// URL of the page.
    pub(super) at: Location,
    policy: RedirectPolicy,
    state: AttemptState,
    /// Generation of the token in the last request. `None` if the request contained no token.
    generation: Option<u64>,
    /// Result of the request.
    end: PageAnswer,
}

/// Result of a page request.
pub(super) enum PageAnswer {
    /// No result, because the job is ending.
    Nothing,
    /// A page, and whether it is complete.
    Page(bool),
    Failed(PageFailure),
    /// An error that a retry cannot resolve.
    Error(Error),
}

impl PageRequest {
    /// Creates a request for the page at `url`.
    pub(super) fn new(url: String, policy: RedirectPolicy) -> Self {
        PageRequest {
            at: Location::at(url),
            policy,
            state: AttemptState::default(),
            generation: None,
            end: PageAnswer::Nothing,
        }
    }

    /// Describes a reply for the user.
    fn describe(&self, status: u16) -> String {
        if self.at.is_redirected() {
            return format!("status {status} at {} (after a redirect)", for_display(self.at.url.as_bytes()));
        }
        format!("status {status}")
    }

    /// Returns the page's URL and the result.
    pub(super) fn into_end(self) -> (String, PageAnswer) {
        (self.at.url, self.end)
    }
}

impl PageRequester {
    pub(super) fn new(control: &Arc<Control>, server: ListingServer, pool: PoolSettings) -> Self {
        // Pages are requested one after another, so HTTP/2 has no advantage.
        let tls = Arc::new(pool.tls.without_http2());
        let idle_max = limits::RESTING_PAGES_MAX;
        let timeouts =
            Timeouts { total: limits::PAGE_TIMEOUT.max(pool.timeouts.total), attempt: None, ..pool.timeouts };
        let patience = Patience::of_pages();
        let settings =
            PoolSettings { max_body: u64::MAX, connections: 1 + idle_max, idle_max, tls, patience, ..pool };
        let clock = Rc::new(Cell::new(control.clock.now()));
        let pool = Pool::new(settings, Rc::clone(&clock));
        let key = server.key.clone();
        PageRequester {
            control: Arc::clone(control),
            server: pool.add(server.key, server.template, server.addresses),
            tokens: control.tokens.clone().filter(|tokens| tokens.is_for(&key)),
            key,
            pool,
            clock,
            timeouts,
            buffers: IoBuffers::default(),
        }
    }

    /// Returns the server's origin.
    pub(super) fn key(&self) -> &OriginKey {
        &self.key
    }

    /// Returns the proxy for requests to the server.
    pub(super) fn proxy(&self) -> Option<&Proxy> {
        self.pool.proxy_of(&self.key)
    }

    /// Requests a page once. The transfer of an index has no total time limit. If the connection was closed before the
    /// request was sent, this does not count as a failure.
    pub(super) async fn ask(
        &self,
        connection: &mut RestedConnection,
        mut request: PageRequest,
        body: PageBody,
        is_index: bool,
    ) -> (PageRequest, PageBody) {
        let total = if is_index { std::time::Duration::MAX } else { self.timeouts.total };
        self.pool.tick(self.control.clock.now());
        // Close connections that were needed to read ahead at full speed. From now on, one is enough.
        self.pool.sweep(1, limits::SURPLUS_CONNECTION_IDLE);
        let watch = Deadlines::new(Rc::clone(&self.clock), Timeouts { total, ..self.timeouts });
        let mut body = Resumable::new(body);
        tokio::select! {
            () = fulfil(self, connection, &mut request, &mut body, &watch, None) => {}
            never = self.tick(&watch) => match never {},
        }
        if let Some(error) = body.inner.take_failure() {
            request.end = PageAnswer::Error(error);
        }
        (request, body.inner)
    }

    /// Checks the deadlines and whether the job is ending.
    async fn tick(&self, watch: &Deadlines) -> Infallible {
        let mut tick = tokio::time::interval(limits::TICK);
        loop {
            tick.tick().await;
            self.pool.tick(self.control.clock.now());
            if self.control.stop.get() == Stop::No {
                watch.check();
            } else {
                watch.expire(FailureKind::TotalTimeout);
            }
        }
    }

    fn rules(&self) -> Rules {
        Rules { redirects_max: limits::REDIRECTS_MAX, retried: self.control.retried, ..Rules::default() }
    }

    /// Handles a token that was rejected.
    fn renew(&self, request: &mut PageRequest) -> AttemptEnd {
        let renewal = match (&self.tokens, request.generation) {
            (Some(tokens), Some(generation)) => tokens.renew(generation),
            _ => Renewal::Newer,
        };
        match renewal {
            Renewal::Newer => AttemptEnd::Again,
            Renewal::Pending => AttemptEnd::Renewing,
            Renewal::Failed(why) => {
                request.end = PageAnswer::Error(Error::Temporary(why));
                AttemptEnd::Over
            }
        }
    }

    fn follow(
        &self,
        request: &mut PageRequest,
        connection: &Connection,
        body: &Resumable<PageBody>,
        status: u16,
    ) -> AttemptEnd {
        let head = &body.inner.head;
        let redirect =
            RedirectHead { location: field_in(head, b"location:"), head, now: self.control.clock.now() };
        match request.at.follow(connection.address(), &redirect, request.policy) {
            Ok(_) => AttemptEnd::Redirected,
            Err((kind, why)) => {
                request.end = PageAnswer::Failed(PageFailure::new(kind, status, why));
                AttemptEnd::Over
            }
        }
    }
}

impl Requester for PageRequester {
    type Request = PageRequest;
    type Held = ();
    type Body = PageBody;

    const CERTAIN: CertainReplies = CertainReplies::All;

    async fn find_origin(
        &self,
        request: &mut PageRequest,
        _watch: &Deadlines,
    ) -> Result<Rc<OriginConnections>, AttemptEnd> {
        if self.key.path_of(&request.at.url).is_some() {
            return Ok(Rc::clone(&self.server));
        }
        let key = OriginKey::of_url(&request.at.url).map(|(key, _)| key);
        key.and_then(|key| self.pool.origin(&key).ok()).ok_or_else(|| {
            let reason = "not an http or https URL";
            self.attempt_failed(request, Failure::new(FailureKind::Url, reason), None)
        })
    }

    /// Waits for the rates of the job and of the host, which apply to page requests as well.
    async fn await_turn(
        &self,
        _request: &mut PageRequest,
        origin: &OriginConnections,
        watch: &Deadlines,
    ) -> Result<(), AttemptEnd> {
        let paces = self.control.pace.iter().chain(origin.pace.as_deref());
        if keep_pace(paces, || self.micros(), watch).await { Ok(()) } else { Err(AttemptEnd::Over) }
    }

    fn prepare(&self, request: &mut PageRequest, body: &mut Resumable<PageBody>, origin: &OriginConnections) {
        let tokens = self.tokens.as_ref().filter(|tokens| tokens.is_for(&origin.key));
        request.generation = tokens.map(|tokens| tokens.generation());
        if !body.is_broken_off() {
            body.discard();
            body.start(true);
        }
    }

    async fn bring(
        &self,
        task: &mut RestedConnection,
        _request: &PageRequest,
        origin: &Rc<OriginConnections>,
        is_fresh: bool,
        _watch: &Deadlines,
    ) {
        if !is_fresh {
            task.renew(&self.pool, origin);
        }
    }

    async fn open_connection(
        &self,
        connection: &mut Connection,
        request: &mut PageRequest,
        watch: &Deadlines,
    ) -> Result<(), Failure> {
        let opened = self.pool.open_when_able(connection, watch, request.at.reach).await;
        opened.map_err(|failure| match failure {
            ConnectFailure::Failed(kind) => Failure::unconnected(kind),
            ConnectFailure::Exhausted(_) => Failure::exhausted(),
        })
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        request: &mut PageRequest,
        origin: &OriginConnections,
        body: &mut Resumable<PageBody>,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        let path = origin.key.path_of(&request.at.url).unwrap_or("/");
        let rest = body.rest_fields();
        let fields = rest.as_ref().map_or(&[][..], |rest| rest.as_slice());
        let cookies = request.at.cookies_at(origin);
        let call = RequestParts { method: "GET", path, fields, body: None, cookies: cookies.as_deref() };
        let is_plain = rest.is_none() && cookies.is_none();
        let asked = if is_plain { RequestTarget::Path(path) } else { RequestTarget::Call(&call) };
        connection.exchange(asked, &self.buffers, body, watch, u64::MAX).await
    }

    fn micros(&self) -> MonotonicMicros {
        self.control.clock.micros()
    }

    fn note_reply(
        &self,
        _connection: &Connection,
        request: &mut PageRequest,
        replied: &ReceivedReply,
        _body: &Resumable<PageBody>,
        _sent: MonotonicMicros,
    ) {
        if let (Some(tokens), Some(generation)) = (&self.tokens, request.generation) {
            tokens.note_reply(replied.head.status, generation);
        }
    }

    fn checks_socket(&self, _connection: &Connection, _is_certain: bool) -> bool {
        false
    }

    fn settle_reply(
        &self,
        connection: &Connection,
        request: &mut PageRequest,
        body: &mut Resumable<PageBody>,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        let (head, now) = (&replied.head, self.control.clock.now());
        let facts = ReplyFacts {
            status: head.status,
            asks_to_wait: head.retry_after.is_some(),
            // If a page does not declare its length, its parser decides whether it is complete. Both JSON and HTML have
            // a defined end.
            is_verified: true,
            is_no_rest: body.is_no_rest(),
            shows_token: request.generation.is_some(),
            ..ReplyFacts::default()
        };
        let (kind, reason) = match request.state.after_reply(&facts, &self.rules(), now) {
            Verdict::Store => {
                request.end = PageAnswer::Page(!replied.is_cut);
                return AttemptEnd::Over;
            }
            Verdict::Again => return AttemptEnd::Again,
            Verdict::Redirect => return self.follow(request, connection, body, head.status),
            Verdict::Correct(_) => return self.renew(request),
            Verdict::Settle(Outcome::Failed(kind), reason) => (kind, reason),
            Verdict::Retry(kind) => (kind, None),
            Verdict::Settle(..) | Verdict::SecondLook(_) | Verdict::Stop(_) => (FailureKind::Status, None),
        };
        let asked = head.retry_after.map(|retry_after| retry_after.wait(now / 1000).saturating_mul(1000));
        let reason = reason.map_or_else(|| request.describe(head.status), String::from);
        let failure = PageFailure { retry_after: asked, ..PageFailure::new(kind, head.status, reason) };
        request.end = PageAnswer::Failed(failure);
        AttemptEnd::Over
    }

    fn hold_reply(
        &self,
        task: &mut RestedConnection,
        request: &mut PageRequest,
        body: &mut Resumable<PageBody>,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        self.settle_reply(&task.connection, request, body, replied)
    }

    fn judge_replies(&self, _task: &mut RestedConnection, _judged: Judged) {}

    fn fail_unknown_reply(&self, request: &mut PageRequest, failure: Failure) -> AttemptEnd {
        self.attempt_failed(request, failure, None)
    }

    async fn await_end(&self, task: &mut RestedConnection, _watch: &Deadlines) {
        task.close();
    }

    fn attempt_failed(
        &self,
        request: &mut PageRequest,
        failure: Failure,
        broken: Option<BrokenFacts>,
    ) -> AttemptEnd {
        let is_over = self.is_over(request);
        if let Some(broken) = broken
            && !is_over
            && matches!(request.state.after_broken(broken, &self.rules(), 0), Verdict::Again)
        {
            return AttemptEnd::Again;
        }
        let Failure { kind, reason } = failure;
        request.end = PageAnswer::Failed(PageFailure::new(kind, 0, reason));
        AttemptEnd::Over
    }

    fn leave_connection(&self, task: &mut RestedConnection) {
        task.close();
    }

    async fn await_credentials(&self, request: &mut PageRequest) -> bool {
        while !self.is_over(request) {
            match self.renew(request) {
                AttemptEnd::Again => return true,
                AttemptEnd::Renewing => tokio::time::sleep(limits::TICK).await,
                _ => return false,
            }
        }
        false
    }

    fn is_over(&self, _request: &PageRequest) -> bool {
        self.control.stop.get() != Stop::No
    }

    fn may_repeat(&self, _request: &PageRequest) -> bool {
        true
    }

    fn only_reads(&self, _request: &PageRequest) -> bool {
        true
    }

    fn state_of<'r>(&self, request: &'r mut PageRequest) -> &'r mut AttemptState {
        &mut request.state
    }

    fn rules_of(&self, _request: &PageRequest) -> Rules {
        self.rules()
    }
}
