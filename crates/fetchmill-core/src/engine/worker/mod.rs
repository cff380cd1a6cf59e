//! A worker: a thread that fetches, with its connections as tasks of a current-thread runtime.
//!
//! On the path of one object there is no lock, no task, no message and no timer: a connection takes a target from
//! the worker's batch, sends, receives, and appends the outcome to the worker's block. The planner's lock is taken
//! once a batch, the sink gets whole blocks, and deadlines are looked at by a tick.

mod address;
mod admission;
pub(super) mod body;
mod fetch;
mod opening;
pub(super) mod queue;
mod row;
mod store;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::LocalRuntime;
use tokio::sync::mpsc::{Sender, UnboundedReceiver};

use super::control::{Control, Stop};
use super::counters::Delta;
use super::parking::Parking;
use super::s3::Places;
use crate::entry::Naming;
use crate::error::{Error, Result};
use crate::http1::RequestTemplate;
use crate::limits;
use crate::origin::OriginKey;
use crate::outcome::FailureKind;
use crate::planner::hosts::HostRules;
use crate::planner::origin::{Millis, Observed};
use crate::planner::{Next, Report};
use crate::sink::{Block, Properties, Stage};
use crate::transport::{Buffers, Origin, Pool, PoolSettings, Watch};
use admission::Waiters;
use body::BodyMemory;
use queue::{Queue, Target};

/// What a worker is made of.
pub(super) struct Setup {
    pub(super) index: usize,
    pub(super) control: Arc<Control>,
    /// The only origin, when a server lists its objects itself.
    pub(super) server: Option<Server>,
    pub(super) naming: Naming,
    /// Of this worker's connections; there are as many tasks.
    pub(super) pool: PoolSettings,
    pub(super) attempts_max: u32,
    /// For the hosts of a job over many.
    pub(super) hosts: HostRules,
    /// Whether what failed for a reason that may pass is looked at once more, later.
    pub(super) has_second_look: bool,
    pub(super) redirects_max: u32,
    pub(super) allow_eof_bodies: bool,
    /// In a check, where every outcome is a row: a body is read so far.
    pub(super) enough: Option<u64>,
    pub(super) properties: Properties,
    /// See [`BodyMemory`].
    pub(super) stage: Option<Arc<Stage>>,
    pub(super) blocks: Sender<Block>,
    pub(super) empty: UnboundedReceiver<Block>,
}

/// The origin of a job whose server lists its objects.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) key: OriginKey,
    pub(super) template: RequestTemplate,
    pub(super) addresses: Option<Arc<[SocketAddr]>>,
}

/// The state that the tasks of a worker share. Nothing in it is borrowed across an await.
struct Worker {
    setup: Setup,
    pool: Pool,
    server: Option<Rc<Origin>>,
    last_origin: RefCell<Option<Rc<Origin>>>,
    places: Places,
    clock: Rc<Cell<Millis>>,
    queue: RefCell<Queue>,
    /// The last tick came late and looked at no deadline.
    was_late: Cell<bool>,
    /// The planner had nothing: not asked again until woken, or until this time.
    dry_until: Cell<Option<Millis>>,
    is_done: Cell<bool>,
    /// A block waits for the sink: no new targets.
    is_congested: Cell<bool>,
    in_flight: Cell<usize>,
    waiters: Waiters,
    parking: Parking,
    /// Connections that wait for a place in the origin's pace. Only this thread's, and only while there is one.
    pace_line: tokio::sync::Mutex<()>,
    buffers: Buffers,
    path: RefCell<Vec<u8>>,
    /// The row that is written.
    line: RefCell<Vec<u8>>,
    block: RefCell<Block>,
    empty: RefCell<UnboundedReceiver<Block>>,
    report: RefCell<Report>,
    delta: RefCell<Delta>,
    body_memory: Rc<BodyMemory>,
    /// Targets finished since the last tick, and how many a second that makes.
    finished: Cell<u64>,
    rate: Cell<f64>,
    /// When this machine ran out of descriptors or ports with no connection open.
    exhausted_since: Cell<Option<Millis>>,
}

/// A reply's worth of the origin's state is told to the planner at the latest after so many failures.
const RETRIES_REPORTED_AT: usize = 16;

/// Milliseconds since the last tick that make one late.
const LATE: Millis = 100;

/// Runs a worker until the job ends. The runtime is the thread's own.
pub(super) fn run(setup: Setup) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build_local(tokio::runtime::LocalOptions::default())
        .map_err(|error| Error::storage("make an event queue at", "worker", error))?;
    run_on(&runtime, setup)
}

fn run_on(runtime: &LocalRuntime, mut setup: Setup) -> Result<()> {
    let (_, unused) = tokio::sync::mpsc::unbounded_channel();
    let empty = RefCell::new(std::mem::replace(&mut setup.empty, unused));
    let clock = Rc::new(Cell::new(setup.control.clock.now()));
    let body_memory = Rc::new(BodyMemory {
        bytes: Cell::new(0),
        bytes_max: limits::REPLIES_BYTES_MAX / setup.control.workers(),
        stage: setup.stage.take(),
    });
    let pool = Pool::new(setup.pool.clone(), Rc::clone(&clock));
    let server = setup.server.take();
    let server = server.map(|Server { key, template, addresses }| pool.add(key, template, addresses));
    let worker = Rc::new(Worker {
        pool,
        server,
        last_origin: RefCell::new(None),
        places: Places::new(Arc::clone(setup.control.store())),
        clock,
        queue: RefCell::new(Queue::default()),
        was_late: Cell::new(false),
        dry_until: Cell::new(None),
        is_done: Cell::new(false),
        is_congested: Cell::new(false),
        in_flight: Cell::new(0),
        waiters: Waiters::new(setup.hosts, setup.control.workers()),
        parking: Parking::default(),
        pace_line: tokio::sync::Mutex::default(),
        buffers: Buffers::default(),
        path: RefCell::new(Vec::new()),
        line: RefCell::new(Vec::new()),
        block: RefCell::new(Block::default()),
        empty,
        report: RefCell::new(Report::default()),
        delta: RefCell::new(Delta::default()),
        body_memory,
        finished: Cell::new(0),
        rate: Cell::new(0.0),
        exhausted_since: Cell::new(None),
        setup,
    });
    runtime.block_on(worker.drive())
}

impl Worker {
    /// Whether this is a check: every outcome is a row.
    fn has_rows(&self) -> bool {
        self.setup.enough.is_some()
    }

    fn control(&self) -> &Control {
        &self.setup.control
    }

    /// Starts the connections, ticks, and ends when they have ended.
    async fn drive(self: Rc<Self>) -> Result<()> {
        let watches: Vec<Rc<Watch>> = (0..self.setup.pool.connections)
            .map(|_| Rc::new(Watch::new(Rc::clone(&self.clock), self.setup.pool.timeouts)))
            .collect();
        let running = Rc::new(Cell::new(watches.len()));
        let ended = Rc::new(tokio::sync::Notify::new());
        for watch in &watches {
            let (worker, watch) = (Rc::clone(&self), Rc::clone(watch));
            let (running, ended) = (Rc::clone(&running), Rc::clone(&ended));
            tokio::task::spawn_local(async move {
                worker.fetch(&watch).await;
                running.set(running.get() - 1);
                if running.get() == 0 {
                    ended.notify_one();
                }
            });
        }
        let mut tick = tokio::time::interval(limits::TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut drain_until = None;
        loop {
            tokio::select! {
                () = ended.notified() => break,
                () = self.control().wake(self.setup.index).notified() => self.look_again(),
                () = self.pool.names().answered() => self.take_answers(),
                _ = tick.tick() => self.tick(&watches).await,
            }
            self.heed_stop(&watches, &mut drain_until);
        }
        self.finish().await;
        Ok(())
    }

    /// Something has changed: the planner may have targets.
    fn look_again(&self) {
        self.dry_until.set(None);
        self.parking.wake_one();
    }

    async fn tick(&self, watches: &[Rc<Watch>]) {
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

    fn heed_stop(&self, watches: &[Rc<Watch>], drain_until: &mut Option<Millis>) {
        let stop = self.control().stop();
        if stop == Stop::No {
            return;
        }
        let now = self.control().clock.now();
        let until = *drain_until.get_or_insert(now + limits::DRAIN.as_millis() as Millis);
        self.is_done.set(true);
        self.parking.wake_all();
        if stop == Stop::Abort || now >= until {
            for watch in watches {
                watch.expire(FailureKind::TotalTimeout);
            }
        }
    }

    /// The last block and the last report.
    async fn finish(&self) {
        if self.control().stop() != Stop::Abort {
            self.is_congested.set(false);
            self.send_block(true).await;
        }
        self.turn(0);
        self.control().counters[self.setup.index].set_in_flight(0);
    }

    fn has_report(&self) -> bool {
        let report = self.report.borrow();
        report.settled > 0 || !report.retries.is_empty() || report.observed != Observed::default()
    }

    /// Reports to the planner and, with a `max`, takes a batch; see [`Control::turn`].
    fn turn(&self, max: usize) -> bool {
        let report = self.report.take();
        match self.control().turn(self.setup.index, report, max) {
            Next::Batch(batch) => {
                self.queue.borrow_mut().set(batch);
                return true;
            }
            // Without a wish for a batch it is only heard when there was none before.
            Next::WaitUntil(_) | Next::Wait if max == 0 && self.dry_until.get().is_none() => {}
            Next::WaitUntil(until) => self.dry_until.set(Some(until)),
            Next::Wait => self.dry_until.set(Some(Millis::MAX)),
            Next::Done => {
                self.is_done.set(true);
                self.parking.wake_all();
            }
        }
        false
    }

    /// Takes the next target; `false` when there is none now.
    fn take(&self, target: &mut Target) -> bool {
        if self.is_done.get() || self.is_congested.get() || self.control().stop() != Stop::No {
            return false;
        }
        if self.control().is_resting(self.clock.get()) {
            if let Some(batch) = self.queue.borrow_mut().give_back() {
                self.control().give_back(batch);
            }
            if self.dry_until.get().is_some() || !self.turn(1) {
                return false;
            }
        }
        if self.control().has_many_origins() {
            return self.take_of_hosts(target);
        }
        if self.is_idle() {
            return false;
        }
        self.queue.borrow_mut().take(target)
    }

    /// Whether nothing is there to do, and the planner has nothing either.
    fn is_idle(&self) -> bool {
        if !self.queue.borrow().is_empty() || self.waiters.has_ready() {
            return false;
        }
        if self.dry_until.get().is_some() || !self.turn(self.batch_size()) {
            return true;
        }
        self.parking.wake(self.queue.borrow().len());
        false
    }

    /// What this worker finishes in a second, and something for each connection.
    fn batch_size(&self) -> usize {
        (self.rate.get() as usize).clamp(self.setup.pool.connections.min(64), limits::BATCH_TARGETS_MAX)
    }

    /// Sends the block to the sink; waits while the sink is behind. Whether it had to wait.
    async fn send_block(&self, is_last: bool) -> bool {
        if self.is_congested.get() || self.block.borrow().is_empty() {
            return false;
        }
        let fresh = self.empty.borrow_mut().try_recv().unwrap_or_default();
        let block = self.block.replace(fresh);
        self.control().counters[self.setup.index].add(&mut self.delta.borrow_mut());
        match self.setup.blocks.try_send(block) {
            Err(tokio::sync::mpsc::error::TrySendError::Full(block)) => {
                self.is_congested.set(!is_last);
                let _ = self.setup.blocks.send(block).await;
                self.is_congested.set(false);
                self.parking.wake_all();
                true
            }
            // A sink that has ended has ended the job with it.
            Ok(()) | Err(tokio::sync::mpsc::error::TrySendError::Closed(_)) => false,
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
            self.control().fail(Error::storage("connect from", "this machine", error));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
