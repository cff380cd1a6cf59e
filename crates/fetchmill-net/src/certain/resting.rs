//! Connections that rest: no request is out on them, and what they hold is certain when nothing has come meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{CertainConnection, HeldReplies, Judged};
use crate::{AddressPolicy, Deadlines, IdleState, OriginConnections, Pool};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::{REST_MAX, SILENCE_MIN};

/// Between two checks of whether one that was due has been taken.
const CHECK_EVERY: Duration = Duration::from_millis(1);

/// The connections of one thread that rest. Those that tasks part from have no bound here: they are as many as before.
/// [`RestingConnections::make_room`] keeps the bound before a connection is opened.
#[derive(Debug, Default)]
pub struct RestingConnections<H> {
    /// By when they have rested; the number tells those apart that are due at the same time.
    queue: RefCell<BTreeMap<(Instant, u64), CertainConnection<H>>>,
    number: Cell<u64>,
    added: Notify,
}

impl<H: HeldReplies> RestingConnections<H> {
    /// Returns how many rest.
    pub fn count(&self) -> usize {
        self.queue.borrow().len()
    }

    /// Moves a task to the origin: its connection leads there afterwards, and no farther than `reach`, if it is open.
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

    /// Parts a task from its connection, which rests while it holds something, and else is kept for others.
    pub fn part(&self, task: &mut CertainConnection<H>, pool: &Pool) {
        if task.is_holding() {
            self.rest_aside(task);
        } else {
            pool.put(&mut task.connection);
        }
    }

    /// Leaves the task without a connection, so that a fresh one is opened. Its last one rests while it holds something.
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

    /// Has the connection rest. If fewer than `most` rest, the task goes on with another one. Else it waits.
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

    /// The watch has cut a rest short, which proves nothing.
    fn cut_short(&self, task: &mut CertainConnection<H>, kind: FailureKind) -> Judged {
        if H::OUTLIVE_WATCH {
            self.rest_aside(task);
            return Judged::Pending;
        }
        task.connection.close();
        Judged::Lost(kind)
    }

    /// Awaits the end of a connection whose server ends it after this reply. What it holds is certain if nothing comes before
    /// that. If the end does not come soon, it has to rest as any other, or longer while little is known of its origin.
    pub async fn end(&self, task: &mut CertainConnection<H>, most: usize, watch: &Deadlines) -> Judged {
        let mut judged = Judged::Pending;
        if task.is_holding() {
            let soon = Duration::from_micros(SILENCE_MIN);
            let silence = task.begin_end();
            judged = match task.wait_silent(silence.min(soon), watch).await {
                Some(kind) => self.cut_short(task, kind),
                None if silence > soon && task.connection.look() == IdleState::Quiet => {
                    self.rest(task, most, watch).await
                }
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

    /// Takes one that has rested by now, and what is known of it.
    pub fn take_rested(&self, now: Instant) -> Option<(CertainConnection<H>, Judged)> {
        let mut queue = self.queue.borrow_mut();
        let first = queue.first_entry().filter(|first| first.key().0 <= now)?;
        let mut task = first.remove();
        let judged = task.end_rest();
        Some((task, judged))
    }

    /// Takes, of those that are fit, the one that would rest for longest.
    pub fn take_last(&self, is_fit: impl Fn(&CertainConnection<H>) -> bool) -> Option<CertainConnection<H>> {
        let mut queue = self.queue.borrow_mut();
        let key = *queue.iter().rev().find(|(_, task)| is_fit(task))?.0;
        queue.remove(&key)
    }

    /// Waits, before a connection is opened, until no more than `most` rest. After a second the one that would rest for
    /// longest is abandoned, if it `may_be_lost`, and is returned. So there are never more connections than tasks and
    /// `most` together, however slow an origin may be.
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

    /// Waits until no more than `most` rest, but no longer than `until`. Returns whether that is so.
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

    /// Takes all, whatever they hold.
    pub fn take_all(&self) -> impl Iterator<Item = CertainConnection<H>> {
        self.queue.take().into_values()
    }

    /// Returns when the next one has rested.
    pub fn next_due(&self) -> Option<Instant> {
        self.queue.borrow().first_key_value().map(|((until, _), _)| *until)
    }

    /// Waits until one has rested.
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
