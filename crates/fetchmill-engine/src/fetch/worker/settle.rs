//! Finishes a target after a complete reply.

use super::body::{BodyReceiver, WorkerBody};
use super::state::Worker;
use crate::attempt::{AttemptEnd, Failure, ResumableBody};
use crate::fetch::target::CurrentTarget;
use fetchmill_model::limits;
use fetchmill_model::opt_out::OptOut;
use fetchmill_model::outcome::skips::SkipReason;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::target::entry::ListEntry;
use fetchmill_model::verdict::Verdict;
use fetchmill_net::{Connection, ReceivedReply};
use fetchmill_store::sink::StoredParts;

/// Detail of a part that belongs to a different object from earlier parts.
const REPLACED: &str = "the ETag differs from that of an earlier part, so the object was replaced";

impl Worker {
    /// Finishes a target that has a complete, certain reply. Passes each finished target to `note`.
    pub(super) fn settle(
        &self,
        connection: &Connection,
        target: &mut CurrentTarget,
        body: &mut WorkerBody,
        replied: &ReceivedReply,
        note: &mut dyn FnMut(&CurrentTarget),
    ) -> AttemptEnd {
        let attempt = self.follow(connection, target, body, replied, note);
        note(target);
        attempt
    }

    fn follow(
        &self,
        connection: &Connection,
        target: &mut CurrentTarget,
        body: &mut WorkerBody,
        replied: &ReceivedReply,
        note: &mut dyn FnMut(&CurrentTarget),
    ) -> AttemptEnd {
        if body.inner.has_failed() {
            // The job is ending, so the target stays pending.
            body.discard();
            return AttemptEnd::Over;
        }
        self.note_token(target, replied.head.status);
        let mut state = target.state;
        let mut facts = body.inner.reply_facts(&replied.head, target.is_of_store, self.listed(target));
        facts.is_no_rest = body.is_no_rest();
        facts.shows_token = target.shows_token;
        facts.is_certain = connection.is_shared() || connection.replies() <= 1;
        let is_certain = facts.is_certain;
        let verdict = state.after_reply(&facts, &self.rules(target), self.clock.now());
        target.state = state;
        match verdict {
            Verdict::Settle(Outcome::Skipped(SkipReason::Unchanged), _)
                if body.inner.etag().is_some_and(|etag| !target.has_version(etag)) =>
            {
                body.discard();
                target.effects.drop_conditions();
                AttemptEnd::Again
            }
            Verdict::Store if self.is_of_another(target, &body.inner) => {
                body.discard();
                self.met_another(target, is_certain, replied)
            }
            Verdict::Store if target.is_joined() => {
                let attempt = self.cut(target, &mut body.inner, replied, note);
                body.discard();
                attempt
            }
            Verdict::Store => self.store(target, body, replied),
            Verdict::Redirect if target.is_joined() => {
                body.discard();
                AttemptEnd::Split
            }
            Verdict::Redirect => {
                self.keep_reply(target, body, replied, true);
                let redirect = body.inner.redirect_head(self.clock.now());
                let followed = self.redirect(target, connection, replied.head.status, &redirect);
                body.discard();
                match followed {
                    Ok(()) => AttemptEnd::Redirected,
                    Err((kind, why)) => self.failed(target, Failure::new(kind, why), Some(replied)),
                }
            }
            other => {
                if matches!(other, Verdict::Settle(..)) && !target.is_joined() {
                    self.keep_reply(target, body, replied, false);
                }
                let explained = self.explain_status(target, &body.inner, &replied.head, other);
                body.discard();
                let attempt = self.carry_out(target, explained, Some(replied));
                target.forget_replies();
                attempt
            }
        }
    }

    /// Keeps a redirect, or a reply that explains why there is no object (`--keep-failed`).
    fn keep_reply(
        &self,
        target: &mut CurrentTarget,
        body: &mut WorkerBody,
        replied: &ReceivedReply,
        is_hop: bool,
    ) {
        if self.setup.properties.keeps >= StoredParts::Replies && replied.head.status >= 300 {
            body.inner.keep_reply(target, is_hop);
        }
    }

    /// Stores the object after its complete body was verified.
    fn store(
        &self,
        target: &mut CurrentTarget,
        body: &mut WorkerBody,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        let rules = self.rules(target);
        // For a store, the listed size is the size of the bytes as sent, and the verdict has already compared it.
        let listed = self.listed(target).filter(|_| !target.is_of_store).and_then(|listed| listed.size);
        let completed = body.inner.complete(rules.body_max, listed);
        if body.inner.has_failed() {
            body.discard();
            return AttemptEnd::Over;
        }
        let completed = completed.and_then(|()| match body.inner.opt_out() {
            None => body.inner.check_type(&rules.accepted).map(|()| None),
            evidence => Ok(evidence),
        });
        match completed {
            Ok(Some(OptOut { rule, evidence })) => {
                body.discard();
                let outcome = Outcome::Skipped(SkipReason::OptedOut(rule));
                self.carry_out(target, Verdict::Settle(outcome, Some(evidence.into())), Some(replied))
            }
            Ok(None) => {
                self.outcomes.note_received(body.inner.received());
                self.settle_fetched(target, body.inner.get(), body.inner.facts(replied.head.status));
                body.inner.handed_over();
                body.handed_over();
                AttemptEnd::Over
            }
            Err((kind, detail)) => {
                body.discard();
                let verdict = target.state.after_failure(kind, &rules, self.clock.now());
                self.carry_out(target, verdict.with_detail(detail), Some(replied))
            }
        }
    }

    /// Returns whether a part's ETag differs from the ETag of the previous part of the object. The object is identified
    /// by the listed URL rather than by the destination of a redirect.
    fn is_of_another(&self, target: &CurrentTarget, body: &BodyReceiver) -> bool {
        let url = || ListEntry::read(&target.entry).url;
        target.range().is_some() && !self.part_etags.agrees(url(), body.etag())
    }

    /// Handles a replaced object. Only the first reply on a new connection is certain to belong to the target.
    fn met_another(
        &self,
        target: &mut CurrentTarget,
        is_certain: bool,
        replied: &ReceivedReply,
    ) -> AttemptEnd {
        if !is_certain && target.state.forgiven < limits::FORGIVEN_SHARED_MAX {
            target.state.forgiven += 1;
            return AttemptEnd::Again;
        }
        let outcome = Outcome::Failed(FailureKind::Changed);
        self.carry_out(target, Verdict::Settle(outcome, Some(REPLACED.into())), Some(replied))
    }
}
