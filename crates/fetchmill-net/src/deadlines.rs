//! Deadlines of a connection. Setting a deadline only stores a value, so no object needs a timer. The worker's tick
//! checks all deadlines and wakes overdue connections. As a result, a deadline is noticed up to one tick late.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fetchmill_model::http1::{Framing, Head};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
pub use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::patience::Patience;

/// Time limits of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time to connect, over all addresses of the host. The proxy tunnel and the TLS handshake may each take the same
    /// time again.
    pub connect: Duration,
    /// Time from the request to the end of the reply head.
    pub head: Duration,
    /// Maximum time without receiving a byte of the body.
    pub idle: Duration,
    /// Time for the whole attempt, plus 1 s per 64 KiB of the body.
    pub total: Duration,
    /// Time for connecting, handshake, head and body together, regardless of the body's length. It starts with the
    /// first packet of the connection, or with the request on a kept connection. It does not include the name lookup.
    /// `None` means no limit.
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

/// Body length above which a slow request is never abandoned. The remaining part of such a body can be requested later.
const PATIENT_BODY: u64 = 64 * 1024;

/// Rule for abandoning the current request although other requests are being answered.
#[derive(Debug)]
struct Abandoning {
    patience: Rc<RefCell<Patience>>,
    /// Time when the last byte arrived, or when the request was sent if nothing has arrived yet.
    since: Millis,
    /// Number of requests for this target that were abandoned so far.
    times: u32,
    /// Number of replies received from the origin before this request was sent.
    before: u64,
}

impl Drop for Abandoning {
    fn drop(&mut self) {
        self.patience.borrow_mut().end();
    }
}

/// Deadlines of the current attempt on a connection.
#[derive(Debug)]
pub struct Deadlines {
    clock: Rc<Cell<Millis>>,
    timeouts: Timeouts,
    /// Deadline of the current phase, which is the head or the body. `Millis::MAX` means no deadline.
    phase: Cell<Millis>,
    phase_kind: Cell<FailureKind>,
    total: Cell<Millis>,
    /// Latest possible end of the attempt. It is set while connecting, for the request that follows.
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
    /// Creates unset deadlines. The worker's tick sets `clock`.
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

    /// Returns the time limits.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Returns the current time on the clock of these deadlines.
    pub fn now(&self) -> Millis {
        self.clock.get()
    }

    /// Lets the next request be abandoned if it is far slower than the origin's other requests. `times` is the number
    /// of requests for its target that were abandoned so far.
    pub fn wait_as_for_others(&self, patience: &Rc<RefCell<Patience>>, times: u32) {
        let (patience, before) = (Rc::clone(patience), patience.borrow_mut().begin());
        *self.abandoning.borrow_mut() = Some(Abandoning { patience, since: self.now(), times, before });
    }

    /// Returns whether the last request was abandoned.
    pub fn was_abandoned(&self) -> bool {
        self.was_abandoned.get()
    }

    /// Starts the attempt's time limit when connecting begins for the next request.
    pub(super) fn connecting(&self) {
        if let Some(attempt) = self.timeouts.attempt {
            self.end.set(self.clock.get() + millis(attempt));
        }
    }

    /// Clears the end of the attempt if the connection could not be opened.
    pub(super) fn not_connected(&self) {
        self.end.set(Millis::MAX);
    }

    /// Starts an attempt, or continues one after connecting. Sets the deadline for the head.
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

    /// Replaces all deadlines with one that passes after `wait`.
    pub fn only(&self, wait: Duration) {
        self.rest();
        self.phase.set(self.clock.get() + millis(wait));
    }

    /// Clears all deadlines.
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

    /// Sets the deadline for the next bytes of the body.
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

    /// Waits before more of a body is read. Extends the deadlines by the same time, because the server is not
    /// responsible for the delay. Returns early if the attempt ends.
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

    /// Wakes the connection if a deadline has passed. Called by the tick.
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

    /// Returns when the attempt ends if nothing more arrives. `None` if no attempt is running.
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

    /// Wakes the task that waits on the connection.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Returns whether a deadline has passed.
    pub fn has_expired(&self) -> bool {
        self.expired.get().is_some()
    }

    /// Waits until a deadline has passed.
    pub async fn expired(&self) -> FailureKind {
        std::future::poll_fn(|context| self.poll_expired(context).map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Returns the failure if a deadline has passed. Otherwise registers the waker to be called when one does.
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
