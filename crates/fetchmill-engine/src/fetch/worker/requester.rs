//! Sends a worker's requests for its targets ([`crate::attempt`]).

use std::rc::Rc;

use super::address::{asked_for, call_of};
use super::body::{BodyReceiver, WorkerBody};
use super::held_outcomes::{HeldOutcomes, WorkerConnection};
use super::state::Worker;
use crate::access::tls_errors::distrust;
use crate::attempt::{AttemptEnd, CertainReplies, Failure, Requester};
use crate::fetch::target::CurrentTarget;
use fetchmill_model::error::Error;
use fetchmill_model::http1::RequestParts;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::hosts::RequestOutcome;
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_model::verdict::{AttemptState, BrokenFacts, Rules};
use fetchmill_net::certain::Judged;
use fetchmill_net::{
    BrokenExchange, ConnectFailure, Connection, Deadlines, OriginConnections, ReceivedReply, RequestTarget,
};

impl Requester for Worker {
    type Request = CurrentTarget;
    type Held = HeldOutcomes;
    type Body = BodyReceiver;

    const CERTAIN: CertainReplies = CertainReplies::First;

    /// Returns the target's origin, or the end of the attempt if there is none. If credentials are still being loaded,
    /// waits briefly, because they usually arrive within a second. If they do not, defers the target so that it does
    /// not block others.
    async fn find_origin(
        &self,
        target: &mut CurrentTarget,
        watch: &Deadlines,
    ) -> Result<Rc<OriginConnections>, AttemptEnd> {
        loop {
            let kind = match self.locate(target) {
                Ok(_) if self.was_interrupted(target) => {
                    self.leave(target, RequestOutcome::Nothing);
                    return Err(AttemptEnd::Over);
                }
                Ok(origin) => return Ok(origin),
                Err(kind) => kind,
            };
            let loading = self.control().store.loading().filter(|_| kind == FailureKind::Credentials);
            match loading {
                Some(since) if since < limits::DEFERRED_FOR && !self.supply.is_done() => {
                    watch.rest();
                    tokio::time::sleep(limits::TICK).await;
                    target.at.url.clear();
                }
                Some(_) => {
                    self.defer_for_credentials(target);
                    return Err(AttemptEnd::Over);
                }
                None if kind.is_retryable() => {
                    return Err(self.failed(target, Failure::unconnected(kind), None));
                }
                None => {
                    self.settle_other(target, Outcome::Failed(kind), 0, 0, None);
                    return Err(AttemptEnd::Over);
                }
            }
        }
    }

    async fn await_turn(
        &self,
        target: &mut CurrentTarget,
        origin: &OriginConnections,
        watch: &Deadlines,
    ) -> Result<(), AttemptEnd> {
        if self.keep_pace(origin, watch).await { Ok(()) } else { Err(self.leave_pending(target)) }
    }

    fn prepare(&self, target: &mut CurrentTarget, body: &mut WorkerBody, origin: &OriginConnections) {
        self.begin_row(target);
        self.note_credentials(target, &origin.key);
        if !body.is_broken_off() {
            self.expect(target, body);
        }
    }

    async fn bring(
        &self,
        task: &mut WorkerConnection,
        target: &CurrentTarget,
        origin: &Rc<OriginConnections>,
        is_fresh: bool,
        watch: &Deadlines,
    ) {
        let takes_used = !is_fresh && target.state.abandoned > 0 && !task.connection.is_open();
        if takes_used {
            // Without an origin, the task gets an unused connection, or a resting one if none is unused.
            self.pool.put(&mut task.connection);
        }
        self.resting.bring(task, &self.pool, origin, target.at.reach);
        if takes_used && !task.connection.is_open() {
            self.take_resting(task, target);
        }
        if !task.connection.is_open() {
            self.bound_rests(task, target, watch).await;
        }
    }

    async fn open_connection(
        &self,
        connection: &mut Connection,
        target: &mut CurrentTarget,
        watch: &Deadlines,
    ) -> Result<(), Failure> {
        let opened = self.open(connection, target, watch).await;
        if opened.is_err() {
            target.seen.connection(connection);
        }
        opened
    }

    /// Handles a server that cannot be trusted. If it is the job's only origin, the job ends. The target then stays
    /// pending, because the next run might trust the server. In a job with many hosts, the user gets a notice.
    fn note_unconnected(
        &self,
        _target: &mut CurrentTarget,
        origin: &OriginConnections,
        kind: FailureKind,
    ) -> Option<AttemptEnd> {
        let error = distrust(&origin.key, kind).filter(|_| !self.has_rows())?;
        if self.stops_at(origin) {
            self.control().stop.fail(error);
            return Some(AttemptEnd::Over);
        }
        self.control().notice_distrust(&origin.key, &error);
        None
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        target: &mut CurrentTarget,
        origin: &OriginConnections,
        body: &mut WorkerBody,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        target.asked_unloaded = self.load.is_low(self.in_flight.share());
        let replied = self.exchange_target(connection, target, origin, body, watch).await;
        if let Some(seen) = body.inner.seen() {
            target.seen.take_reply(seen);
        }
        target.seen.connection(connection);
        replied
    }

    fn micros(&self) -> MonotonicMicros {
        self.control().clock.micros()
    }

    fn note_reply(
        &self,
        connection: &Connection,
        target: &mut CurrentTarget,
        replied: &ReceivedReply,
        body: &WorkerBody,
        sent: MonotonicMicros,
    ) {
        let took = self.micros().saturating_sub(sent);
        if self.note_load(&replied.head, took, body.brought(), target.asked_unloaded)
            && self.control().origins.are_many()
            && let Some(origin) = connection.origin()
        {
            self.load.note_origin(&origin.key, took);
        }
    }

    /// Returns whether to check the socket for more bytes, which costs a system call. If the reply must wait for a rest
    /// anyway, the check is worth its cost only if the origin has already sent unsolicited bytes.
    fn checks_socket(&self, connection: &Connection, is_certain: bool) -> bool {
        is_certain || connection.origin().is_some_and(|origin| origin.replies.borrow().has_surplus())
    }

    fn settle_reply(
        &self,
        connection: &Connection,
        target: &mut CurrentTarget,
        body: &mut WorkerBody,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        self.settle(connection, target, body, replied, &mut |_| ())
    }

    fn hold_reply(
        &self,
        task: &mut WorkerConnection,
        target: &mut CurrentTarget,
        body: &mut WorkerBody,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        let WorkerConnection { connection, held } = task;
        self.hold(held, |note| self.settle(connection, target, body, replied, note))
    }

    fn judge_replies(&self, task: &mut WorkerConnection, judged: Judged) {
        self.judge(task, judged);
    }

    fn fail_unknown_reply(&self, target: &mut CurrentTarget, failure: Failure) -> AttemptEnd {
        self.fail_uncertain(target, &failure);
        self.leave(target, RequestOutcome::Answer);
        AttemptEnd::Over
    }

    async fn await_end(&self, task: &mut WorkerConnection, watch: &Deadlines) {
        self.end_connection(task, watch).await;
    }

    fn attempt_failed(
        &self,
        target: &mut CurrentTarget,
        failure: Failure,
        broken: Option<BrokenFacts>,
    ) -> AttemptEnd {
        match broken {
            Some(broken) => self.broken(target, failure, broken),
            None => self.failed(target, failure, None),
        }
    }

    fn leave_connection(&self, task: &mut WorkerConnection) {
        self.resting.leave(task, &self.pool);
    }

    async fn await_credentials(&self, target: &mut CurrentTarget) -> bool {
        self.renewed(target).await
    }

    fn enter_new_host(&self, target: &mut CurrentTarget) -> bool {
        if !target.is_admitted {
            return true;
        }
        self.leave(target, RequestOutcome::Answer);
        if !self.admit(target) {
            return false;
        }
        if target.asks_robots {
            self.waiters.push_ready(std::mem::take(target));
            self.idle_connections.wake_one();
            return false;
        }
        true
    }

    fn split(&self, target: &mut CurrentTarget) {
        target.split();
    }

    fn is_over(&self, _target: &CurrentTarget) -> bool {
        self.supply.is_done()
    }

    fn may_repeat(&self, target: &CurrentTarget) -> bool {
        target.may_repeat()
    }

    fn only_reads(&self, target: &CurrentTarget) -> bool {
        target.effects.only_reads(target.request.as_deref())
    }

    fn state_of<'t>(&self, target: &'t mut CurrentTarget) -> &'t mut AttemptState {
        &mut target.state
    }

    fn rules_of(&self, target: &CurrentTarget) -> Rules {
        self.rules(target)
    }
}

impl Worker {
    /// Returns whether the job ends if this origin cannot be trusted. A check continues, because it reports such
    /// failures as results.
    fn stops_at(&self, origin: &OriginConnections) -> bool {
        !self.has_rows() && self.control().is_only_origin(&origin.key)
    }

    async fn open(
        &self,
        connection: &mut Connection,
        target: &CurrentTarget,
        watch: &Deadlines,
    ) -> Result<(), Failure> {
        loop {
            match self.pool.open_at(connection, watch, target.at.reach, target.found.as_ref()).await {
                Ok(()) => {
                    self.exhaustion.end();
                    if !self.control().origins.are_many() {
                        self.note_connection(connection, target);
                    }
                    return Ok(());
                }
                Err(ConnectFailure::Failed(kind)) => return Err(Failure::unconnected(kind)),
                Err(ConnectFailure::Exhausted(number)) => {
                    self.rest_exhausted(number).await;
                    if self.supply.is_done() {
                        return Err(Failure::exhausted());
                    }
                }
            }
        }
    }

    /// Records a new connection to the only origin.
    fn note_connection(&self, connection: &Connection, target: &CurrentTarget) {
        let (address, took) = (connection.address(), self.pool.take_connect_time());
        if self.control().telemetry.note_connection(address, took)
            && let Some((key, _)) = OriginKey::of_url(&target.at.url)
        {
            let address = address.filter(|_| self.pool.proxy_of(&key).is_none());
            self.control().heed_first_server(&key, address);
        }
    }

    /// Pauses while this machine is out of descriptors or ports, which is not a failure of the target. If no connection
    /// has been open for 10 s, ends the job.
    async fn rest_exhausted(&self, number: i32) {
        let now = self.clock.now();
        self.start_quota.overload(now);
        if self.exhaustion.note(self.pool.open_connections(), now) {
            let error = std::io::Error::from_raw_os_error(number);
            self.control().stop.fail(Error::storage("connect from", "this machine", error));
        }
        tokio::time::sleep(limits::EXHAUSTED_PAUSE).await;
    }

    async fn exchange_target(
        &self,
        connection: &mut Connection,
        target: &mut CurrentTarget,
        origin: &OriginConnections,
        body: &mut WorkerBody,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        self.outcomes.note_attempts(1);
        target.effects.note_sent();
        let _exchange = self.load.count_exchange();
        let (buffers, max_body) = (&self.buffers, self.setup.pool.max_body);
        let cookies = target.at.cookies_at(origin);
        if let Some(rest) = body.rest_fields() {
            let mut fields = target.effects.fields(target.request.as_deref()).into_owned();
            fields.extend(rest);
            let path = self.path_at(origin, target);
            let cookies = cookies.as_deref();
            let call = RequestParts { method: "GET", path: &path, fields: &fields, body: None, cookies };
            return connection.exchange(RequestTarget::Call(&call), buffers, body, watch, max_body).await;
        }
        if target.request.is_some() || cookies.is_some() {
            let fields = target.effects.fields(target.request.as_deref());
            let call = call_of(origin, target, &fields, cookies.as_deref());
            return connection.exchange(RequestTarget::Call(&call), buffers, body, watch, max_body).await;
        }
        let asked = asked_for(origin, target, self.setup.naming);
        connection.exchange(asked, buffers, body, watch, max_body).await
    }
}
