//! Rows of a check. Each row contains the values observed in a target's last reply, formatted as a line.

use std::borrow::Cow;

use super::state::Worker;
use crate::control::clock::unix_micros;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::hosts::may_be_dead;
use fetchmill_model::row::CheckRow;
use fetchmill_model::target::entry::ListEntry;
use fetchmill_model::target::extra_columns::extra_values;
use fetchmill_model::verdict::failure_detail::{failure_detail, status_text};

impl Worker {
    /// Starts a row when an attempt starts or continues with another URL.
    pub(super) fn begin_row(&self, target: &mut CurrentTarget) {
        if !self.has_rows() {
            return;
        }
        target.seen.forget_reply();
        if target.seen.started_at == 0 {
            target.seen.started_at = unix_micros();
        }
    }

    /// Adds the row of a finished target. `attempts` is the total number of attempts. `bytes` is the number of body
    /// bytes that count as fetched.
    pub(super) fn push_row(
        &self,
        target: &CurrentTarget,
        outcome: Outcome,
        bytes: u64,
        attempts: u32,
        detail: Option<&str>,
    ) {
        let seen = &target.seen;
        let entry = ListEntry::read(&target.entry);
        let clock = &self.control().clock;
        let kind = kind_of(outcome, seen.status);
        let begun = seen.phases.started.map(|started| clock.micros_at(started));
        let dns = target.looked_up_in;
        let queue = begun.unwrap_or(target.asked_at).saturating_sub(target.taken_at + dns.unwrap_or(0));
        let since = clock.now().saturating_sub(clock.micros().saturating_sub(target.taken_at) / 1000);
        let row = CheckRow {
            url: text_of(entry.url),
            key: entry.key.and_then(text_of),
            status: (seen.status != 0).then_some(seen.status),
            kind,
            detail: detail_of(outcome, seen.status, entry.reason().and_then(text_of).as_deref().or(detail)),
            final_url: Some(Cow::from(&target.at.url))
                .filter(|url| url.as_bytes() != entry.url && !entry.url.is_empty()),
            content_type: text_of(&seen.content_type),
            content_length: seen.content_length,
            body_bytes: seen.body_bytes,
            attempts,
            // The name might have been looked up long before the request.
            started_at: begun
                .map_or(seen.started_at, |begun| unix_micros() - clock.micros().saturating_sub(begun)),
            kept: extra_values(entry.kept_values().unwrap_or_default()).map(value_of).collect(),
            redirects: extra_values(&seen.hops).flatten().map(String::from_utf8_lossy).collect(),
            address: seen.address.map(|address| address.to_string().into()),
            http_version: seen.version.map(|version| version.text().into()),
            queue_ms: (attempts > 0).then(|| millis(queue)),
            dns_ms: dns.map(millis),
            connect_ms: seen.phases.connect.map(millis),
            tls_ms: seen.phases.tls.map(millis),
            first_byte_ms: seen.phases.first_byte.map(millis),
            total_ms: begun.map(|begun| millis(clock.micros().saturating_sub(begun))),
            second_look: self.is_second_look(target),
            // A reply is a valid result even if this machine is overloaded.
            suspect: kind.is_some_and(may_be_dead) && self.start_quota.was_overloaded_since(since),
        };
        self.outcomes.push_row(target.sequence, outcome, bytes, &row);
    }
}

/// Returns the failure kind of a row. A complete reply has none, whatever its status, because a check reports how a
/// site answers. A body that exceeds the limit of the check is not a failure either.
fn kind_of(outcome: Outcome, status: u16) -> Option<FailureKind> {
    use FailureKind::{BodyTooLarge, Redirect, ServerError, Status, Throttled, UnverifiedLength};
    let Outcome::Failed(kind) = outcome else { return None };
    let is_answer =
        matches!(kind, Redirect | ServerError | Status | Throttled | BodyTooLarge | UnverifiedLength);
    (status == 0 || !is_answer).then_some(kind)
}

/// Returns the detail of a failed or absent target, even if the reply is complete. Returns the reason for a skipped
/// target.
fn detail_of(outcome: Outcome, status: u16, given: Option<&str>) -> Option<Cow<'static, str>> {
    match outcome {
        Outcome::Failed(kind) => Some(failure_detail(kind, status, given).into()),
        Outcome::Skipped(_) => given.map(|given| given.to_owned().into()),
        Outcome::Absent => Some(status_text(status)),
        Outcome::Fetched => None,
    }
}

fn millis(micros: u64) -> f32 {
    (micros as f64 / 1000.0) as f32
}

fn text_of(bytes: &[u8]) -> Option<Cow<'_, str>> {
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes))
}

fn value_of(value: Option<&[u8]>) -> Option<Cow<'_, str>> {
    value.map(String::from_utf8_lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_reply_has_no_kind_and_an_incomplete_one_has() {
        let of = |kind, status| kind_of(Outcome::Failed(kind), status);

        assert_eq!(kind_of(Outcome::Fetched, 200), None);
        assert_eq!(kind_of(Outcome::Absent, 404), None);
        assert_eq!(of(FailureKind::ServerError, 500), None);
        assert_eq!(of(FailureKind::Redirect, 301), None);
        assert_eq!(of(FailureKind::BodyTooLarge, 200), None);
        assert_eq!(of(FailureKind::Truncated, 200), Some(FailureKind::Truncated));
        assert_eq!(of(FailureKind::RedirectLoop, 302), Some(FailureKind::RedirectLoop));
        assert_eq!(of(FailureKind::Refused, 0), Some(FailureKind::Refused));
    }
}
