//! Carries out the verdict on an attempt ([`fetchmill_model::verdict`]): stores the object, finishes the target, plans
//! a retry, or corrects a setting.

use std::borrow::Cow;

use super::body::WorkerBody;
use super::state::Worker;
use crate::access::renewal::Renewal;
use crate::attempt::{AttemptEnd, Failure};
use crate::fetch::target::CurrentTarget;
use fetchmill_model::error::Error;
use fetchmill_model::limits;
use fetchmill_model::object::Facts;
use fetchmill_model::outcome::{FailureClass, FailureKind, Outcome};
use fetchmill_model::planner::hosts::{self, RequestOutcome};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::target::source_metadata::ListedKey;
use fetchmill_model::verdict::{BrokenFacts, Correction, Verdict};
use fetchmill_net::ReceivedReply;
use fetchmill_store::sink::{FetchedBody, StoredParts};

impl Worker {
    /// Prepares `task_body` for the reply, based on what is known in advance.
    pub(super) fn expect(&self, target: &CurrentTarget, task_body: &mut WorkerBody) {
        task_body.start(self.may_be_resumed(target));
        let body = &mut task_body.inner;
        body.start(target.sequence);
        let listed = self.listed(target);
        if target.is_of_store || listed.is_some() {
            body.expect(listed.and_then(|listed| listed.size));
        }
        if let Some(range) = target.range() {
            body.expect_part(range);
        }
        if target.is_conditional() {
            body.expect_condition();
        }
        if target.is_of_store && self.control().store.options.checksums && !self.has_rows() {
            body.expect_checksum();
        }
        if let Some(hash) = target.hash() {
            body.expect_hash(hash);
        }
        if self.setup.decodes {
            body.expect_encoding();
        }
    }

    /// Handles an attempt that ended without a complete reply.
    pub(super) fn broken(
        &self,
        target: &mut CurrentTarget,
        failure: Failure,
        broken: BrokenFacts,
    ) -> AttemptEnd {
        if self.supply.is_done() && target.may_start_again() {
            // The attempt was dropped because the job is ending. The target stays pending.
            return AttemptEnd::Over;
        }
        let verdict = target.state.after_broken(broken, &self.rules(target), self.clock.now());
        self.carry_out(target, failure.explain(verdict), None)
    }

    /// Leaves a target pending because the job is ending. If the request was sent before a redirect and must not be
    /// repeated, the target fails instead.
    pub(super) fn leave_pending(&self, target: &CurrentTarget) -> AttemptEnd {
        self.fail_left(target);
        AttemptEnd::Over
    }

    /// Defers a target until credentials are available, in the same way as a target that waits for its host.
    pub(super) fn defer_for_credentials(&self, target: &mut CurrentTarget) {
        let now = self.clock.now();
        self.defer(target, now, now);
        self.leave(target, RequestOutcome::Nothing);
    }

    /// Handles a failed attempt. The target either waits for a retry or fails.
    pub(super) fn failed(
        &self,
        target: &mut CurrentTarget,
        failure: Failure,
        replied: Option<&ReceivedReply>,
    ) -> AttemptEnd {
        if self.supply.is_done() && replied.is_none() && target.may_start_again() {
            return AttemptEnd::Over;
        }
        let verdict = target.state.after_failure(failure.kind, &self.rules(target), self.clock.now());
        self.carry_out(target, failure.explain(verdict), replied)
    }

    /// Carries out all verdicts except `Store` and `Redirect`.
    pub(super) fn carry_out(
        &self,
        target: &mut CurrentTarget,
        verdict: Verdict,
        replied: Option<&ReceivedReply>,
    ) -> AttemptEnd {
        let retry_after = replied.and_then(|replied| self.retry_after(replied));
        let seen = match verdict {
            Verdict::Again => return AttemptEnd::Again,
            Verdict::Correct(correction) => return self.correct(target, correction),
            Verdict::Stop(error) => return self.stop(target, error),
            Verdict::Store | Verdict::Redirect => {
                return self.stop(target, Error::Internal("a failure was treated as a reply".into()));
            }
            Verdict::Settle(outcome, _) if target.is_joined() => return self.refuse_joined(outcome),
            Verdict::Retry(kind) => {
                self.observe(kind, target.state.attempts.saturating_sub(1), retry_after);
                self.report.plan_again(target.again(kind, retry_after));
                self.seen_of(kind, replied, retry_after)
            }
            Verdict::SecondLook(kind) => {
                self.look_again_later(target, kind);
                self.seen_of(kind, replied, retry_after)
            }
            Verdict::Settle(outcome, detail) => {
                let status = replied.map_or(0, |replied| replied.head.status);
                if !self.control().may_settle(outcome, status) {
                    self.leave(target, RequestOutcome::Nothing);
                    return AttemptEnd::Over;
                }
                if let Outcome::Failed(kind) = outcome {
                    self.observe(kind, target.state.attempts, retry_after);
                }
                self.settle_other(target, outcome, status, 1, detail.as_deref());
                match outcome {
                    Outcome::Failed(kind) => self.seen_of(kind, replied, retry_after),
                    _ => RequestOutcome::Answer,
                }
            }
        };
        self.leave(target, seen);
        AttemptEnd::Over
    }

    /// Rejects a verdict that would finish the target of a coalesced request. Instead, each target of the request is
    /// requested separately.
    fn refuse_joined(&self, outcome: Outcome) -> AttemptEnd {
        use FailureKind::{BadRange, BodyTooLarge, RangeIgnored, UnverifiedLength};
        if matches!(outcome, Outcome::Failed(RangeIgnored | BadRange | BodyTooLarge | UnverifiedLength)) {
            self.control().coalescing.note_refused();
        }
        AttemptEnd::Split
    }

    /// Returns the delay that the reply requests before the next attempt, if any.
    pub(super) fn retry_after(&self, replied: &ReceivedReply) -> Option<Millis> {
        let retry_after = replied.head.retry_after?;
        Some(retry_after.wait(self.clock.now() / 1000).saturating_mul(1000))
    }

    /// Returns what a failed attempt reveals about the host.
    pub(super) fn seen_of(
        &self,
        kind: FailureKind,
        replied: Option<&ReceivedReply>,
        retry_after: Option<Millis>,
    ) -> RequestOutcome {
        if replied.is_some() && kind.class() == FailureClass::Final {
            return RequestOutcome::Answer;
        }
        // Use the precise time. The worker's clock lags by up to one tick, so the request would be sent too early.
        let until = retry_after
            .map(|wait| self.control().clock.now() + wait.min(limits::RETRY_AFTER_MAX.as_millis() as Millis));
        hosts::seen(kind, until)
    }

    /// Finishes a target whose object has arrived. For a check, only the wanted part has to arrive.
    pub(super) fn settle_fetched(&self, target: &mut CurrentTarget, body: FetchedBody<'_>, facts: Facts<'_>) {
        let attempts = target.state.attempts + 1;
        if self.has_rows() {
            self.push_row(target, Outcome::Fetched, body.length(), attempts, None);
        } else {
            let naming = self.setup.naming;
            let (name, facts) = if self.setup.properties.keeps >= StoredParts::Bodies {
                let name = target.stored_name((naming, &self.setup.names), &facts);
                let facts = target.facts(naming, &name, facts);
                (name, facts)
            } else {
                (Cow::default(), facts)
            };
            let keep = |_: &&[u8]| self.setup.keeps_entries;
            let facts = Facts { entry: facts.entry.filter(keep), listed: facts.listed.filter(keep), ..facts };
            self.outcomes.push_fetched(target.sequence, attempts, &name, body, &facts);
        }
        self.control().refusals.note_success();
        self.report.note_fetched(&target.entry);
        self.leave(target, RequestOutcome::Answer);
    }

    /// Returns the listed values of an object that is fetched completely. A check reads only the start of an object, so
    /// it has no listed values.
    pub(super) fn listed<'t>(&self, target: &'t CurrentTarget) -> Option<ListedKey<'t>> {
        if self.has_rows() { None } else { target.listed(self.setup.naming) }
    }

    /// Corrects a setting that a store or server rejected.
    fn correct(&self, target: &mut CurrentTarget, correction: Correction) -> AttemptEnd {
        if target.shows_token {
            return match self.renew(target) {
                Renewal::Failed(why) => self.stop(target, Error::Temporary(why)),
                Renewal::Pending => AttemptEnd::Renewing,
                Renewal::Newer => AttemptEnd::Again,
            };
        }
        let is_elsewhere = matches!(correction, Correction::Region(_));
        let bucket = if is_elsewhere { target.bucket(self.setup.naming) } else { None };
        match self.control().store.correct(bucket.as_ref(), correction, target.credentials_generation) {
            Renewal::Failed(why) => self.stop(target, Error::Temporary(why)),
            Renewal::Pending => AttemptEnd::Renewing,
            Renewal::Newer if is_elsewhere => {
                target.forget_location();
                AttemptEnd::Redirected
            }
            Renewal::Newer => AttemptEnd::Again,
        }
    }

    /// Ends the job because all other targets would fail in the same way. Unfinished targets stay pending.
    fn stop(&self, target: &mut CurrentTarget, error: Error) -> AttemptEnd {
        self.control().stop.fail(error);
        self.leave(target, RequestOutcome::Nothing);
        AttemptEnd::Over
    }
}
