//! Carries out the verdict on an attempt ([`fetchmill_model::verdict`]): delivers the reply, waits, or corrects a
//! setting. If no further attempt is planned, the program gets the reply, whatever its status.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use super::batch::{NoReply, RequestTimes};
use super::fetcher::FetchThread;
use super::queue::TaskRequest;
use super::reply_buffer::{ReplyBuffer, StreamBody};
use crate::access::renewal::Renewal;
use crate::attempt::{AttemptEnd, Failure, RedirectHead, RedirectPolicy, RedirectRefusal};
use fetchmill_model::http1::{Framing, Head};
use fetchmill_model::limits;
use fetchmill_model::opt_out::OptOut;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::planner::retry::delay;
use fetchmill_model::s3::{BucketName, is_damaged, split_url};
use fetchmill_model::verdict::failure_detail::failure_detail;
use fetchmill_model::verdict::{
    BrokenFacts, Correction, ERROR_BYTES_MAX, ReplyFacts, Rules, StoreReply, Verdict, field_in,
};
use fetchmill_net::{ReceivedReply, is_verified};

impl FetchThread {
    pub(super) fn rules(&self, request: &TaskRequest) -> Rules {
        Rules {
            attempts_max: self.options.http.attempts,
            may_repeat: request.is_idempotent(),
            redirects_max: self.options.redirects(),
            allow_eof_bodies: self.options.http.allow_eof_bodies,
            gives_every_reply: true,
            retried: self.options.http.retry_status,
            accepted: self.options.http.accept,
            // The origin accepts other requests, and will accept this one sooner or later.
            is_patient: self.throttling.is_throttled(&request.at.url, self.clock.get()),
            ..Rules::default()
        }
    }

    /// Handles a complete, certain reply.
    pub(super) fn settle(
        &self,
        request: &mut TaskRequest,
        body: &mut StreamBody,
        replied: &ReceivedReply,
        address: Option<SocketAddr>,
    ) -> AttemptEnd {
        let (head, is_no_rest) = (&replied.head, body.is_no_rest());
        let incoming = &mut body.inner;
        let facts = ReplyFacts {
            status: head.status,
            asks_to_wait: head.retry_after.is_some(),
            is_verified: is_verified(head),
            length: incoming.body.len() as u64,
            store: request.store_url.as_ref().filter(|_| head.status >= 300).map(|_| StoreReply {
                start: &incoming.body[..incoming.body.len().min(ERROR_BYTES_MAX)],
                region: field_in(&incoming.head, b"x-amz-bucket-region:"),
                date: field_in(&incoming.head, b"date:"),
                signed_for: None,
                asks_to_wait: head.retry_after.is_some(),
            }),
            is_no_rest,
            ..ReplyFacts::default()
        };
        match request.state.after_reply(&facts, &self.rules(request), self.clock.get()) {
            Verdict::Store if self.is_damaged(request, incoming, head.status) => {
                let reason = "the body does not match the store's checksum";
                return self.failed(request, Failure::new(FailureKind::Checksum, reason));
            }
            Verdict::Retry(kind) => {
                let asked =
                    head.retry_after.map(|after| after.wait(self.clock.get() / 1000).saturating_mul(1000));
                return self.wait_for(request, kind, asked);
            }
            Verdict::Again => return AttemptEnd::Again,
            Verdict::Redirect => {
                return match self.redirect(request, incoming, head.status, address) {
                    Ok(()) => AttemptEnd::Redirected,
                    Err((kind, why)) => self.fail(request, Failure::new(kind, why)),
                };
            }
            Verdict::Correct(correction) => {
                if let Some(attempt) = self.correct(request, correction) {
                    return attempt;
                }
            }
            Verdict::Settle(Outcome::Failed(kind @ FailureKind::UnverifiedLength), _) => {
                let reason = "the body might be incomplete: its length cannot be verified";
                return self.fail(request, Failure::new(kind, reason));
            }
            Verdict::Settle(Outcome::Failed(kind), why) if is_no_rest => {
                return self.fail(request, Failure::new(kind, why.map_or_else(String::new, String::from)));
            }
            Verdict::Store | Verdict::Settle(..) | Verdict::SecondLook(_) | Verdict::Stop(_) => {}
        }
        if let Err(failure) = self.decode(incoming, head) {
            return self.failed(request, failure);
        }
        if let Some(refusal) = self.refused_type(request, incoming, head.status) {
            return self.failed(request, Failure::new(FailureKind::UnexpectedType, refusal));
        }
        match self.opt_out(incoming, head.status) {
            Some(found) => self.give_none(request, NoReply::OptedOut, found.evidence.into()),
            None => self.give(request, incoming, head.status),
        }
        AttemptEnd::Over
    }

    /// Returns the field or element in a successful reply that opts out. Requires a decoded body.
    fn opt_out(&self, incoming: &ReplyBuffer, status: u16) -> Option<OptOut> {
        let is_read = self.options.http.opt_out && (200..300).contains(&status);
        is_read.then(|| OptOut::of_reply(&incoming.head, &incoming.body)).flatten()
    }

    /// Decodes the body if it is encoded, up to the maximum decoded size.
    fn decode(&self, incoming: &mut ReplyBuffer, head: &Head) -> Result<(), Failure> {
        if self.options.http.compressed && head.framing != Framing::None {
            incoming.decode(self.options.http.max_size)
        } else {
            Ok(())
        }
    }

    /// If a successful reply has a type that is not accepted, describes the actual type and the accepted types.
    fn refused_type(&self, request: &TaskRequest, incoming: &ReplyBuffer, status: u16) -> Option<String> {
        let is_object = (200..300).contains(&status) && request.method() != "HEAD";
        if is_object { self.options.http.accept.refusal(&incoming.body) } else { None }
    }

    /// Returns whether the body does not match the store's checksum.
    fn is_damaged(&self, request: &TaskRequest, incoming: &ReplyBuffer, status: u16) -> bool {
        let is_object = request.store_url.is_some() && status == 200 && request.method() == "GET";
        is_object && self.store.options.checksums && is_damaged(&incoming.head, &incoming.body)
    }

    /// Delivers the reply to the program.
    fn give(&self, request: &TaskRequest, incoming: &mut ReplyBuffer, status: u16) {
        let times = self.times(request);
        let url = request.at.is_redirected().then(|| request.at.url.as_str().into());
        if let Some(collector) = &request.collector {
            let slot = request.slot;
            self.replied_in(collector, |replies| {
                let head = (incoming.head.as_slice(), incoming.kept);
                replies.push_reply((slot, status), head, &mut incoming.body, url, times);
            });
        }
    }

    /// Handles an attempt that ended without a complete reply.
    pub(super) fn broken(
        &self,
        request: &mut TaskRequest,
        failure: Failure,
        broken: BrokenFacts,
    ) -> AttemptEnd {
        match request.state.after_broken(broken, &self.rules(request), self.clock.get()) {
            Verdict::Again => AttemptEnd::Again,
            Verdict::Retry(kind) => self.wait_for(request, kind, None),
            _ => self.fail(request, failure),
        }
    }

    /// Handles a failed attempt. The request either waits for a retry or fails.
    pub(super) fn failed(&self, request: &mut TaskRequest, failure: Failure) -> AttemptEnd {
        match request.state.after_failure(failure.kind, &self.rules(request), self.clock.get()) {
            Verdict::Retry(kind) => self.wait_for(request, kind, None),
            _ => self.fail(request, failure),
        }
    }

    fn wait_for(&self, request: &mut TaskRequest, kind: FailureKind, asked: Option<Millis>) -> AttemptEnd {
        let is_refused =
            kind == FailureKind::Throttled && self.throttling.is_throttled(&request.at.url, self.clock.get());
        // The requested delay is ignored. Obeying it would keep all replies of the stream in memory during that time,
        // although the origin accepts other requests.
        let (attempts, asked) = if is_refused { (0, None) } else { (request.state.attempts, asked) };
        let wait = delay(kind, attempts, asked, self.jitter.borrow_mut().draw());
        self.wait(std::mem::take(request), wait);
        AttemptEnd::Over
    }

    /// Ends a request without a reply.
    pub(super) fn fail(&self, request: &TaskRequest, failure: Failure) -> AttemptEnd {
        let Failure { kind, reason } = failure;
        self.give_none(request, NoReply::Failed(kind), failure_detail(kind, 0, Some(&reason)).into());
        AttemptEnd::Over
    }

    fn give_none(&self, request: &TaskRequest, why: NoReply, reason: Cow<'static, str>) {
        let times = self.times(request);
        if let Some(collector) = &request.collector {
            self.replied_in(collector, |replies| replies.push_failure(request.slot, (why, reason), times));
        }
    }

    /// Corrects a setting that the store rejected. Returns `None` if this is impossible.
    fn correct(&self, request: &mut TaskRequest, correction: Correction) -> Option<AttemptEnd> {
        let (url, generation) = request.store_url.as_ref()?;
        let bucket = split_url(url).and_then(|(bucket, _)| BucketName::parse(bucket).ok());
        let next = match self.store.correct(bucket.as_ref(), correction, *generation) {
            Renewal::Newer => AttemptEnd::Redirected,
            Renewal::Pending => AttemptEnd::Renewing,
            Renewal::Failed(_) => return None,
        };
        // The address of the bucket might have changed.
        request.at.url.clone_from(url);
        request.is_located = false;
        Some(next)
    }

    /// Waits until newer credentials are available or turn out to be unavailable. If they are unavailable, the reply to
    /// the next attempt shows the problem.
    pub(super) async fn renewed(&self, request: &TaskRequest) {
        while let Some((_, generation)) = &request.store_url
            && !request.is_dropped()
            && self.store.renew(*generation) == Renewal::Pending
        {
            tokio::time::sleep(Duration::from_millis(limits::RENEWAL_WAIT)).await;
        }
    }

    fn redirect(
        &self,
        request: &mut TaskRequest,
        incoming: &ReplyBuffer,
        status: u16,
        address: Option<SocketAddr>,
    ) -> Result<(), RedirectRefusal> {
        // An ordinary URL is already normalised.
        request.is_located = true;
        let policy = RedirectPolicy { hops_max: self.options.redirects(), may_leave_origin: true };
        let redirect =
            RedirectHead { location: incoming.location(), head: &incoming.head, now: self.clock.get() };
        let leads_away = request.at.follow(address, &redirect, policy)?;
        request.effects.note(request.call.as_deref(), status, leads_away);
        Ok(())
    }

    fn times(&self, request: &TaskRequest) -> RequestTimes {
        let attempt = &request.attempt;
        let now = attempt.ended.unwrap_or_else(|| self.exact.micros());
        RequestTimes {
            queue: attempt.started.saturating_sub(request.submitted),
            connect: attempt.connect,
            first_byte: attempt.first_byte.unwrap_or(now).saturating_sub(attempt.started),
            total: now.saturating_sub(request.submitted),
        }
    }
}
