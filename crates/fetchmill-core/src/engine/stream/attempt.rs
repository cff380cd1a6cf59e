//! The life of one task: take a request, exchange, answer; and what follows from each failure.

use std::rc::Rc;
use std::time::Duration;

use super::super::pacing::keep_pace;
use super::super::redirect::{follow, is_redirect, reach_behind};
use super::batch::Times;
use super::exchange::{Exchanged, change_method};
use super::fetcher::{Fetching, Place};
use super::incoming::Incoming;
use super::queue::Ticket;
use crate::limits;
use crate::origin::OriginKey;
use crate::outcome::FailureKind;
use crate::planner::origin::Millis;
use crate::planner::retry::delay;
use crate::source::list::{is_plain_at, normalise};
use crate::transport::{Broken, ConnectFailure, Lane, Origin, Unused, Watch, is_verified};

/// A connection of a server that has sent a reply which nobody asked for is listened to for so long before a reply on it
/// is believed.
const LISTEN: Duration = Duration::from_millis(50);

/// What came of an attempt.
pub(super) enum Attempt {
    /// It is answered or waits: on to the next.
    Over,
    /// It is to be made again at once, on a fresh connection, and does not count.
    Again,
    /// It goes on somewhere else.
    Redirected,
}

/// When an attempt was where, in microseconds of the thread's clock.
#[derive(Default)]
struct Course {
    started: u64,
    connect: u64,
}

impl Fetching {
    /// Until the thread ends.
    pub(super) async fn serve(self: &Rc<Self>, place: &Rc<Place>) {
        let mut lane = Lane::default();
        let mut ticket = Ticket::default();
        let mut incoming = Incoming::default();
        loop {
            if !self.take(place, &mut ticket) {
                ticket = Ticket::default();
                self.park(&mut lane, place).await;
                continue;
            }
            self.begin();
            loop {
                let attempt = self.attempt(&mut lane, &mut ticket, &mut incoming, &place.watch).await;
                self.release(&mut incoming);
                match attempt {
                    Attempt::Over => break,
                    Attempt::Again => lane.close(),
                    Attempt::Redirected => {}
                }
            }
            self.end(place);
        }
    }

    /// Without a request: the connection is kept for a while.
    async fn park(&self, lane: &mut Lane, place: &Place) {
        if lane.is_open() {
            place.watch.only(limits::KEEP_ALIVE_IDLE);
        } else {
            place.watch.rest();
        }
        self.parking.park(lane, &place.watch).await;
        if place.watch.has_expired() || lane.look() != Unused::Quiet {
            lane.close();
        }
    }

    async fn attempt(
        &self,
        lane: &mut Lane,
        ticket: &mut Ticket,
        incoming: &mut Incoming,
        watch: &Rc<Watch>,
    ) -> Attempt {
        incoming.clear();
        if ticket.is_dropped() {
            return Attempt::Over;
        }
        let mut course = Course { started: self.exact.micros(), connect: 0 };
        let origin = match self.locate(ticket) {
            Ok(origin) => origin,
            Err(FailureKind::Credentials) => {
                let failure =
                    (FailureKind::Credentials, "there are no credentials for the store: see profile=");
                return self.fail(ticket, failure, &course);
            }
            Err(kind) => {
                return self.fail(ticket, (kind, "it is no http or https URL, nor one of s3"), &course);
            }
        };
        if origin.pace.is_some() || self.pace.is_some() {
            let paces = self.pace.iter().chain(origin.pace.as_deref());
            keep_pace(paces, || self.exact.micros(), watch).await;
            if ticket.is_dropped() {
                return Attempt::Over;
            }
            course.started = self.exact.micros();
        }
        if !lane.is_at(&origin) {
            self.pool.switch(lane, &origin);
        }
        if !lane.may_be_reused(ticket.reach) {
            lane.close();
        }
        if !lane.is_open() {
            if let Err(kind) = self.open(lane, ticket, watch).await {
                return self.failed(ticket, (kind, "there is no connection"), &course);
            }
            course.connect = self.exact.micros() - course.started;
        }
        match self.exchange(lane, &origin, ticket, incoming, watch).await {
            Ok(exchanged) => self.replied(lane, &origin, ticket, incoming, watch, &exchanged, &course).await,
            Err(broken) => {
                let was_used = lane.replies() > 0;
                let forgiven_max = if lane.is_shared() { limits::FORGIVEN_SHARED_MAX } else { 1 };
                lane.abandon();
                self.broken(ticket, broken, (was_used, forgiven_max), &course)
            }
        }
    }

    /// The origin of a request; that of the last one, usually.
    fn locate(&self, ticket: &mut Ticket) -> Result<Rc<Origin>, FailureKind> {
        let mut last = self.last_origin.borrow_mut();
        if let Some(last) = &*last
            && (is_plain_at(&ticket.url, last.key.text())
                || (ticket.is_located && last.key.path_of(&ticket.url).is_some()))
        {
            return Ok(Rc::clone(last));
        }
        if !ticket.is_located {
            ticket.url = normalise(&ticket.url).map_err(|_| FailureKind::Url)?.into_owned();
            ticket.is_located = true;
            if ticket.url.starts_with("s3:") {
                let url = self.buckets.http_url(&ticket.url)?;
                ticket.store_url = Some((std::mem::replace(&mut ticket.url, url), self.store.generation()));
            }
        }
        let (key, _) = OriginKey::of_url(&ticket.url).ok_or(FailureKind::Url)?;
        let origin = self.pool.origin(&key).map_err(|_| FailureKind::Url)?;
        *last = Some(Rc::clone(&origin));
        Ok(origin)
    }

    async fn open(&self, lane: &mut Lane, ticket: &Ticket, watch: &Watch) -> Result<(), FailureKind> {
        for _ in 0..limits::STREAM_EXHAUSTED_TRIES_MAX {
            match self.pool.open(lane, watch, ticket.reach).await {
                Ok(()) => return Ok(()),
                Err(ConnectFailure::Failed(kind)) => return Err(kind),
                // Out of descriptors or ports: the request is not to blame.
                Err(ConnectFailure::Exhausted(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
            if ticket.is_dropped() {
                break;
            }
        }
        Err(FailureKind::Unreachable)
    }

    /// A complete reply: whose it is must be certain before it is given.
    #[expect(clippy::too_many_arguments, reason = "the parts of one task")]
    async fn replied(
        &self,
        lane: &mut Lane,
        origin: &Origin,
        ticket: &mut Ticket,
        incoming: &mut Incoming,
        watch: &Rc<Watch>,
        exchanged: &Exchanged,
        course: &Course,
    ) -> Attempt {
        let replied = &exchanged.replied;
        if lane.is_shared() {
            return self.settle(ticket, incoming, exchanged, course);
        }
        let is_first = lane.replies() == 1;
        let mut unused = replied.surplus;
        if unused == Unused::Quiet {
            unused = lane.look();
        }
        if unused == Unused::Quiet && replied.head.keep_alive && origin.is_suspicious.get() {
            watch.only(LISTEN);
            lane.listen(watch).await;
            unused = lane.look();
        }
        if unused == Unused::SecondReply {
            origin.is_suspicious.set(true);
        }
        if matches!(unused, Unused::Unsolicited | Unused::SecondReply) && !is_first {
            if ticket.is_idempotent() {
                return Attempt::Again;
            }
            lane.close();
            let failure =
                (FailureKind::Framing, "bytes came that nobody asked for: whose reply it is cannot be known");
            return self.fail(ticket, failure, course);
        }
        if unused != Unused::Quiet || !replied.head.keep_alive {
            lane.close();
        }
        self.settle(ticket, incoming, exchanged, course)
    }

    fn settle(
        &self,
        ticket: &mut Ticket,
        incoming: &mut Incoming,
        exchanged: &Exchanged,
        course: &Course,
    ) -> Attempt {
        let head = &exchanged.replied.head;
        if let Some(attempt) = self.judge(ticket, incoming, head.status) {
            return attempt;
        }
        if is_redirect(head.status) && self.options.redirects > 0 {
            return match self.redirect(ticket, incoming, exchanged) {
                Ok(()) => Attempt::Redirected,
                Err(kind) => self.fail(ticket, (kind, "the redirect is not followed"), course),
            };
        }
        if !is_verified(head) && !self.options.allow_eof_bodies {
            let failure = (FailureKind::UnverifiedLength, "whether the body is whole cannot be known");
            return self.fail(ticket, failure, course);
        }
        if let Err(kind) = FailureKind::of_status(head.status)
            && kind.is_retryable()
            && self.may_try_again(ticket)
        {
            let asked =
                head.retry_after.map(|after| after.wait(self.clock.get() / 1000).saturating_mul(1000));
            return self.wait_for(ticket, kind, asked);
        }
        let times = self.times(ticket, course, exchanged.first_byte);
        let url = (!ticket.visited.is_empty()).then(|| ticket.url.as_str().into());
        if let Some(outlet) = &ticket.outlet {
            let (slot, status) = (ticket.slot, head.status);
            self.replied_in(outlet, |replies| {
                let head = (incoming.head.as_slice(), incoming.kept);
                replies.push_reply((slot, status), head, &mut incoming.body, url, times);
            });
        }
        Attempt::Over
    }

    fn redirect(
        &self,
        ticket: &mut Ticket,
        incoming: &Incoming,
        exchanged: &Exchanged,
    ) -> Result<(), FailureKind> {
        if !ticket.is_located {
            // A plain URL is in its normal form.
            ticket.is_located = true;
        }
        let from = OriginKey::of_url(&ticket.url).map(|(key, _)| key);
        let host = from.as_ref().map_or("", OriginKey::host);
        ticket.reach = reach_behind(ticket.reach, host, exchanged.address);
        follow(&mut ticket.url, &mut ticket.visited, incoming.location(), self.options.redirects)?;
        ticket.is_away |= from != OriginKey::of_url(&ticket.url).map(|(key, _)| key);
        change_method(ticket, exchanged.replied.head.status);
        Ok(())
    }

    /// No complete reply.
    fn broken(
        &self,
        ticket: &mut Ticket,
        broken: Broken,
        (was_used, forgiven_max): (bool, u32),
        course: &Course,
    ) -> Attempt {
        if ticket.is_dropped() {
            return Attempt::Over;
        }
        if was_used && ticket.is_idempotent() {
            if broken.is_unanswered && ticket.forgiven < forgiven_max {
                ticket.forgiven += 1;
                return Attempt::Again;
            }
            if matches!(broken.kind, FailureKind::Framing | FailureKind::NotHttp) {
                // What was read may have belonged to the reply before; on a fresh connection it is certain.
                return Attempt::Again;
            }
        }
        self.failed(ticket, (broken.kind, broken.reason), course)
    }

    /// An attempt failed: it waits for another one, or that is its answer.
    fn failed(&self, ticket: &mut Ticket, failure: (FailureKind, &'static str), course: &Course) -> Attempt {
        if failure.0.is_retryable() && self.may_try_again(ticket) {
            return self.wait_for(ticket, failure.0, None);
        }
        self.fail(ticket, failure, course)
    }

    fn may_try_again(&self, ticket: &Ticket) -> bool {
        ticket.is_idempotent() && ticket.attempts + 1 < self.options.attempts
    }

    pub(super) fn wait_for(&self, ticket: &mut Ticket, kind: FailureKind, asked: Option<Millis>) -> Attempt {
        ticket.attempts += 1;
        let wait = delay(kind, ticket.attempts, asked, self.jitter.borrow_mut().draw());
        self.wait(std::mem::take(ticket), wait);
        Attempt::Over
    }

    /// There will be no reply.
    fn fail(&self, ticket: &Ticket, failure: (FailureKind, &'static str), course: &Course) -> Attempt {
        let times = self.times(ticket, course, None);
        if let Some(outlet) = &ticket.outlet {
            self.replied_in(outlet, |replies| replies.push_failure(ticket.slot, failure, times));
        }
        Attempt::Over
    }

    fn times(&self, ticket: &Ticket, course: &Course, first_byte: Option<u64>) -> Times {
        let now = self.exact.micros();
        Times {
            queue: course.started.saturating_sub(ticket.submitted),
            connect: course.connect,
            first_byte: first_byte.unwrap_or(now).saturating_sub(course.started),
            total: now.saturating_sub(ticket.submitted),
        }
    }
}
