//! Carries out what follows from an attempt ([`fetchmill_model::verdict`]): gives the reply, waits, corrects. A program gets every
//! reply, whatever its status, once nothing more is to be tried.

use std::time::Duration;

use super::batch::RequestTimes;
use super::fetcher::FetchThread;
use super::queue::TaskRequest;
use super::reply_buffer::ReplyBuffer;
use super::uncertain::{AttemptTimes, ExchangeReply};
use crate::access::renewal::Renewal;
use crate::fetch::redirect::{follow, reach_behind};
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::planner::retry::delay;
use fetchmill_model::s3::{BucketName, is_damaged, split_url};
use fetchmill_model::verdict::{
    BrokenFacts, Correction, ERROR_BYTES_MAX, ReplyFacts, Rules, StoreReply, Verdict, field_in,
};
use fetchmill_net::{BrokenExchange, is_verified};

/// What came of an attempt.
pub(super) enum StreamAttempt {
    /// It is answered or waits: on to the next.
    Over,
    /// It is to be made again at once, on a fresh connection, and does not count.
    Again,
    /// The same, with newer credentials, which are waited for.
    Renewing,
    /// It goes on somewhere else.
    Redirected,
}

impl FetchThread {
    fn rules(&self, ticket: &TaskRequest) -> Rules {
        Rules {
            attempts_max: self.options.http.attempts,
            may_repeat: ticket.is_idempotent(),
            redirects_max: self.options.redirects(),
            allow_eof_bodies: self.options.http.allow_eof_bodies,
            gives_every_reply: true,
            // It gives others what they ask for, and this one when its turn comes.
            is_patient: self.throttling.is_throttled(&ticket.url, self.clock.get()),
            ..Rules::default()
        }
    }

    /// A complete reply, when it is certain whose it is.
    pub(super) fn settle(
        &self,
        ticket: &mut TaskRequest,
        incoming: &mut ReplyBuffer,
        exchanged: &ExchangeReply,
        course: &AttemptTimes,
    ) -> StreamAttempt {
        let head = &exchanged.replied.head;
        let facts = ReplyFacts {
            status: head.status,
            is_verified: is_verified(head),
            length: incoming.body.len() as u64,
            store: ticket.store_url.as_ref().filter(|_| head.status >= 300).map(|_| StoreReply {
                start: &incoming.body[..incoming.body.len().min(ERROR_BYTES_MAX)],
                region: field_in(&incoming.head, b"x-amz-bucket-region:"),
                date: field_in(&incoming.head, b"date:"),
                signed_for: None,
            }),
            ..ReplyFacts::default()
        };
        match ticket.state.after_reply(&facts, &self.rules(ticket), self.clock.get()) {
            Verdict::Store if self.is_damaged(ticket, incoming, head.status) => {
                let failure = (FailureKind::Checksum, "the body is not what the store's checksum says");
                return self.failed(ticket, failure, course);
            }
            Verdict::Retry(kind) => {
                let asked =
                    head.retry_after.map(|after| after.wait(self.clock.get() / 1000).saturating_mul(1000));
                return self.wait_for(ticket, kind, asked);
            }
            Verdict::Again => return StreamAttempt::Again,
            Verdict::Redirect => {
                return match self.redirect(ticket, incoming, exchanged) {
                    Ok(()) => StreamAttempt::Redirected,
                    Err(kind) => self.fail(ticket, (kind, "the redirect is not followed"), course),
                };
            }
            Verdict::Correct(correction) => {
                if let Some(attempt) = self.correct(ticket, correction) {
                    return attempt;
                }
            }
            Verdict::Settle(Outcome::Failed(kind @ FailureKind::UnverifiedLength), _) => {
                let failure = (kind, "whether the body is whole cannot be known");
                return self.fail(ticket, failure, course);
            }
            Verdict::Store | Verdict::Settle(..) | Verdict::SecondLook(_) | Verdict::Stop(_) => {}
        }
        self.give(ticket, incoming, exchanged, course);
        StreamAttempt::Over
    }

    /// Whether the body is not what the store has said of it.
    fn is_damaged(&self, ticket: &TaskRequest, incoming: &ReplyBuffer, status: u16) -> bool {
        let is_object = ticket.store_url.is_some() && status == 200 && ticket.method() == "GET";
        is_object && self.store.options.checksums && is_damaged(&incoming.head, &incoming.body)
    }

    /// The reply is the program's.
    fn give(
        &self,
        ticket: &TaskRequest,
        incoming: &mut ReplyBuffer,
        exchanged: &ExchangeReply,
        course: &AttemptTimes,
    ) {
        let times = self.times(ticket, course, exchanged.first_byte);
        let url = (!ticket.visited.is_empty()).then(|| ticket.url.as_str().into());
        if let Some(collector) = &ticket.collector {
            let (slot, status) = (ticket.slot, exchanged.replied.head.status);
            self.replied_in(collector, |replies| {
                let head = (incoming.head.as_slice(), incoming.kept);
                replies.push_reply((slot, status), head, &mut incoming.body, url, times);
            });
        }
    }

    /// No complete reply.
    pub(super) fn broken(
        &self,
        ticket: &mut TaskRequest,
        broken: BrokenExchange,
        (was_used, is_shared): (bool, bool),
        course: &AttemptTimes,
    ) -> StreamAttempt {
        if ticket.is_dropped() {
            return StreamAttempt::Over;
        }
        let BrokenExchange { kind, reason, is_unanswered } = broken;
        let facts = BrokenFacts { kind, was_used, is_unanswered, is_shared };
        match ticket.state.after_broken(facts, &self.rules(ticket), self.clock.get()) {
            Verdict::Again => StreamAttempt::Again,
            Verdict::Retry(kind) => self.wait_for(ticket, kind, None),
            _ => self.fail(ticket, (kind, reason), course),
        }
    }

    /// An attempt failed: it waits for another one, or that is its answer.
    pub(super) fn failed(
        &self,
        ticket: &mut TaskRequest,
        failure: (FailureKind, &'static str),
        course: &AttemptTimes,
    ) -> StreamAttempt {
        match ticket.state.after_failure(failure.0, &self.rules(ticket), self.clock.get()) {
            Verdict::Retry(kind) => self.wait_for(ticket, kind, None),
            _ => self.fail(ticket, failure, course),
        }
    }

    fn wait_for(&self, ticket: &mut TaskRequest, kind: FailureKind, asked: Option<Millis>) -> StreamAttempt {
        let is_refused =
            kind == FailureKind::Throttled && self.throttling.is_throttled(&ticket.url, self.clock.get());
        // All that a stream has in memory would wait for as long as the origin asks, which gives others what they want.
        let (attempts, asked) = if is_refused { (0, None) } else { (ticket.state.attempts, asked) };
        let wait = delay(kind, attempts, asked, self.jitter.borrow_mut().draw());
        self.wait(std::mem::take(ticket), wait);
        StreamAttempt::Over
    }

    /// There will be no reply.
    pub(super) fn fail(
        &self,
        ticket: &TaskRequest,
        failure: (FailureKind, &'static str),
        course: &AttemptTimes,
    ) -> StreamAttempt {
        let times = self.times(ticket, course, None);
        if let Some(collector) = &ticket.collector {
            self.replied_in(collector, |replies| replies.push_failure(ticket.slot, failure, times));
        }
        StreamAttempt::Over
    }

    /// Takes note of what a store has shown to be wrong; none when there is nothing to do about it.
    fn correct(&self, ticket: &mut TaskRequest, correction: Correction) -> Option<StreamAttempt> {
        let (url, generation) = ticket.store_url.as_ref()?;
        let bucket = split_url(url).and_then(|(bucket, _)| BucketName::parse(bucket).ok());
        let next = match self.store.correct(bucket.as_ref(), correction, *generation) {
            Renewal::Newer => StreamAttempt::Redirected,
            Renewal::Pending => StreamAttempt::Renewing,
            Renewal::Failed(_) => return None,
        };
        // Where its bucket is may have changed.
        ticket.url.clone_from(url);
        ticket.is_located = false;
        Some(next)
    }

    /// Waits until it is known whether there are newer credentials. If not, the reply to the next attempt tells it.
    pub(super) async fn renewed(&self, ticket: &TaskRequest) {
        while let Some((_, generation)) = &ticket.store_url
            && !ticket.is_dropped()
            && self.store.renew(*generation) == Renewal::Pending
        {
            tokio::time::sleep(Duration::from_millis(limits::RENEWAL_WAIT)).await;
        }
    }

    fn redirect(
        &self,
        ticket: &mut TaskRequest,
        incoming: &ReplyBuffer,
        exchanged: &ExchangeReply,
    ) -> Result<(), FailureKind> {
        if !ticket.is_located {
            // A plain URL is in its normal form.
            ticket.is_located = true;
        }
        let from = OriginKey::of_url(&ticket.url).map(|(key, _)| key);
        let host = from.as_ref().map_or("", OriginKey::host);
        ticket.reach = reach_behind(ticket.reach, host, exchanged.address);
        follow(&mut ticket.url, &mut ticket.visited, incoming.location(), self.options.redirects())?;
        let leads_away = from != OriginKey::of_url(&ticket.url).map(|(key, _)| key);
        ticket.effects.note(ticket.call.as_deref(), exchanged.replied.head.status, leads_away);
        Ok(())
    }

    fn times(&self, ticket: &TaskRequest, course: &AttemptTimes, first_byte: Option<u64>) -> RequestTimes {
        let now = course.ended.unwrap_or_else(|| self.exact.micros());
        RequestTimes {
            queue: course.started.saturating_sub(ticket.submitted),
            connect: course.connect,
            first_byte: first_byte.unwrap_or(now).saturating_sub(course.started),
            total: now.saturating_sub(ticket.submitted),
        }
    }
}
