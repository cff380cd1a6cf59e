//! The thread that fetches, and its handle. Tasks are made when they are needed, up to `limit`, and stay.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;

use super::super::control::Clock;
use super::super::parking::Parking;
use super::super::s3::{Access, Places};
use super::StreamOptions;
use super::channel::{Channel, Hub};
use super::outlet::Outlet;
use super::queue::{Queue, Ticket};
use crate::error::{Error, Result};
use crate::limits;
use crate::outcome::FailureKind;
use crate::planner::origin::Millis;
use crate::planner::pace::Pace;
use crate::planner::retry::Jitter;
use crate::transport::{Buffers, Origin, Pool, PoolSettings, Watch};

/// How often the thread looks at what is old while nothing is in flight.
const IDLE_TICK: Duration = Duration::from_secs(1);

/// A thread that fetches for any number of streams, and keeps its connections from one to the next.
#[derive(Debug)]
pub struct Fetcher {
    hub: Arc<Hub>,
    thread: Mutex<Option<JoinHandle<()>>>,
    options: StreamOptions,
}

impl Fetcher {
    /// Starts the thread.
    pub fn start(mut options: StreamOptions) -> Result<Self> {
        options.s3.resolve()?;
        options.check()?;
        raise_descriptors();
        let store = Access::new(options.s3.clone());
        let settings = options.pool_settings(&store)?;
        store.prepare(settings.clone(), 0);
        let hub = Arc::new(Hub::new());
        let (own, copy) = (Arc::clone(&hub), options.clone());
        let started = std::thread::Builder::new().name("fetchmill-stream".into()).spawn(move || {
            let _guard = EndGuard(Arc::clone(&own));
            run(own, settings, copy, &store);
            store.close();
        });
        let thread = started.map_err(|error| Error::storage("start a thread of", "this process", error))?;
        Ok(Fetcher { hub, thread: Mutex::new(Some(thread)), options })
    }

    /// What it was made with.
    pub fn options(&self) -> &StreamOptions {
        &self.options
    }

    /// Opens a stream.
    pub fn channel(&self) -> Channel {
        Channel::new(Arc::clone(&self.hub))
    }

    /// Ends the thread: what is in flight is given up, all connections are closed. Waits for it.
    pub fn end(&self) {
        self.hub.is_ended.store(true, Ordering::SeqCst);
        self.hub.wake.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // In the child of a fork there is none, and its end would never come.
        if let Some(thread) = thread.filter(|_| !self.hub.is_elsewhere()) {
            // A panic was told to the streams when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.end();
    }
}

/// A connection needs a descriptor: as many are allowed as may be. When that fails, or they are fewer than `limit`,
/// requests wait for one.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let allowed = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, maximum: allowed.maximum });
}

/// However the thread ends, nobody waits for it.
struct EndGuard(Arc<Hub>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.die();
    }
}

/// Without an event queue there is nothing to be done: the streams see that the thread has ended.
fn run(hub: Arc<Hub>, settings: PoolSettings, options: StreamOptions, store: &Arc<Access>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build_local(tokio::runtime::LocalOptions::default());
    if let Ok(runtime) = runtime {
        runtime.block_on(Rc::new(Fetching::new(hub, settings, options, store)).drive());
    }
}

/// What a task is at: looked at by ticks.
pub(super) struct Place {
    pub(super) watch: Rc<Watch>,
    pub(super) outlet: RefCell<Option<Rc<Outlet>>>,
}

/// The state that the tasks of the thread share. Nothing in it is borrowed across an await.
pub(super) struct Fetching {
    pub(super) hub: Arc<Hub>,
    pub(super) options: StreamOptions,
    pub(super) pool: Pool,
    /// What is known of stores of S3, and where their buckets are.
    pub(super) store: Arc<Access>,
    pub(super) buckets: Places,
    pub(super) pace: Option<Pace>,
    /// As of the last turn,
    pub(super) clock: Rc<Cell<Millis>>,
    /// and exactly.
    pub(super) exact: Clock,
    pub(super) parking: Parking,
    pub(super) buffers: Buffers,
    pub(super) last_origin: RefCell<Option<Rc<Origin>>>,
    pub(super) jitter: RefCell<Jitter>,
    /// Bytes of large bodies that are being received,
    pub(super) receiving: Cell<usize>,
    /// and a sign that they may have become fewer, or those that were not taken.
    pub(super) room: Notify,
    queue: RefCell<Queue>,
    outlets: RefCell<Vec<Rc<Outlet>>>,
    unflushed: RefCell<Vec<Rc<Outlet>>>,
    places: RefCell<Vec<Rc<Place>>>,
    busy: Cell<usize>,
    replies: Cell<u64>,
    has_replies: Notify,
    last_tick: Cell<Millis>,
}

impl Fetching {
    fn new(hub: Arc<Hub>, settings: PoolSettings, options: StreamOptions, store: &Arc<Access>) -> Self {
        let exact = Clock::start();
        let clock = Rc::new(Cell::new(exact.now()));
        Fetching {
            hub,
            pool: Pool::new(settings, Rc::clone(&clock)),
            store: Arc::clone(store),
            buckets: Places::new(Arc::clone(store)),
            pace: options.rate.map(Pace::new),
            options,
            jitter: RefCell::new(Jitter::new(clock.get())),
            last_tick: Cell::new(clock.get()),
            clock,
            exact,
            parking: Parking::default(),
            buffers: Buffers::default(),
            last_origin: RefCell::default(),
            receiving: Cell::new(0),
            room: Notify::new(),
            queue: RefCell::default(),
            outlets: RefCell::default(),
            unflushed: RefCell::default(),
            places: RefCell::default(),
            busy: Cell::new(0),
            replies: Cell::new(0),
            has_replies: Notify::new(),
        }
    }

    async fn drive(self: Rc<Self>) {
        tokio::task::spawn_local(Rc::clone(&self).flush_turns());
        while !self.hub.is_ended.load(Ordering::SeqCst) {
            let is_busy = self.busy.get() > 0 || !self.queue.borrow().is_empty();
            let tick = if is_busy { limits::TICK } else { IDLE_TICK };
            // Whether it was woken or has waited for long enough: both are looked at.
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
            let mut outlets = self.outlets.borrow_mut();
            let known = outlets.iter().find(|outlet| Arc::ptr_eq(&outlet.shared, &shared)).cloned();
            let outlet = known.unwrap_or_else(|| {
                outlets.push(Rc::new(Outlet::new(shared, Arc::clone(&self.hub))));
                Rc::clone(&outlets[outlets.len() - 1])
            });
            self.queue.borrow_mut().push(outlet, requests, submitted);
        }
        self.forget_dropped();
    }

    /// What is in flight for streams that were given up is broken off.
    fn forget_dropped(&self) {
        let count = self.outlets.borrow().len();
        self.outlets.borrow_mut().retain(|outlet| !outlet.shared.is_closed());
        if self.outlets.borrow().len() == count {
            return;
        }
        self.queue.borrow_mut().forget_dropped();
        for place in &*self.places.borrow() {
            if place.outlet.borrow().as_ref().is_some_and(|outlet| outlet.shared.is_closed()) {
                place.watch.expire(FailureKind::TotalTimeout);
            }
        }
    }

    fn tick(&self) {
        self.last_tick.set(self.clock.get());
        for place in &*self.places.borrow() {
            place.watch.check();
        }
        self.pool.names().tick();
        self.pool.sweep();
    }

    /// Wakes and makes tasks for what can be begun.
    fn start_tasks(self: &Rc<Self>) {
        // When too much is in memory, one looks for what is wanted all the same.
        let most = if self.is_full() { 1 } else { usize::MAX };
        let ready = self.queue.borrow().ready(self.clock.get()).min(most);
        let parked = self.parking.count();
        self.parking.wake(ready.min(parked));
        let made = self.places.borrow().len();
        let missing = ready.saturating_sub(parked).min((self.options.limit as usize).saturating_sub(made));
        for _ in 0..missing {
            let watch = Rc::new(Watch::new(Rc::clone(&self.clock), self.options.timeouts));
            let place = Rc::new(Place { watch, outlet: RefCell::default() });
            self.places.borrow_mut().push(Rc::clone(&place));
            let fetching = Rc::clone(self);
            tokio::task::spawn_local(async move { fetching.serve(&place).await });
        }
    }

    /// So many bytes of bodies are in memory that nothing new is begun.
    fn is_full(&self) -> bool {
        self.held() >= limits::STREAM_BYTES_MAX
    }

    /// Bytes of bodies in memory, but for those of the replies that are about to be handed over. The program is asked
    /// to tell when it takes some.
    pub(super) fn held(&self) -> usize {
        let held = self.hub.untaken.load(Ordering::SeqCst) + self.receiving.get();
        if held < limits::STREAM_BYTES_MAX {
            return held;
        }
        self.hub.is_holding.store(true, Ordering::SeqCst);
        // It may have taken some meanwhile, and seen nobody who waits.
        self.hub.untaken.load(Ordering::SeqCst) + self.receiving.get()
    }

    /// Takes the next request; `false` when there is none now.
    pub(super) fn take(&self, place: &Place, ticket: &mut Ticket) -> bool {
        let used = |requests| self.hub.give_back(requests);
        let now = self.clock.get();
        let is_taken = if self.is_full() {
            self.queue.borrow_mut().take_wanted(ticket, now)
        } else {
            self.queue.borrow_mut().take(ticket, now, used)
        };
        if !is_taken {
            return false;
        }
        let mut outlet = place.outlet.borrow_mut();
        let is_same =
            matches!((&*outlet, &ticket.outlet), (Some(one), Some(other)) if Rc::ptr_eq(one, other));
        if !is_same {
            outlet.clone_from(&ticket.outlet);
        }
        true
    }

    /// It is made again after a while.
    pub(super) fn wait(&self, ticket: Ticket, delay: Millis) {
        self.queue.borrow_mut().wait(ticket, self.clock.get() + delay);
    }

    pub(super) fn begin(&self) {
        self.busy.set(self.busy.get() + 1);
    }

    pub(super) fn end(&self, place: &Place) {
        self.busy.set(self.busy.get() - 1);
        place.outlet.borrow_mut().take();
    }

    /// There are replies in an outlet.
    pub(super) fn replied_in(&self, outlet: &Rc<Outlet>, push: impl FnOnce(&mut super::Replies)) {
        self.replies.set(self.replies.get() + 1);
        if outlet.add(push) {
            let mut unflushed = self.unflushed.borrow_mut();
            unflushed.push(Rc::clone(outlet));
            if unflushed.len() == 1 {
                self.has_replies.notify_one();
            }
        }
    }

    /// Hands replies over behind the first turn that brought no more: a program that is woken for each of them would
    /// cost more than the replies.
    async fn flush_turns(self: Rc<Self>) {
        loop {
            self.has_replies.notified().await;
            let mut before = None;
            while before != Some(self.replies.get()) {
                before = Some(self.replies.get());
                tokio::task::yield_now().await;
            }
            let unflushed = std::mem::take(&mut *self.unflushed.borrow_mut());
            for outlet in &unflushed {
                outlet.flush_listed();
            }
        }
    }
}
