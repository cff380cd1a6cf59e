//! Our own look-ups of names, for very many hosts: a stub that asks servers which do the work.
//!
//! Each thread has one. Queries of all names share a few sockets, so a look-up costs two or three system calls and no task
//! or timer; deadlines are looked at by the worker's tick. Answers are believed when they come from the server's address
//! to our random port, and repeat a random number and the question with its random capitals.

mod cache;
mod candidates;
mod hosts_file;
mod lanes;
mod look_up;
mod question;
mod random;
mod resolv_conf;
mod setup;
mod socket;
mod state;
mod tcp;
#[cfg(test)]
mod tests;
mod upstreams;
mod wire;

pub use cache::Answer;
pub(in crate::transport) use cache::Cache;
pub use lanes::Lanes;
pub use setup::{DnsSetup, Families};

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::Millis;
use crate::limits;
use crate::outcome::FailureKind;
use look_up::Waiter;
use socket::{Asker, Place};
use state::State;

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// A look-up has begun: the token comes back with its answer.
    Started,
    /// One for this name was running: the token comes back with its answer.
    Joined,
    /// The fast lane has no place; the token does not come back. Ask again after [`Dns::answered`].
    Full,
    /// It is known: the token does not come back.
    Known(Answer),
}

/// What comes back with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// What is known now.
    Answer(Answer),
    /// This name was slow when the slow lane was full: nothing is known. Ask again later.
    Parked,
}

/// Which look at a name this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// What is known counts.
    Usual,
    /// A second look: what is known does not count, and another server and another socket come first.
    Again,
}

/// How much was looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DnsCounts {
    /// Queries sent as datagrams.
    pub queries: u64,
    /// Queries made again over TCP, because the answer was too long.
    pub over_tcp: u64,
    /// Names that a server has told about: addresses, no such name, no address.
    pub answered: u64,
    /// Names that no server could tell about.
    pub failed: u64,
    /// Names that no server has answered for in time.
    pub timeouts: u64,
    /// Names given up because the slow lane was full.
    pub parked: u64,
    /// Datagrams that were no answer to a query: late, malformed or forged.
    pub foreign: u64,
}

/// One thread's look-ups. Clones are cheap and share.
#[derive(Debug, Clone)]
pub struct Dns {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Rc<Cell<Millis>>,
    state: RefCell<State>,
    /// Somebody was told that the fast lane is full.
    was_full: Cell<bool>,
    /// It has a place since.
    has_place: Cell<bool>,
    news: Notify,
    /// Tasks that wait for a place in the fast lane: they come before tokens, of which there are always more.
    waiting: Cell<usize>,
    places: Notify,
}

/// A task that waits for a place.
struct Waiting<'i>(&'i Inner);

impl<'i> Waiting<'i> {
    fn new(inner: &'i Inner) -> Self {
        inner.waiting.set(inner.waiting.get() + 1);
        Waiting(inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
        self.0.offer_places();
    }
}

impl Dns {
    /// One that knows nothing yet. `clock` is what the worker's tick sets. Sockets are opened when they are first needed,
    /// by tasks of the thread's runtime.
    pub fn new(setup: Arc<DnsSetup>, lanes: Lanes, clock: Rc<Cell<Millis>>) -> Dns {
        let inner = Rc::new_cyclic(|inner| Inner {
            clock,
            state: RefCell::new(State::new(setup, lanes, inner.clone())),
            was_full: Cell::new(false),
            has_place: Cell::new(false),
            news: Notify::new(),
            waiting: Cell::new(0),
            places: Notify::new(),
        });
        Dns { inner }
    }

    /// What is known of a name without asking: an address instead of a name, this machine, the hosts file, the cache.
    pub fn known(&self, name: &str) -> Option<Answer> {
        self.inner.state.borrow_mut().known(name, self.inner.clock.get())
    }

    /// Starts a look-up, or joins the one that runs for this name. The token comes back with the answer.
    pub fn ask(&self, name: &str, token: u64, how: How) -> Asked {
        let asked = self.inner.ask(name, Waiter::Token(token), how, self.inner.waiting.get() > 0);
        if asked == Asked::Full {
            self.inner.was_full.set(true);
        }
        asked
    }

    /// Everything that was answered since the last time.
    pub fn take_answered(&self) -> Vec<(u64, Looked)> {
        self.inner.state.borrow_mut().take_answered()
    }

    /// Waits until there is something to take or, after an [`Asked::Full`], until the fast lane has a place again: there
    /// may be nothing to take then. For one task.
    pub async fn answered(&self) {
        while !self.inner.state.borrow().has_answered() && !self.inner.has_place.take() {
            self.inner.news.notified().await;
        }
    }

    /// Looks up one name, for who waits for it; first for a place in the fast lane, when that has none.
    pub async fn resolve(&self, name: &str) -> Answer {
        let give_up_at = self.inner.clock.get() + millis(limits::DNS_LOOK_UP_TIMEOUT);
        loop {
            let (told, answer) = oneshot::channel();
            let asked = self.inner.ask(name, Waiter::Task(told), How::Usual, false);
            if matches!(asked, Asked::Known(_) | Asked::Joined) {
                // A place that it was woken for is the next one's.
                self.inner.places.notify_one();
            }
            match asked {
                Asked::Known(answer) => return answer,
                Asked::Full => self.inner.place().await,
                Asked::Started | Asked::Joined => match answer.await {
                    Ok(Looked::Answer(answer)) => return answer,
                    // The others first.
                    Ok(Looked::Parked) | Err(_) => self.inner.place().await,
                },
            }
            if self.inner.clock.get() >= give_up_at {
                self.inner.places.notify_one();
                return Err(FailureKind::DnsTimeout);
            }
        }
    }

    /// Makes tries again, moves slow look-ups out of the way, ends what takes too long. The worker calls it after each tick
    /// of its clock.
    pub fn tick(&self) {
        self.inner.state.borrow_mut().tick(self.inner.clock.get());
        self.inner.tell();
        self.inner.offer_places();
    }

    /// Whether the slow lane has no place: a name that is slow would be parked.
    pub fn is_slow_full(&self) -> bool {
        !self.inner.state.borrow().has_slow_place()
    }

    /// For reports.
    pub fn counts(&self) -> DnsCounts {
        self.inner.state.borrow().counts()
    }
}

impl Inner {
    fn ask(&self, name: &str, waiter: Waiter, how: How, yields: bool) -> Asked {
        let asked = self.state.borrow_mut().ask(name, waiter, how, yields, self.clock.get());
        self.tell();
        asked
    }

    /// Waits until the fast lane may have a place.
    async fn place(&self) {
        let _waiting = Waiting::new(self);
        self.places.notified().await;
    }

    fn received(&self, place: Place, bytes: &[u8]) {
        self.state.borrow_mut().received(place, bytes, self.clock.get());
    }

    fn received_over_tcp(&self, asker: Asker, sent: usize, bytes: Option<&[u8]>) {
        self.state.borrow_mut().received_over_tcp(asker, sent, bytes, self.clock.get());
        self.tell();
    }

    fn refused(&self, place: Place) {
        self.state.borrow_mut().refused(place, self.clock.get());
    }

    /// Nobody waits for a place that is free.
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

    /// Wakes who waits for what has happened.
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

fn millis(duration: Duration) -> Millis {
    duration.as_millis().try_into().unwrap_or(Millis::MAX / 4)
}
