//! The state of a target across its attempts, and the rules for the next step.

use std::time::Duration;

use super::facts::{
    BreakOff, BrokenFacts, Correction, ReplyFacts, Rules, StoreReply, Verdict, is_redirect, is_unauthorized,
};
use super::store::{detail_of, no_credentials};
use crate::limits;
use crate::outcome::skips::SkipReason;
use crate::outcome::{FailureClass, FailureKind, Outcome};
use crate::planner::hosts::may_be_dead;
use crate::planner::origin::Millis;
use crate::s3::{ErrorDocument, StoreError};
use crate::target::source_metadata::{ListedKey, is_same_etag};
use crate::verdict::failure_detail::changed_detail;

/// Status of the reply to a conditional request if the object has not changed (RFC 9110, 15.4.5).
const NOT_MODIFIED: u16 = 304;

/// Amount of each budget that a target, page or upload has used. All fields except the first two are reset for each
/// planned attempt, because the journal stores only these two fields for a waiting target.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AttemptState {
    /// Number of counted attempts before this one.
    pub attempts: u32,
    /// Time of the first throttling reply, or 0 if there was none. In a check, this is the time at which the recheck
    /// was due.
    pub throttled_since: Millis,
    /// Number of failures that did not count as attempts, for example because the connection had been used before.
    pub forgiven: u32,
    /// Number of requests that were repeated with another region, clock or credentials.
    pub corrections: u32,
    /// Number of requests that were repeated because the store did not recognise the credentials.
    pub refusals: u32,
    /// Number of requests that were abandoned because other requests got their replies first
    /// ([`crate::reply::patience`]).
    pub abandoned: u32,
    /// Number of consecutive requests that received few or none of the object's missing bytes.
    pub in_vain: u32,
    /// Whether the body broke off and the missing bytes were requested.
    pub is_resumed: bool,
}

impl Verdict {
    fn failed(kind: FailureKind) -> Self {
        Verdict::Settle(Outcome::Failed(kind), None)
    }

    /// Adds the message of the store.
    #[must_use]
    pub fn with_detail(self, detail: Option<Box<str>>) -> Self {
        match self {
            Verdict::Settle(outcome, None) => Verdict::Settle(outcome, detail),
            other => other,
        }
    }
}

impl AttemptState {
    /// Decides the next step after a complete reply.
    pub fn after_reply(&mut self, reply: &ReplyFacts<'_>, rules: &Rules, now: Millis) -> Verdict {
        if reply.is_no_rest {
            return self.after_no_rest(reply, rules, now);
        }
        if let Some((kind, detail)) = reply.part.and_then(|part| part.trouble(reply.length)) {
            return self.after_failure(kind, rules, now).with_detail(Some(detail));
        }
        if reply.shows_token
            && is_unauthorized(reply.status)
            && let Some(verdict) = self.correct(Some(Correction::Credentials))
        {
            return verdict;
        }
        let is_success = (200..300).contains(&reply.status);
        if !is_success && let Some(store) = &reply.store {
            return self.after_store_error(store, reply, rules, now);
        }
        if is_success
            && let Some(listed) = &reply.listed
            && let Some(kind) = reply.trouble_with(listed)
        {
            // The size of a body in encoded form was not checked.
            let size = listed.size.filter(|_| !reply.is_encoded || reply.store.is_some());
            let compared = ListedKey { size, ..*listed };
            // Only stores return listed objects in an encoded form.
            let has_same_size = size.is_none_or(|size| size == reply.length);
            let etag = reply.etag.filter(|_| reply.store.is_some() || has_same_size);
            let changed = || changed_detail(&compared, reply.length, etag).into();
            let detail = (kind == FailureKind::Changed).then(changed);
            return self.after_failure(kind, rules, now).with_detail(detail);
        }
        self.after_status(reply, rules, now)
    }

    /// Decides the next step from the status and the length alone.
    fn after_status(&mut self, reply: &ReplyFacts<'_>, rules: &Rules, now: Millis) -> Verdict {
        if reply.status == NOT_MODIFIED && reply.is_conditional {
            // The client already has this object, so there is nothing to store.
            return Verdict::Settle(Outcome::Skipped(SkipReason::Unchanged), None);
        }
        if is_redirect(reply.status) && rules.redirects_max > 0 {
            return Verdict::Redirect;
        }
        let outcome = FailureKind::of_status(reply.status);
        let must_be_whole = rules.gives_every_reply || outcome == Ok(Outcome::Fetched);
        if must_be_whole && !reply.is_verified && !rules.allow_eof_bodies {
            return Verdict::failed(FailureKind::UnverifiedLength);
        }
        if rules.retried.throttles(reply.status, reply.asks_to_wait) && outcome != Err(FailureKind::Throttled)
        {
            return self.after_retried_status(reply, rules, now);
        }
        match outcome {
            Ok(Outcome::Fetched) if reply.length > rules.body_max => {
                Verdict::failed(FailureKind::BodyTooLarge)
            }
            Ok(Outcome::Fetched) => Verdict::Store,
            Ok(outcome) => Verdict::Settle(outcome, None),
            Err(kind) => self.after_failure(kind, rules, now),
        }
    }

    /// Decides the next step after a status that only this job treats as throttling. If no attempts are left, the reply
    /// has its usual meaning.
    fn after_retried_status(&mut self, reply: &ReplyFacts<'_>, rules: &Rules, now: Millis) -> Verdict {
        // A server could send such a reply without a time forever, so each attempt counts.
        let rules = Rules { is_patient: rules.is_patient && reply.asks_to_wait, ..*rules };
        match self.after_failure(FailureKind::Throttled, &rules, now) {
            Verdict::Settle(..) => {
                let outcome = FailureKind::of_status(reply.status);
                Verdict::Settle(outcome.unwrap_or_else(Outcome::Failed), None)
            }
            other => other,
        }
    }

    /// Decides the next step if there was no complete reply.
    pub fn after_broken(&mut self, broken: BrokenFacts, rules: &Rules, now: Millis) -> Verdict {
        if broken.needs_http1 && rules.may_repeat && self.forgiven < limits::FORGIVEN_SHARED_MAX {
            self.forgiven += 1;
            return Verdict::Again;
        }
        if broken.was_used && rules.may_repeat {
            let forgiven_max = if broken.is_shared { limits::FORGIVEN_SHARED_MAX } else { 1 };
            // The bad bytes may have belonged to the previous reply. A new connection rules this out.
            let is_uncertain = matches!(broken.kind, FailureKind::Framing | FailureKind::NotHttp);
            if (broken.is_unanswered && self.forgiven < forgiven_max)
                || (is_uncertain && self.forgiven < limits::FORGIVEN_SHARED_MAX)
            {
                self.forgiven += 1;
                return Verdict::Again;
            }
        }
        self.after_failure(broken.kind, rules, now)
    }

    /// Returns the immediate next step after a body broke off, if the missing bytes can be requested. `brought` is the
    /// number of bytes that the last request received. Returns `None` if the interruption is treated like any other
    /// failure.
    ///
    /// The kept bytes come from a connection that had no earlier replies, so the bytes certainly answer this request.
    pub fn after_break_off(&mut self, broken: BrokenFacts, brought: u64, rules: &Rules) -> Option<BreakOff> {
        let is_large = brought >= limits::RESUMED_BYTES_MIN;
        let may_go_on = rules.may_repeat && rules.attempts_max > 1 && (is_large || self.is_resumed);
        if broken.kind.class() != FailureClass::Transient || !may_go_on {
            return None;
        }
        if broken.was_used && !broken.is_shared {
            let is_forgiven = is_large && self.forgiven == 0;
            self.forgiven += u32::from(is_forgiven);
            return is_forgiven.then_some(BreakOff::Whole);
        }
        self.is_resumed = true;
        self.in_vain = if is_large { 0 } else { self.in_vain + 1 };
        (self.in_vain <= limits::RESUMED_IN_VAIN_MAX).then_some(BreakOff::Rest)
    }

    /// Returns how long to wait before the next request for the missing bytes of an object.
    pub fn resumed_wait(&self) -> Duration {
        self.in_vain.checked_sub(1).map_or(Duration::ZERO, |before| limits::RESUMED_WAIT * (1 << before))
    }

    /// Decides the next step after a reply that does not contain the requested remainder of a body. Nothing else is
    /// recorded, because only a reply to a request for the whole object counts.
    fn after_no_rest(&mut self, reply: &ReplyFacts<'_>, rules: &Rules, now: Millis) -> Verdict {
        let status = reply.status;
        let of_status =
            rules.retried.of_reply(status, reply.asks_to_wait).err().filter(|kind| kind.is_retryable());
        let detail =
            format!("the body broke off, and the request for the rest got a different reply ({status})");
        self.after_failure(of_status.unwrap_or(FailureKind::Truncated), rules, now)
            .with_detail(Some(detail.into()))
    }

    /// Decides the next step after a failure that is not forgiven.
    pub fn after_failure(&mut self, kind: FailureKind, rules: &Rules, now: Millis) -> Verdict {
        let counts = match kind.class() {
            FailureClass::Final => return self.end(kind, rules),
            FailureClass::Throttle if rules.is_patient => {
                if self.throttled_since == 0 {
                    self.throttled_since = now;
                }
                now.saturating_sub(self.throttled_since) > limits::THROTTLE_FREE.as_millis() as Millis
            }
            FailureClass::Throttle | FailureClass::Transient => true,
        };
        let attempts = self.attempts + u32::from(counts);
        if attempts >= rules.attempts_max || !rules.may_repeat {
            return self.end(kind, rules);
        }
        *self = AttemptState { attempts, throttled_since: self.throttled_since, ..AttemptState::default() };
        Verdict::Retry(kind)
    }

    fn end(&mut self, kind: FailureKind, rules: &Rules) -> Verdict {
        if self.wants_second_look(kind, rules) {
            self.attempts += 1;
            return Verdict::SecondLook(kind);
        }
        Verdict::failed(kind)
    }

    /// Returns whether a target that seems dead is to be tried again later.
    pub fn wants_second_look(&self, kind: FailureKind, rules: &Rules) -> bool {
        rules.has_second_look && self.throttled_since == 0 && may_be_dead(kind)
    }

    /// Returns whether the request was repeated immediately on a connection that had no earlier replies. If it was, its
    /// reply is certain.
    pub fn is_repeated(&self) -> bool {
        self.is_resumed || self.forgiven + self.corrections + self.refusals + self.abandoned > 0
    }

    /// Corrects a request if a correction is possible and not too many corrections have been made yet.
    fn correct(&mut self, correction: Option<Correction>) -> Option<Verdict> {
        let correction = correction.filter(|_| self.corrections < limits::CORRECTIONS_MAX)?;
        self.corrections += 1;
        Some(Verdict::Correct(correction))
    }

    /// Decides the next step after a store has returned an error instead of an object.
    pub(super) fn after_store_error(
        &mut self,
        store: &StoreReply<'_>,
        reply: &ReplyFacts<'_>,
        rules: &Rules,
        now: Millis,
    ) -> Verdict {
        let document = ErrorDocument::read(store.start);
        let meaning = document.as_ref().map(|document| document.meaning(reply.status));
        if let Some(verdict) = self.correct(store.correction(meaning, document.as_ref(), reply.status)) {
            return verdict;
        }
        let detail = document.as_ref().map(|document| detail_of(document, self.corrections));
        let verdict = match meaning {
            // A client that receives every reply finds the error in the reply.
            Some(StoreError::BadCredentials) if !rules.gives_every_reply => {
                // A single reply that answers a different request must not stop the job.
                if self.refusals > 0 && reply.is_certain || !rules.may_repeat {
                    return Verdict::Stop(no_credentials(document.as_ref()));
                }
                if self.refusals < limits::REFUSALS_MAX {
                    self.refusals += 1;
                    return Verdict::Again;
                }
                self.after_status(reply, rules, now)
            }
            Some(StoreError::Archived) if rules.skips_archived => {
                return Verdict::Settle(Outcome::Skipped(SkipReason::Archived), detail);
            }
            Some(StoreError::Throttled) => self.after_failure(FailureKind::Throttled, rules, now),
            Some(StoreError::Transient) => self.after_failure(FailureKind::ServerError, rules, now),
            _ => self.after_status(reply, rules, now),
        };
        verdict.with_detail(detail)
    }

    /// Decides the next step after the reply to a request for a listing page or an upload rather than for an object of
    /// a job. `may_hide_error` states whether an error can follow a head that reports success.
    pub fn after_bucket_reply(
        &mut self,
        store: &StoreReply<'_>,
        status: u16,
        may_hide_error: bool,
        rules: &Rules,
        now: Millis,
    ) -> Verdict {
        if (200..300).contains(&status) && !(may_hide_error && ErrorDocument::is_document(store.start)) {
            return Verdict::Store;
        }
        let document = ErrorDocument::read(store.start);
        let meaning = document.as_ref().map(|document| document.meaning(status));
        if let Some(verdict) = self.correct(store.correction(meaning, document.as_ref(), status)) {
            return verdict;
        }
        let kind = match (meaning, status) {
            _ if rules.retried.throttles(status, store.asks_to_wait) => FailureKind::Throttled,
            (Some(StoreError::Throttled), _) => FailureKind::Throttled,
            // Status 409 means that another request for the same object was still in progress.
            (Some(StoreError::Transient), _) | (_, 200..=299 | 409) => FailureKind::ServerError,
            // Status 501 means that the server does not implement the request, so repeating it would not help.
            (_, 501) => FailureKind::Status,
            _ => FailureKind::of_status(status).err().unwrap_or(FailureKind::Status),
        };
        self.after_failure(kind, rules, now)
    }
}

impl ReplyFacts<'_> {
    /// Returns a failure if a successful reply differs from the facts that the source stated about the object.
    pub fn trouble_with(&self, listed: &ListedKey<'_>) -> Option<FailureKind> {
        let size = listed.size?;
        if self.length != size
            && let Some(kind) = self.store.as_ref().and_then(StoreReply::error_in_place)
        {
            return Some(kind);
        }
        // An encoded form has a different length, unless a store keeps the object in encoded form. An ETag that is
        // missing on one side is not a difference.
        let is_same_size = self.length == size || (self.is_encoded && self.store.is_none());
        let is_same = |sent: &[u8]| listed.etag.is_empty() || is_same_etag(sent, listed.etag);
        (!is_same_size || !self.etag.is_none_or(is_same)).then_some(FailureKind::Changed)
    }
}
