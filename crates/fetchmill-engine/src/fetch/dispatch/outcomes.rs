//! Finishes answered targets. Each target either gets an outcome in the block or returns to the job for a retry.

use std::borrow::Cow;

use super::dispatcher::Dispatcher;
use super::link::Settlement;
use super::rules::AnswerFields;
use crate::control::clock::unix_micros;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::error::Result;
use fetchmill_model::object::Facts;
use fetchmill_model::outcome::{FailureClass, FailureKind, Outcome};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::reply::content_encoding::is_identity;
use fetchmill_model::text::dates::parse_http_date;
use fetchmill_store::sink::{FetchedBody, StoredParts};

impl Dispatcher {
    /// Defers a target until `not_before`, because this dispatcher has no room for it. This does not count as an
    /// attempt.
    pub(super) fn defer(&mut self, target: &CurrentTarget, not_before: Millis) {
        self.done.retries.push(target.aside(not_before));
    }

    pub(super) fn fetched(
        &mut self,
        target: &CurrentTarget,
        status: u16,
        body: &[u8],
        fields: AnswerFields<'_>,
    ) -> Result<()> {
        let keeps = self.block_sender.properties.keeps;
        let naming = self.rules.naming;
        let mut facts = Facts { status, ..Facts::default() };
        if keeps >= StoredParts::Facts {
            facts.fetched_at = unix_micros();
            facts.content_type = fields.content_type.map(str::as_bytes);
            // If the body might differ from the bytes that were sent, the engine has already decoded it.
            let encoding = fields.content_encoding.filter(|_| fields.checksums.is_some());
            facts.content_encoding = encoding.map(str::as_bytes).filter(|name| !is_identity(name));
            facts.etag = fields.etag.map(str::as_bytes);
            facts.last_modified = fields.last_modified.and_then(|value| parse_http_date(value.as_bytes()));
        }
        let length = body.len() as u64;
        let (name, facts, body) = if keeps >= StoredParts::Bodies {
            let name = target.stored_name((naming, &self.rules.names), &facts);
            let facts = target.facts(naming, &name, facts);
            (name, facts, self.block_sender.hold(target.sequence, body)?)
        } else {
            (Cow::default(), facts, FetchedBody::Dropped(length))
        };
        self.block_sender.block.push_fetched(target.sequence, target.state.attempts + 1, &name, body, &facts);
        self.done.settled.push(Settlement {
            sequence: target.sequence,
            outcome: Outcome::Fetched,
            bytes: length,
        });
        self.replied_well();
        self.control.refusals.note_success();
        self.done.fetched.get_or_insert_with(|| target.entry.as_slice().into());
        Ok(())
    }

    pub(super) fn settle_other(
        &mut self,
        target: &CurrentTarget,
        outcome: Outcome,
        status: u16,
        made: u32,
        detail: Option<&str>,
    ) {
        let mut described = target.described(self.rules.naming, outcome);
        let own = self.rules.rules.detail_of(outcome);
        described.detail = described.detail.or(detail.or(own.as_deref()).map(str::as_bytes));
        let attempts = target.state.attempts + made;
        self.block_sender.block.push_other(target.sequence, outcome, status, attempts, &described);
        self.done.settled.push(Settlement { sequence: target.sequence, outcome, bytes: 0 });
        let is_trouble = matches!(outcome, Outcome::Failed(kind) if kind.is_retryable());
        if status != 0 && !is_trouble {
            self.replied_well();
        }
    }

    fn replied_well(&mut self) {
        self.done.observed.successes += u32::from(self.arrivals.is_none());
    }

    /// Records a failed attempt after `attempts` counted attempts.
    pub(super) fn observe(&mut self, kind: FailureKind, attempts: u32, retry_after: Option<Millis>) {
        // A refusal was already recorded on arrival. An exception in the user's own function says nothing about an
        // origin.
        let is_observed = self.arrivals.is_some() && kind.class() == FailureClass::Throttle;
        if is_observed || self.link.has_many_origins() || kind == FailureKind::Function {
            return;
        }
        self.done.observed.note_failure(kind, attempts, retry_after);
    }
}
