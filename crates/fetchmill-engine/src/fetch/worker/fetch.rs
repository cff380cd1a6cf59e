//! The life of one connection of a worker: take a target, exchange, settle; and what follows from each failure.

use std::rc::Rc;
use std::sync::Arc;

use super::address::{asked_for, call_of};
use super::body::BodyReceiver;
use super::held_outcomes::WorkerConnection;
use super::pipeline::TargetBatch;
use super::state::Worker;
use super::verdict::FetchAttempt;
use crate::access::tls_errors::distrust;
use crate::control::stop::Stop;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::certainty::MonotonicMicros;
use fetchmill_model::error::Error;
use fetchmill_model::limits;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::hosts::RequestOutcome;
use fetchmill_model::verdict::{BreakOff, BrokenFacts};
use fetchmill_net::certain::AfterReply;
use fetchmill_net::{
    BrokenExchange, ConnectFailure, Connection, Deadlines, OriginConnections, ReceivedReply, RequestTarget,
};

/// A reply's worth of the origin's state is told to the planner at the latest after so many failures.
const RETRIES_REPORTED_AT: usize = 16;

impl Worker {
    /// Until the job ends.
    pub(super) async fn fetch(self: &Rc<Self>, watch: &Rc<Deadlines>) {
        let mut task = WorkerConnection::default();
        let mut batch = TargetBatch::default();
        let mut body = BodyReceiver::new(
            self.setup.properties,
            Arc::clone(&self.setup.body_memory),
            self.control().body_meter.clone(),
            self.setup.stage.clone(),
            self.setup.enough,
        );
        while !self.is_done.get() {
            if !self.take(batch.first()) {
                if self.is_done.get() {
                    break;
                }
                self.wait_idle(&mut task, watch).await;
                continue;
            }
            self.in_flight.set(self.in_flight.get() + 1);
            self.join(batch.first());
            self.gather(&mut task, &mut batch);
            self.fetch_together(&mut task, &mut batch, &mut body, watch).await;
            while let Some((target, came)) = batch.next_alone() {
                self.fetch_target(&mut task, target, &mut body, watch, came).await;
            }
            let is_probe = self.control().plan.is_probe(batch.first().sequence);
            self.report.borrow_mut().observed.probes += u32::from(is_probe);
            self.in_flight.set(self.in_flight.get() - 1);
            if let Some(error) = body.take_failure() {
                self.control().stop.fail(error);
            }
            if self.block.borrow().is_full() {
                self.send_block(false).await;
            }
            self.step_connection(&mut task, watch).await;
            let is_waited_for = self.dry_until.get().is_some() && self.in_flight.get() == 0;
            if is_waited_for || is_probe || self.report.borrow().retries.len() >= RETRIES_REPORTED_AT {
                self.turn(0);
            }
        }
        self.resting.part(&mut task, &self.pool);
    }

    /// Attempts at one target, as many as are made at once; `came` is what has come of its first one, if that was made.
    async fn fetch_target(
        &self,
        task: &mut WorkerConnection,
        target: &mut CurrentTarget,
        body: &mut BodyReceiver,
        watch: &Rc<Deadlines>,
        mut came: Option<FetchAttempt>,
    ) {
        loop {
            let attempt = match came.take() {
                Some(attempt) => attempt,
                None => self.attempt(task, target, body, watch).await,
            };
            match attempt {
                FetchAttempt::Over => break,
                FetchAttempt::Again => self.resting.leave(task, &self.pool),
                FetchAttempt::BrokenOff => {
                    self.resting.leave(task, &self.pool);
                    if !self.await_resumption(target, watch).await {
                        break;
                    }
                }
                FetchAttempt::Renewing => {
                    self.resting.leave(task, &self.pool);
                    watch.rest();
                    if !self.renewed(target).await {
                        break;
                    }
                }
                FetchAttempt::Redirected if !self.moves_on(target) => break,
                FetchAttempt::Redirected => {}
                FetchAttempt::Split => target.split(),
            }
        }
        if body.progress.is_broken_off() {
            // It waits for something else, or the job ends.
            body.discard();
        }
        self.plan_joined_again(target);
        // With a target that another host has now, there is nothing to leave.
        self.leave(target, RequestOutcome::Nothing);
    }

    /// Takes the next target; `false` when there is none now.
    fn take(&self, target: &mut CurrentTarget) -> bool {
        if self.in_flight.get() >= self.share.get() {
            return false;
        }
        let is_taken = self.take_next(target);
        if !is_taken {
            self.load.starve();
        }
        is_taken
    }

    fn take_next(&self, target: &mut CurrentTarget) -> bool {
        if self.is_done.get() || self.is_congested.get() || self.control().stop.get() != Stop::No {
            return false;
        }
        if self.control().plan.is_held(|| self.queue.borrow().only(), self.clock.get()) {
            if let Some(batch) = self.queue.borrow_mut().give_back() {
                self.control().plan.lock().give_back(batch);
            }
            if self.dry_until.get().is_some() || !self.turn(1) {
                return false;
            }
        }
        if self.is_short_of_memory() {
            self.waits_for_memory.set(true);
            return false;
        }
        if self.control().origins.are_many() {
            return self.take_of_hosts(target);
        }
        if self.is_idle() {
            return false;
        }
        self.queue.borrow_mut().take(target)
    }

    /// Without a target the connection rests, or is kept for a while.
    async fn wait_idle(&self, task: &mut WorkerConnection, watch: &Rc<Deadlines>) {
        // A task above the share has no use for a connection: others may.
        if task.is_holding() || self.in_flight.get() >= self.share.get() {
            self.resting.part(task, &self.pool);
        }
        if task.connection.is_open() {
            watch.only(limits::KEEP_ALIVE_IDLE);
        } else {
            watch.rest();
        }
        self.idle_connections.wait_idle(&task.connection, watch).await;
        if watch.has_expired() {
            task.connection.close();
        }
        let judged = task.check_unused();
        self.judge(task, judged);
    }

    async fn attempt(
        &self,
        task: &mut WorkerConnection,
        target: &mut CurrentTarget,
        body: &mut BodyReceiver,
        watch: &Rc<Deadlines>,
    ) -> FetchAttempt {
        let is_resumed = body.progress.is_broken_off();
        if !is_resumed {
            body.start(target.sequence);
        }
        let origin = match self.find_origin(target, watch).await {
            Ok(origin) => origin,
            Err(attempt) => return attempt,
        };
        if !self.keep_pace(&origin, watch).await {
            return self.leave_pending(target);
        }
        self.begin_row(target);
        self.note_credentials(target, &origin.key);
        if !is_resumed {
            self.expect(target, body);
        }
        self.resting.bring(task, &self.pool, &origin, target.reach);
        if !task.connection.is_open() {
            self.bound_rests(task, target, watch).await;
        }
        if !task.connection.is_open()
            && let Err(kind) = self.open(&mut task.connection, target, watch).await
        {
            target.seen.connection(&task.connection);
            return self.unconnected(&origin, target, body, kind);
        }
        let is_first = task.connection.replies() == 0;
        let (sent, is_unloaded) = (self.control().clock.micros(), self.load.is_low(self.share.get()));
        let replied = self.exchange(&mut task.connection, &origin, target, body, watch).await;
        if let Some(seen) = body.seen() {
            target.seen.take_reply(seen);
        }
        target.seen.connection(&task.connection);
        match replied {
            Ok(replied) => {
                self.note_reply(task, sent, &replied, (body.progress.brought(), is_unloaded));
                let replied = ReceivedReply { head: body.progress.head_of_whole(replied.head), ..replied };
                self.replied(task, target, body, watch, replied, is_first).await
            }
            Err(broken) => self.broke_off(task, target, body, broken, sent),
        }
    }

    /// There is no connection to the origin.
    fn unconnected(
        &self,
        origin: &OriginConnections,
        target: &mut CurrentTarget,
        body: &mut BodyReceiver,
        kind: FailureKind,
    ) -> FetchAttempt {
        if let Some(error) = distrust(&origin.key, kind).filter(|_| !self.has_rows()) {
            if self.stops_at(origin) {
                // The target stays pending: the next run may trust the server.
                self.control().stop.fail(error);
                return FetchAttempt::Over;
            }
            self.control().notice_distrust(&origin.key, &error);
        }
        match self.go_on_unconnected(target, body, kind) {
            Some(asked) => attempt_of(asked),
            None => self.failed(target, kind, None),
        }
    }

    /// No complete reply came to a request that was sent then.
    fn broke_off(
        &self,
        task: &mut WorkerConnection,
        target: &mut CurrentTarget,
        body: &mut BodyReceiver,
        broken: BrokenExchange,
        sent: MonotonicMicros,
    ) -> FetchAttempt {
        let BrokenExchange { kind, is_unanswered, .. } = broken;
        self.met_break(task, is_unanswered.then_some(sent));
        let connection = &mut task.connection;
        let (was_used, is_shared) = (connection.replies() > 0, connection.is_shared());
        connection.abandon();
        let facts = BrokenFacts { kind, was_used, is_unanswered, is_shared };
        if let Some(asked) = self.go_on(target, body, facts) {
            return attempt_of(asked);
        }
        body.discard();
        self.broken(target, facts)
    }

    /// The origin that has the target; else what became of the target. While credentials are looked for it waits here for
    /// a moment, since they are there in a second as a rule, and is put aside then: others are not to wait for it.
    async fn find_origin(
        &self,
        target: &mut CurrentTarget,
        watch: &Deadlines,
    ) -> Result<Rc<OriginConnections>, FetchAttempt> {
        loop {
            let kind = match self.locate(target) {
                Ok(_) if self.was_interrupted(target) => {
                    self.leave(target, RequestOutcome::Nothing);
                    return Err(FetchAttempt::Over);
                }
                Ok(origin) => return Ok(origin),
                Err(kind) => kind,
            };
            let loading = self.control().store.loading().filter(|_| kind == FailureKind::Credentials);
            match loading {
                Some(since) if since < limits::DEFERRED_FOR && !self.is_done.get() => {
                    watch.rest();
                    tokio::time::sleep(limits::TICK).await;
                    target.url.clear();
                }
                Some(_) => {
                    self.await_credentials(target);
                    return Err(FetchAttempt::Over);
                }
                None if kind.is_retryable() => return Err(self.failed(target, kind, None)),
                None => {
                    self.settle_other(target, Outcome::Failed(kind), 0, 0, None);
                    return Err(FetchAttempt::Over);
                }
            }
        }
    }

    /// Whether the job cannot go on when this origin is not to be trusted; to a check, that is an answer.
    fn stops_at(&self, origin: &OriginConnections) -> bool {
        !self.has_rows() && self.control().is_only_origin(&origin.key)
    }

    async fn open(
        &self,
        connection: &mut Connection,
        target: &CurrentTarget,
        watch: &Deadlines,
    ) -> Result<(), FailureKind> {
        loop {
            match self.pool.open_at(connection, watch, target.reach, target.found.as_ref()).await {
                Ok(()) => {
                    self.exhausted_since.set(None);
                    if !self.control().origins.are_many() {
                        let took = self.pool.take_connect_time();
                        self.control().telemetry.note_connection(connection.address(), took);
                    }
                    return Ok(());
                }
                Err(ConnectFailure::Failed(kind)) => return Err(kind),
                Err(ConnectFailure::Exhausted(number)) => {
                    self.rest_exhausted(number).await;
                    if self.is_done.get() {
                        return Err(FailureKind::Unreachable);
                    }
                }
            }
        }
    }

    /// Out of descriptors or ports: the targets are not to blame. With no connection at all the job ends.
    async fn rest_exhausted(&self, number: i32) {
        let now = self.clock.get();
        let since = self.exhausted_since.get().unwrap_or(now);
        self.waiters.opening.overload(now);
        self.exhausted_since.set(Some(since));
        if self.pool.open_connections() == 0 && now.saturating_sub(since) > 10_000 {
            let error = std::io::Error::from_raw_os_error(number);
            self.control().stop.fail(Error::storage("connect from", "this machine", error));
        }
        tokio::time::sleep(limits::EXHAUSTED_PAUSE).await;
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        origin: &OriginConnections,
        target: &mut CurrentTarget,
        body: &mut BodyReceiver,
        watch: &Deadlines,
    ) -> Result<ReceivedReply, BrokenExchange> {
        self.delta.borrow_mut().attempts += 1;
        target.effects.note_sent();
        let _exchange = self.load.exchange();
        if let Some(rest) = body.rest() {
            return self.exchange_rest(connection, origin, target, body, rest, watch).await;
        }
        let (buffers, max_body) = (&self.buffers, self.setup.pool.max_body);
        if target.request.is_some() {
            let fields = target.effects.fields(target.request.as_deref());
            let call = call_of(origin, target, &fields);
            return connection.exchange(RequestTarget::Call(&call), buffers, body, watch, max_body).await;
        }
        let asked = asked_for(origin, target, self.setup.naming);
        connection.exchange(asked, buffers, body, watch, max_body).await
    }

    /// A complete reply: whose it is must be certain before it goes to the sink.
    async fn replied(
        &self,
        task: &mut WorkerConnection,
        target: &mut CurrentTarget,
        body: &mut BodyReceiver,
        watch: &Rc<Deadlines>,
        replied: ReceivedReply,
        is_first: bool,
    ) -> FetchAttempt {
        if task.connection.is_shared() {
            return self.settle(&task.connection, target, body, &replied, &mut |_| ());
        }
        if replied.is_cut {
            return self.replied_in_part(task, target, body, &replied, is_first);
        }
        let Some(origin) = task.connection.origin() else { return FetchAttempt::Again };
        let looks = is_first || origin.replies.borrow().has_surplus();
        let after = task.after_reply(replied.surplus, replied.head.keep_alive, looks);
        if after == AfterReply::Surplus && !is_first {
            body.discard();
            self.met_surplus(task);
            if target.may_repeat() {
                return FetchAttempt::Again;
            }
            self.fail_uncertain(target);
            self.leave(target, RequestOutcome::Answer);
            return FetchAttempt::Over;
        }
        let attempt = if is_first {
            self.settle(&task.connection, target, body, &replied, &mut |_| ())
        } else {
            let WorkerConnection { connection, held } = task;
            self.hold(held, |note| self.settle(connection, target, body, &replied, note))
        };
        match after {
            AfterReply::Open => {}
            AfterReply::Ends => self.end_connection(task, watch).await,
            AfterReply::Surplus => self.met_surplus(task),
        }
        attempt
    }

    /// Enough of a body came, and its connection is closed with the rest on its way: only on a fresh one it is certain.
    fn replied_in_part(
        &self,
        task: &mut WorkerConnection,
        target: &mut CurrentTarget,
        body: &mut BodyReceiver,
        replied: &ReceivedReply,
        is_first: bool,
    ) -> FetchAttempt {
        self.fetch_again(&mut task.held, FailureKind::Reset);
        if is_first {
            return self.settle(&task.connection, target, body, replied, &mut |_| ());
        }
        body.discard();
        FetchAttempt::Again
    }

    /// A redirect leads on, perhaps to another host: whether the target goes there at once.
    fn moves_on(&self, target: &mut CurrentTarget) -> bool {
        if !target.is_admitted {
            return true;
        }
        self.leave(target, RequestOutcome::Answer);
        self.admit(target)
    }
}

/// The attempt that follows when a body broke off.
fn attempt_of(asked: BreakOff) -> FetchAttempt {
    match asked {
        BreakOff::Rest => FetchAttempt::BrokenOff,
        BreakOff::Whole => FetchAttempt::Again,
    }
}
