//! The maximum number of requests in flight. The user sets it, or it is found by measurement
//! (docs/internals/decisions/0029).
//!
//! The search runs while all requests go to one origin, because each origin would need its own number. With several
//! origins, the default applies until only one of them has been used for some time.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::channel::FetcherState;
use crate::fetch::load_counter::LoadCounter;
use crate::plan::courtesy::of_host;
use crate::request::http_options::{Concurrency, HttpOptions};
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::planner::concurrency::{ConcurrencyBounds, ConcurrencyLimit};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::certainty::MonotonicMicros;
use fetchmill_net::OriginConnections;

/// A stream counts as using one origin if it has used no other for this many milliseconds.
const ALONE_AFTER: Millis = 2_000;
/// The thread is starved if it has nothing to start and more than 1 / `EMPTY_SHARE` of its slots are empty. Slots are
/// briefly empty after a wave of replies, until the program has submitted more requests.
const EMPTY_SHARE: usize = 4;

/// Concurrency limit of one thread. See the [module documentation](self).
pub(super) struct StreamConcurrency {
    /// Publishes the limit. Streams use it to decide how many input items to take.
    hub: Arc<FetcherState>,
    limit: Cell<usize>,
    pub(super) load: LoadCounter,
    search: Option<OriginSearch>,
}

/// Concurrency search, which runs for one origin at a time.
struct OriginSearch {
    most: usize,
    /// Whether the user set the maximum. If not, the polite limits apply.
    is_agreed: bool,
    /// `None` while several origins are in use.
    found: RefCell<Option<ConcurrencyLimit>>,
    origin: RefCell<Option<Rc<OriginConnections>>>,
    /// Time when the origin last changed.
    switched_at: Cell<Millis>,
    /// Limit that was found for an origin before the switch to another origin.
    before: RefCell<Option<(OriginKey, usize)>>,
    /// Peer address of the last reply.
    judged: Cell<Option<SocketAddr>>,
    is_judged: Cell<bool>,
}

impl StreamConcurrency {
    /// Returns the initial maximum number of requests in flight.
    pub(super) fn first(options: &HttpOptions) -> usize {
        let most = options.concurrency.most();
        match options.concurrency {
            Concurrency::Number(_) => most,
            Concurrency::Auto { .. } => most.min(limits::AUTO_CONCURRENCY_FIRST as usize),
        }
    }

    pub(super) fn new(options: &HttpOptions, hub: Arc<FetcherState>) -> Self {
        let most = options.concurrency.most();
        let search = matches!(options.concurrency, Concurrency::Auto { .. }).then(|| OriginSearch {
            most,
            is_agreed: options.concurrency_max.is_some(),
            found: RefCell::default(),
            origin: RefCell::default(),
            switched_at: Cell::default(),
            before: RefCell::default(),
            judged: Cell::default(),
            is_judged: Cell::default(),
        });
        let limit = Cell::new(Self::first(options));
        StreamConcurrency { hub, limit, load: LoadCounter::default(), search }
    }

    /// Returns the current maximum number of requests in flight.
    pub(super) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// Records that a request to this origin is about to be sent. `in_flight` includes it.
    pub(super) fn note_origin(&self, origin: &Rc<OriginConnections>, in_flight: usize, now: Millis) {
        let Some(search) = &self.search else { return };
        let mut known = search.origin.borrow_mut();
        if known.as_ref().is_some_and(|known| Rc::ptr_eq(known, origin)) {
            return;
        }
        let before = known.replace(Rc::clone(origin));
        drop(known);
        if before.as_ref().is_some_and(|before| before.key == origin.key) {
            return;
        }
        search.switched_at.set(now);
        search.keep_found(before);
        if in_flight <= 1 {
            search.begin(&origin.key);
        } else {
            search.found.replace(None);
        }
        self.set(search.limit());
    }

    /// Records a complete reply from the origin. `load` contains its time and size, unless the reply indicates trouble.
    pub(super) fn note_reply(
        &self,
        origin: &Rc<OriginConnections>,
        load: Option<(MonotonicMicros, u64)>,
        (address, is_of_store): (Option<SocketAddr>, bool),
    ) {
        let Some(search) = &self.search else { return };
        if let Some((took, bytes)) = load {
            self.load.note(took, bytes);
        }
        search.judge(origin, address, is_of_store);
    }

    /// Updates the limit at a tick. `is_dry` means that no more requests can start, and `is_paced` means that an origin
    /// has a pace.
    pub(super) fn tick(&self, in_flight: usize, is_dry: bool, is_paced: bool, now: Millis) {
        let Some(search) = &self.search else { return };
        if is_dry && in_flight + self.limit.get() / EMPTY_SHARE < self.limit.get() {
            self.load.starve();
        }
        let load = self.load.take(in_flight);
        match &mut *search.found.borrow_mut() {
            Some(found) => found.observe(0, load, is_paced, now),
            None if now.saturating_sub(search.switched_at.get()) < ALONE_AFTER => {}
            none => {
                *none = search.origin.borrow().as_ref().map(|origin| search.first_of(&origin.key));
            }
        }
        self.set(search.limit());
    }

    fn set(&self, limit: usize) {
        self.limit.set(limit);
        self.hub.concurrency.store(limit, Ordering::Relaxed);
    }
}

impl OriginSearch {
    fn limit(&self) -> usize {
        let usual = (limits::CONCURRENCY_DEFAULT as usize).min(self.most);
        self.found.borrow().as_ref().map_or(usual, ConcurrencyLimit::limit)
    }

    fn begin(&self, origin: &OriginKey) {
        let first = self.first_of(origin);
        self.found.replace(Some(first));
    }

    /// Starts the search for an origin at the number that was found earlier, if any.
    fn first_of(&self, origin: &OriginKey) -> ConcurrencyLimit {
        self.judged.set(None);
        self.is_judged.set(false);
        let before = self.before.borrow();
        let found = before.as_ref().filter(|(known, _)| known == origin).map(|(_, number)| *number);
        let first = found.unwrap_or(limits::AUTO_CONCURRENCY_FIRST as usize);
        ConcurrencyLimit::new(ConcurrencyBounds { first, least: 1, most: self.most }, 1)
    }

    fn keep_found(&self, origin: Option<Rc<OriginConnections>>) {
        let found = self.found.borrow().as_ref().map(ConcurrencyLimit::limit);
        if let (Some(origin), Some(found)) = (origin, found) {
            self.before.replace(Some((origin.key.clone(), found)));
        }
    }

    /// Applies the polite limit of an origin, which depends on the origin's address.
    fn judge(&self, origin: &Rc<OriginConnections>, address: Option<SocketAddr>, is_of_store: bool) {
        let is_known = self.is_judged.get() && self.judged.get() == address;
        let is_other = || !self.origin.borrow().as_ref().is_some_and(|known| Rc::ptr_eq(known, origin));
        if self.is_agreed || is_known || is_other() {
            return;
        }
        self.is_judged.set(true);
        self.judged.set(address);
        let addresses = address.as_ref().map(std::slice::from_ref);
        if let Some(courtesy) = of_host(origin.key.host(), addresses, is_of_store)
            && let Some(found) = &mut *self.found.borrow_mut()
        {
            found.lower_most(courtesy.most as usize);
        }
    }
}
