//! Connections that rest: no request is out on them, and what they hold is certain when nothing has come meanwhile.

use std::time::Duration;

use tokio::time::Instant;

use super::resting::WorkerConnection;
use super::state::Worker;
use crate::control::stop::Stop;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::certainty::{MonotonicMicros, NextStep, REST_MAX, SILENCE_MIN};
use fetchmill_model::http1::Head;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::origin::Millis;
use fetchmill_net::{Deadlines, PipelinedReplies, ReceivedReply, UnusedState};
use fetchmill_store::sink::StoredParts;

impl Worker {
    /// A reply has come, to a request that was sent then.
    pub(super) fn note_reply(
        &self,
        task: &mut WorkerConnection,
        sent: MonotonicMicros,
        replied: &ReceivedReply,
        (bytes, is_unloaded): (u64, bool),
    ) {
        let now = self.control().clock.micros();
        task.connection.note_reply(sent, now);
        let took = now.saturating_sub(sent);
        if self.note_load(&replied.head, took, bytes, is_unloaded)
            && self.control().origins.are_many()
            && let Some(origin) = task.connection.origin()
        {
            self.load.note_origin(&origin.key, took);
        }
    }

    /// The replies of a batch have come, to requests that were sent then. Each was awaited for as long as all of them.
    pub(super) fn note_batch(
        &self,
        task: &mut WorkerConnection,
        sent: MonotonicMicros,
        replies: &PipelinedReplies,
        is_unloaded: bool,
    ) {
        let now = self.control().clock.micros();
        task.connection.note_batch(replies.len() as u32, sent, now);
        for reply in replies.iter() {
            self.note_load(&reply.head, now.saturating_sub(sent), reply.body.len() as u64, is_unloaded);
        }
    }

    /// Whether a reply is no sign of trouble: then it counts.
    fn note_load(&self, head: &Head, took: MonotonicMicros, bytes: u64, is_unloaded: bool) -> bool {
        let is_trouble = FailureKind::of_status(head.status).is_err_and(FailureKind::is_retryable);
        if !is_trouble {
            if self.setup.properties.keeps >= StoredParts::Heads {
                self.load.note_stored_head(head.length);
            }
            // Both take memory while they are in flight.
            self.load.note_reply(took, bytes + u64::from(head.length), is_unloaded);
        }
        !is_trouble
    }

    /// Behind a reply: the connection goes on, asks to be ended with its next request, or rests.
    pub(super) async fn step_connection(&self, task: &mut WorkerConnection, watch: &Deadlines) {
        let is_full = self.holds_enough(&task.held);
        let now = self.control().clock.micros();
        let WorkerConnection { connection, held } = task;
        let Some(origin) = connection.origin().cloned() else { return };
        let Some(replies) = connection.replies_mut() else { return };
        match origin.replies.borrow().next_step(replies, is_full, now) {
            NextStep::GoOn => return,
            NextStep::LastRequest => return replies.end_with_next(),
            // What it brought is certain already, and the next target has another host, probably.
            NextStep::Rest(_) if held.is_empty() && self.control().origins.are_many() => return,
            NextStep::Rest(_) => {}
        }
        self.rest(task, watch).await;
    }

    /// Connections that may rest beside those that make requests: a part of these.
    pub(super) fn resting_max(&self) -> usize {
        limits::resting_connections(self.share.get()).min(self.setup.resting_max)
    }

    /// Has the connection rest: beside the task's next one if that may be, else the task waits.
    pub(super) async fn rest(&self, task: &mut WorkerConnection, watch: &Deadlines) {
        if self.resting.len() < self.resting_max() || self.is_done.get() {
            self.rest_aside(task);
            return;
        }
        let silence = task.connection.begin_rest();
        self.rest_here(task, silence, watch).await;
        self.finish_rest(task);
    }

    /// The task waits until its connection was silent for so long, or something has come.
    async fn rest_here(&self, task: &mut WorkerConnection, silence: Duration, watch: &Deadlines) {
        watch.rest();
        tokio::select! {
            () = tokio::time::sleep(silence) => {}
            () = std::future::poll_fn(|context| task.connection.poll_input(context)) => {}
            kind = watch.expired() => self.fetch_again(&mut task.held, kind),
        }
    }

    /// Before a task opens a connection. Those that tasks have parted from rest without a bound of their own; where they are
    /// more than may rest, the task goes on with one of them that leads to its origin, or waits until they are fewer. After
    /// a second what the one holds that would rest for longest is asked for again. So there are never more connections
    /// than tasks and `resting_max` together, however slow an origin may be.
    pub(super) async fn bound_rests(
        &self,
        task: &mut WorkerConnection,
        target: &CurrentTarget,
        watch: &Deadlines,
    ) {
        if self.resting.len() <= self.resting_max() || self.is_done.get() {
            return;
        }
        let is_fit = |resting: &WorkerConnection| {
            task.connection.origin().is_some_and(|origin| resting.connection.is_at(origin))
                && resting.connection.may_be_reused(target.reach)
                && !resting.connection.is_ending()
                && !self.holds_enough(&resting.held)
        };
        // What is asked again wants a connection that has brought nothing.
        while !target.state.is_repeated()
            && let Some(mut found) = self.resting.take_last(is_fit)
        {
            if found.connection.look() == UnusedState::Quiet {
                *task = found;
                return;
            }
            self.finish_rest(&mut found);
        }
        watch.rest();
        let until = Instant::now() + Duration::from_micros(REST_MAX);
        if !self.resting.await_room(self.resting_max(), until).await
            && let Some(mut last) = self.resting.take_last(|_| true)
        {
            self.fetch_again(&mut last.held, FailureKind::TotalTimeout);
        }
    }

    /// Parts a task from its connection: it rests while it holds something, else it is kept for others. The task has none
    /// then, so they are as many as before; [`Worker::bound_rests`] has the bound.
    pub(super) fn part(&self, task: &mut WorkerConnection) {
        if task.held.is_empty() {
            self.pool.put(&mut task.connection);
        } else {
            self.rest_aside(task);
        }
    }

    fn rest_aside(&self, task: &mut WorkerConnection) {
        let until = Instant::now() + task.connection.begin_rest();
        self.resting.add(until, std::mem::take(task));
    }

    /// It has rested: what it holds is certain, unless something has come.
    fn finish_rest(&self, task: &mut WorkerConnection) {
        let unused = task.connection.look();
        if unused.is_surplus() {
            if let Some(origin) = task.connection.origin().cloned() {
                self.met_surplus(task, &origin);
            }
            return;
        }
        self.commit(task);
        if unused == UnusedState::Closed || task.connection.is_ending() {
            task.connection.close();
        } else if let Some(replies) = task.connection.replies_mut() {
            replies.rested();
        }
    }

    /// All that have rested by now, as far as the sink keeps up.
    pub(super) async fn finish_rests(&self) {
        let now = Instant::now();
        loop {
            if self.block.borrow().is_full() {
                if self.setup.blocks.capacity() == 0 {
                    // The next tick goes on: it must not wait for a sink that is behind.
                    return tokio::time::sleep(limits::TICK).await;
                }
                self.send_block(false).await;
            }
            let Some(mut task) = self.resting.take_due(now) else { return };
            self.finish_rest(&mut task);
            self.pool.put(&mut task.connection);
        }
    }

    /// At the end of the worker: those that rest still are waited for, for as long as a rest or the drain may take.
    pub(super) async fn end_rests(&self, drain_until: Option<Millis>) {
        let drain = drain_until.unwrap_or(0).saturating_sub(self.control().clock.now());
        let until = Instant::now() + Duration::from_micros(REST_MAX).max(Duration::from_millis(drain));
        while self.control().stop.get() != Stop::Abort
            && let Some(due) = self.resting.next_due().filter(|due| *due <= until)
        {
            tokio::time::sleep_until(due.min(Instant::now() + limits::TICK)).await;
            self.finish_rests().await;
        }
        for mut task in self.resting.take_all() {
            self.fetch_again(&mut task.held, FailureKind::TotalTimeout);
        }
        self.pool.close_idle();
        self.tell_doubtful();
    }

    /// What came too late puts in doubt what was certain before.
    pub(super) fn tell_doubtful(&self) {
        for targets in self.pool.take_doubtful() {
            self.control().stray.note(0);
            self.doubt(&targets);
        }
    }

    /// The server ends the connection behind this reply: what it holds is certain when nothing comes before that end. One
    /// that does not end it soon must be silent for as long as any other, or longer while little is known of its origin.
    pub(super) async fn end_connection(&self, task: &mut WorkerConnection, watch: &Deadlines) {
        if !task.held.is_empty() {
            let soon = Duration::from_micros(SILENCE_MIN);
            if let Some(replies) = task.connection.replies_mut() {
                // Nobody may ask on it again, whoever has said that it ends.
                replies.end_with_next();
            }
            let silence = task.connection.begin_rest();
            self.rest_here(task, silence.min(soon), watch).await;
            if silence > soon && !task.held.is_empty() && task.connection.look() == UnusedState::Quiet {
                self.rest(task, watch).await;
            } else {
                self.finish_rest(task);
            }
        }
        task.connection.close();
    }

    /// The connection broke. What it holds is certain only if nothing at all came for as long as it would have rested.
    pub(super) fn met_break(&self, task: &mut WorkerConnection, silent_since: Option<MonotonicMicros>) {
        let Some(origin) = task.connection.origin().cloned() else { return };
        if task.connection.replies_mut().is_none_or(|replies| replies.replies() == 0) {
            return;
        }
        origin.replies.borrow_mut().note_break();
        let silence = task.connection.begin_rest().as_micros() as MonotonicMicros;
        let now = self.control().clock.micros();
        if silent_since.is_some_and(|since| now.saturating_sub(since) >= silence) {
            self.commit(task);
        } else {
            self.fetch_again(&mut task.held, FailureKind::Reset);
        }
    }
}
