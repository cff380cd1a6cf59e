//! The fetching thread and its handle. The thread creates tasks on demand, up to the maximum number of requests in
//! flight. Tasks never end. If the limit decreases, surplus tasks wait.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;

use super::super::idle_connections::IdleConnections;
use super::channel::{Channel, FetcherState};
use super::concurrency::StreamConcurrency;
use super::held_replies::{StreamConnection, UncertainReplies};
use super::queue::{RequestQueue, TaskRequest};
use super::reply_collector::ReplyCollector;
use super::throttling::Throttling;
use crate::access::s3::{Access, BucketResolver, S3Settings};
use crate::control::clock::Clock;
use crate::event_queues::network_runtime;
use crate::plan::descriptors::fit_stream;
use crate::request::stream_options::StreamOptions;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::panics::PanicNote;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::planner::pace::Pace;
use fetchmill_model::planner::retry::Jitter;
use fetchmill_net::certain::RestingConnections;
use fetchmill_net::{Deadlines, IoBuffers, OriginConnections, Pool, PoolSettings};

/// Interval between checks for old connections while nothing is in flight.
const IDLE_TICK: Duration = Duration::from_secs(1);

/// Thread that fetches for any number of streams. Its connections outlive the streams.
#[derive(Debug)]
pub struct Fetcher {
    hub: Arc<FetcherState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Fetcher {
    /// Starts the thread.
    pub fn start(mut options: StreamOptions) -> Result<Self> {
        let s3 = S3Settings::of_process(&options.s3)?;
        options.check()?;
        fit_stream(&mut options.http);
        let store = Access::new(s3);
        let settings = options.pool_settings(&store)?;
        store.prepare(settings.clone(), 0);
        let hub = Arc::new(FetcherState::new(StreamConcurrency::first(&options.http)));
        let own = Arc::clone(&hub);
        let panics = Arc::new(PanicNote::default());
        let started = std::thread::Builder::new().name("fetchmill-stream".into()).spawn(move || {
            let _guard = EndGuard(Arc::clone(&own));
            panics.watch(|| run(own, settings, options, &store, &panics));
            store.close();
        });
        let thread = started.map_err(|error| Error::storage("start a thread in", "this process", error))?;
        Ok(Fetcher { hub, thread: Mutex::new(Some(thread)) })
    }

    /// Returns the current maximum number of requests in flight.
    pub fn concurrency(&self) -> usize {
        self.hub.concurrency.load(Ordering::Relaxed)
    }

    /// Opens a stream. With `is_certain`, each reply is held until it is certain to answer its request.
    pub fn channel(&self, is_certain: bool) -> Channel {
        Channel::new(Arc::clone(&self.hub), is_certain)
    }

    /// Stops the thread and waits until it has ended. Cancels the requests in flight and closes all connections.
    pub fn end(&self) {
        self.hub.is_ended.store(true, Ordering::SeqCst);
        self.hub.wake.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A forked child process does not have this thread, and would wait forever.
        if let Some(thread) = thread.filter(|_| !self.hub.is_elsewhere()) {
            // If the thread panicked, the streams were already notified.
            let _ = thread.join();
        }
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.end();
    }
}

/// Guard that notifies all waiting streams when the thread ends, even after a panic.
struct EndGuard(Arc<FetcherState>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.die();
    }
}

/// Runs the thread. If no event queue can be created, the thread ends immediately and the streams are notified.
fn run(
    hub: Arc<FetcherState>,
    settings: PoolSettings,
    options: StreamOptions,
    store: &Arc<Access>,
    panics: &PanicNote,
) {
    if let Ok(runtime) = network_runtime() {
        runtime.block_on(Rc::new(FetchThread::new(hub, settings, options, store)).drive(panics));
    }
}

/// State of a task that is checked at each tick.
pub(super) struct TaskState {
    pub(super) watch: Rc<Deadlines>,
    pub(super) collector: RefCell<Option<Rc<ReplyCollector>>>,
}

/// State shared by the thread's tasks. No part of it stays borrowed across an await.
pub(super) struct FetchThread {
    pub(super) hub: Arc<FetcherState>,
    pub(super) options: StreamOptions,
    pub(super) pool: Pool,
    /// Access to S3 stores, and the addresses of their buckets.
    pub(super) store: Arc<Access>,
    pub(super) buckets: BucketResolver,
    pub(super) pace: Option<Pace>,
    pub(super) throttling: Throttling,
    pub(super) concurrency: StreamConcurrency,
    /// Time of the last turn, for uses that do not need the precise time.
    pub(super) clock: Rc<Cell<Millis>>,
    /// Precise clock.
    pub(super) exact: Clock,
    pub(super) idle_connections: IdleConnections,
    pub(super) buffers: IoBuffers,
    pub(super) last_origin: RefCell<Option<Rc<OriginConnections>>>,
    pub(super) jitter: RefCell<Jitter>,
    /// Bytes of large bodies being received.
    pub(super) receiving: Cell<usize>,
    /// Bytes of replies held until they are certain.
    pub(super) held_bytes: Cell<usize>,
    /// Signalled when `receiving`, `held_bytes` or the number of untaken bytes might have decreased.
    pub(super) room: Notify,
    /// Number of tasks with large bodies that wait for memory.
    pub(super) waiting_for_room: Cell<usize>,
    /// Connections without a request that have not been silent for a whole rest yet.
    pub(super) resting: RestingConnections<UncertainReplies>,
    /// Connections that have rested, oldest first, with the time when each rest ended. If bytes arrive late on one of
    /// these connections, its certain replies become doubtful. Their number never exceeds the limit on requests in
    /// flight.
    pub(super) rested: RefCell<VecDeque<(StreamConnection, Millis)>>,
    /// Number of tasks without a request in flight whose connections have uncertain replies.
    pub(super) waiting_for_silence: Cell<usize>,
    queue: RefCell<RequestQueue>,
    collectors: RefCell<Vec<Rc<ReplyCollector>>>,
    unflushed: RefCell<Vec<Rc<ReplyCollector>>>,
    places: RefCell<Vec<Rc<TaskState>>>,
    /// Number of tasks that are handling a request.
    busy: Cell<usize>,
    /// Maximum of `busy` since the last tick. Ticks often come right after a wave of replies, when `busy` is low.
    busy_most: Cell<usize>,
    /// Number of tasks whose connection rests after a reply.
    pub(super) resting_here: Cell<usize>,
    replies: Cell<u64>,
    has_replies: Notify,
    last_tick: Cell<Millis>,
}

impl FetchThread {
    fn new(
        hub: Arc<FetcherState>,
        settings: PoolSettings,
        options: StreamOptions,
        store: &Arc<Access>,
    ) -> Self {
        let exact = Clock::start();
        let clock = Rc::new(Cell::new(exact.now()));
        FetchThread {
            concurrency: StreamConcurrency::new(&options.http, Arc::clone(&hub)),
            hub,
            pool: Pool::new(settings, Rc::clone(&clock)),
            store: Arc::clone(store),
            buckets: BucketResolver::new(Arc::clone(store)),
            pace: options.http.rate.map(Pace::new),
            throttling: Throttling::default(),
            options,
            jitter: RefCell::new(Jitter::new(clock.get())),
            last_tick: Cell::new(clock.get()),
            clock,
            exact,
            idle_connections: IdleConnections::default(),
            buffers: IoBuffers::default(),
            last_origin: RefCell::default(),
            receiving: Cell::new(0),
            held_bytes: Cell::new(0),
            waiting_for_room: Cell::new(0),
            resting: RestingConnections::default(),
            rested: RefCell::default(),
            waiting_for_silence: Cell::new(0),
            room: Notify::new(),
            queue: RefCell::default(),
            collectors: RefCell::default(),
            unflushed: RefCell::default(),
            places: RefCell::default(),
            busy: Cell::new(0),
            busy_most: Cell::new(0),
            resting_here: Cell::new(0),
            replies: Cell::new(0),
            has_replies: Notify::new(),
        }
    }

    /// Runs until the thread must stop or a task panics. The reply of a task that panicked would never arrive.
    async fn drive(self: Rc<Self>, panics: &PanicNote) {
        tokio::task::spawn_local(Rc::clone(&self).flush_turns());
        tokio::task::spawn_local(Rc::clone(&self).finish_rests());
        while !self.hub.is_ended.load(Ordering::SeqCst) && panics.error().is_none() {
            let is_busy =
                self.busy.get() + self.waiting_for_silence.get() > 0 || !self.queue.borrow().is_empty();
            let tick = if is_busy { limits::TICK } else { IDLE_TICK };
            // Check everything, whether the wait ended with a notification or a timeout.
            let _ = tokio::time::timeout(tick, self.hub.wake.notified()).await;
            self.clock.set(self.exact.now());
            self.take_submitted();
            if self.clock.get().saturating_sub(self.last_tick.get()) >= limits::TICK.as_millis() as Millis {
                self.tick();
            }
            self.room.notify_waiters();
            self.start_tasks();
        }
    }

    fn take_submitted(&self) {
        for (shared, requests) in self.hub.take_submitted() {
            let submitted = requests.submitted.map_or(0, |moment| self.exact.micros_at(moment));
            let mut collectors = self.collectors.borrow_mut();
            let known = collectors.iter().find(|collector| Arc::ptr_eq(&collector.shared, &shared)).cloned();
            let collector = known.unwrap_or_else(|| {
                collectors.push(Rc::new(ReplyCollector::new(shared, Arc::clone(&self.hub))));
                Rc::clone(&collectors[collectors.len() - 1])
            });
            self.queue.borrow_mut().push(collector, requests, submitted);
        }
        self.forget_dropped();
    }

    /// Cancels the requests in flight that belong to dropped streams.
    fn forget_dropped(&self) {
        let count = self.collectors.borrow().len();
        self.collectors.borrow_mut().retain(|collector| !collector.shared.is_closed());
        if self.collectors.borrow().len() == count {
            return;
        }
        self.queue.borrow_mut().forget_dropped();
        for place in &*self.places.borrow() {
            if place.collector.borrow().as_ref().is_some_and(|collector| collector.shared.is_closed()) {
                place.watch.expire(FailureKind::TotalTimeout);
            }
        }
    }

    fn tick(&self) {
        self.last_tick.set(self.clock.get());
        for place in &*self.places.borrow() {
            place.watch.check();
        }
        self.throttling.tick(self.clock.get());
        self.tick_concurrency();
        self.pool.names().tick();
        self.pool.sweep(usize::MAX, limits::KEEP_ALIVE_IDLE);
    }

    fn tick_concurrency(&self) {
        let now = self.clock.get();
        let is_dry = self.is_full() || self.queue.borrow().ready(now) == 0;
        let in_flight = self.busy_most.replace(self.busy.get()).saturating_sub(self.resting_here.get());
        let before = self.concurrency.limit();
        self.concurrency.tick(in_flight, is_dry, self.throttling.has_pace(), now);
        let limit = self.concurrency.limit();
        if limit < before {
            self.pool.note_fewer(before, limit, self.exact.micros());
        }
    }

    /// Returns the number of requests that tasks are handling.
    pub(super) fn in_flight(&self) -> usize {
        self.busy.get()
    }

    /// Returns how many more requests can get a task.
    fn places(&self) -> usize {
        self.concurrency.limit().saturating_sub(self.busy.get())
    }

    /// Wakes or creates tasks for the requests that can start.
    fn start_tasks(self: &Rc<Self>) {
        // Even if memory is full, one task must look for the wanted request.
        let most = if self.takes_only_wanted() { 1 } else { self.places() };
        let ready = self.queue.borrow().ready(self.clock.get()).min(most);
        let idle = self.idle_connections.count();
        self.idle_connections.wake(ready.min(idle));
        let made = self.places.borrow().len();
        // All tasks might be waiting for memory while the request that would free it is still queued. An extra task
        // serves that request.
        let tasks_max = self.concurrency.limit() + usize::from(self.waiting_for_room.get() > 0);
        let missing = ready.saturating_sub(idle).min(tasks_max.saturating_sub(made));
        for _ in 0..missing {
            let watch = Rc::new(Deadlines::new(Rc::clone(&self.clock), self.options.http.timeouts()));
            let place = Rc::new(TaskState { watch, collector: RefCell::default() });
            self.places.borrow_mut().push(Rc::clone(&place));
            let fetching = Rc::clone(self);
            tokio::task::spawn_local(async move { fetching.serve(&place).await });
        }
    }

    /// Returns whether the bodies in memory leave no room for another request.
    fn is_full(&self) -> bool {
        self.held() >= limits::STREAM_BYTES_MAX
    }

    /// Returns whether another request would have to wait for memory, or would need a slot while tasks wait for memory.
    /// In this state, only the request that all others wait for can start.
    fn takes_only_wanted(&self) -> bool {
        self.is_full() || (self.waiting_for_room.get() > 0 && self.places() == 0)
    }

    /// Returns the body bytes in memory, not counting replies that are about to be handed over. If memory is full,
    /// makes the program wake the thread when it takes replies.
    pub(super) fn held(&self) -> usize {
        let own = self.receiving.get() + self.held_bytes.get();
        let held = self.hub.untaken.load(Ordering::SeqCst) + own;
        if held < limits::STREAM_BYTES_MAX {
            return held;
        }
        self.hub.is_holding.store(true, Ordering::SeqCst);
        // Read the counter again: the program might have taken bodies before it saw that the thread was waiting.
        self.hub.untaken.load(Ordering::SeqCst) + own
    }

    /// Takes the next request. Returns `false` if none can start now.
    pub(super) fn take(&self, place: &TaskState, request: &mut TaskRequest) -> bool {
        let used = |requests| self.hub.give_back(requests);
        let now = self.clock.get();
        let is_taken = if self.takes_only_wanted() {
            self.queue.borrow_mut().take_wanted(request, now)
        } else if self.places() == 0 {
            false
        } else {
            self.queue.borrow_mut().take(request, now, used)
        };
        if !is_taken {
            return false;
        }
        let mut collector = place.collector.borrow_mut();
        let is_same =
            matches!((&*collector, &request.collector), (Some(one), Some(other)) if Rc::ptr_eq(one, other));
        if !is_same {
            collector.clone_from(&request.collector);
        }
        true
    }

    /// Repeats the request after `delay`.
    pub(super) fn wait(&self, request: TaskRequest, delay: Millis) {
        self.queue.borrow_mut().wait(request, self.clock.get() + delay);
    }

    pub(super) fn begin(&self) {
        self.busy.set(self.busy.get() + 1);
        self.busy_most.set(self.busy_most.get().max(self.busy.get()));
    }

    pub(super) fn end(&self, place: &TaskState) {
        self.busy.set(self.busy.get() - 1);
        place.collector.borrow_mut().take();
    }

    /// Adds a reply to a collector and schedules the collector for the next flush.
    pub(super) fn replied_in(
        &self,
        collector: &Rc<ReplyCollector>,
        push: impl FnOnce(&mut super::ReplyBatch),
    ) {
        self.replies.set(self.replies.get() + 1);
        if collector.add(push) {
            let mut unflushed = self.unflushed.borrow_mut();
            unflushed.push(Rc::clone(collector));
            if unflushed.len() == 1 {
                self.has_replies.notify_one();
            }
        }
    }

    /// Hands over replies after the first turn without new replies. Waking the program for each reply would cost more
    /// than the reply itself.
    async fn flush_turns(self: Rc<Self>) {
        loop {
            self.has_replies.notified().await;
            let mut before = None;
            while before != Some(self.replies.get()) {
                before = Some(self.replies.get());
                tokio::task::yield_now().await;
            }
            let unflushed = std::mem::take(&mut *self.unflushed.borrow_mut());
            for collector in &unflushed {
                collector.flush_listed();
            }
        }
    }
}
