//! Runs a worker: starts its connections, ticks, and ends when they have ended.

use std::cell::Cell;
use std::rc::Rc;

use super::state::{Worker, WorkerSetup};
use crate::engine::stop::Stop;
use crate::engine::threads::network_runtime;
use crate::error::Result;
use crate::limits;
use crate::outcome::FailureKind;
use crate::planner::origin::{Millis, Observations};
use crate::transport::Deadlines;

/// Milliseconds since the last tick that make one late.
const LATE: Millis = 100;

/// However a connection's task ends, by a panic too, the worker's end does not wait for it.
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

/// Runs a worker until the job ends. The runtime is the thread's own.
pub(in crate::engine) fn run(setup: WorkerSetup) -> Result<()> {
    network_runtime()?.block_on(Rc::new(Worker::new(setup)).drive())
}

impl Worker {
    /// Starts the connections, ticks, and ends when they have ended.
    async fn drive(self: Rc<Self>) -> Result<()> {
        let watches: Vec<Rc<Deadlines>> = (0..self.setup.pool.connections)
            .map(|_| Rc::new(Deadlines::new(Rc::clone(&self.clock), self.setup.pool.timeouts)))
            .collect();
        let running = Rc::new(Cell::new(watches.len()));
        let ended = Rc::new(tokio::sync::Notify::new());
        for watch in &watches {
            let (worker, watch) = (Rc::clone(&self), Rc::clone(watch));
            let (running, ended) = (Rc::clone(&running), Rc::clone(&ended));
            tokio::task::spawn_local(async move {
                let _running = Running { running, ended };
                worker.fetch(&watch).await;
            });
        }
        let mut tick = tokio::time::interval(limits::TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut drain_until = None;
        loop {
            tokio::select! {
                () = ended.notified() => break,
                () = self.control().plan.wake(self.setup.index).notified() => self.look_again(),
                () = self.pool.names().answered() => self.take_answers(),
                () = self.resting.due() => self.finish_rests().await,
                _ = tick.tick() => self.tick(&watches).await,
            }
            self.check_stop(&watches, &mut drain_until);
        }
        self.end_rests(drain_until).await;
        self.finish().await;
        Ok(())
    }

    /// Something has changed: the planner may have targets.
    fn look_again(&self) {
        self.dry_until.set(None);
        self.look_for_memory();
        self.idle_connections.wake_one();
    }

    async fn tick(&self, watches: &[Rc<Deadlines>]) {
        let now = self.control().clock.now();
        let elapsed = now.saturating_sub(self.clock.replace(now)).max(1);
        self.tick_hosts(elapsed, now);
        let rate = self.finished.replace(0) as f64 * 1000.0 / elapsed as f64;
        self.rate.set(self.rate.get() * 0.8 + rate * 0.2);
        // After a late tick replies may be here that were in time: they are read first.
        if elapsed < LATE || self.was_late.replace(true) {
            self.was_late.set(false);
            for watch in watches {
                watch.check();
            }
        }
        self.pool.sweep();
        self.look_for_memory();
        self.tell_doubtful();
        self.control().counters[self.setup.index].set_in_flight(self.in_flight.get() as u64);
        if self.dry_until.get().is_some_and(|until| until <= now) {
            self.look_again();
        }
        if self.has_report() {
            self.turn(0);
        }
        // The tick must not wait for a sink that is behind.
        if self.setup.blocks.capacity() > 0 {
            self.send_block(false).await;
        }
    }

    fn check_stop(&self, watches: &[Rc<Deadlines>], drain_until: &mut Option<Millis>) {
        let stop = self.control().stop.get();
        if stop == Stop::No {
            return;
        }
        let now = self.control().clock.now();
        let until = *drain_until.get_or_insert(now + limits::DRAIN.as_millis() as Millis);
        self.is_done.set(true);
        self.idle_connections.wake_all();
        if stop == Stop::Abort || now >= until {
            for watch in watches {
                watch.expire(FailureKind::TotalTimeout);
            }
        }
    }

    /// The last block and the last report.
    async fn finish(&self) {
        if self.control().stop.get() != Stop::Abort {
            self.is_congested.set(false);
            self.send_block(true).await;
        }
        self.turn(0);
        // Attempts that settled nothing are in no block.
        self.control().counters[self.setup.index].add(&mut self.delta.borrow_mut());
        self.control().counters[self.setup.index].set_in_flight(0);
    }

    fn has_report(&self) -> bool {
        let report = self.report.borrow();
        report.settled > 0 || !report.retries.is_empty() || report.observed != Observations::default()
    }
}
