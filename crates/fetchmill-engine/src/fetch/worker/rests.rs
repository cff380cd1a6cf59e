//! Counts the replies of a worker and handles connections that rest or end ([`fetchmill_net::certain`]).

use std::time::Duration;

use tokio::time::Instant;

use super::held_outcomes::WorkerConnection;
use super::state::Worker;
use crate::control::stop::Stop;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::http1::Head;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::certainty::{MonotonicMicros, REST_MAX};
use fetchmill_net::{Deadlines, IdleState, PipelinedReplies};
use fetchmill_store::sink::StoredParts;

impl Worker {
    /// Records the replies of a batch that was sent at `sent`. Each reply is assigned the duration of the whole batch.
    pub(super) fn note_batch(
        &self,
        task: &mut WorkerConnection,
        sent: MonotonicMicros,
        replies: &PipelinedReplies,
        is_unloaded: bool,
    ) {
        let now = self.control().clock.micros();
        task.note_replies(replies.len() as u32, sent, now);
        for reply in replies.iter() {
            self.note_load(&reply.head, now.saturating_sub(sent), reply.body.len() as u64, is_unloaded);
        }
    }

    /// Counts a reply unless it indicates trouble. Returns whether the reply was counted.
    pub(super) fn note_load(
        &self,
        head: &Head,
        took: MonotonicMicros,
        bytes: u64,
        is_unloaded: bool,
    ) -> bool {
        let is_well = self.setup.rules.retried.is_well(head.status, head.retry_after.is_some());
        if is_well {
            if self.setup.properties.keeps >= StoredParts::Heads {
                self.load.note_stored_head(head.length);
            }
            // While a reply is in flight, both its head and its body need memory.
            self.load.note_reply(took, bytes + u64::from(head.length), is_unloaded);
        }
        is_well
    }

    /// Decides how a connection continues after a reply: it accepts another request, ends after the next reply, or
    /// rests.
    pub(super) async fn step_connection(&self, task: &mut WorkerConnection, watch: &Deadlines) {
        let is_full = self.holds_enough(&task.held);
        let must_rest = task.must_rest(is_full, self.control().clock.micros());
        // In a job with many hosts, the next target probably needs another connection, so a rest is useful only for
        // held replies.
        if must_rest && (task.is_holding() || !self.control().origins.are_many()) {
            let judged = self.resting.rest(task, self.resting_max(task), watch).await;
            self.judge(task, judged);
        }
    }

    /// Returns the maximum number of resting connections, not counting connections in use. There is no limit when the
    /// job is ending.
    fn resting_max(&self, task: &WorkerConnection) -> usize {
        if self.supply.is_done() {
            return usize::MAX;
        }
        task.resting_max(self.in_flight.share()).min(self.setup.resting_max)
    }

    /// Enforces the limit on resting connections before a task opens another connection. If too many are resting, the
    /// task takes over a connection that rests at the same origin, or waits until fewer are resting.
    pub(super) async fn bound_rests(
        &self,
        task: &mut WorkerConnection,
        target: &CurrentTarget,
        watch: &Deadlines,
    ) {
        let resting_max = self.resting_max(task);
        if self.resting.count() <= resting_max {
            return;
        }
        // A repeated request needs a new connection.
        if !target.state.is_repeated() && self.take_resting(task, target) {
            return;
        }
        watch.rest();
        if let Some((mut last, lost)) = self.resting.make_room(resting_max, |_| true).await {
            self.judge(&mut last, lost);
        }
    }

    /// Moves the task to a connection that rests at its origin. Returns `false` if there is none.
    pub(super) fn take_resting(&self, task: &mut WorkerConnection, target: &CurrentTarget) -> bool {
        let is_fit = |resting: &WorkerConnection| {
            let connection = &resting.connection;
            task.connection.origin().is_some_and(|origin| connection.is_at(origin))
                && connection.leads_within(target.at.reach)
                && !connection.is_ending()
                && !self.holds_enough(&resting.held)
        };
        while let Some(mut found) = self.resting.take_last(is_fit) {
            if found.connection.look() == IdleState::Quiet {
                *task = found;
                return true;
            }
            let judged = found.end_rest();
            self.judge(&mut found, judged);
        }
        false
    }

    /// Ends all rests that are over, unless the sink is congested.
    pub(super) async fn finish_rests(&self) {
        let now = Instant::now();
        loop {
            if self.outcomes.is_full() {
                if !self.sink.has_room() {
                    // Continue at the next tick, because a congested sink must not delay this task.
                    return tokio::time::sleep(limits::TICK).await;
                }
                self.send_block(false).await;
            }
            let Some((mut task, judged)) = self.resting.take_rested(now) else { return };
            self.judge(&mut task, judged);
            self.pool.put(&mut task.connection);
        }
    }

    /// Waits for the resting connections when the worker ends, but not longer than the longest possible rest or the
    /// drain.
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

    /// Reports targets that became doubtful because of late unsolicited bytes.
    pub(super) fn tell_doubtful(&self) {
        for targets in self.pool.take_doubtful() {
            self.control().stray.note(0);
            self.doubt(&targets);
        }
    }

    /// Handles a connection that the server closes after this reply.
    pub(super) async fn end_connection(&self, task: &mut WorkerConnection, watch: &Deadlines) {
        let judged = self.resting.end(task, self.resting_max(task), watch).await;
        self.judge(task, judged);
    }

    /// Handles unsolicited bytes.
    pub(super) fn met_surplus(&self, task: &mut WorkerConnection) {
        let surplus = task.met_surplus();
        self.judge(task, surplus);
    }

    /// Handles a broken connection.
    pub(super) fn met_break(&self, task: &mut WorkerConnection, silent_since: Option<MonotonicMicros>) {
        let judged = task.met_break(silent_since, self.control().clock.micros());
        self.judge(task, judged);
    }
}
