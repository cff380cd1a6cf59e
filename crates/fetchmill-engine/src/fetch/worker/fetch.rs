//! The main loop of a worker's connection, which takes a target, sends the request, finishes the target, and handles
//! failures.

use std::rc::Rc;
use std::sync::Arc;

use super::body::{BodyReceiver, WorkerBody};
use super::held_outcomes::WorkerConnection;
use super::pipeline::TargetBatch;
use super::state::Worker;
use crate::attempt::{AttemptEnd, Resumable, fulfil};
use crate::control::stop::Stop;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::limits;
use fetchmill_model::planner::hosts::RequestOutcome;
use fetchmill_net::Deadlines;

/// Number of pending retries at which a worker immediately reports to the planner.
const RETRIES_REPORTED_AT: usize = 16;

impl Worker {
    /// Fetches targets until the job ends.
    pub(super) async fn fetch(self: &Rc<Self>, watch: &Rc<Deadlines>) {
        let mut task = WorkerConnection::default();
        let mut batch = TargetBatch::default();
        let mut body = Resumable::new(BodyReceiver::new(
            self.setup.properties,
            Arc::clone(&self.setup.body_memory),
            self.control().body_meter.clone(),
            self.setup.stage.clone(),
            self.setup.enough,
            self.setup.opts_out,
            !self.setup.rules.accepted.is_all(),
        ));
        while !self.supply.is_done() {
            if !self.take(batch.first()) {
                if self.supply.is_done() {
                    break;
                }
                let mut requested = false;
                if self.ends_with_request(&mut task, batch.first(), &body) {
                    self.in_flight.enter();
                    requested = self.end_with_request(&mut task, batch.first(), watch).await;
                    self.in_flight.leave();
                }
                if !requested {
                    self.wait_idle(&mut task, watch).await;
                }
                continue;
            }
            self.in_flight.enter();
            if batch.first().asks_robots {
                self.ask_robots(&mut task, batch.first(), watch).await;
                self.in_flight.leave();
                self.step_connection(&mut task, watch).await;
                continue;
            }
            self.join(batch.first());
            self.gather(&mut task, &mut batch);
            self.fetch_together(&mut task, &mut batch, &mut body, watch).await;
            while let Some((target, came)) = batch.next_alone() {
                self.fetch_target(&mut task, target, &mut body, watch, came).await;
            }
            let is_probe = self.control().plan.is_probe(batch.first().sequence);
            if is_probe {
                self.report.note_probe();
            }
            self.in_flight.leave();
            if let Some(error) = body.inner.take_failure() {
                self.control().stop.fail(error);
            }
            if self.outcomes.is_full() {
                self.send_block(false).await;
            }
            self.step_connection(&mut task, watch).await;
            let is_waited_for = self.supply.is_dry() && self.in_flight.is_empty();
            if is_waited_for || is_probe || self.report.retries() >= RETRIES_REPORTED_AT {
                self.turn(0);
            }
        }
        self.resting.part(&mut task, &self.pool);
    }

    /// Makes all immediate attempts at a target. `came` is the result of the first attempt if it was already made.
    async fn fetch_target(
        &self,
        task: &mut WorkerConnection,
        target: &mut CurrentTarget,
        body: &mut WorkerBody,
        watch: &Deadlines,
        came: Option<AttemptEnd>,
    ) {
        fulfil(self, task, target, body, watch, came).await;
        self.plan_joined_again(target);
        // A target that was redirected to another host has already left this one.
        self.leave(target, RequestOutcome::Nothing);
    }

    /// Takes the next target. Returns `false` if none is available.
    fn take(&self, target: &mut CurrentTarget) -> bool {
        if self.in_flight.is_full() {
            return false;
        }
        let is_taken = self.take_next(target);
        if !is_taken {
            self.load.starve();
        }
        is_taken
    }

    fn take_next(&self, target: &mut CurrentTarget) -> bool {
        if self.supply.is_done() || self.sink.is_congested() || self.control().stop.get() != Stop::No {
            return false;
        }
        if self.control().plan.is_held(|| self.supply.only(), self.clock.now()) {
            if let Some(batch) = self.supply.give_back() {
                self.control().plan.lock().give_back(batch);
            }
            if self.supply.is_dry() || !self.turn(1) {
                return false;
            }
        }
        if !self.sink.has_memory(self.load.heads_to_come()) {
            return false;
        }
        if self.control().origins.are_many() {
            return self.take_of_hosts(target);
        }
        if self.is_idle() {
            return false;
        }
        self.supply.take(target)
    }

    /// Waits without a target. The connection rests, or is kept for some time.
    async fn wait_idle(&self, task: &mut WorkerConnection, watch: &Rc<Deadlines>) {
        // A task in excess of the share does not need its connection, so other tasks can use it. At the end of the job,
        // one of them might need a connection that has already replied.
        if task.is_holding() || self.in_flight.is_full() || self.has_no_targets() {
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
}
