//! Resting connections, which have no request in flight. If nothing arrives on a connection during its rest, the
//! replies held on it become certain.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{CertainConnection, HeldReplies, Judged};
use crate::{AddressPolicy, Deadlines, OriginConnections, Pool};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::{REST_MAX, SILENCE_MIN};

/// Interval at which a task checks whether a connection whose rest has ended was taken.
const CHECK_EVERY: Duration = Duration::from_millis(1);

/// A thread's resting connections. Tasks can always leave connections here. The limit applies only before a new
/// connection is opened: see [`RestingConnections::make_room`].
#[derive(Debug, Default)]
pub struct RestingConnections<H> {
    /// Connections, ordered by the end of their rest. The number distinguishes connections whose rests end at the same
    /// time.
    queue: RefCell<BTreeMap<(Instant, u64), CertainConnection<H>>>,
    number: Cell<u64>,
    added: Notify,
}

impl<H: HeldReplies> RestingConnections<H> {
    /// Returns the number of resting connections.
    pub fn count(&self) -> usize {
        self.queue.borrow().len()
    }

    /// Moves a task to an origin. If the task still has an open connection after that, the connection leads to this
    /// origin at an address that `reach` allows.
    pub fn bring(
        &self,
        task: &mut CertainConnection<H>,
        pool: &Pool,
        origin: &Rc<OriginConnections>,
        reach: AddressPolicy,
    ) {
        if !task.connection.is_at(origin) {
            self.part(task, pool);
            pool.switch(&mut task.connection, origin);
        }
        if !task.connection.leads_within(reach) {
            self.leave(task, pool);
        }
    }

    /// Takes the connection from a task. The connection rests if it holds replies. Otherwise the pool keeps it for
    /// other tasks.
    pub fn part(&self, task: &mut CertainConnection<H>, pool: &Pool) {
        if task.is_holding() {
            self.rest_aside(task);
        } else {
            pool.put(&mut task.connection);
        }
    }

    /// Detaches the task from its connection, so that a new one is opened. The old connection rests if it holds
    /// replies. Otherwise it is closed.
    pub fn leave(&self, task: &mut CertainConnection<H>, pool: &Pool) {
        if !task.is_holding() {
            return task.connection.close();
        }
        let origin = task.connection.origin().cloned();
        self.rest_aside(task);
        if let Some(origin) = origin {
            pool.switch_to_fresh(&mut task.connection, &origin);
        }
    }

    /// Lets the task's connection rest. If fewer than `most` connections are resting, the task continues with another
    /// connection. Otherwise it waits for this one.
    pub async fn rest(&self, task: &mut CertainConnection<H>, most: usize, watch: &Deadlines) -> Judged {
        if self.count() < most {
            self.rest_aside(task);
            return Judged::Pending;
        }
        let silence = task.begin_rest();
        match task.wait_silent(silence, watch).await {
            None => task.end_rest(),
            Some(kind) => self.cut_short(task, kind),
        }
    }

    /// Handles a rest that the watch cut short. Such a rest does not make replies certain.
    fn cut_short(&self, task: &mut CertainConnection<H>, kind: FailureKind) -> Judged {
        if H::OUTLIVE_WATCH {
            self.rest_aside(task);
            return Judged::Pending;
        }
        task.connection.close();
        Judged::Lost(kind)
    }

    /// Waits for the server to close the connection after this reply. If nothing else arrives first, the held replies
    /// become certain. If the server is slow to close the connection, the connection rests as usual, or longer while
    /// little is known about its origin.
    pub async fn end(&self, task: &mut CertainConnection<H>, most: usize, watch: &Deadlines) -> Judged {
        let mut judged = Judged::Pending;
        if task.is_holding() {
            let soon = Duration::from_micros(SILENCE_MIN);
            let silence = task.begin_end();
            judged = match task.wait_silent(silence.min(soon), watch).await {
                Some(kind) => self.cut_short(task, kind),
                None if task.stays_open() && silence > soon => self.rest(task, most, watch).await,
                None => task.end_rest(),
            };
        }
        task.connection.close();
        judged
    }

    fn rest_aside(&self, task: &mut CertainConnection<H>) {
        let until = Instant::now() + task.begin_rest();
        self.number.set(self.number.get() + 1);
        self.queue.borrow_mut().insert((until, self.number.get()), std::mem::take(task));
        self.added.notify_one();
    }

    /// Takes a connection whose rest has ended, with the judgement on its replies.
    pub fn take_rested(&self, now: Instant) -> Option<(CertainConnection<H>, Judged)> {
        let mut queue = self.queue.borrow_mut();
        let first = queue.first_entry().filter(|first| first.key().0 <= now)?;
        let mut task = first.remove();
        let judged = task.end_rest();
        Some((task, judged))
    }

    /// Takes the connection whose rest ends last among those that `is_fit` accepts.
    pub fn take_last(&self, is_fit: impl Fn(&CertainConnection<H>) -> bool) -> Option<CertainConnection<H>> {
        let mut queue = self.queue.borrow_mut();
        let key = *queue.iter().rev().find(|(_, task)| is_fit(task))?.0;
        queue.remove(&key)
    }

    /// Waits, before another connection is opened, until at most `most` connections are resting. After 1 s, abandons
    /// and returns the connection whose rest ends last among those for which `may_be_lost` returns true. This keeps the
    /// number of connections at or below the number of tasks plus `most`, even if the origin is slow.
    pub async fn make_room(
        &self,
        most: usize,
        may_be_lost: impl Fn(&H) -> bool,
    ) -> Option<(CertainConnection<H>, Judged)> {
        loop {
            let until = Instant::now() + Duration::from_micros(REST_MAX);
            if self.await_room(most, until).await {
                return None;
            }
            if let Some(last) = self.take_last(|task| may_be_lost(&task.held)) {
                return Some((last, Judged::Lost(FailureKind::TotalTimeout)));
            }
        }
    }

    /// Waits until at most `most` connections are resting. Returns `false` if more are still resting at `until`.
    async fn await_room(&self, most: usize, until: Instant) -> bool {
        while self.count() > most {
            let now = Instant::now();
            if now >= until {
                return false;
            }
            let due = self.next_due().map_or(until, |due| due.max(now + CHECK_EVERY));
            tokio::time::sleep_until(due.min(until)).await;
        }
        true
    }

    /// Takes all connections, including those that hold replies.
    pub fn take_all(&self) -> impl Iterator<Item = CertainConnection<H>> {
        self.queue.take().into_values()
    }

    /// Returns the time when the next rest ends.
    pub fn next_due(&self) -> Option<Instant> {
        self.queue.borrow().first_key_value().map(|((until, _), _)| *until)
    }

    /// Waits until a rest ends.
    pub async fn due(&self) {
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
