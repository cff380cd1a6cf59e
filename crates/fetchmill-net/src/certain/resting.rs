//! Resting connections, which have no request in flight. If nothing arrives during the rest, the replies held on them
//! become certain.

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

/// Interval at which a task checks whether a due connection was taken.
const CHECK_EVERY: Duration = Duration::from_millis(1);

/// A thread's resting connections. Connections that tasks leave are not limited here, because they are already open.
/// [`RestingConnections::make_room`] applies the limit before a connection is opened.
#[derive(Debug, Default)]
pub struct RestingConnections<H> {
    /// Connections by the end of their rest. The number distinguishes connections with the same end.
    queue: RefCell<BTreeMap<(Instant, u64), CertainConnection<H>>>,
    number: Cell<u64>,
    added: Notify,
}

impl<H: HeldReplies> RestingConnections<H> {
    /// Returns the number of resting connections.
    pub fn count(&self) -> usize {
        self.queue.borrow().len()
    }

    /// Moves a task to an origin. If its connection is open afterwards, it leads to that origin and is allowed by
    /// `reach`.
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

    /// Takes the connection from a task. It rests if it holds replies, otherwise it is kept for other tasks.
    pub fn part(&self, task: &mut CertainConnection<H>, pool: &Pool) {
        if task.is_holding() {
            self.rest_aside(task);
        } else {
            pool.put(&mut task.connection);
        }
    }

    /// Detaches the task from its connection, so that a new one is opened. The old one rests if it holds replies.
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

    /// Lets the connection rest. If fewer than `most` are resting, the task continues with another connection,
    /// otherwise it waits for this one.
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

    /// Handles a rest that the watch has ended early. Such a rest does not make replies certain.
    fn cut_short(&self, task: &mut CertainConnection<H>, kind: FailureKind) -> Judged {
        if H::OUTLIVE_WATCH {
            self.rest_aside(task);
            return Judged::Pending;
        }
        task.connection.close();
        Judged::Lost(kind)
    }

    /// Waits for the server to close the connection after this reply. If nothing arrives before that, the held replies
    /// become certain. If the server takes long to close it, the connection rests as usual, or longer while little is
    /// known about its origin.
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

    /// Takes a connection whose rest is over, with the judgement of its replies.
    pub fn take_rested(&self, now: Instant) -> Option<(CertainConnection<H>, Judged)> {
        let mut queue = self.queue.borrow_mut();
        let first = queue.first_entry().filter(|first| first.key().0 <= now)?;
        let mut task = first.remove();
        let judged = task.end_rest();
        Some((task, judged))
    }

    /// Of the connections that `is_fit` accepts, takes the one whose rest ends last.
    pub fn take_last(&self, is_fit: impl Fn(&CertainConnection<H>) -> bool) -> Option<CertainConnection<H>> {
        let mut queue = self.queue.borrow_mut();
        let key = *queue.iter().rev().find(|(_, task)| is_fit(task))?.0;
        queue.remove(&key)
    }

    /// Waits until no more than `most` connections are resting, before another is opened. After 1 s, abandons and
    /// returns a connection whose replies `may_be_lost`. If there are several, this is the one whose rest ends last. So
    /// there are never more connections than tasks plus `most`, even with a slow origin.
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

    /// Waits until no more than `most` connections are resting. Returns `false` if there are still more at `until`.
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

    /// Takes all connections, whether they hold replies or not.
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
