//! Derives details for the user from the reply to a failed target.

use super::body::BodyReceiver;
use super::state::Worker;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::http1::Head;
use fetchmill_model::origin::{OriginKey, is_open};
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::verdict::Verdict;
use fetchmill_model::verdict::failure_detail::{StatusFacts, status_detail};

impl Worker {
    /// Adds the explanation from the reply to a verdict that is based on the status and has no other detail.
    pub(super) fn explain_status(
        &self,
        target: &CurrentTarget,
        body: &BodyReceiver,
        head: &Head,
        verdict: Verdict,
    ) -> Verdict {
        let Verdict::Settle(Outcome::Failed(kind), None) = verdict else { return verdict };
        if FailureKind::of_status(head.status) != Err(kind) {
            return verdict;
        }
        let facts = StatusFacts {
            status: head.status,
            challenge: body.challenge(head.status),
            location: body.location(),
            retry_after: head.retry_after.map(|after| after.wait(self.clock.now() / 1000)),
            // If a store refuses a request, the error document gives the reason.
            had_credentials: (!target.is_of_store).then(|| self.shows_credentials(target)),
        };
        verdict.with_detail(Some(status_detail(&facts).into()))
    }

    /// Returns whether the last request for a target had a header field that might be secret.
    fn shows_credentials(&self, target: &CurrentTarget) -> bool {
        let own = target.effects.fields(target.request.as_deref());
        let key = OriginKey::of_url(&target.at.url).map(|(key, _)| key);
        target.shows_token
            || own.iter().any(|(name, _)| !is_open(name))
            || self.setup.pool.fields.has_secrets(key.as_ref())
    }
}
