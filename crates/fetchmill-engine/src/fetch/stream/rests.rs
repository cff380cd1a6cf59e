//! Stream replies that become certain only after their connection has been silent for some time
//! ([`fetchmill_net::certain`]). Until then, the stream either holds them or remembers that it has handed them over.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::fetcher::{FetchThread, TaskState};
use super::held_replies::{GivenReply, HeldReply, StreamConnection, UncertainReplies};
use super::queue::TaskRequest;
use crate::attempt::{AttemptEnd, Failure};
use crate::fetch::load_counter::Counted;
use fetchmill_model::limits;
use fetchmill_model::planner::origin::Millis;
use fetchmill_net::certain::Judged;
use fetchmill_net::{Deadlines, OriginConnections};

/// Interval at which rested connections are checked.
const SWEEP: Duration = Duration::from_secs(1);

impl FetchThread {
    /// Holds an uncertain reply.
    pub(super) fn hold(&self, task: &mut StreamConnection, reply: HeldReply) {
        let bytes = reply.incoming.inner.memory();
        self.held_bytes.set(self.held_bytes.get() + bytes);
        task.held.bytes += bytes;
        task.held.held.push(reply);
    }

    /// Remembers that a reply was handed over before it was certain.
    pub(super) fn note_given(task: &mut StreamConnection, given: Option<GivenReply>) {
        if let Some((collector, index)) = given {
            collector.shared.give_uncertain();
            task.held.given.push((collector, index));
        }
    }

    /// Decides how a connection continues after a reply: it accepts another request, ends after the next reply, or
    /// rests.
    pub(super) async fn step_connection(&self, task: &mut StreamConnection, watch: &Deadlines) {
        let share = limits::HELD_BYTES_MAX / self.concurrency.limit();
        let UncertainReplies { bytes, given, .. } = &task.held;
        let is_full = *bytes >= share.clamp(limits::HELD_BYTES_MIN, limits::HELD_BYTES_EACH_MAX)
            || given.len() >= limits::STREAM_UNCERTAIN_MAX;
        if task.must_rest(is_full, self.exact.micros()) {
            let _resting = Counted::new(&self.resting_here);
            let judged = self.resting.rest(task, self.resting_max(task), watch).await;
            self.judge(task, judged);
        }
    }

    /// Returns the maximum number of resting connections, not counting the connections of tasks.
    fn resting_max(&self, task: &StreamConnection) -> usize {
        task.resting_max(self.concurrency.limit())
    }

    /// Enforces the limit on resting connections before a task opens another connection. If too many are resting, the
    /// task waits. A connection is not abandoned while it holds the reply to a request that must not be repeated.
    pub(super) async fn bound_rests(&self, task: &StreamConnection, watch: &Deadlines) {
        watch.rest();
        let may_be_lost =
            |uncertain: &UncertainReplies| uncertain.held.iter().all(|reply| reply.request.is_idempotent());
        if let Some((mut last, lost)) = self.resting.make_room(self.resting_max(task), may_be_lost).await {
            self.judge(&mut last, lost);
        }
    }

    /// Ends the rests that are due. Returns when the thread ends.
    pub(super) async fn finish_rests(self: Rc<Self>) {
        loop {
            // Continue in both cases: a rest is due, or a sweep is due.
            let _ = tokio::time::timeout(SWEEP, self.resting.due()).await;
            self.sweep_rested();
            while let Some((mut task, judged)) = self.resting.take_rested(Instant::now()) {
                self.judge(&mut task, judged);
                if task.held.last.is_empty() {
                    self.pool.put(&mut task.connection);
                } else if task.connection.is_open() {
                    self.keep_rested(task);
                }
            }
        }
    }

    /// Keeps a connection that has rested. Drops the oldest one if there are too many.
    fn keep_rested(&self, task: StreamConnection) {
        let mut rested = self.rested.borrow_mut();
        let is_full = rested.len() >= self.concurrency.limit();
        let oldest = if is_full { rested.pop_front() } else { None };
        rested.push_back((task, self.clock.get()));
        drop(rested);
        if let Some((mut oldest, _)) = oldest {
            self.check_unused(&mut oldest);
        }
    }

    /// Gives a task a connection that has rested.
    pub(super) fn take_rested(
        &self,
        task: &mut StreamConnection,
        origin: &Rc<OriginConnections>,
        request: &TaskRequest,
    ) {
        let is_fit = |(rested, _): &(StreamConnection, Millis)| {
            rested.connection.is_at(origin) && rested.connection.leads_within(request.at.reach)
        };
        while !task.connection.is_open() {
            let mut rested = self.rested.borrow_mut();
            let position = rested.iter().rposition(is_fit);
            let Some((mut found, _)) = position.and_then(|position| rested.remove(position)) else { return };
            drop(rested);
            self.check_unused(&mut found);
            if found.connection.is_open() {
                *task = found;
            }
        }
    }

    /// Checks the connections that have rested and closes unused ones.
    fn sweep_rested(&self) {
        let oldest = self.clock.get().saturating_sub(limits::KEEP_ALIVE_IDLE.as_millis() as Millis);
        let mut rested = self.rested.take();
        rested.retain_mut(|(task, since)| {
            self.check_unused(task);
            task.connection.is_open() && *since >= oldest
        });
        self.rested.replace(rested);
    }

    fn check_unused(&self, task: &mut StreamConnection) {
        let judged = task.check_unused();
        self.judge(task, judged);
    }

    /// Handles a connection that the server closes after this reply.
    pub(super) async fn end_connection(&self, task: &mut StreamConnection, watch: &Deadlines) {
        let _resting = Counted::new(&self.resting_here);
        let judged = self.resting.end(task, self.resting_max(task), watch).await;
        self.judge(task, judged);
    }

    /// Waits without a request. First, the connection's replies become certain. Then the connection is kept for some
    /// time.
    pub(super) async fn wait_idle(&self, task: &mut StreamConnection, place: &TaskState) {
        let is_uncertain = task.is_holding();
        if is_uncertain {
            // The clock of the deadlines advances in steps. One step is added so that the task does not wake too early.
            place.watch.only(task.begin_rest() + limits::TICK);
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
        let judged = if is_uncertain && has_expired { task.end_rest() } else { task.check_unused() };
        self.judge(task, judged);
        if has_expired && !is_uncertain {
            task.connection.close();
        }
    }

    /// Applies a judgement to the replies on a connection.
    pub(super) fn judge(&self, task: &mut StreamConnection, judged: Judged) {
        let uncertain = &mut task.held;
        match judged {
            Judged::Pending => {}
            Judged::Certain { .. } => self.commit(uncertain),
            Judged::Surplus { before } => {
                let UncertainReplies { given, last, .. } = uncertain;
                for (collector, index) in given.iter().chain(last.iter().filter(|_| before.is_some())) {
                    collector.shared.doubt(*index);
                }
                last.clear();
                self.ask_again(uncertain);
            }
            Judged::Lost(_) => self.ask_again(uncertain),
        }
    }

    /// Hands over or processes the held replies that have become certain.
    fn commit(&self, uncertain: &mut UncertainReplies) {
        let UncertainReplies { held, given, last, .. } = uncertain;
        decide(given);
        last.clear();
        last.append(given);
        let held = std::mem::take(held);
        self.release_held(uncertain);
        for mut reply in held {
            let given = reply.request.collector.clone().map(|collector| (collector, reply.request.index));
            uncertain.last.extend(given);
            let HeldReply { request, incoming, replied, address } = &mut reply;
            if self.settle(request, incoming, replied, *address) != AttemptEnd::Over {
                self.make_again(std::mem::take(request));
            }
        }
    }

    /// Repeats the requests of held replies that can never become certain. This does not count as an attempt.
    fn ask_again(&self, uncertain: &mut UncertainReplies) {
        decide(&uncertain.given);
        uncertain.given.clear();
        for HeldReply { request, .. } in std::mem::take(&mut uncertain.held) {
            if request.is_idempotent() {
                self.make_again(request);
            } else {
                self.fail(&request, Failure::surplus());
            }
        }
        self.release_held(uncertain);
    }

    fn make_again(&self, request: TaskRequest) {
        self.wait(request, 0);
        self.hub.wake.notify_one();
    }

    fn release_held(&self, uncertain: &mut UncertainReplies) {
        let bytes = std::mem::take(&mut uncertain.bytes);
        if bytes > 0 {
            self.held_bytes.set(self.held_bytes.get() - bytes);
            self.room.notify_waiters();
            self.hub.wake.notify_one();
        }
    }
}

/// Records that these replies became certain or turned out to be doubtful.
fn decide(given: &[GivenReply]) {
    for same in given.chunk_by(|(one, _), (other, _)| Rc::ptr_eq(one, other)) {
        same[0].0.shared.decide(same.len());
    }
}
