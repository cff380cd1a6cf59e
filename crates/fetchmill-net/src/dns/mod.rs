//! A stub resolver for a very large number of hosts. It sends queries to recursive name servers.
//!
//! Each thread has its own resolver. All queries of a thread share a few sockets, so a lookup costs two or three system
//! calls. A lookup needs no task or timer of its own, because the worker's tick checks the deadlines.
//!
//! An answer is accepted if it comes from the server's address to our random port. It must also repeat the random id
//! and the question, including its random case.

mod answers;
mod cache;
mod candidates;
mod hosts_file;
mod look_up;
mod message;
mod question;
mod random;
mod resolv_conf;
mod setup;
mod slots;
mod socket;
mod state;
mod tcp;
#[cfg(test)]
mod tests;
mod upstreams;

pub use answers::{DnsCounts, LookUpEnd, LookUpKind, LookUpStart};
pub(crate) use cache::Cache;
pub use cache::Resolution;
pub use setup::{DnsSetup, Families};
pub use slots::SlotLimits;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use tokio::sync::{Notify, oneshot};

use super::Millis;
use answers::millis;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use look_up::LookUpWaiter;
use socket::{Inbox, QueryOwner, SocketId};
use state::DnsState;

/// A thread's resolver. Clones are cheap and share its state.
#[derive(Debug, Clone)]
pub struct Dns {
    inner: Rc<DnsInner>,
}

#[derive(Debug)]
struct DnsInner {
    clock: Rc<Cell<Millis>>,
    state: RefCell<DnsState>,
    /// Whether a caller was turned away because no fast slot was free.
    was_full: Cell<bool>,
    /// Whether a fast slot has since become free for that caller.
    has_place: Cell<bool>,
    news: Notify,
    /// Number of tasks waiting for a fast slot. They take precedence over tokens, because new tokens keep coming and
    /// would take every slot.
    waiting: Cell<usize>,
    places: Notify,
}

/// A task that waits for a fast slot.
struct SlotWaiter<'i>(&'i DnsInner);

impl<'i> SlotWaiter<'i> {
    fn new(inner: &'i DnsInner) -> Self {
        inner.waiting.set(inner.waiting.get() + 1);
        SlotWaiter(inner)
    }
}

impl Drop for SlotWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
        self.0.offer_places();
    }
}

impl Dns {
    /// Creates a resolver with an empty cache. The worker's tick sets `clock`. Tasks of the thread's runtime open
    /// sockets on demand.
    pub fn new(setup: Arc<DnsSetup>, slots: SlotLimits, clock: Rc<Cell<Millis>>) -> Dns {
        let inner = Rc::new_cyclic(|inner| DnsInner {
            clock,
            state: RefCell::new(DnsState::new(setup, slots, Weak::clone(inner) as Weak<dyn Inbox>)),
            was_full: Cell::new(false),
            has_place: Cell::new(false),
            news: Notify::new(),
            waiting: Cell::new(0),
            places: Notify::new(),
        });
        Dns { inner }
    }

    /// Returns the answer for a name if no query is needed. Such answers come from literal addresses, this machine's
    /// own names, the hosts file and the cache.
    pub fn known(&self, name: &str) -> Option<Resolution> {
        self.inner.state.borrow_mut().known(name, self.inner.clock.get())
    }

    /// Starts a lookup, or joins one that is already running for this name. The answer is returned with the token.
    pub fn ask(&self, name: &str, token: u64, how: LookUpKind) -> LookUpStart {
        let asked = self.inner.ask(name, LookUpWaiter::Token(token), how, self.inner.waiting.get() > 0);
        if asked == LookUpStart::Full {
            self.inner.was_full.set(true);
        }
        asked
    }

    /// Returns the answers that arrived since the last call.
    pub fn take_answered(&self) -> Vec<(u64, LookUpEnd)> {
        self.inner.state.borrow_mut().take_answered()
    }

    /// Waits for answers. After [`LookUpStart::Full`], also returns when a fast slot is free, even if there is no
    /// answer yet. Only one task may wait at a time.
    pub async fn answered(&self) {
        while !self.inner.state.borrow().has_answered() && !self.inner.has_place.take() {
            self.inner.news.notified().await;
        }
    }

    /// Looks up a name and waits for the answer. If no fast slot is free, waits for one first.
    pub async fn resolve(&self, name: &str) -> Resolution {
        let give_up_at = self.inner.clock.get() + millis(limits::DNS_LOOK_UP_TIMEOUT);
        loop {
            let (told, answer) = oneshot::channel();
            let asked = self.inner.ask(name, LookUpWaiter::Task(told), LookUpKind::Usual, false);
            if matches!(asked, LookUpStart::Known(_) | LookUpStart::Joined) {
                // This task no longer needs the free slot for which it was woken, so pass the slot on.
                self.inner.places.notify_one();
            }
            match asked {
                LookUpStart::Known(answer) => return answer,
                LookUpStart::Full => self.inner.place().await,
                LookUpStart::Started | LookUpStart::Joined => match answer.await {
                    Ok(LookUpEnd::Answer(answer)) => return answer,
                    // Let other lookups run first.
                    Ok(LookUpEnd::Deferred) | Err(_) => self.inner.place().await,
                },
            }
            if self.inner.clock.get() >= give_up_at {
                self.inner.places.notify_one();
                return Err(FailureKind::DnsTimeout);
            }
        }
    }

    /// Repeats queries that are due, moves slow lookups to slow slots, and ends lookups that take too long. The worker
    /// calls this after each tick.
    pub fn tick(&self) {
        self.inner.state.borrow_mut().tick(self.inner.clock.get());
        self.inner.tell();
        self.inner.offer_places();
    }

    /// Returns whether no slow slot is free, so that a slow name would be deferred.
    pub fn is_slow_full(&self) -> bool {
        !self.inner.state.borrow().has_slow_place()
    }

    /// Returns the statistics of lookups.
    pub fn counts(&self) -> DnsCounts {
        self.inner.state.borrow().counts()
    }
}

impl DnsInner {
    fn ask(&self, name: &str, waiter: LookUpWaiter, how: LookUpKind, yields: bool) -> LookUpStart {
        let asked = self.state.borrow_mut().ask(name, waiter, how, yields, self.clock.get());
        self.tell();
        asked
    }

    /// Waits until a fast slot may be free.
    async fn place(&self) {
        let _waiting = SlotWaiter::new(self);
        self.places.notified().await;
    }

    /// Wakes a waiting caller if a fast slot is free.
    fn offer_places(&self) {
        if !self.state.borrow().has_place() {
            return;
        }
        if self.waiting.get() > 0 {
            self.places.notify_one();
        } else if self.was_full.take() {
            self.has_place.set(true);
            self.news.notify_one();
        }
    }
}

impl Inbox for DnsInner {
    fn received(&self, place: SocketId, bytes: &[u8]) {
        self.state.borrow_mut().received(place, bytes, self.clock.get());
    }

    fn received_over_tcp(&self, asker: QueryOwner, sent: usize, bytes: Option<&[u8]>) {
        self.state.borrow_mut().received_over_tcp(asker, sent, bytes, self.clock.get());
        self.tell();
    }

    fn refused(&self, place: SocketId) {
        self.state.borrow_mut().refused(place, self.clock.get());
    }

    /// Wakes the callers that wait for an answer or a slot.
    fn tell(&self) {
        let mut state = self.state.borrow_mut();
        let freed = state.take_freed();
        if freed > 0 && self.was_full.take() {
            self.has_place.set(true);
        }
        if state.has_answered() || self.has_place.get() {
            self.news.notify_one();
        }
        for _ in 0..freed {
            self.places.notify_one();
        }
    }
}
