//! A question for the IPv4 or IPv6 addresses of a name. Records the servers that were tried, and the result.

use std::net::IpAddr;
use std::time::Duration;

use super::message::{DnsQuery, Family, NameAnswer};
use super::socket::{OwnedTask, SocketId};
use crate::Millis;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;

/// A query that was sent.
#[derive(Debug)]
pub(super) struct SentQuery {
    pub(super) place: SocketId,
    pub(super) query: DnsQuery,
    /// Whether no further reply is expected.
    pub(super) is_over: bool,
    /// Task that repeats the query over TCP.
    pub(super) over_tcp: Option<OwnedTask>,
}

/// A question of a lookup.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) family: Family,
    /// All queries sent so far. They are kept because late answers count too.
    pub(super) sent: Vec<SentQuery>,
    pub(super) found: Option<NameAnswer>,
    /// Time when the next try is due.
    pub(super) due: Millis,
    tries: usize,
    /// Server of the next try.
    next: usize,
    /// Servers queried so far, one bit per server. In `failed`, the bits of servers without an answer are set.
    asked: u8,
    failed: u8,
    /// The most informative failure so far.
    failure: Option<FailureKind>,
}

const _: () = assert!(limits::DNS_UPSTREAMS_MAX <= u8::BITS as usize);

impl Question {
    /// Creates a question that starts with server `first`.
    pub(super) fn new(family: Family, first: usize) -> Self {
        Question {
            family,
            sent: Vec::new(),
            found: None,
            due: 0,
            tries: 0,
            next: first,
            asked: 0,
            failed: 0,
            failure: None,
        }
    }

    /// Returns the number of tries so far.
    pub(super) fn tries(&self) -> usize {
        self.tries
    }

    /// Returns the server for the next try. Cycles through `upstreams` servers and skips those without an answer.
    pub(super) fn next_upstream(&self, upstreams: usize, tries_max: usize) -> Option<u8> {
        if self.tries >= tries_max {
            return None;
        }
        let mut order = (0..upstreams).map(|step| ((self.next + step) % upstreams) as u8);
        order.find(|upstream| self.failed & (1 << upstream) == 0)
    }

    /// Records a try.
    pub(super) fn tried(&mut self, upstream: u8, due: Millis) {
        self.tries += 1;
        self.asked |= 1 << upstream;
        self.next = usize::from(upstream) + 1;
        self.due = due;
    }

    /// Records that a server had no answer.
    pub(super) fn failed_at(&mut self, upstream: u8, kind: FailureKind) {
        self.failed |= 1 << upstream;
        if self.failure != Some(FailureKind::DnsServfail) {
            self.failure = Some(kind);
        }
    }

    /// Ends the tries.
    pub(super) fn give_up(&mut self) {
        self.found = Some(NameAnswer::Failed(self.failure.unwrap_or(FailureKind::DnsTimeout)));
    }

    /// Returns whether any of `upstreams` servers has not been queried.
    pub(super) fn has_unasked(&self, upstreams: usize) -> bool {
        (self.asked.count_ones() as usize) < upstreams
    }

    /// Returns whether a reply to the latest try is no longer expected.
    pub(super) fn is_idle(&self) -> bool {
        self.sent.last().is_none_or(|sent| sent.is_over)
    }

    /// Returns the addresses, if the answer contains any.
    pub(super) fn addresses(&self) -> Option<(&[IpAddr], Duration)> {
        match &self.found {
            Some(NameAnswer::Addresses { addresses, ttl }) => Some((addresses, *ttl)),
            _ => None,
        }
    }
}
