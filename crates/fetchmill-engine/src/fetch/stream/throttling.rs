//! Limits the request rate for origins that throttle requests (docs/internals/decisions/0018).
//!
//! An origin that refuses every request gets no pace, and the program receives its refusals. The state belongs to one
//! thread, so it needs no lock. An origin is tracked from its first refusal until it has refused nothing for
//! [`limits::STREAM_THROTTLED_FOR`]. While no origin is tracked, each request and each reply costs only one check for
//! an empty table.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use crate::control::rate_wait::keep_pace;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::planner::congestion::Congestion;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::planner::pace::Pace;
use fetchmill_net::{Deadlines, OriginConnections};

/// An origin that has refused requests.
struct ThrottledOrigin {
    congestion: RefCell<Congestion>,
    pace: Pace,
    /// Lock that makes tasks wait in line. Only the first task reserves a time, because a reserved time would not adapt
    /// to a new pace.
    line: tokio::sync::Mutex<()>,
    /// Number of successes since the last tick.
    successes: Cell<u32>,
    refused: Cell<u32>,
    refused_at: Cell<Millis>,
    succeeded_at: Cell<Option<Millis>>,
}

impl ThrottledOrigin {
    fn new(succeeded_at: Option<Millis>, now: Millis) -> Self {
        ThrottledOrigin {
            congestion: RefCell::default(),
            pace: Pace::unset(limits::PACE_BURST),
            line: tokio::sync::Mutex::default(),
            successes: Cell::default(),
            refused: Cell::default(),
            refused_at: Cell::new(now),
            succeeded_at: Cell::new(succeeded_at),
        }
    }

    /// Returns whether the origin accepts at least some of the requests.
    fn gives(&self, now: Millis) -> bool {
        let lately = limits::STREAM_REFUSED_ONLY.as_millis() as Millis;
        self.succeeded_at.get().is_some_and(|at| now.saturating_sub(at) < lately)
    }

    fn tick(&self, now: Millis) {
        let mut congestion = self.congestion.borrow_mut();
        let (successes, refused) = (self.successes.take(), self.refused.take());
        if self.gives(now) {
            congestion.observe(successes, refused, now);
        } else {
            *congestion = Congestion::default();
        }
        self.pace.set(congestion.rate());
    }

    fn is_over(&self, now: Millis) -> bool {
        let quiet = now.saturating_sub(self.refused_at.get());
        !self.pace.is_set() && quiet > limits::STREAM_THROTTLED_FOR.as_millis() as Millis
    }
}

/// Throttling state of a thread. See the [module documentation](self).
#[derive(Default)]
pub(super) struct Throttling {
    origins: RefCell<HashMap<OriginKey, Rc<ThrottledOrigin>>>,
    /// Origin of the last success before the first refusal.
    last_success: RefCell<Option<(Rc<OriginConnections>, Millis)>>,
}

impl Throttling {
    /// Records a complete reply, which might be a refusal.
    pub(super) fn note(&self, origin: &Rc<OriginConnections>, is_refusal: bool, now: Millis) {
        let mut origins = self.origins.borrow_mut();
        if !is_refusal && origins.is_empty() {
            return self.note_success(origin, now);
        }
        if is_refusal && !origins.contains_key(&origin.key) && origins.len() < limits::STREAM_THROTTLED_MAX {
            let throttled = ThrottledOrigin::new(self.succeeded_at(origin), now);
            origins.insert(origin.key.clone(), Rc::new(throttled));
        }
        let Some(throttled) = origins.get(&origin.key) else { return };
        if is_refusal {
            throttled.refused.set(throttled.refused.get() + 1);
            throttled.refused_at.set(now);
        } else {
            throttled.successes.set(throttled.successes.get() + 1);
            throttled.succeeded_at.set(Some(now));
        }
    }

    fn note_success(&self, origin: &Rc<OriginConnections>, now: Millis) {
        let mut last = self.last_success.borrow_mut();
        match &mut *last {
            Some((known, at)) if Rc::ptr_eq(known, origin) => *at = now,
            _ => *last = Some((Rc::clone(origin), now)),
        }
    }

    fn succeeded_at(&self, origin: &Rc<OriginConnections>) -> Option<Millis> {
        let last = self.last_success.borrow();
        last.as_ref().filter(|(known, _)| Rc::ptr_eq(known, origin)).map(|(_, at)| *at)
    }

    /// Updates the paces at a tick.
    pub(super) fn tick(&self, now: Millis) {
        let mut origins = self.origins.borrow_mut();
        origins.retain(|_, throttled| {
            throttled.tick(now);
            !throttled.is_over(now)
        });
    }

    /// Returns whether any origin is tracked.
    pub(super) fn is_active(&self) -> bool {
        !self.origins.borrow().is_empty()
    }

    /// Returns whether any origin currently has a pace.
    pub(super) fn has_pace(&self) -> bool {
        self.origins.borrow().values().any(|throttled| throttled.pace.is_set())
    }

    fn paced(&self, origin: &OriginKey) -> Option<Rc<ThrottledOrigin>> {
        self.origins.borrow().get(origin).filter(|throttled| throttled.pace.is_set()).cloned()
    }

    /// Returns whether the origin of a normalised URL throttles requests: it refuses some and accepts others.
    pub(super) fn is_throttled(&self, url: &str, now: Millis) -> bool {
        self.is_active()
            && OriginKey::of_url(url).is_some_and(|(origin, _)| {
                self.origins.borrow().get(&origin).is_some_and(|throttled| throttled.gives(now))
            })
    }

    /// Waits until the pace of the origin allows another request. Returns `false` if the watch expires first.
    pub(super) async fn wait(&self, origin: &OriginKey, micros: impl Fn() -> u64, watch: &Deadlines) -> bool {
        let Some(throttled) = self.paced(origin) else { return true };
        watch.rest();
        let _first = tokio::select! {
            first = throttled.line.lock() => first,
            _ = watch.expired() => return false,
        };
        keep_pace(std::iter::once(&throttled.pace), micros, watch).await
    }
}
