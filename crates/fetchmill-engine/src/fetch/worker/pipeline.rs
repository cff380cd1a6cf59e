//! A batch of requests that are sent together on one connection. If all replies arrive, the targets are finished.
//! Otherwise each target is requested separately.

use super::address::asked_for;
use super::body::WorkerBody;
use super::held_outcomes::WorkerConnection;
use super::state::Worker;
use crate::attempt::AttemptEnd;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::http1::BodySink;
use fetchmill_model::limits;
use fetchmill_model::target::WaitingTarget;
use fetchmill_net::certain::AfterReply;
use fetchmill_net::{
    BrokenBatch, BrokenExchange, Deadlines, IdleState, OriginConnections, PipelinedReplies, ReceivedReply,
};

/// Targets of a task: a single one, or a batch that is requested together. Memory use: the targets and replies of a
/// full batch.
pub(super) struct TargetBatch {
    targets: Vec<CurrentTarget>,
    /// Number of targets that are requested together. 0 if the first target is requested by itself.
    count: usize,
    replies: PipelinedReplies,
    /// Targets to request separately, with any results that they already have. The next target is at the end of the
    /// vector.
    alone: Vec<(usize, Option<AttemptEnd>)>,
    /// Targets to request separately, because the coalesced request of the first target did not return their parts.
    split: std::vec::IntoIter<WaitingTarget>,
}

impl Default for TargetBatch {
    fn default() -> Self {
        TargetBatch {
            targets: vec![CurrentTarget::default()],
            count: 0,
            replies: PipelinedReplies::default(),
            alone: Vec::new(),
            split: Vec::new().into_iter(),
        }
    }
}

impl TargetBatch {
    /// Returns the first target of the batch.
    pub(super) fn first(&mut self) -> &mut CurrentTarget {
        &mut self.targets[0]
    }

    /// Returns the next target to request separately, and its result if there is one.
    pub(super) fn next_alone(&mut self) -> Option<(&mut CurrentTarget, Option<AttemptEnd>)> {
        if let Some((number, came)) = self.alone.pop() {
            return Some((&mut self.targets[number], came));
        }
        if self.split.len() == 0 {
            self.split = self.targets[0].joined.take_alone().into_iter();
        }
        let next = self.split.next()?;
        let target = self.place(1);
        target.start_again(&next);
        Some((target, None))
    }

    /// Prepares to request each target of the batch separately.
    fn split(&mut self) {
        self.alone.extend((0..self.count).rev().map(|number| (number, None)));
    }

    fn place(&mut self, number: usize) -> &mut CurrentTarget {
        if number == self.targets.len() {
            self.targets.push(CurrentTarget::default());
        }
        &mut self.targets[number]
    }
}

impl Worker {
    /// Adds targets to the first one, up to the number that the connection can request together.
    pub(super) fn gather(&self, task: &mut WorkerConnection, batch: &mut TargetBatch) {
        let most = self.batch_max(task, batch.first());
        batch.count = 1;
        while batch.count < most {
            let number = batch.count;
            let target = batch.place(number);
            if !self.supply.take(target) {
                break;
            }
            if !self.is_plain(target) {
                batch.alone.push((number, None));
                break;
            }
            batch.count += 1;
        }
        if batch.count == 1 {
            batch.count = 0;
            batch.alone.push((0, None));
        }
    }

    /// Returns how many requests can be sent together, including the first.
    fn batch_max(&self, task: &mut WorkerConnection, first: &mut CurrentTarget) -> usize {
        let connection = &task.connection;
        if !self.origins.server().is_some_and(|server| connection.is_at(server)) {
            return 1;
        }
        let replies = connection.replies();
        let allowed = self.control().pipeline.batch_max(replies) as usize;
        // Requests are not pipelined until an ordinary reply has shown that the server keeps the connection open.
        if allowed <= 1
            || replies == 0
            || !self.is_plain(first)
            || !connection.leads_within(first.at.reach)
            || self.control().plan.origin_pace.is_set()
            || self.setup.body_memory.is_used_up()
        {
            return 1;
        }
        let certain = task.batch_max() as usize;
        let room = self.held_bytes_max().min(limits::BATCH_BYTES_MAX) / self.load.largest_reply().max(1);
        allowed.min(certain).min(room).max(1)
    }

    /// Returns whether the request for a target can be pipelined. The request must be plain, and must be the first
    /// attempt at a target of the job's only origin.
    fn is_plain(&self, target: &mut CurrentTarget) -> bool {
        target.state.attempts == 0
            && target.state.throttled_since == 0
            && !self.control().plan.is_probe(target.sequence)
            && self.locate(target).is_ok()
            && target.at.url.is_empty()
            && target.request.is_none()
    }

    /// Requests the targets of the batch together if there are several. Targets that still have no outcome are
    /// requested separately afterwards.
    pub(super) async fn fetch_together(
        &self,
        task: &mut WorkerConnection,
        batch: &mut TargetBatch,
        body: &mut WorkerBody,
        watch: &Deadlines,
    ) {
        if batch.count == 0 {
            return;
        }
        let Some(origin) = task.connection.origin().cloned() else { return batch.split() };
        let (sent, is_unloaded) = (self.control().clock.micros(), self.load.is_low(self.in_flight.share()));
        let received = self.exchange_batch(task, &origin, batch, watch).await;
        let is_kept = batch.replies.iter().last().is_some_and(|last| last.head.keep_alive);
        match received.map(|seen| task.after_reply(seen, is_kept, true)) {
            Ok(AfterReply::Surplus) => {
                self.met_surplus(task);
                batch.split();
            }
            Ok(after) => {
                self.note_batch(task, sent, &batch.replies, is_unloaded);
                self.settle_batch(task, batch, body);
                if after == AfterReply::Ends {
                    self.end_connection(task, watch).await;
                }
            }
            Err(broken) => {
                self.met_broken_batch(task, broken, sent);
                batch.split();
            }
        }
        batch.replies.clear();
    }

    async fn exchange_batch(
        &self,
        task: &mut WorkerConnection,
        origin: &OriginConnections,
        batch: &mut TargetBatch,
        watch: &Deadlines,
    ) -> Result<IdleState, BrokenBatch> {
        {
            let mut requests = self.buffers.request.borrow_mut();
            requests.clear();
            for target in &mut batch.targets[..batch.count] {
                self.note_credentials(target, &origin.key);
                target.effects.note_sent();
                origin.write(asked_for(origin, target, self.setup.naming), &mut requests);
            }
        }
        self.outcomes.note_attempts(batch.count as u64);
        let _exchange = self.load.count_exchange();
        task.connection.exchange_batch(batch.count, &self.buffers, &mut batch.replies, watch).await
    }

    /// Holds the replies of a complete batch until they are certain.
    fn settle_batch(&self, task: &mut WorkerConnection, batch: &mut TargetBatch, body: &mut WorkerBody) {
        self.load.note_batch(batch.replies.largest());
        let WorkerConnection { connection, held } = task;
        self.hold(held, |note| {
            for (number, (target, reply)) in batch.targets.iter_mut().zip(batch.replies.iter()).enumerate() {
                self.expect(target, body);
                body.head(&reply.head, reply.head_bytes);
                if !reply.body.is_empty() {
                    body.piece(reply.body);
                }
                let replied = ReceivedReply { head: reply.head, is_cut: false, surplus: IdleState::Quiet };
                match self.settle(connection, target, body, &replied, note) {
                    AttemptEnd::Over => {}
                    other => batch.alone.push((number, Some(other))),
                }
            }
        });
    }

    /// Discards an incomplete batch.
    fn met_broken_batch(&self, task: &mut WorkerConnection, broken: BrokenBatch, sent: u64) {
        let pipeline = &self.control().pipeline;
        let replies = task.connection.replies();
        let is_unanswered = match broken {
            BrokenBatch::Ends => {
                pipeline.note_end(replies);
                false
            }
            BrokenBatch::TooLarge => {
                pipeline.note_large();
                false
            }
            BrokenBatch::Broken(BrokenExchange { is_unanswered, .. }) => {
                if !self.supply.is_done() {
                    pipeline.note_broken();
                }
                is_unanswered
            }
        };
        self.met_break(task, is_unanswered.then_some(sent));
        task.connection.abandon();
    }
}
