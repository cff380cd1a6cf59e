//! Whose a reply is: certain at once, or only when its connection was silent afterwards ([`fetchmill_model::certainty`]). Until then a
//! stream holds it, or has handed it over and remembers that.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::fetcher::{FetchThread, TaskState};
use super::queue::TaskRequest;
use super::reply_buffer::ReplyBuffer;
use super::uncertain::{
    AttemptTimes, ExchangeReply, GivenReply, HeldReply, StreamConnection, UncertainReplies,
};
use super::verdict::StreamAttempt;
use crate::fetch::load_counter::Counted;
use fetchmill_model::certainty::{MonotonicMicros, NextStep, REST_MAX};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::origin::Millis;
use fetchmill_net::{Deadlines, OriginConnections, UnusedState};

/// What a request gets whose reply can't be known and that may not be made again.
pub(super) const NOT_KNOWN: (FailureKind, &str) =
    (FailureKind::Framing, "bytes came that nobody asked for: whose reply it is cannot be known");

/// How often connections that have rested are looked at.
const SWEEP: Duration = Duration::from_secs(1);

impl FetchThread {
    /// Holds a reply that is not certain yet.
    pub(super) fn hold(
        &self,
        task: &mut StreamConnection,
        ticket: &mut TaskRequest,
        incoming: &mut ReplyBuffer,
        exchanged: ExchangeReply,
        course: AttemptTimes,
    ) {
        self.release(incoming);
        let bytes = incoming.memory();
        task.uncertain.bytes += bytes;
        self.held_bytes.set(self.held_bytes.get() + bytes);
        let (ticket, incoming) = (std::mem::take(ticket), std::mem::take(incoming));
        task.uncertain.held.push(HeldReply { ticket, incoming, exchanged, course });
    }

    /// Remembers that a reply was handed over before it was certain.
    pub(super) fn note_given(task: &mut StreamConnection, given: Option<GivenReply>) {
        if let Some((collector, index)) = given {
            collector.shared.give_uncertain();
            task.uncertain.given.push((collector, index));
        }
    }

    /// Behind a reply: the connection goes on, asks to be ended with its next request, or rests.
    pub(super) async fn step_connection(&self, task: &mut StreamConnection, watch: &Deadlines) {
        let share = limits::HELD_BYTES_MAX / self.concurrency.limit();
        let is_full = task.uncertain.bytes
            >= share.clamp(limits::HELD_BYTES_MIN, limits::HELD_BYTES_EACH_MAX)
            || task.uncertain.given.len() >= limits::STREAM_UNCERTAIN_MAX;
        let Some(origin) = task.connection.origin().cloned() else { return };
        let Some(replies) = task.connection.replies_mut() else { return };
        match origin.replies.borrow().next_step(replies, is_full, self.exact.micros()) {
            NextStep::GoOn => return,
            NextStep::LastRequest => return replies.end_with_next(),
            NextStep::Rest(_) => {}
        }
        if self.resting.len() < self.resting_max() {
            self.rest_aside(task);
        } else {
            self.rest_here(task, watch).await;
        }
    }

    /// Connections that may rest beside those of the tasks.
    fn resting_max(&self) -> usize {
        limits::resting_connections(self.concurrency.limit())
    }

    /// Before a task opens a connection. Those that tasks have parted from rest without a bound of their own; where they are
    /// more than may rest, the task waits until they are fewer. After a second that one is given up which would rest for
    /// longest and holds nothing that may not be asked for again. So there are never more connections with something
    /// uncertain than tasks and `resting_max` together, however slow an origin may be.
    pub(super) async fn bound_rests(&self, watch: &Deadlines) {
        watch.rest();
        loop {
            let until = Instant::now() + Duration::from_micros(REST_MAX);
            if self.resting.await_room(self.resting_max(), until).await {
                return;
            }
            let may_be_lost = |resting: &StreamConnection| {
                resting.uncertain.held.iter().all(|reply| reply.ticket.is_idempotent())
            };
            if let Some(mut last) = self.resting.take_last(may_be_lost) {
                decide(&last.uncertain.given);
                return self.ask_again(&mut last);
            }
        }
    }

    /// Parts a task from its connection: it rests while it has something uncertain, else it is kept for others. The task
    /// has none then, so they are as many as before; [`FetchThread::bound_rests`] has the bound.
    pub(super) fn part(&self, task: &mut StreamConnection) {
        if task.is_uncertain() {
            self.rest_aside(task);
        } else {
            self.pool.put(&mut task.connection);
        }
    }

    /// The request is made again on a fresh connection: this one rests while it has something uncertain.
    pub(super) fn leave_connection(&self, task: &mut StreamConnection) {
        if !task.is_uncertain() || !task.connection.is_open() {
            return task.connection.close();
        }
        let origin = task.connection.origin().cloned();
        self.rest_aside(task);
        if let Some(origin) = origin {
            self.pool.switch_to_fresh(&mut task.connection, &origin);
        }
    }

    fn rest_aside(&self, task: &mut StreamConnection) {
        let until = Instant::now() + task.connection.begin_rest();
        self.resting.add(until, std::mem::take(task));
    }

    /// The task waits for the silence, or for what breaks it.
    async fn rest_here(&self, task: &mut StreamConnection, watch: &Deadlines) {
        let _resting = Counted::new(&self.resting_here);
        task.connection.rest(watch).await;
        self.finish_rest(task);
    }

    /// It was silent for long enough, or something came, or its server has closed it.
    fn finish_rest(&self, task: &mut StreamConnection) {
        let unused = task.connection.look();
        if unused.is_surplus() {
            return self.met_surplus(task);
        }
        self.commit(task);
        if unused == UnusedState::Closed {
            task.connection.close();
        } else if let Some(replies) = task.connection.replies_mut() {
            replies.rested();
        }
    }

    /// Ends rests when they are due. Until the thread ends.
    pub(super) async fn finish_rests(self: Rc<Self>) {
        loop {
            // The timeout is one of the two expected ends.
            let _ = tokio::time::timeout(SWEEP, self.resting.due()).await;
            self.sweep_rested();
            while let Some(mut task) = self.resting.take_due(Instant::now()) {
                self.finish_rest(&mut task);
                if task.uncertain.last.is_empty() {
                    self.pool.put(&mut task.connection);
                } else if task.connection.is_open() {
                    self.keep_rested(task);
                }
            }
        }
    }

    /// Keeps a connection that has rested, the oldest no longer when there are as many as may be needed.
    fn keep_rested(&self, task: StreamConnection) {
        let mut rested = self.rested.borrow_mut();
        let is_full = rested.len() >= self.concurrency.limit();
        let oldest = if is_full { rested.pop_front() } else { None };
        rested.push_back((task, self.clock.get()));
        drop(rested);
        if let Some((mut oldest, _)) = oldest
            && oldest.connection.look().is_surplus()
        {
            self.met_surplus(&mut oldest);
        }
    }

    /// Gives a task a connection that has rested.
    pub(super) fn take_rested(
        &self,
        task: &mut StreamConnection,
        origin: &Rc<OriginConnections>,
        ticket: &TaskRequest,
    ) {
        let is_fit = |(rested, _): &(StreamConnection, Millis)| {
            rested.connection.is_at(origin) && rested.connection.may_be_reused(ticket.reach)
        };
        loop {
            let mut rested = self.rested.borrow_mut();
            let position = rested.iter().rposition(is_fit);
            let Some((mut found, _)) = position.and_then(|position| rested.remove(position)) else { return };
            drop(rested);
            match found.connection.look() {
                UnusedState::Quiet => return *task = found,
                unused if unused.is_surplus() => self.met_surplus(&mut found),
                _ => {}
            }
        }
    }

    /// Looks at those that have rested; those that nobody uses are closed.
    fn sweep_rested(&self) {
        let oldest = self.clock.get().saturating_sub(limits::KEEP_ALIVE_IDLE.as_millis() as Millis);
        let rested = self.rested.take();
        let mut kept = VecDeque::with_capacity(rested.len());
        for (mut task, since) in rested {
            match task.connection.look() {
                UnusedState::Quiet if since >= oldest => kept.push_back((task, since)),
                unused if unused.is_surplus() => self.met_surplus(&mut task),
                _ => {}
            }
        }
        self.rested.replace(kept);
    }

    /// The server ends the connection behind this reply: what it has brought is certain when nothing comes before that.
    pub(super) async fn end_connection(&self, task: &mut StreamConnection, watch: &Deadlines) {
        if task.is_uncertain() {
            if let Some(replies) = task.connection.replies_mut() {
                replies.end_with_next();
            }
            self.rest_here(task, watch).await;
        }
        task.connection.close();
    }

    /// Without a request: what the connection has brought becomes certain, then it is kept for a while.
    pub(super) async fn wait_idle(&self, task: &mut StreamConnection, place: &TaskState) {
        let is_uncertain = task.is_uncertain();
        if is_uncertain {
            // The clock of deadlines has steps: two of them are at least one.
            place.watch.only(task.connection.begin_rest() + limits::TICK);
            self.waiting_for_silence.set(self.waiting_for_silence.get() + 1);
            self.hub.wake.notify_one();
        } else if task.connection.is_open() {
            let is_surplus = self.in_flight() >= self.concurrency.limit();
            place.watch.only(if is_surplus {
                limits::SURPLUS_CONNECTION_IDLE
            } else {
                limits::KEEP_ALIVE_IDLE
            });
        } else {
            place.watch.rest();
        }
        self.idle_connections.wait_idle(&task.connection, &place.watch).await;
        let has_expired = place.watch.has_expired();
        if is_uncertain {
            self.waiting_for_silence.set(self.waiting_for_silence.get() - 1);
        }
        let unused = task.connection.look();
        if unused.is_surplus() {
            self.met_surplus(task);
        } else if is_uncertain && (has_expired || unused == UnusedState::Closed) {
            self.finish_rest(task);
        } else if has_expired || unused != UnusedState::Quiet {
            task.connection.close();
        }
    }

    /// What is held is certain: it is handed over, or what else follows from it.
    fn commit(&self, task: &mut StreamConnection) {
        let UncertainReplies { held, given, last, .. } = &mut task.uncertain;
        decide(given);
        last.clear();
        last.append(given);
        let held = std::mem::take(held);
        self.release_held(task);
        for mut reply in held {
            let given = reply.ticket.collector.clone().map(|collector| (collector, reply.ticket.index));
            task.uncertain.last.extend(given);
            let HeldReply { ticket, incoming, exchanged, course } = &mut reply;
            match self.settle(ticket, incoming, exchanged, course) {
                StreamAttempt::Over => {}
                StreamAttempt::Again | StreamAttempt::Redirected | StreamAttempt::Renewing => {
                    self.make_again(std::mem::take(ticket));
                }
            }
        }
    }

    /// Bytes came that nobody asked for: all that is not certain may be another request's.
    pub(super) fn met_surplus(&self, task: &mut StreamConnection) {
        if let Some(origin) = task.connection.origin() {
            origin.replies.borrow_mut().note_surplus();
        }
        let doubts_last = task.connection.replies_mut().is_some_and(|replies| replies.outlasts_rest());
        let UncertainReplies { given, last, .. } = &mut task.uncertain;
        for (collector, index) in given.iter().chain(last.iter().filter(|_| doubts_last)) {
            collector.shared.doubt(*index);
        }
        decide(given);
        given.clear();
        last.clear();
        self.ask_again(task);
        task.connection.close();
    }

    /// The connection broke. What it holds is certain only if nothing at all came for as long as it would have rested.
    pub(super) fn met_break(&self, task: &mut StreamConnection, silent_since: Option<MonotonicMicros>) {
        let silence = task.connection.begin_rest().as_micros() as MonotonicMicros;
        if let Some(origin) = task.connection.origin() {
            origin.replies.borrow_mut().note_break();
        }
        decide(&task.uncertain.given);
        task.uncertain.given.clear();
        let now = self.exact.micros();
        if silent_since.is_some_and(|since| now.saturating_sub(since) >= silence) {
            self.commit(task);
        } else {
            self.ask_again(task);
        }
    }

    /// What is held will never be certain: it is asked for again, without an attempt more.
    fn ask_again(&self, task: &mut StreamConnection) {
        for HeldReply { ticket, course, .. } in std::mem::take(&mut task.uncertain.held) {
            if ticket.is_idempotent() {
                self.make_again(ticket);
            } else {
                self.fail(&ticket, NOT_KNOWN, &course);
            }
        }
        self.release_held(task);
    }

    fn make_again(&self, ticket: TaskRequest) {
        self.wait(ticket, 0);
        self.hub.wake.notify_one();
    }

    fn release_held(&self, task: &mut StreamConnection) {
        let bytes = std::mem::take(&mut task.uncertain.bytes);
        if bytes > 0 {
            self.held_bytes.set(self.held_bytes.get() - bytes);
            self.room.notify_waiters();
            self.hub.wake.notify_one();
        }
    }
}

/// These are certain, or will never be.
fn decide(given: &[GivenReply]) {
    for same in given.chunk_by(|(one, _), (other, _)| Rc::ptr_eq(one, other)) {
        same[0].0.shared.decide(same.len());
    }
}
