//! Requests the robots.txt of a host for a worker ([`crate::attempt`]). The request obeys the limits of the host, and
//! uses the connection of a task that has a target at the host.

use std::rc::Rc;

use super::held_outcomes::{HeldOutcomes, WorkerConnection};
use super::robots_body::RobotsBody;
use super::state::Worker;
use crate::attempt::{
    AttemptEnd, CertainReplies, Failure, RedirectHead, RedirectPolicy, Requester, Resumable,
};
use crate::fetch::target::CurrentTarget;
use fetchmill_model::limits::ROBOTS_REDIRECTS_MAX;
use fetchmill_model::opt_out::robots::{HostRobots, ROBOTS_PATH};
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::hosts::{HostId, RequestOutcome};
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::verdict::{AttemptState, BrokenFacts, Rules, Verdict, is_redirect};
use fetchmill_net::certain::Judged;
use fetchmill_net::{BrokenExchange, Connection, Deadlines, OriginConnections, ReceivedReply, RequestTarget};

/// Requester of robots.txt files. See the [module documentation](self).
pub(super) struct RobotsRequester<'w>(pub(super) &'w Worker);

/// Request for a host's robots.txt.
pub(super) struct RobotsRequest {
    /// URL of the file, and the addresses of its host.
    at: CurrentTarget,
    /// Host that a redirect leads to, until that host admits the request.
    new_host: Option<HostId>,
    end: RobotsEnd,
}

/// Result of the request.
#[derive(Debug)]
pub(super) enum RobotsEnd {
    /// No result, because the job is ending.
    Nothing,
    /// The answer, and what it reveals about the host.
    Answer(HostRobots, RequestOutcome),
    /// No request was sent, because the host is unreachable.
    Unreached(Failure),
    /// The file arrived, but there was no memory left for it.
    NoRoom,
}

impl RobotsRequest {
    /// Creates the request for the host of a target.
    pub(super) fn of(target: &CurrentTarget) -> Self {
        let key = OriginKey::of_url(&target.at.url).map(|(key, _)| key);
        let url = key.map_or_else(String::new, |key| format!("{}{ROBOTS_PATH}", key.text()));
        let at = CurrentTarget {
            at: target.at.beside(url),
            host: target.host,
            found: target.found.clone(),
            is_located: true,
            ..CurrentTarget::default()
        };
        RobotsRequest { at, new_host: None, end: RobotsEnd::Nothing }
    }

    /// Takes the host that must admit the request first.
    pub(super) fn take_new_host(&mut self) -> Option<HostId> {
        self.new_host.take()
    }

    /// Records that a host did not admit the request in time.
    pub(super) fn refuse(&mut self) {
        self.fail(FailureKind::Throttled, "the request to the redirect's host waited too long for its turn");
    }

    pub(super) fn into_end(self) -> RobotsEnd {
        self.end
    }

    fn fail(&mut self, kind: FailureKind, reason: &str) -> AttemptEnd {
        let why = format!("robots.txt: {reason}");
        self.answer(HostRobots::Unknown(kind, why), RequestOutcome::Failure(kind))
    }

    fn answer(&mut self, robots: HostRobots, seen: RequestOutcome) -> AttemptEnd {
        self.end = RobotsEnd::Answer(robots, seen);
        AttemptEnd::Over
    }
}

impl RobotsRequester<'_> {
    fn rules() -> Rules {
        Rules { redirects_max: ROBOTS_REDIRECTS_MAX, ..Rules::default() }
    }

    fn follow(
        request: &mut RobotsRequest,
        connection: &Connection,
        body: &Resumable<RobotsBody>,
        status: u16,
    ) -> AttemptEnd {
        let policy = RedirectPolicy { hops_max: ROBOTS_REDIRECTS_MAX, may_leave_origin: true };
        // The rules of a host are the same for all clients, so cookies are ignored.
        let redirect = RedirectHead { location: body.inner.location(), ..RedirectHead::default() };
        match request.at.at.follow(connection.address(), &redirect, policy) {
            Ok(leads_away) => {
                if leads_away {
                    request.at.found = None;
                    request.at.host = HostId::of_url(request.at.at.url.as_bytes());
                    request.new_host = Some(request.at.host);
                }
                AttemptEnd::Redirected
            }
            Err(_) => request.answer(HostRobots::of_reply(status, b""), RequestOutcome::Answer),
        }
    }
}

impl Requester for RobotsRequester<'_> {
    type Request = RobotsRequest;
    type Held = HeldOutcomes;
    type Body = RobotsBody;

    const CERTAIN: CertainReplies = CertainReplies::First;

    async fn find_origin(
        &self,
        request: &mut RobotsRequest,
        _watch: &Deadlines,
    ) -> Result<Rc<OriginConnections>, AttemptEnd> {
        let worker = self.0;
        let found = worker.origins.of_target(&request.at.at.url, &worker.pool);
        found.map_err(|kind| request.fail(kind, kind.meaning()))
    }

    async fn await_turn(
        &self,
        _request: &mut RobotsRequest,
        origin: &OriginConnections,
        watch: &Deadlines,
    ) -> Result<(), AttemptEnd> {
        if self.0.keep_pace(origin, watch).await { Ok(()) } else { Err(AttemptEnd::Over) }
    }

    fn prepare(
        &self,
        _request: &mut RobotsRequest,
        body: &mut Resumable<RobotsBody>,
        _origin: &OriginConnections,
    ) {
        body.discard();
        body.start(false);
    }

    async fn bring(
        &self,
        task: &mut WorkerConnection,
        request: &RobotsRequest,
        origin: &Rc<OriginConnections>,
        is_fresh: bool,
        watch: &Deadlines,
    ) {
        self.0.bring(task, &request.at, origin, is_fresh, watch).await;
    }

    async fn open_connection(
        &self,
        connection: &mut Connection,
        request: &mut RobotsRequest,
        watch: &Deadlines,
    ) -> Result<(), Failure> {
        self.0.open_connection(connection, &mut request.at, watch).await
    }

    fn note_unconnected(
        &self,
        request: &mut RobotsRequest,
        origin: &OriginConnections,
        kind: FailureKind,
    ) -> Option<AttemptEnd> {
        self.0.note_unconnected(&mut request.at, origin, kind)
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        request: &mut RobotsRequest,
        origin: &OriginConnections,
        body: &mut Resumable<RobotsBody>,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        let worker = self.0;
        worker.outcomes.note_attempts(1);
        let _exchange = worker.load.count_exchange();
        let path = origin.key.path_of(&request.at.at.url).unwrap_or(ROBOTS_PATH);
        connection.exchange(RequestTarget::Path(path), &worker.buffers, body, watch, u64::MAX).await
    }

    fn micros(&self) -> MonotonicMicros {
        self.0.micros()
    }

    fn note_reply(
        &self,
        connection: &Connection,
        request: &mut RobotsRequest,
        replied: &ReceivedReply,
        body: &Resumable<RobotsBody>,
        sent: MonotonicMicros,
    ) {
        let took = self.micros().saturating_sub(sent);
        if self.0.note_load(&replied.head, took, body.brought(), request.at.asked_unloaded)
            && let Some(origin) = connection.origin()
        {
            self.0.load.note_origin(&origin.key, took);
        }
    }

    fn checks_socket(&self, connection: &Connection, is_certain: bool) -> bool {
        self.0.checks_socket(connection, is_certain)
    }

    fn settle_reply(
        &self,
        connection: &Connection,
        request: &mut RobotsRequest,
        body: &mut Resumable<RobotsBody>,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        let status = replied.head.status;
        if is_redirect(status) {
            return Self::follow(request, connection, body, status);
        }
        if body.inner.has_no_room() {
            request.end = RobotsEnd::NoRoom;
            return AttemptEnd::Over;
        }
        let seen = match FailureKind::of_status(status) {
            // The reply comes from the destination of a redirect, and reveals nothing about this host.
            Err(kind) if kind.is_retryable() && !request.at.at.is_redirected() => {
                self.0.seen_of(kind, Some(replied), self.0.retry_after(replied))
            }
            _ => RequestOutcome::Answer,
        };
        request.answer(HostRobots::of_reply(status, &body.inner.text()), seen)
    }

    /// Discards a reply that might belong to another request. The file is requested again on a new connection.
    fn hold_reply(
        &self,
        _task: &mut WorkerConnection,
        _request: &mut RobotsRequest,
        body: &mut Resumable<RobotsBody>,
        _replied: &ReceivedReply,
    ) -> AttemptEnd {
        body.discard();
        AttemptEnd::Again
    }

    fn judge_replies(&self, task: &mut WorkerConnection, judged: Judged) {
        self.0.judge(task, judged);
    }

    fn fail_unknown_reply(&self, request: &mut RobotsRequest, failure: Failure) -> AttemptEnd {
        request.fail(failure.kind, &failure.reason)
    }

    async fn await_end(&self, task: &mut WorkerConnection, watch: &Deadlines) {
        self.0.end_connection(task, watch).await;
    }

    fn attempt_failed(
        &self,
        request: &mut RobotsRequest,
        failure: Failure,
        broken: Option<BrokenFacts>,
    ) -> AttemptEnd {
        if self.is_over(request) {
            return AttemptEnd::Over;
        }
        match broken {
            None if !request.at.at.is_redirected() => {
                request.end = RobotsEnd::Unreached(failure);
                AttemptEnd::Over
            }
            Some(broken)
                if matches!(request.at.state.after_broken(broken, &Self::rules(), 0), Verdict::Again) =>
            {
                AttemptEnd::Again
            }
            _ => request.fail(failure.kind, &failure.reason),
        }
    }

    fn leave_connection(&self, task: &mut WorkerConnection) {
        self.0.leave_connection(task);
    }

    async fn await_credentials(&self, _request: &mut RobotsRequest) -> bool {
        false
    }

    fn enter_new_host(&self, request: &mut RobotsRequest) -> bool {
        request.new_host.is_none()
    }

    fn is_over(&self, _request: &RobotsRequest) -> bool {
        self.0.supply.is_done()
    }

    fn may_repeat(&self, _request: &RobotsRequest) -> bool {
        true
    }

    fn state_of<'r>(&self, request: &'r mut RobotsRequest) -> &'r mut AttemptState {
        &mut request.at.state
    }

    fn rules_of(&self, _request: &RobotsRequest) -> Rules {
        Self::rules()
    }
}
