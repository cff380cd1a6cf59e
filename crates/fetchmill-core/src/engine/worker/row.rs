//! The rows of a check: what a target's last reply has shown, and how that becomes a line.

use std::borrow::Cow;
use std::net::SocketAddr;

use super::Worker;
use super::body::{Incoming, now};
use super::queue::Target;
use crate::entry::Entry;
use crate::http1::{Framing, Head, Version};
use crate::kept::{kept_values, write_kept};
use crate::object::Micros;
use crate::outcome::{FailureKind, Outcome};
use crate::planner::hosts::may_be_dead;
use crate::row::Row;
use crate::transport::{Lane, Phases};

/// What an attempt has shown so far, for a row. Its memory is used for one after the other.
#[derive(Debug, Default)]
pub(in crate::engine) struct Seen {
    /// When the attempt began; 0: it has not.
    started_at: Micros,
    /// Of the reply whose head came; 0: none has.
    status: u16,
    content_length: Option<u64>,
    content_type: Vec<u8>,
    body_bytes: u64,
    version: Option<Version>,
    /// Of the last connection, or the attempt at one.
    address: Option<SocketAddr>,
    /// Of all hops.
    phases: Phases,
    /// Where redirects have led, [as kept values](write_kept).
    hops: Vec<u8>,
}

impl Seen {
    /// Nothing yet.
    pub(super) fn clear(&mut self) {
        self.started_at = 0;
        self.address = None;
        self.phases = Phases::default();
        self.hops.clear();
        self.forget_reply();
    }

    /// What the attempt on this connection took is added to what those before it did.
    pub(super) fn connection(&mut self, lane: &Lane) {
        let phases = lane.phases();
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = sum.map_or(more, |sum| Some(sum + more.unwrap_or(0)));
        };
        // The look-up is counted where it is asked for.
        add(&mut self.phases.connect, phases.connect);
        add(&mut self.phases.tls, phases.tls);
        add(&mut self.phases.first_byte, phases.first_byte);
        self.phases.started = self.phases.started.or(phases.started);
        self.address = lane.address();
        self.version = lane.version();
    }

    /// A redirect leads here.
    pub(super) fn hop(&mut self, url: &str) {
        write_kept(std::iter::once(Some(url.as_bytes())), &mut self.hops);
    }

    /// The attempt goes on at another URL, or on another connection.
    pub(super) fn forget_reply(&mut self) {
        self.status = 0;
        self.content_length = None;
        self.content_type.clear();
        self.body_bytes = 0;
    }

    /// A head has come.
    pub(super) fn head(&mut self, head: &Head, bytes: &[u8]) {
        self.forget_reply();
        self.status = head.status;
        if let Framing::Length(length) = head.framing {
            self.content_length = Some(length);
        }
        if let Some(span) = head.kept.content_type {
            self.content_type.extend_from_slice(span.in_head(bytes));
        }
    }

    /// So many bytes of the body have come.
    pub(super) fn piece(&mut self, length: usize) {
        self.body_bytes += length as u64;
    }
}

impl Target {
    /// What the exchange has shown belongs to the target from now on.
    pub(super) fn see(&mut self, body: &mut Incoming) {
        if let Some(seen) = body.seen() {
            self.seen.status = seen.status;
            self.seen.content_length = seen.content_length;
            std::mem::swap(&mut self.seen.content_type, &mut seen.content_type);
            self.seen.body_bytes = seen.body_bytes;
        }
    }
}

impl Worker {
    /// An attempt begins, or goes on elsewhere.
    pub(super) fn begin_row(&self, target: &mut Target) {
        if !self.has_rows() {
            return;
        }
        target.seen.forget_reply();
        if target.seen.started_at == 0 {
            target.seen.started_at = now();
        }
    }

    /// The row of a target that has its outcome, with all attempts that were made.
    pub(super) fn push_row(&self, target: &Target, outcome: Outcome, attempts: u32) {
        let seen = &target.seen;
        let entry = Entry::read(&target.entry);
        let clock = &self.control().clock;
        let kind = kind_of(outcome, seen.status);
        let begun = seen.phases.started.map(|started| clock.micros_at(started));
        let dns = target.looked_up_in;
        let queue = begun.unwrap_or(target.asked_at).saturating_sub(target.taken_at + dns.unwrap_or(0));
        let since = clock.now().saturating_sub(clock.micros().saturating_sub(target.taken_at) / 1000);
        let row = Row {
            url: text_of(entry.url),
            key: entry.key.and_then(text_of),
            status: (seen.status != 0).then_some(seen.status),
            kind,
            detail: entry.reason().and_then(text_of),
            final_url: Some(Cow::from(&target.url))
                .filter(|url| url.as_bytes() != entry.url && !entry.url.is_empty()),
            content_type: text_of(&seen.content_type),
            content_length: seen.content_length,
            body_bytes: seen.body_bytes,
            attempts,
            // The look-up of its name may have been long before it.
            started_at: begun.map_or(seen.started_at, |begun| now() - clock.micros().saturating_sub(begun)),
            kept: match entry.kept {
                Some(kept) if !entry.url.is_empty() => kept_values(kept).map(value_of).collect(),
                _ => Vec::new(),
            },
            redirects: kept_values(&seen.hops).flatten().map(String::from_utf8_lossy).collect(),
            address: seen.address.map(|address| address.to_string().into()),
            http_version: seen.version.map(|version| version.text().into()),
            queue_ms: (attempts > 0).then(|| millis(queue)),
            dns_ms: dns.map(millis),
            connect_ms: seen.phases.connect.map(millis),
            tls_ms: seen.phases.tls.map(millis),
            first_byte_ms: seen.phases.first_byte.map(millis),
            total_ms: begun.map(|begun| millis(clock.micros().saturating_sub(begun))),
            second_look: self.is_second_look(target),
            // An answer is one, whoever was busy.
            suspect: kind.is_some_and(may_be_dead) && self.waiters.opening.was_overloaded_since(since),
        };
        let mut line = self.line.borrow_mut();
        line.clear();
        row.write_line(&mut line);
        let mut block = self.block.borrow_mut();
        block.push_row(target.sequence, outcome, seen.status, attempts, seen.body_bytes, &line);
    }
}

/// A complete reply has no kind, whatever its status: a check asks what a site answers, not whether people like it.
/// So has one of which more would come than is read.
fn kind_of(outcome: Outcome, status: u16) -> Option<FailureKind> {
    use FailureKind::{BodyTooLarge, Redirect, ServerError, Status, Throttled, UnverifiedLength};
    let Outcome::Failed(kind) = outcome else { return None };
    let is_answer =
        matches!(kind, Redirect | ServerError | Status | Throttled | BodyTooLarge | UnverifiedLength);
    (status == 0 || !is_answer).then_some(kind)
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
