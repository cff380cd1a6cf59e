//! Deadlines of one connection. Setting one costs a store; a tick of the worker looks at all of them and wakes
//! what is overdue. So no timer is made for an object, and deadlines are exact to a tick.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fetchmill_model::http1::{Framing, Head};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
pub use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::patience::Patience;

/// Times that an attempt may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, over all addresses of its host; as much again for a proxy's tunnel, and for the handshake of
    /// TLS.
    pub connect: Duration,
    /// From the request to the end of the head.
    pub head: Duration,
    /// Without a byte of the body.
    pub idle: Duration,
    /// For the whole attempt; a body's length adds a second for each 64 KiB.
    pub total: Duration,
    /// For connecting, handshake, head and body together, whatever a body's length, from the first packet of the
    /// connection on, or from the request on a kept one. The look-up does not count.
    pub attempt: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: limits::CONNECT_TIMEOUT,
            head: limits::HEAD_TIMEOUT,
            idle: limits::IDLE_TIMEOUT,
            total: limits::TOTAL_TIMEOUT,
            attempt: None,
        }
    }
}

/// A body that is longer than this is waited for as the options say: its rest may be asked for.
const PATIENT_BODY: u64 = 64 * 1024;

/// When the request is abandoned that is out, if others have their replies.
#[derive(Debug)]
struct Abandoning {
    patience: Rc<RefCell<Patience>>,
    /// When its last byte came, or it was sent.
    since: Millis,
    /// How often its target's requests were abandoned before.
    times: u32,
    /// Replies of the origin that had come when it was sent.
    before: u64,
}

impl Drop for Abandoning {
    fn drop(&mut self) {
        self.patience.borrow_mut().end();
    }
}

/// The deadlines of the attempt that a connection is busy with.
#[derive(Debug)]
pub struct Deadlines {
    clock: Rc<Cell<Millis>>,
    timeouts: Timeouts,
    /// Of the phase: head or body; `Millis::MAX` for none.
    phase: Cell<Millis>,
    phase_kind: Cell<FailureKind>,
    total: Cell<Millis>,
    /// The end of the attempt, whatever comes; of one that is connecting, for the request that follows.
    end: Cell<Millis>,
    abandoning: RefCell<Option<Abandoning>>,
    was_abandoned: Cell<bool>,
    expired: Cell<Option<FailureKind>>,
    waker: RefCell<Option<Waker>>,
}

fn millis(duration: Duration) -> Millis {
    duration.as_millis().try_into().unwrap_or(Millis::MAX / 4)
}

impl Deadlines {
    /// Without a deadline; `clock` is what the worker's tick sets.
    pub fn new(clock: Rc<Cell<Millis>>, timeouts: Timeouts) -> Self {
        Deadlines {
            clock,
            timeouts,
            phase: Cell::new(Millis::MAX),
            phase_kind: Cell::new(FailureKind::HeadTimeout),
            total: Cell::new(Millis::MAX),
            end: Cell::new(Millis::MAX),
            abandoning: RefCell::new(None),
            was_abandoned: Cell::new(false),
            expired: Cell::new(None),
            waker: RefCell::new(None),
        }
    }

    /// The limits.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Returns the time on its clock.
    pub fn now(&self) -> Millis {
        self.clock.get()
    }

    /// The request that is sent next is abandoned if it is far slower than the origin's others. Its target's requests were
    /// `times` before.
    pub fn wait_as_for_others(&self, patience: &Rc<RefCell<Patience>>, times: u32) {
        let (patience, before) = (Rc::clone(patience), patience.borrow_mut().begin());
        *self.abandoning.borrow_mut() = Some(Abandoning { patience, since: self.now(), times, before });
    }

    /// Whether the last request was abandoned.
    pub fn was_abandoned(&self) -> bool {
        self.was_abandoned.get()
    }

    /// A connection is begun for the request that follows: its time runs.
    pub(super) fn connecting(&self) {
        if let Some(attempt) = self.timeouts.attempt {
            self.end.set(self.clock.get() + millis(attempt));
        }
    }

    /// No connection came of it.
    pub(super) fn not_connected(&self) {
        self.end.set(Millis::MAX);
    }

    /// An attempt starts, or goes on behind its connecting: its head is due.
    pub fn start(&self) {
        let now = self.clock.get();
        self.expired.set(None);
        self.was_abandoned.set(false);
        self.wait_again(now);
        if self.end.get() == Millis::MAX {
            self.connecting();
        }
        self.phase.set(self.end.get().min(now + millis(self.timeouts.head)));
        self.phase_kind.set(FailureKind::HeadTimeout);
        self.total.set(self.end.get().min(now + millis(self.timeouts.total)));
    }

    /// Nothing is due but this.
    pub fn only(&self, wait: Duration) {
        self.rest();
        self.phase.set(self.clock.get() + millis(wait));
    }

    /// Nothing is due.
    pub fn rest(&self) {
        self.expired.set(None);
        *self.abandoning.borrow_mut() = None;
        self.phase.set(Millis::MAX);
        self.total.set(Millis::MAX);
        self.end.set(Millis::MAX);
    }

    pub(super) fn body_begins(&self, head: &Head) {
        if let Framing::Length(length) = head.framing {
            let total = self.total.get().saturating_add(length / limits::BODY_RATE_MIN * 1000);
            self.total.set(total.min(self.end.get()));
            if length > PATIENT_BODY {
                *self.abandoning.borrow_mut() = None;
            }
        }
        self.body_goes_on();
    }

    /// The next bytes of the body are due.
    pub fn body_goes_on(&self) {
        let now = self.clock.get();
        self.phase.set(now + millis(self.timeouts.idle));
        self.phase_kind.set(FailureKind::IdleTimeout);
        self.wait_again(now);
    }

    fn wait_again(&self, now: Millis) {
        if let Some(abandoning) = &mut *self.abandoning.borrow_mut() {
            abandoning.since = now;
        }
    }

    /// Waits before more of a body is read: its server is not to blame for that. Ends when the attempt is ended.
    pub async fn pause(&self, wait: Duration) {
        for deadline in [&self.total, &self.end] {
            deadline.set(deadline.get().saturating_add(millis(wait)));
        }
        self.phase.set(Millis::MAX);
        self.wait_again(Millis::MAX / 2);
        tokio::select! {
            () = tokio::time::sleep(wait) => self.body_goes_on(),
            _ = self.expired() => {}
        }
    }

    /// Called by the tick: wakes the connection when a deadline has passed.
    pub fn check(&self) {
        let now = self.clock.get();
        if now >= self.phase.get() {
            self.expire(self.phase_kind.get());
        } else if now >= self.total.get() {
            self.expire(FailureKind::TotalTimeout);
        } else if self.is_abandoned(now) {
            self.was_abandoned.set(true);
            self.expire(self.phase_kind.get());
        }
    }

    /// Returns when the attempt ends if nothing more comes; `None` without one.
    pub fn attempt_until(&self) -> Option<Millis> {
        let total = self.total.get();
        (total < Millis::MAX && self.expired.get().is_none()).then(|| total.min(self.phase.get()))
    }

    fn is_abandoned(&self, now: Millis) -> bool {
        let abandoning = self.abandoning.borrow();
        abandoning.as_ref().is_some_and(|Abandoning { patience, since, times, before }| {
            patience.borrow_mut().abandons(*since, *times, *before, now)
        })
    }

    /// Ends the attempt.
    pub fn expire(&self, kind: FailureKind) {
        self.expired.set(Some(kind));
        self.wake();
    }

    /// Polls what waits on the connection.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Whether a deadline has passed.
    pub fn has_expired(&self) -> bool {
        self.expired.get().is_some()
    }

    /// Waits until a deadline has passed.
    pub async fn expired(&self) -> FailureKind {
        std::future::poll_fn(|context| self.poll_expired(context).map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Whether a deadline has passed; remembers whom to wake when one does.
    pub fn poll_expired(&self, context: &Context<'_>) -> Option<FailureKind> {
        if let Some(kind) = self.expired.get() {
            return Some(kind);
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        None
    }
}
