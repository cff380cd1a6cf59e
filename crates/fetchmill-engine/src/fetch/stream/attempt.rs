//! The life of one task: take a request, exchange, answer; and what follows from each failure.

use std::rc::Rc;

use super::super::rate_wait::keep_pace;
use super::fetcher::{FetchThread, TaskState};
use super::queue::TaskRequest;
use super::reply_buffer::ReplyBuffer;
use super::rests::NOT_KNOWN;
use super::uncertain::{AttemptTimes, ExchangeReply, StreamConnection};
use super::verdict::StreamAttempt;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::source::list::{is_plain_at, normalise};
use fetchmill_net::certain::AfterReply;
use fetchmill_net::{ConnectFailure, Connection, Deadlines, OriginConnections};

impl FetchThread {
    /// Until the thread ends.
    pub(super) async fn serve(self: &Rc<Self>, place: &Rc<TaskState>) {
        let mut task = StreamConnection::default();
        let mut ticket = TaskRequest::default();
        let mut incoming = ReplyBuffer::default();
        loop {
            if !self.take(place, &mut ticket) {
                ticket = TaskRequest::default();
                self.wait_idle(&mut task, place).await;
                continue;
            }
            self.begin();
            loop {
                let attempt = self.attempt(&mut task, &mut ticket, &mut incoming, &place.watch).await;
                self.release(&mut incoming);
                match attempt {
                    StreamAttempt::Over => break,
                    StreamAttempt::Again => self.resting.leave(&mut task, &self.pool),
                    StreamAttempt::Renewing => {
                        self.resting.leave(&mut task, &self.pool);
                        place.watch.rest();
                        self.renewed(&ticket).await;
                    }
                    StreamAttempt::Redirected => {}
                }
            }
            self.end(place);
        }
    }

    async fn attempt(
        &self,
        task: &mut StreamConnection,
        ticket: &mut TaskRequest,
        incoming: &mut ReplyBuffer,
        watch: &Rc<Deadlines>,
    ) -> StreamAttempt {
        incoming.clear();
        if ticket.is_dropped() {
            return StreamAttempt::Over;
        }
        let mut course = AttemptTimes { started: self.exact.micros(), ..AttemptTimes::default() };
        let origin = match self.locate(ticket) {
            Ok(origin) => origin,
            Err(kind) => return self.not_located(ticket, kind, &course),
        };
        if ticket.visited.is_empty() {
            self.concurrency.note_origin(&origin, self.in_flight(), self.clock.get());
        }
        if !self.wait_for_paces(&origin, watch).await || ticket.is_dropped() {
            return StreamAttempt::Over;
        }
        course.started = self.exact.micros();
        self.resting.bring(task, &self.pool, &origin, ticket.reach);
        self.take_rested(task, &origin, ticket);
        if !task.connection.is_open() {
            self.bound_rests(watch).await;
            if let Err(kind) = self.open(&mut task.connection, ticket, watch).await {
                return self.failed(ticket, (kind, "there is no connection"), &course);
            }
            course.connect = self.exact.micros() - course.started;
        }
        let sent = self.exact.micros();
        match self.exchange(&mut task.connection, &origin, ticket, incoming, watch).await {
            Ok(exchanged) => {
                let (now, status) = (self.exact.micros(), exchanged.replied.head.status);
                let is_certain = task.note_replies(1, sent, now);
                course.ended = Some(now);
                self.throttling.note(&origin, status, self.clock.get());
                let load = (now.saturating_sub(sent), incoming.body.len() as u64);
                let from = (exchanged.address, ticket.store_url.is_some());
                self.concurrency.note_reply(&origin, status, load, from);
                self.replied(task, ticket, incoming, watch, exchanged, course, is_certain).await
            }
            Err(broken) => {
                self.met_break(task, broken.is_unanswered.then_some(sent));
                let connection = &mut task.connection;
                let was_used = connection.replies() > 0;
                let is_shared = connection.is_shared();
                connection.abandon();
                self.broken(ticket, broken, (was_used, is_shared), &course)
            }
        }
    }

    /// Waits until the request may go out; `false` when the watch has expired before.
    async fn wait_for_paces(&self, origin: &OriginConnections, watch: &Deadlines) -> bool {
        if origin.pace.is_some() || self.pace.is_some() {
            let _waiting = self.concurrency.load.wait_for_pace();
            let paces = self.pace.iter().chain(origin.pace.as_deref());
            // One that has expired is of a stream that was given up.
            keep_pace(paces, || self.exact.micros(), watch).await;
        }
        if !self.throttling.is_active() {
            return true;
        }
        let _waiting = self.concurrency.load.wait_for_pace();
        self.throttling.wait(&origin.key, || self.exact.micros(), watch).await
    }

    /// It is no URL, or one of a bucket whose credentials are not there, or not yet.
    fn not_located(
        &self,
        ticket: &mut TaskRequest,
        kind: FailureKind,
        course: &AttemptTimes,
    ) -> StreamAttempt {
        let reason = match kind {
            FailureKind::Credentials if self.store.loading().is_some() => {
                self.wait(std::mem::take(ticket), limits::RENEWAL_WAIT);
                return StreamAttempt::Over;
            }
            FailureKind::Credentials => "there are no credentials for the store: see profile=",
            _ => "it is no http or https URL, nor one of s3",
        };
        self.fail(ticket, (kind, reason), course)
    }

    /// The origin of a request; that of the last one, usually.
    fn locate(&self, ticket: &mut TaskRequest) -> Result<Rc<OriginConnections>, FailureKind> {
        let mut last = self.last_origin.borrow_mut();
        if let Some(last) = &*last
            && (is_plain_at(&ticket.url, last.key.text())
                || (ticket.is_located && last.key.path_of(&ticket.url).is_some()))
        {
            return Ok(Rc::clone(last));
        }
        if !ticket.is_located {
            ticket.url = normalise(&ticket.url).map_err(|_| FailureKind::Url)?.into_owned();
            ticket.is_located = true;
            if ticket.url.starts_with("s3:") {
                let url = self.buckets.http_url(&ticket.url);
                // Until its store is known it has no place.
                ticket.is_located = url.is_ok();
                let url = url?;
                ticket.store_url = Some((std::mem::replace(&mut ticket.url, url), self.store.generation()));
            }
        }
        let (key, _) = OriginKey::of_url(&ticket.url).ok_or(FailureKind::Url)?;
        let origin = self.pool.origin(&key).map_err(|_| FailureKind::Url)?;
        *last = Some(Rc::clone(&origin));
        Ok(origin)
    }

    async fn open(
        &self,
        connection: &mut Connection,
        ticket: &TaskRequest,
        watch: &Deadlines,
    ) -> Result<(), FailureKind> {
        for _ in 0..limits::STREAM_EXHAUSTED_TRIES_MAX {
            match self.pool.open(connection, watch, ticket.reach).await {
                Ok(()) => return Ok(()),
                Err(ConnectFailure::Failed(kind)) => return Err(kind),
                // Out of descriptors or ports: the request is not to blame.
                Err(ConnectFailure::Exhausted(_)) => tokio::time::sleep(limits::EXHAUSTED_PAUSE).await,
            }
            if ticket.is_dropped() {
                break;
            }
        }
        Err(FailureKind::Unreachable)
    }

    /// A complete reply: with certainty it waits until it is certain whose it is.
    #[expect(clippy::too_many_arguments, reason = "the parts of one task")]
    async fn replied(
        &self,
        task: &mut StreamConnection,
        ticket: &mut TaskRequest,
        incoming: &mut ReplyBuffer,
        watch: &Rc<Deadlines>,
        exchanged: ExchangeReply,
        course: AttemptTimes,
        is_certain: bool,
    ) -> StreamAttempt {
        if task.connection.is_shared() {
            return self.settle(ticket, incoming, &exchanged, &course);
        }
        let replied = exchanged.replied;
        let after = task.after_reply(replied.surplus, replied.head.keep_alive, true);
        if after == AfterReply::Surplus && !is_certain {
            self.met_surplus(task);
            if ticket.is_idempotent() {
                return StreamAttempt::Again;
            }
            return self.fail(ticket, NOT_KNOWN, &course);
        }
        let attempt = if is_certain {
            self.settle(ticket, incoming, &exchanged, &course)
        } else if ticket.wants_certainty() {
            self.hold(task, ticket, incoming, exchanged, course);
            StreamAttempt::Over
        } else {
            let given = ticket.collector.clone().map(|collector| (collector, ticket.index));
            Self::note_given(task, given);
            self.settle(ticket, incoming, &exchanged, &course)
        };
        match after {
            AfterReply::Open => self.step_connection(task, watch).await,
            AfterReply::Ends => self.end_connection(task, watch).await,
            AfterReply::Surplus => self.met_surplus(task),
        }
        attempt
    }
}
