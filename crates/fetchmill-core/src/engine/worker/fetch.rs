//! The life of one connection of a worker: take a target, exchange, settle; and what follows from each failure.

use std::rc::Rc;
use std::time::Duration;

use super::body::Incoming;
use super::queue::Target;
use super::{RETRIES_REPORTED_AT, Worker};
use crate::limits;
use crate::name;
use crate::outcome::{FailureClass, FailureKind, Outcome};
use crate::planner::Retry;
use crate::planner::origin::Millis;
use crate::planner::retry::{Verdict, after_failure};
use crate::sink::Keeps;
use crate::target::Waiting;
use crate::transport::{Broken, ConnectFailure, Connection, Replied, Unused, Watch, connect, is_verified};

/// An idle connection listens this long for bytes that do not belong to the reply before them. A reply is settled
/// only then: a late second reply means that it may have been its neighbour's.
const LISTEN: Duration = Duration::from_millis(50);

/// What came of an attempt at a target.
enum Attempt {
    /// It has an outcome or waits: on to the next.
    Over,
    /// It is to be made again at once, on a fresh connection, and does not count.
    Again,
}

impl Worker {
    /// Until the job ends.
    pub(super) async fn connection(self: &Rc<Self>, watch: &Rc<Watch>) {
        let mut connection: Option<Connection> = None;
        let mut target = Target::default();
        let mut body = Incoming::new(self.setup.properties, Rc::clone(&self.body_memory));
        while !self.is_done.get() {
            if !self.take(&mut target) {
                if self.is_done.get() {
                    break;
                }
                self.park(&mut connection, watch).await;
                continue;
            }
            self.in_flight.set(self.in_flight.get() + 1);
            while let Attempt::Again = self.attempt(&mut connection, &mut target, &mut body, watch).await {
                self.close(&mut connection);
            }
            self.in_flight.set(self.in_flight.get() - 1);
            if let Some(error) = body.take_failure() {
                self.control().fail(error);
            }
            if self.block.borrow().is_full() && self.send_block(false).await {
                // It took its time: something may have come.
                self.close_unless_quiet(&mut connection);
            }
            let is_waited_for = self.dry_until.get().is_some() && self.in_flight.get() == 0;
            if is_waited_for || self.report.borrow().retries.len() >= RETRIES_REPORTED_AT {
                self.turn(0);
            }
        }
        self.close(&mut connection);
    }

    /// Without a target: the connection is kept for a while.
    async fn park(&self, connection: &mut Option<Connection>, watch: &Rc<Watch>) {
        match connection {
            Some(_) => watch.only(limits::KEEP_ALIVE_IDLE),
            None => watch.rest(),
        }
        self.parking.park(connection.as_ref(), watch).await;
        if watch.has_expired() {
            self.close(connection);
        }
        self.close_unless_quiet(connection);
    }

    fn close_unless_quiet(&self, connection: &mut Option<Connection>) {
        let unused = connection.as_ref().map_or(Unused::Quiet, Connection::look);
        self.suspect(unused);
        if unused != Unused::Quiet {
            self.close(connection);
        }
    }

    /// A server that has sent a second reply once does so again, and not always before the next request is out:
    /// from now on each of its connections is listened to before it is used again.
    fn suspect(&self, unused: Unused) {
        if unused == Unused::SecondReply && !self.control().is_suspicious() {
            self.report.borrow_mut().observed.unsolicited += 1;
            self.turn(0);
        }
    }

    fn close(&self, connection: &mut Option<Connection>) {
        if connection.take().is_some() {
            self.open_connections.set(self.open_connections.get() - 1);
        }
    }

    async fn attempt(
        &self,
        connection: &mut Option<Connection>,
        target: &mut Target,
        body: &mut Incoming,
        watch: &Rc<Watch>,
    ) -> Attempt {
        body.start(target.sequence);
        if self.setup.properties.names_are_paths
            && name::to_path(&target.name, &mut self.path.borrow_mut()).is_err()
        {
            self.settle_other(target, Outcome::Failed(FailureKind::Name), 0, 0);
            return Attempt::Over;
        }
        let open = match connection {
            Some(open) => open,
            None => match self.open(watch).await {
                Ok(opened) => connection.insert(opened),
                Err(kind) => return self.failed(target, kind, None),
            },
        };
        match self.exchange(open, target, body, watch).await {
            Ok(replied) => self.replied(connection, target, body, watch, replied).await,
            Err(broken) => {
                let was_used = connection.as_ref().is_some_and(|connection| connection.replies() > 0);
                self.close(connection);
                body.discard();
                self.broken(target, broken, was_used)
            }
        }
    }

    async fn open(&self, watch: &Watch) -> Result<Connection, FailureKind> {
        // Connecting has a deadline of its own; the watch only ends it when the job does.
        watch.rest();
        loop {
            let connected = tokio::select! {
                connected = connect(&self.setup.addresses, self.setup.timeouts.connect) => connected,
                kind = watch.expired() => Err(ConnectFailure::Failed(kind)),
            };
            match connected {
                Ok(stream) => {
                    self.open_connections.set(self.open_connections.get() + 1);
                    self.exhausted_since.set(None);
                    return Ok(Connection::new(stream, self.setup.max_body));
                }
                Err(ConnectFailure::Failed(kind)) => return Err(kind),
                Err(ConnectFailure::Exhausted(number)) => {
                    self.rest_exhausted(number).await;
                    if self.is_done.get() {
                        return Err(FailureKind::Unreachable);
                    }
                }
            }
        }
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        target: &Target,
        body: &mut Incoming,
        watch: &Watch,
    ) -> Result<Replied, Broken> {
        self.delta.borrow_mut().attempts += 1;
        {
            let mut request = self.request.borrow_mut();
            request.clear();
            self.setup.template.write(&target.name, &mut request);
            watch.start();
            connection.send(&request)?;
        }
        let replied = connection.receive(body, &self.scratch, watch).await;
        watch.rest();
        replied
    }

    /// A complete reply: whose it is must be certain before it is settled.
    async fn replied(
        &self,
        connection: &mut Option<Connection>,
        target: &mut Target,
        body: &mut Incoming,
        watch: &Rc<Watch>,
        replied: Replied,
    ) -> Attempt {
        let Some(open) = connection.as_ref() else {
            return Attempt::Over;
        };
        let is_first = open.replies() == 1;
        let mut unused = replied.surplus;
        if unused == Unused::Quiet {
            unused = open.look();
        }
        if unused == Unused::Quiet && replied.head.keep_alive {
            if self.control().is_suspicious() {
                watch.only(LISTEN);
                open.listen(watch).await;
                unused = open.look();
            } else if !is_first && self.is_idle() {
                watch.only(LISTEN);
                self.parking.park(Some(open), watch).await;
                unused = open.look();
            }
        }
        self.suspect(unused);
        if matches!(unused, Unused::Unsolicited | Unused::SecondReply) && !is_first {
            body.discard();
            return Attempt::Again;
        }
        if unused != Unused::Quiet || !replied.head.keep_alive {
            self.close(connection);
        }
        self.settle(target, body, &replied)
    }

    fn settle(&self, target: &mut Target, body: &mut Incoming, replied: &Replied) -> Attempt {
        let status = replied.head.status;
        if body.has_failed() {
            // The job is ending; the target stays pending.
            body.discard();
            return Attempt::Over;
        }
        match FailureKind::of_status(status) {
            Ok(Outcome::Fetched) if !is_verified(&replied.head) && !self.setup.allow_eof_bodies => {
                body.discard();
                self.settle_other(target, Outcome::Failed(FailureKind::UnverifiedLength), status, 1);
            }
            Ok(Outcome::Fetched) => {
                let name =
                    if self.setup.properties.keeps >= Keeps::Bodies { target.name.as_slice() } else { &[] };
                self.delta.borrow_mut().count(Outcome::Fetched, body.length());
                let attempts = target.attempts + 1;
                let facts = body.facts(status);
                self.block.borrow_mut().push_fetched(target.sequence, attempts, name, body.get(), &facts);
                body.handed_over();
                self.settled();
            }
            Ok(outcome) => {
                body.discard();
                self.settle_other(target, outcome, status, 1);
            }
            Err(kind) => {
                body.discard();
                return self.failed(target, kind, Some(replied));
            }
        }
        Attempt::Over
    }

    fn settled(&self) {
        let mut report = self.report.borrow_mut();
        report.settled += 1;
        report.observed.successes += 1;
        self.finished.set(self.finished.get() + 1);
    }

    /// `made` is 1 when an attempt was made that is not counted in the target.
    fn settle_other(&self, target: &Target, outcome: Outcome, status: u16, made: u32) {
        self.delta.borrow_mut().count(outcome, 0);
        self.block.borrow_mut().push_other(
            target.sequence,
            outcome,
            status,
            target.attempts + made,
            &target.name,
        );
        let mut report = self.report.borrow_mut();
        report.settled += 1;
        // A complete reply of whatever status is a sign of life; a name without a request is none.
        report.observed.successes += u32::from(status != 0 && !is_trouble(outcome));
        self.finished.set(self.finished.get() + 1);
    }

    /// No complete reply.
    fn broken(&self, target: &mut Target, broken: Broken, was_used: bool) -> Attempt {
        if self.is_done.get() {
            // Dropped while the job ends: the target stays pending.
            return Attempt::Over;
        }
        if was_used && broken.is_unanswered && !target.was_forgiven {
            target.was_forgiven = true;
            return Attempt::Again;
        }
        if was_used && matches!(broken.kind, FailureKind::Framing | FailureKind::NotHttp) {
            // What was read may have belonged to the reply before; on a fresh connection it is certain.
            return Attempt::Again;
        }
        self.failed(target, broken.kind, None)
    }

    /// An attempt failed: it waits for another one, or that is its outcome.
    fn failed(&self, target: &mut Target, kind: FailureKind, replied: Option<&Replied>) -> Attempt {
        if self.is_done.get() && replied.is_none() {
            return Attempt::Over;
        }
        let now = self.clock.get();
        let retry_after = replied
            .and_then(|replied| replied.head.retry_after)
            .map(|retry_after| retry_after.wait(now / 1000).saturating_mul(1000));
        self.observe(kind, retry_after);
        match after_failure(kind, target.attempts, target.throttled_since, self.setup.attempts_max, now) {
            Verdict::Final => {
                let status = replied.map_or(0, |replied| replied.head.status);
                self.settle_other(target, Outcome::Failed(kind), status, 1);
            }
            Verdict::Again { attempts, throttled_since } => {
                let waiting = Waiting {
                    sequence: target.sequence,
                    name: target.name.as_slice().into(),
                    attempts,
                    kind,
                    not_before: 0,
                    throttled_since,
                };
                self.report.borrow_mut().retries.push(Retry { target: waiting, retry_after });
            }
        }
        Attempt::Over
    }

    fn observe(&self, kind: FailureKind, retry_after: Option<Millis>) {
        let observed = &mut self.report.borrow_mut().observed;
        match kind.class() {
            FailureClass::Transient => observed.transient += 1,
            FailureClass::Throttle => {
                observed.throttled += 1;
                let asked = retry_after.unwrap_or(0).min(limits::RETRY_AFTER_MAX.as_millis() as Millis);
                observed.retry_after = observed.retry_after.max(asked);
            }
            FailureClass::Final => {}
        }
    }
}

fn is_trouble(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Failed(kind) if kind.is_retryable())
}
