//! The life of one connection of a worker: take a target, exchange, settle; and what follows from each failure.

use std::rc::Rc;
use std::time::Duration;

use super::super::redirect::is_redirect;
use super::address::asked_for;
use super::body::Incoming;
use super::queue::Target;
use super::{RETRIES_REPORTED_AT, Worker};
use crate::engine::trust::distrust;
use crate::limits;
use crate::outcome::{FailureClass, FailureKind, Outcome};
use crate::planner::Retry;
use crate::planner::hosts::{self, Seen};
use crate::planner::origin::Millis;
use crate::planner::retry::{Verdict, after_failure};
use crate::sink::Keeps;
use crate::target::Waiting;
use crate::transport::{Broken, ConnectFailure, Lane, Origin, Replied, Unused, Watch, is_verified};

/// An idle connection listens this long for bytes that do not belong to the reply before them. A reply is settled
/// only then: a late second reply means that it may have been its neighbour's.
const LISTEN: Duration = Duration::from_millis(50);

/// What came of an attempt at a target.
pub(super) enum Attempt {
    /// It has an outcome or waits: on to the next.
    Over,
    /// It is to be made again at once, on a fresh connection, and does not count.
    Again,
    /// The target is somewhere else.
    Redirected,
}

impl Worker {
    /// Until the job ends.
    pub(super) async fn fetch(self: &Rc<Self>, watch: &Rc<Watch>) {
        let mut lane = Lane::default();
        let mut target = Target::default();
        let mut body = Incoming::new(self.setup.properties, Rc::clone(&self.body_memory), self.setup.enough);
        while !self.is_done.get() {
            if !self.take(&mut target) {
                if self.is_done.get() {
                    break;
                }
                self.park(&mut lane, watch).await;
                continue;
            }
            self.in_flight.set(self.in_flight.get() + 1);
            loop {
                match self.attempt(&mut lane, &mut target, &mut body, watch).await {
                    Attempt::Over => break,
                    Attempt::Again => lane.close(),
                    Attempt::Redirected if !self.moves_on(&mut target) => break,
                    Attempt::Redirected => {}
                }
            }
            // With a target that another host has now, there is nothing to leave.
            self.leave(&mut target, Seen::Nothing);
            self.in_flight.set(self.in_flight.get() - 1);
            if let Some(error) = body.take_failure() {
                self.control().fail(error);
            }
            if self.block.borrow().is_full() && self.send_block(false).await {
                // It took its time: something may have come.
                self.close_unless_quiet(&mut lane);
            }
            let is_waited_for = self.dry_until.get().is_some() && self.in_flight.get() == 0;
            if is_waited_for || self.report.borrow().retries.len() >= RETRIES_REPORTED_AT {
                self.turn(0);
            }
        }
    }

    /// Without a target: the connection is kept for a while.
    async fn park(&self, lane: &mut Lane, watch: &Rc<Watch>) {
        if lane.is_open() {
            watch.only(limits::KEEP_ALIVE_IDLE);
        } else {
            watch.rest();
        }
        self.parking.park(lane, watch).await;
        if watch.has_expired() {
            lane.close();
        }
        self.close_unless_quiet(lane);
    }

    fn close_unless_quiet(&self, lane: &mut Lane) {
        let unused = lane.look();
        self.suspect(lane, unused);
        if unused != Unused::Quiet {
            lane.close();
        }
    }

    /// A server that has sent a second reply once does so again, and not always before the next request is out:
    /// from now on each of its connections is listened to before it is used again.
    fn suspect(&self, lane: &Lane, unused: Unused) {
        if unused != Unused::SecondReply || self.is_suspicious(lane) {
            return;
        }
        if self.control().has_many_origins() {
            lane.suspect_origin();
        } else {
            self.report.borrow_mut().observed.unsolicited += 1;
            self.turn(0);
        }
    }

    /// One host that does so says nothing of the others.
    fn is_suspicious(&self, lane: &Lane) -> bool {
        if self.control().has_many_origins() { lane.is_suspicious() } else { self.control().is_suspicious() }
    }

    async fn attempt(
        &self,
        lane: &mut Lane,
        target: &mut Target,
        body: &mut Incoming,
        watch: &Rc<Watch>,
    ) -> Attempt {
        body.start(target.sequence);
        let origin = match self.locate(target) {
            Ok(origin) => origin,
            Err(kind) if kind.is_retryable() => return self.failed(target, kind, None),
            Err(kind) => {
                self.settle_other(target, Outcome::Failed(kind), 0, 0);
                return Attempt::Over;
            }
        };
        if !self.keep_pace(&origin, watch).await {
            // The target stays pending.
            return Attempt::Over;
        }
        self.begin_row(target);
        if target.is_of_store {
            target.store_generation = self.control().store().generation();
        }
        let listed = self.listed(target);
        if target.is_of_store || listed.is_some() {
            body.expect(listed.and_then(|listed| listed.size));
        }
        if !lane.is_at(&origin) {
            self.pool.switch(lane, &origin);
        }
        if !lane.may_be_reused(target.reach) {
            lane.close();
        }
        if !lane.is_open()
            && let Err(kind) = self.open(lane, target, watch).await
        {
            target.seen.connection(lane);
            if let Some(error) = distrust(&origin.key, kind).filter(|_| self.stops_at(&origin)) {
                // The target stays pending: the next run may trust the server.
                self.control().fail(error);
                return Attempt::Over;
            }
            return self.failed(target, kind, None);
        }
        let replied = self.exchange(lane, &origin, target, body, watch).await;
        target.see(body);
        target.seen.connection(lane);
        match replied {
            Ok(replied) => self.replied(lane, target, body, watch, replied).await,
            Err(broken) => {
                let was_used = lane.replies() > 0;
                let forgiven_max = if lane.is_shared() { limits::FORGIVEN_SHARED_MAX } else { 1 };
                lane.abandon();
                body.discard();
                self.broken(target, broken, was_used, forgiven_max)
            }
        }
    }

    /// Whether the job cannot go on when this origin is not to be trusted; to a check, that is an answer.
    fn stops_at(&self, origin: &Origin) -> bool {
        !self.has_rows() && self.control().is_only_origin(&origin.key)
    }

    async fn open(&self, lane: &mut Lane, target: &Target, watch: &Watch) -> Result<(), FailureKind> {
        loop {
            match self.pool.open_at(lane, watch, target.reach, target.found.as_ref()).await {
                Ok(()) => {
                    self.exhausted_since.set(None);
                    return Ok(());
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
        lane: &mut Lane,
        origin: &Origin,
        target: &Target,
        body: &mut Incoming,
        watch: &Watch,
    ) -> Result<Replied, Broken> {
        self.delta.borrow_mut().attempts += 1;
        lane.exchange(
            asked_for(origin, target, self.setup.naming),
            &self.buffers,
            body,
            watch,
            self.setup.pool.max_body,
        )
        .await
    }

    /// A complete reply: whose it is must be certain before it is settled.
    async fn replied(
        &self,
        lane: &mut Lane,
        target: &mut Target,
        body: &mut Incoming,
        watch: &Rc<Watch>,
        replied: Replied,
    ) -> Attempt {
        if lane.is_shared() {
            return self.settle(lane, target, body, &replied);
        }
        let is_first = lane.replies() == 1;
        let mut unused = replied.surplus;
        if unused == Unused::Quiet {
            unused = lane.look();
        }
        if unused == Unused::Quiet && replied.head.keep_alive {
            if self.is_suspicious(lane) {
                watch.only(LISTEN);
                lane.listen(watch).await;
                unused = lane.look();
            } else if !is_first && self.is_idle() && !self.waiters.is_waited_for(target.host) {
                watch.only(LISTEN);
                self.parking.park(lane, watch).await;
                unused = lane.look();
            }
        }
        self.suspect(lane, unused);
        if matches!(unused, Unused::Unsolicited | Unused::SecondReply) && !is_first {
            body.discard();
            return Attempt::Again;
        }
        if unused != Unused::Quiet || !replied.head.keep_alive {
            lane.close();
        }
        self.settle(lane, target, body, &replied)
    }

    fn settle(&self, lane: &Lane, target: &mut Target, body: &mut Incoming, replied: &Replied) -> Attempt {
        let status = replied.head.status;
        if body.has_failed() {
            // The job is ending; the target stays pending.
            body.discard();
            return Attempt::Over;
        }
        if target.is_of_store
            && let Some(attempt) = self.judge(target, body, replied)
        {
            return attempt;
        }
        if is_redirect(status) && self.setup.redirects_max > 0 {
            let followed = self.redirect(target, lane, body.location());
            body.discard();
            return match followed {
                Ok(()) => Attempt::Redirected,
                Err(kind) => self.failed(target, kind, Some(replied)),
            };
        }
        if !target.is_of_store && self.is_changed(target, body, status) {
            body.discard();
            return self.failed(target, FailureKind::Changed, Some(replied));
        }
        match FailureKind::of_status(status) {
            Ok(Outcome::Fetched) if !is_verified(&replied.head) && !self.setup.allow_eof_bodies => {
                body.discard();
                self.settle_other(target, Outcome::Failed(FailureKind::UnverifiedLength), status, 1);
                self.leave(target, Seen::Answer);
            }
            Ok(Outcome::Fetched) if self.has_rows() => {
                self.delta.borrow_mut().count(Outcome::Fetched, body.length());
                self.push_row(target, Outcome::Fetched, target.attempts + 1);
                body.discard();
                self.settled();
                self.leave(target, Seen::Answer);
            }
            Ok(Outcome::Fetched) => {
                let keeps = self.setup.properties.keeps >= Keeps::Bodies;
                let naming = self.setup.naming;
                let (name, facts) = if keeps {
                    (target.name(naming), target.facts(naming, body.facts(status)))
                } else {
                    (&[][..], body.facts(status))
                };
                self.delta.borrow_mut().count(Outcome::Fetched, body.length());
                let attempts = target.attempts + 1;
                self.block.borrow_mut().push_fetched(target.sequence, attempts, name, body.get(), &facts);
                body.handed_over();
                self.settled();
                self.leave(target, Seen::Answer);
            }
            Ok(outcome) => {
                body.discard();
                self.settle_other(target, outcome, status, 1);
                self.leave(target, Seen::Answer);
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
    pub(super) fn settle_other(&self, target: &Target, outcome: Outcome, status: u16, made: u32) {
        self.delta.borrow_mut().count(outcome, 0);
        let attempts = target.attempts + made;
        if self.has_rows() {
            self.push_row(target, outcome, attempts);
        } else {
            let described = target.described(self.setup.naming, outcome);
            self.block.borrow_mut().push_other(target.sequence, outcome, status, attempts, &described);
        }
        let mut report = self.report.borrow_mut();
        report.settled += 1;
        // A complete reply of whatever status is a sign of life; a name without a request is none.
        report.observed.successes += u32::from(status != 0 && !is_trouble(outcome));
        self.finished.set(self.finished.get() + 1);
    }

    /// No complete reply.
    fn broken(&self, target: &mut Target, broken: Broken, was_used: bool, forgiven_max: u32) -> Attempt {
        if self.is_done.get() {
            // Dropped while the job ends: the target stays pending.
            return Attempt::Over;
        }
        if was_used && broken.is_unanswered && target.forgiven < forgiven_max {
            target.forgiven += 1;
            return Attempt::Again;
        }
        if was_used && matches!(broken.kind, FailureKind::Framing | FailureKind::NotHttp) {
            // What was read may have belonged to the reply before; on a fresh connection it is certain.
            return Attempt::Again;
        }
        self.failed(target, broken.kind, None)
    }

    /// An attempt failed: it waits for another one, or that is its outcome.
    pub(super) fn failed(
        &self,
        target: &mut Target,
        kind: FailureKind,
        replied: Option<&Replied>,
    ) -> Attempt {
        if self.is_done.get() && replied.is_none() {
            return Attempt::Over;
        }
        let now = self.clock.get();
        let retry_after = replied
            .and_then(|replied| replied.head.retry_after)
            .map(|retry_after| retry_after.wait(now / 1000).saturating_mul(1000));
        self.observe(kind, retry_after);
        self.decide(target, kind, replied, retry_after);
        // From now on, exactly: the worker's clock is behind by up to a tick, and the host would be asked too early.
        let until = retry_after
            .map(|wait| self.control().clock.now() + wait.min(limits::RETRY_AFTER_MAX.as_millis() as Millis));
        self.leave(target, hosts::seen(kind, until));
        Attempt::Over
    }

    fn decide(
        &self,
        target: &mut Target,
        kind: FailureKind,
        replied: Option<&Replied>,
        retry_after: Option<Millis>,
    ) {
        let now = self.clock.get();
        // To a check a refusal is an answer: every attempt counts, as if it had been patient for long.
        let throttled_since = if self.has_rows() { 1 } else { target.throttled_since };
        let verdict = after_failure(kind, target.attempts, throttled_since, self.setup.attempts_max, now);
        let (attempts, throttled_since) = match verdict {
            // In a check it tells which look this is.
            Verdict::Again { attempts, .. } if self.has_rows() => (attempts, target.throttled_since),
            Verdict::Again { attempts, throttled_since } => (attempts, throttled_since),
            Verdict::Final if self.wants_second_look(target, kind) => {
                return self.look_again_later(target, target.attempts + 1, kind);
            }
            Verdict::Final => {
                let status = replied.map_or(0, |replied| replied.head.status);
                return self.settle_other(target, Outcome::Failed(kind), status, 1);
            }
        };
        self.report.borrow_mut().retries.push(Retry {
            target: Waiting {
                sequence: target.sequence,
                name: target.entry.as_slice().into(),
                attempts,
                kind,
                not_before: 0,
                throttled_since,
            },
            retry_after,
            not_before: None,
        });
    }

    /// Puts a target aside for its second look.
    pub(super) fn look_again_later(&self, target: &Target, attempts: u32, kind: FailureKind) {
        let later = self.clock.get() + limits::SECOND_LOOK_AFTER.as_millis() as Millis;
        let waiting = Waiting {
            sequence: target.sequence,
            name: target.entry.as_slice().into(),
            attempts,
            kind,
            not_before: 0,
            throttled_since: later,
        };
        self.report.borrow_mut().retries.push(Retry {
            target: waiting,
            retry_after: None,
            not_before: Some(later),
        });
    }

    /// Whether a target that seems dead is tried once more, later.
    pub(super) fn wants_second_look(&self, target: &Target, kind: FailureKind) -> bool {
        self.setup.has_second_look && !self.is_second_look(target) && hosts::may_be_dead(kind)
    }

    /// Whether this is the one more attempt at what seemed dead.
    pub(super) fn is_second_look(&self, target: &Target) -> bool {
        self.setup.has_second_look && target.throttled_since > 0
    }

    /// A redirect leads on, perhaps to another host: whether the target goes there at once.
    fn moves_on(&self, target: &mut Target) -> bool {
        if !target.is_admitted {
            return true;
        }
        self.leave(target, Seen::Answer);
        self.admit(target)
    }

    fn observe(&self, kind: FailureKind, retry_after: Option<Millis>) {
        if self.has_rows() || self.control().has_many_origins() {
            return;
        }
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
