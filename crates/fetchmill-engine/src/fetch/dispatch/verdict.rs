//! Carries out the verdict on an answer ([`fetchmill_model::verdict`]): stores the object, finishes the target, plans a
//! retry, or corrects a setting.

use super::dispatcher::Dispatcher;
use super::rules::{AnswerFields, CorrectedTarget};
use crate::access::renewal::Renewal;
use crate::access::tls_errors::distrust;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::RetryAfter;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::{FailureClass, FailureKind, Outcome};
use fetchmill_model::planner::hosts::{RequestOutcome, seen};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::s3::is_damaged;
use fetchmill_model::verdict::failure_detail::{StatusFacts, status_detail};
use fetchmill_model::verdict::{BrokenFacts, Correction, ERROR_BYTES_MAX, ReplyFacts, StoreReply, Verdict};

/// Details of a failed answer other than its kind.
#[derive(Clone, Copy, Default)]
struct AnswerNotes<'a> {
    status: u16,
    retry_after: Option<Millis>,
    detail: Option<&'a str>,
}

impl Dispatcher {
    pub(super) fn replied(
        &mut self,
        mut target: CurrentTarget,
        status: u16,
        body: &[u8],
        is_verified: bool,
        fields: AnswerFields<'_>,
    ) -> Result<()> {
        let now = self.control.clock.now();
        let retry_after = fields.retry_after.and_then(|value| RetryAfter::parse(value.as_bytes(), None));
        let retry_after = retry_after.map(|after| after.wait(now / 1000).saturating_mul(1000));
        let store = target.is_of_store.then(|| StoreReply {
            start: &body[..body.len().min(ERROR_BYTES_MAX)],
            region: fields.bucket_region.map(str::as_bytes),
            date: fields.date.map(str::as_bytes),
            signed_for: None,
            asks_to_wait: retry_after.is_some(),
        });
        let mut state = target.state;
        let facts = ReplyFacts {
            status,
            asks_to_wait: retry_after.is_some(),
            // Engines hold each reply until it is certain.
            is_certain: true,
            is_verified,
            length: body.len() as u64,
            etag: fields.etag.map(str::as_bytes),
            is_encoded: fields.content_encoding.is_some(),
            listed: target.listed(self.rules.naming),
            part: None,
            // Python engines request the whole object again.
            is_no_rest: false,
            is_conditional: false,
            shows_token: false,
            store,
        };
        let verdict = state.after_reply(&facts, &self.rules.rules, now);
        target.state = state;
        let problem = match verdict {
            Verdict::Store => self.body_problem(&target, body, fields),
            _ => None,
        };
        let verdict = match problem {
            Some((kind, detail)) => {
                target.state.after_failure(kind, &self.rules.rules, now).with_detail(detail.map(Into::into))
            }
            None => verdict,
        };
        if matches!(verdict, Verdict::Store) {
            self.fetched(&target, status, body, fields)?;
            self.hosts.left(&target, RequestOutcome::Answer, now);
            return Ok(());
        }
        let verdict = self.explain_status(&target, status, fields, retry_after, verdict);
        self.carry_out(target, verdict, AnswerNotes { status, retry_after, detail: None }, now);
        Ok(())
    }

    /// Adds the explanation from the reply to a verdict that is based on the status and has no other detail.
    fn explain_status(
        &self,
        target: &CurrentTarget,
        status: u16,
        fields: AnswerFields<'_>,
        retry_after: Option<Millis>,
        verdict: Verdict,
    ) -> Verdict {
        let Verdict::Settle(Outcome::Failed(kind), None) = verdict else { return verdict };
        if FailureKind::of_status(status) != Err(kind) {
            return verdict;
        }
        let key = OriginKey::of_url(&target.at.url).map(|(key, _)| key);
        let facts = StatusFacts {
            status,
            retry_after: retry_after.map(|millis| millis / 1000),
            had_credentials: (!target.is_of_store).then(|| self.rules.fields.has_secrets(key.as_ref())),
            challenge: fields.challenge.map(str::as_bytes),
            location: fields.location.map(str::as_bytes),
        };
        verdict.with_detail(Some(status_detail(&facts).into()))
    }

    /// Returns the reason for not storing a complete body, and a detail for the user.
    fn body_problem(
        &self,
        target: &CurrentTarget,
        body: &[u8],
        fields: AnswerFields<'_>,
    ) -> Option<(FailureKind, Option<String>)> {
        if self.is_damaged(target, body, fields) {
            return Some((FailureKind::Checksum, None));
        }
        let refusal = self.rules.rules.accepted.refusal(body)?;
        Some((FailureKind::UnexpectedType, Some(refusal)))
    }

    /// Returns whether an object does not match the checksum from the store.
    fn is_damaged(&self, target: &CurrentTarget, body: &[u8], fields: AnswerFields<'_>) -> bool {
        let Some(lines) = fields.checksums else { return false };
        if !target.is_of_store || !self.control.store.options.checksums {
            return false;
        }
        let etag = fields.etag.map(|etag| format!("etag: {etag}\n")).unwrap_or_default();
        is_damaged(format!("{etag}{lines}").as_bytes(), body)
    }

    pub(super) fn broken(&mut self, mut target: CurrentTarget, kind: FailureKind, detail: Option<&str>) {
        let key = OriginKey::of_url(&target.at.url).map(|(key, _)| key);
        let key = key.or_else(|| self.rules.server.as_ref().map(|(key, _)| key.clone()));
        if let Some(key) = key.filter(|_| kind.is_untrusted())
            && self.control.is_only_origin(&key)
            && let Some(error) = distrust(&key, kind)
        {
            // The target stays pending, because the next run might trust the server.
            self.control.stop.fail(error);
            return;
        }
        let now = self.control.clock.now();
        // If the server closed the old connection, the engine has already retried on a new one.
        let facts =
            BrokenFacts { kind, was_used: false, is_unanswered: false, is_shared: false, needs_http1: false };
        let verdict = target.state.after_broken(facts, &self.rules.rules, now);
        self.carry_out(target, verdict, AnswerNotes { detail, ..AnswerNotes::default() }, now);
    }

    /// Carries out every verdict except `Store`.
    fn carry_out(&mut self, target: CurrentTarget, verdict: Verdict, notes: AnswerNotes<'_>, now: Millis) {
        match verdict {
            Verdict::Settle(outcome, _) if !self.control.may_settle(outcome, notes.status) => {
                // The target stays pending.
                self.hosts.left(&target, RequestOutcome::Nothing, now);
            }
            Verdict::Settle(outcome, said) => {
                let mut left = RequestOutcome::Answer;
                if let Outcome::Failed(kind) = outcome {
                    self.observe(kind, target.state.attempts, notes.retry_after);
                    left = seen_of(kind, notes, now);
                }
                self.hosts.left(&target, left, now);
                let detail = said.as_deref().or(notes.detail);
                self.settle_other(&target, outcome, notes.status, 1, detail);
            }
            Verdict::Retry(kind) | Verdict::SecondLook(kind) => {
                self.observe(kind, target.state.attempts.saturating_sub(1), notes.retry_after);
                self.hosts.left(&target, seen_of(kind, notes, now), now);
                self.done.retries.push(target.again(kind, notes.retry_after));
            }
            Verdict::Correct(correction) => self.correct(target, correction, now),
            Verdict::Again => self.hand_out_again(target, now, false),
            Verdict::Stop(error) => self.stop_at(&target, error, now),
            Verdict::Store | Verdict::Redirect => {
                self.stop_at(&target, Error::Internal("a failure was treated as a reply".into()), now);
            }
        }
    }

    /// Corrects a setting that the store rejected.
    fn correct(&mut self, mut target: CurrentTarget, correction: Correction, now: Millis) {
        let is_elsewhere = matches!(correction, Correction::Region(_));
        let bucket = if is_elsewhere { target.bucket(self.rules.naming) } else { None };
        match self.control.store.correct(bucket.as_ref(), correction, target.credentials_generation) {
            Renewal::Failed(why) => self.stop_at(&target, Error::Temporary(why), now),
            Renewal::Pending => self.hand_out_again(target, now, true),
            Renewal::Newer => {
                if is_elsewhere {
                    target.forget_location();
                }
                self.hand_out_again(target, now, false);
            }
        }
    }

    fn hand_out_again(&mut self, target: CurrentTarget, now: Millis, is_renewing: bool) {
        self.hosts.left(&target, RequestOutcome::Answer, now);
        let not_before = if is_renewing { now + limits::RENEWAL_WAIT } else { now };
        self.corrected.push_back(CorrectedTarget { target, not_before, is_renewing });
    }

    /// Takes the next corrected target, if one can be handed out now.
    pub(super) fn take_corrected(&mut self, now: Millis) -> Option<CurrentTarget> {
        let first = self.corrected.front().filter(|first| first.not_before <= now)?;
        if first.is_renewing {
            match self.control.store.renew(first.target.credentials_generation) {
                Renewal::Newer => {}
                Renewal::Pending => {
                    // The other targets wait for the same credentials.
                    self.corrected.iter_mut().for_each(|each| each.not_before = now + limits::RENEWAL_WAIT);
                    return None;
                }
                Renewal::Failed(why) => {
                    self.control.stop.fail(Error::Temporary(why));
                    return None;
                }
            }
        }
        self.corrected.pop_front().map(|corrected| corrected.target)
    }

    /// Ends the job because all other targets would fail in the same way. Unfinished targets stay pending.
    fn stop_at(&mut self, target: &CurrentTarget, error: Error, now: Millis) {
        self.control.stop.fail(error);
        self.defer(target, now);
        self.hosts.left(target, RequestOutcome::Answer, now);
    }
}

/// Returns what a failed attempt reveals about the host.
fn seen_of(kind: FailureKind, notes: AnswerNotes<'_>, now: Millis) -> RequestOutcome {
    if notes.status != 0 && kind.class() == FailureClass::Final {
        return RequestOutcome::Answer;
    }
    let asked = notes.retry_after.map(|wait| wait.min(limits::RETRY_AFTER_MAX.as_millis() as Millis));
    seen(kind, asked.map(|wait| now + wait))
}
