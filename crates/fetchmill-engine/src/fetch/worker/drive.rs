//! The main loop of a worker, which starts the connections, ticks, and returns when all connections have ended.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::sink_queue::SinkQueue;
use super::state::{Worker, WorkerSetup};
use crate::control::stop::Stop;
use crate::control::telemetry::CapacityUse;
use crate::event_queues::network_runtime;
use fetchmill_model::error::Result;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::origin::Millis;
use fetchmill_net::Deadlines;

/// Guard that counts a running connection task. It counts the end of the task even after a panic, so that the worker
/// does not wait forever.
struct Running {
    running: Rc<Cell<usize>>,
    ended: Rc<tokio::sync::Notify>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.running.set(self.running.get() - 1);
        if self.running.get() == 0 {
            self.ended.notify_one();
        }
    }
}

/// A worker's connection tasks and their deadlines.
#[derive(Default)]
struct Tasks {
    watches: RefCell<Vec<Rc<Deadlines>>>,
    running: Rc<Cell<usize>>,
    ended: Rc<tokio::sync::Notify>,
}

/// Runs a worker until the job ends. The runtime belongs to this thread.
pub(crate) fn run(setup: WorkerSetup, sink: SinkQueue) -> Result<()> {
    network_runtime()?.block_on(Rc::new(Worker::new(setup, sink)).drive())
}

impl Worker {
    /// Starts the connections, ticks, and returns when all connections have ended.
    async fn drive(self: Rc<Self>) -> Result<()> {
        let tasks = Tasks::default();
        self.start_tasks(&tasks);
        let mut tick = tokio::time::interval(limits::TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut drain_until = None;
        loop {
            tokio::select! {
                () = tasks.ended.notified() => break,
                () = self.control().plan.wake(self.setup.index).notified() => self.look_again(),
                () = self.pool.names().answered() => self.take_answers(),
                () = self.resting.due() => self.finish_rests().await,
                _ = tick.tick() => self.tick(&tasks).await,
            }
            self.check_stop(&tasks, &mut drain_until);
        }
        self.end_rests(drain_until).await;
        self.fail_all_left();
        self.finish().await;
        Ok(())
    }

    /// Starts tasks if targets might be available for them. Existing tasks are kept.
    fn start_tasks(self: &Rc<Self>, tasks: &Tasks) {
        let mut watches = tasks.watches.borrow_mut();
        while watches.len() < self.in_flight.share().min(self.setup.pool.connections) {
            let watch = Rc::new(Deadlines::new(self.clock.share(), self.setup.pool.timeouts));
            watches.push(Rc::clone(&watch));
            tasks.running.set(tasks.running.get() + 1);
            let worker = Rc::clone(self);
            let (running, ended) = (Rc::clone(&tasks.running), Rc::clone(&tasks.ended));
            tokio::task::spawn_local(async move {
                let _running = Running { running, ended };
                worker.fetch(&watch).await;
            });
        }
    }

    /// Reports the load to the planner. Called at each tick.
    fn tell_load(&self) {
        if self.control().finds_concurrency() {
            self.report.set_load(self.load.take(self.in_flight.count()));
        }
    }

    /// Reports to the job's sampler: the use of the capacity at each tick, and everything else twice per second.
    fn tell_telemetry(&self, now: Millis) {
        let telemetry = &self.control().telemetry.workers[self.setup.index];
        let share = self.in_flight.share();
        let in_flight = self.in_flight.count().min(share);
        let (exchanging, paced) = self.load.places();
        telemetry.capacity.add(&[
            (CapacityUse::Exchanging, exchanging),
            (CapacityUse::Paced, paced),
            (CapacityUse::Preparing, in_flight.saturating_sub(exchanging + paced)),
            (self.use_of_idle(now), share - in_flight),
        ]);
        self.load.report_latency_if_due(telemetry, now);
    }

    /// Returns the reason why not all slots are in use.
    fn use_of_idle(&self, now: Millis) -> CapacityUse {
        if self.sink.holds_back() {
            CapacityUse::Sink
        } else if self.waiters.blocked() > 0 {
            CapacityUse::Names
        } else if let Some(wait) = self.waiters.main_wait() {
            wait.capacity_use()
        } else if self.control().plan.is_closed(now) {
            CapacityUse::Held
        } else if self.supply.is_empty() && !self.waiters.has_ready() {
            CapacityUse::NoTargets
        } else {
            CapacityUse::Preparing
        }
    }

    /// Closes connections that are not needed for requests or rests, because open connections can slow a server down.
    /// They are closed soon after the concurrency is lowered, so that the next round measures the server without them.
    /// In a job with many hosts, any connection might be needed next, so all stay open.
    fn sweep_connections(&self, now: Millis) {
        let needed = if self.control().origins.are_many() { usize::MAX } else { self.in_flight.share() };
        let surplus = if self.in_flight.was_lowered(now) {
            limits::LOWERED_CONNECTION_IDLE
        } else {
            limits::SURPLUS_CONNECTION_IDLE
        };
        self.pool.sweep(needed, surplus);
    }

    /// Adopts the planner's new share of requests in flight. If the share is lower, surplus tasks stop after their
    /// current target.
    fn take_share(self: &Rc<Self>, tasks: &Tasks) {
        let share = self.control().plan.share(self.setup.index);
        let before = self.in_flight.set_share(share, self.control().clock.now());
        if share < before {
            self.pool.note_fewer(before, share, self.control().clock.micros());
        }
        if share > before && !self.supply.is_done() {
            self.start_tasks(tasks);
            self.wake_for(share - before);
        }
    }

    /// Checks again for targets and memory after a change, because the planner might have targets again.
    fn look_again(&self) {
        self.supply.refill();
        self.wake_for(self.supply.begin_noted());
        self.look_for_memory();
        self.idle_connections.wake_one();
    }

    async fn tick(self: &Rc<Self>, tasks: &Tasks) {
        let now = self.control().clock.now();
        let elapsed = self.clock.tick(now);
        self.tick_hosts(elapsed, now);
        self.outcomes.tick(elapsed);
        if self.clock.checks_deadlines(elapsed) {
            self.check_deadlines(tasks);
        }
        self.sweep_connections(now);
        self.look_for_memory();
        self.tell_doubtful();
        self.control().counters[self.setup.index].set_in_flight(self.in_flight.count() as u64);
        if self.supply.is_due(now) {
            self.look_again();
        }
        self.tell_telemetry(now);
        self.tell_load();
        if self.has_report() {
            self.turn(0);
        }
        self.take_share(tasks);
        // A tick must not wait for a congested sink.
        if self.sink.has_room() {
            self.send_block(false).await;
        }
    }

    /// Ends attempts that exceed their deadline, and records the latest deadline of the others.
    fn check_deadlines(&self, tasks: &Tasks) {
        let mut last = 0;
        for watch in tasks.watches.borrow().iter() {
            watch.check();
            last = last.max(watch.attempt_until().unwrap_or(0));
        }
        self.control().telemetry.workers[self.setup.index].set_attempts_until(last);
    }

    fn check_stop(&self, tasks: &Tasks, drain_until: &mut Option<Millis>) {
        let stop = self.control().stop.get();
        if stop == Stop::No {
            return;
        }
        let now = self.control().clock.now();
        let until = *drain_until.get_or_insert(now + limits::DRAIN.as_millis() as Millis);
        self.supply.end();
        self.idle_connections.wake_all();
        if stop == Stop::Abort || now >= until {
            for watch in tasks.watches.borrow().iter() {
                watch.expire(FailureKind::TotalTimeout);
            }
        }
    }

    /// Sends the last block and the last report.
    async fn finish(&self) {
        if self.control().stop.get() != Stop::Abort {
            self.sink.end_congestion();
            self.send_block(true).await;
        }
        self.turn(0);
        // Attempts without an outcome are not part of any block, so their counts are published here.
        self.outcomes.publish_counts(&self.control().counters[self.setup.index]);
        self.control().counters[self.setup.index].set_in_flight(0);
        self.load.report_latency(&self.control().telemetry.workers[self.setup.index]);
    }

    fn has_report(&self) -> bool {
        self.outcomes.settled() > 0 || !self.report.is_empty()
    }
}
