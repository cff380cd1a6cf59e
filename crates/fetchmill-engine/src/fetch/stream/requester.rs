//! The main loop of a task, which takes a request, sends it, and delivers the reply ([`crate::attempt`]).

use std::rc::Rc;

use super::fetcher::{FetchThread, TaskState};
use super::held_replies::{HeldReply, StreamConnection, UncertainReplies};
use super::queue::{AttemptTimes, TaskRequest};
use super::reply_buffer::{ReplyBuffer, StreamBody};
use crate::attempt::{AttemptEnd, CertainReplies, Failure, Requester, fulfil};
use crate::control::rate_wait::keep_pace;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::source::list::{is_plain_at, normalise};
use fetchmill_model::verdict::{AttemptState, BrokenFacts, Rules};
use fetchmill_net::certain::Judged;
use fetchmill_net::{
    BrokenExchange, ConnectFailure, Connection, Deadlines, OriginConnections, ReceivedReply,
};

impl FetchThread {
    /// Serves requests until the thread stops.
    pub(super) async fn serve(self: &Rc<Self>, place: &Rc<TaskState>) {
        let mut task = StreamConnection::default();
        let mut request = TaskRequest::default();
        let mut incoming = StreamBody::default();
        loop {
            if !self.take(place, &mut request) {
                request = TaskRequest::default();
                self.wait_idle(&mut task, place).await;
                continue;
            }
            self.begin();
            fulfil(&**self, &mut task, &mut request, &mut incoming, &place.watch, None).await;
            self.release(&mut incoming.inner);
            self.step_connection(&mut task, &place.watch).await;
            self.end(place);
        }
    }

    /// Waits until the request can be sent. Returns `false` if the watch expires first.
    async fn wait_for_paces(&self, origin: &OriginConnections, watch: &Deadlines) -> bool {
        if origin.pace.is_some() || self.pace.is_some() {
            let _waiting = self.concurrency.load.wait_for_pace();
            let paces = self.pace.iter().chain(origin.pace.as_deref());
            // If the watch expires, the stream was dropped.
            keep_pace(paces, || self.exact.micros(), watch).await;
        }
        if !self.throttling.is_active() {
            return true;
        }
        let _waiting = self.concurrency.load.wait_for_pace();
        self.throttling.wait(&origin.key, || self.exact.micros(), watch).await
    }

    /// Handles a request without a location: its URL is invalid, or the credentials for its bucket are missing or still
    /// being loaded.
    fn not_located(&self, request: &mut TaskRequest, kind: FailureKind) -> AttemptEnd {
        let reason = match kind {
            FailureKind::Credentials if self.store.loading().is_some() => {
                self.wait(std::mem::take(request), limits::RENEWAL_WAIT);
                return AttemptEnd::Over;
            }
            FailureKind::Credentials => "no credentials for the store; set profile=",
            _ => "not an http, https or s3 URL",
        };
        self.fail(request, Failure::new(kind, reason))
    }

    /// Returns the origin of a request, which is usually the origin of the previous request.
    fn locate(&self, request: &mut TaskRequest) -> Result<Rc<OriginConnections>, FailureKind> {
        let mut last = self.last_origin.borrow_mut();
        if let Some(last) = &*last
            && (is_plain_at(&request.at.url, last.key.text())
                || (request.is_located && last.key.path_of(&request.at.url).is_some()))
        {
            return Ok(Rc::clone(last));
        }
        if !request.is_located {
            request.at.url = normalise(&request.at.url).map_err(|_| FailureKind::Url)?.into_owned();
            request.is_located = true;
            if request.at.url.starts_with("s3:") {
                let url = self.buckets.http_url(&request.at.url);
                // A request cannot be located until its store is known.
                request.is_located = url.is_ok();
                let url = url?;
                request.store_url =
                    Some((std::mem::replace(&mut request.at.url, url), self.store.generation()));
            }
        }
        let (key, _) = OriginKey::of_url(&request.at.url).ok_or(FailureKind::Url)?;
        let origin = self.pool.origin(&key).map_err(|_| FailureKind::Url)?;
        *last = Some(Rc::clone(&origin));
        Ok(origin)
    }

    async fn open(
        &self,
        connection: &mut Connection,
        request: &TaskRequest,
        watch: &Deadlines,
    ) -> Result<(), Failure> {
        for _ in 0..limits::STREAM_EXHAUSTED_TRIES_MAX {
            match self.pool.open(connection, watch, request.at.reach).await {
                Ok(()) => return Ok(()),
                Err(ConnectFailure::Failed(kind)) => return Err(Failure::unconnected(kind)),
                // This machine has run out of descriptors or ports, which is not a failure of the request.
                Err(ConnectFailure::Exhausted(_)) => tokio::time::sleep(limits::EXHAUSTED_PAUSE).await,
            }
            if request.is_dropped() {
                break;
            }
        }
        Err(Failure::exhausted())
    }
}

impl Requester for FetchThread {
    type Request = TaskRequest;
    type Held = UncertainReplies;
    type Body = ReplyBuffer;

    const CERTAIN: CertainReplies = CertainReplies::FirstAfterRest;

    async fn find_origin(
        &self,
        request: &mut TaskRequest,
        _watch: &Deadlines,
    ) -> Result<Rc<OriginConnections>, AttemptEnd> {
        if request.is_dropped() {
            return Err(AttemptEnd::Over);
        }
        request.attempt = AttemptTimes { started: self.exact.micros(), ..AttemptTimes::default() };
        let origin = self.locate(request).map_err(|kind| self.not_located(request, kind))?;
        if !request.at.is_redirected() {
            self.concurrency.note_origin(&origin, self.in_flight(), self.clock.get());
        }
        Ok(origin)
    }

    async fn await_turn(
        &self,
        request: &mut TaskRequest,
        origin: &OriginConnections,
        watch: &Deadlines,
    ) -> Result<(), AttemptEnd> {
        if !self.wait_for_paces(origin, watch).await || request.is_dropped() {
            return Err(AttemptEnd::Over);
        }
        request.attempt.started = self.exact.micros();
        Ok(())
    }

    fn prepare(&self, request: &mut TaskRequest, incoming: &mut StreamBody, _origin: &OriginConnections) {
        if !incoming.is_broken_off() {
            incoming.inner.clear();
            let may_be_resumed = request.effects.may_be_resumed(request.call.as_deref());
            incoming.start(may_be_resumed && request.is_idempotent());
        }
    }

    async fn bring(
        &self,
        task: &mut StreamConnection,
        request: &TaskRequest,
        origin: &Rc<OriginConnections>,
        is_fresh: bool,
        watch: &Deadlines,
    ) {
        self.resting.bring(task, &self.pool, origin, request.at.reach);
        if !is_fresh {
            self.take_rested(task, origin, request);
        }
        if !task.connection.is_open() {
            self.bound_rests(task, watch).await;
        }
    }

    async fn open_connection(
        &self,
        connection: &mut Connection,
        request: &mut TaskRequest,
        watch: &Deadlines,
    ) -> Result<(), Failure> {
        self.open(connection, request, watch).await?;
        request.attempt.connect = self.exact.micros() - request.attempt.started;
        Ok(())
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        request: &mut TaskRequest,
        origin: &OriginConnections,
        incoming: &mut StreamBody,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        self.exchange_request(connection, origin, request, incoming, watch).await
    }

    fn micros(&self) -> MonotonicMicros {
        self.exact.micros()
    }

    fn note_reply(
        &self,
        connection: &Connection,
        request: &mut TaskRequest,
        replied: &ReceivedReply,
        incoming: &StreamBody,
        sent: MonotonicMicros,
    ) {
        let now = self.exact.micros();
        request.attempt.ended = Some(now);
        let Some(origin) = connection.origin() else { return };
        let retried = &self.options.http.retry_status;
        let (status, asks_to_wait) = (replied.head.status, replied.head.retry_after.is_some());
        self.throttling.note(origin, retried.throttles(status, asks_to_wait), self.clock.get());
        let load = (now.saturating_sub(sent), incoming.inner.body.len() as u64);
        let from = (connection.address(), request.store_url.is_some());
        let load = retried.is_well(status, asks_to_wait).then_some(load);
        self.concurrency.note_reply(origin, load, from);
    }

    fn checks_socket(&self, _connection: &Connection, _is_certain: bool) -> bool {
        true
    }

    fn settle_reply(
        &self,
        connection: &Connection,
        request: &mut TaskRequest,
        incoming: &mut StreamBody,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        self.settle(request, incoming, replied, connection.address())
    }

    /// Holds a reply. A stream that does not wait for certainty gets the reply immediately, and an error later if the
    /// reply becomes doubtful.
    fn hold_reply(
        &self,
        task: &mut StreamConnection,
        request: &mut TaskRequest,
        incoming: &mut StreamBody,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        let address = task.connection.address();
        if request.wants_certainty() {
            self.release(&mut incoming.inner);
            let (request, incoming) = (std::mem::take(request), std::mem::take(incoming));
            self.hold(task, HeldReply { request, incoming, replied: *replied, address });
            return AttemptEnd::Over;
        }
        let given = request.collector.clone().map(|collector| (collector, request.index));
        Self::note_given(task, given);
        self.settle(request, incoming, replied, address)
    }

    fn judge_replies(&self, task: &mut StreamConnection, judged: Judged) {
        self.judge(task, judged);
    }

    fn fail_unknown_reply(&self, request: &mut TaskRequest, failure: Failure) -> AttemptEnd {
        self.fail(request, failure)
    }

    async fn await_end(&self, task: &mut StreamConnection, watch: &Deadlines) {
        self.end_connection(task, watch).await;
    }

    fn attempt_failed(
        &self,
        request: &mut TaskRequest,
        failure: Failure,
        broken: Option<BrokenFacts>,
    ) -> AttemptEnd {
        if request.is_dropped() {
            return AttemptEnd::Over;
        }
        match broken {
            Some(broken) => self.broken(request, failure, broken),
            None => self.failed(request, failure),
        }
    }

    fn attempted(&self, incoming: &mut StreamBody) {
        if !incoming.is_broken_off() {
            self.release(&mut incoming.inner);
        }
    }

    fn leave_connection(&self, task: &mut StreamConnection) {
        self.resting.leave(task, &self.pool);
    }

    async fn await_credentials(&self, request: &mut TaskRequest) -> bool {
        self.renewed(request).await;
        true
    }

    fn is_over(&self, request: &TaskRequest) -> bool {
        request.is_dropped()
    }

    fn may_repeat(&self, request: &TaskRequest) -> bool {
        request.is_idempotent()
    }

    fn only_reads(&self, request: &TaskRequest) -> bool {
        request.only_reads()
    }

    fn state_of<'r>(&self, request: &'r mut TaskRequest) -> &'r mut AttemptState {
        &mut request.state
    }

    fn rules_of(&self, request: &TaskRequest) -> Rules {
        self.rules(request)
    }
}
