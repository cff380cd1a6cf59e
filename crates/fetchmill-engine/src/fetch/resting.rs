//! Connections that rest: no request is out on them, and what they have brought is certain when nothing has come meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Between two looks at whether one that was due has been taken.
const LOOK: Duration = Duration::from_millis(1);

/// See the module. How many there may be is up to who adds them, and who opens connections beside them.
pub(crate) struct RestingConnections<T> {
    /// By when they have rested; the number tells those apart that are due at the same time.
    queue: RefCell<BTreeMap<(Instant, u64), T>>,
    number: Cell<u64>,
    added: Notify,
}

impl<T> Default for RestingConnections<T> {
    fn default() -> Self {
        RestingConnections { queue: RefCell::default(), number: Cell::default(), added: Notify::new() }
    }
}

impl<T> RestingConnections<T> {
    pub(crate) fn add(&self, until: Instant, task: T) {
        self.number.set(self.number.get() + 1);
        self.queue.borrow_mut().insert((until, self.number.get()), task);
        self.added.notify_one();
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.borrow().len()
    }

    pub(crate) fn take_due(&self, now: Instant) -> Option<T> {
        let mut queue = self.queue.borrow_mut();
        let first = queue.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Takes that one of those that are fit which would rest for longest.
    pub(crate) fn take_last(&self, is_fit: impl Fn(&T) -> bool) -> Option<T> {
        let mut queue = self.queue.borrow_mut();
        let key = *queue.iter().rev().find(|(_, task)| is_fit(task))?.0;
        queue.remove(&key)
    }

    /// Waits until no more than so many rest, but no longer than until then. Whether they are.
    pub(crate) async fn await_room(&self, resting_max: usize, until: Instant) -> bool {
        while self.len() > resting_max {
            let now = Instant::now();
            if now >= until {
                return false;
            }
            let due = self.next_due().map_or(until, |due| due.max(now + LOOK));
            tokio::time::sleep_until(due.min(until)).await;
        }
        true
    }

    pub(crate) fn take_all(&self) -> impl Iterator<Item = T> {
        std::mem::take(&mut *self.queue.borrow_mut()).into_values()
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.queue.borrow().first_key_value().map(|((until, _), _)| *until)
    }

    /// Waits until one has rested.
    pub(crate) async fn due(&self) {
        loop {
            match self.next_due() {
                None => self.added.notified().await,
                Some(until) => tokio::select! {
                    () = tokio::time::sleep_until(until) => return,
                    () = self.added.notified() => {}
                },
            }
        }
    }
}
