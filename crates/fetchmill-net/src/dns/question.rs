//! One question of a look-up, a name's IPv4 or IPv6 addresses: which server is tried, and what came of it.

use std::net::IpAddr;
use std::time::Duration;

use super::message::{DnsQuery, Family, NameAnswer};
use super::socket::{OwnedTask, SocketId};
use crate::Millis;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;

/// A query that went out.
#[derive(Debug)]
pub(super) struct SentQuery {
    pub(super) place: SocketId,
    pub(super) query: DnsQuery,
    /// Nothing more is expected of it.
    pub(super) is_over: bool,
    /// The same query once more, over TCP.
    pub(super) over_tcp: Option<OwnedTask>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) family: Family,
    /// All of them: a late answer counts too.
    pub(super) sent: Vec<SentQuery>,
    pub(super) found: Option<NameAnswer>,
    /// When the next try is made.
    pub(super) due: Millis,
    tries: usize,
    /// Where the next try looks for a server.
    next: usize,
    /// A bit for each server: it was asked; it has said that it does not know.
    asked: u8,
    failed: u8,
    /// Why, the one that tells most.
    failure: Option<FailureKind>,
}

const _: () = assert!(limits::DNS_UPSTREAMS_MAX <= u8::BITS as usize);

impl Question {
    /// One that begins with this server.
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

    /// Tries so far.
    pub(super) fn tries(&self) -> usize {
        self.tries
    }

    /// The server that is tried next, of so many: one after the other, without those that do not know.
    pub(super) fn next_upstream(&self, upstreams: usize, tries_max: usize) -> Option<u8> {
        if self.tries >= tries_max {
            return None;
        }
        let mut order = (0..upstreams).map(|step| ((self.next + step) % upstreams) as u8);
        order.find(|upstream| self.failed & (1 << upstream) == 0)
    }

    /// A try was made.
    pub(super) fn tried(&mut self, upstream: u8, due: Millis) {
        self.tries += 1;
        self.asked |= 1 << upstream;
        self.next = usize::from(upstream) + 1;
        self.due = due;
    }

    /// A server does not know.
    pub(super) fn failed_at(&mut self, upstream: u8, kind: FailureKind) {
        self.failed |= 1 << upstream;
        if self.failure != Some(FailureKind::DnsServfail) {
            self.failure = Some(kind);
        }
    }

    /// No try is left.
    pub(super) fn give_up(&mut self) {
        self.found = Some(NameAnswer::Failed(self.failure.unwrap_or(FailureKind::DnsTimeout)));
    }

    /// Whether a server was not asked yet, of so many.
    pub(super) fn has_unasked(&self, upstreams: usize) -> bool {
        (self.asked.count_ones() as usize) < upstreams
    }

    /// Whether nothing is expected of the latest try.
    pub(super) fn is_idle(&self) -> bool {
        self.sent.last().is_none_or(|sent| sent.is_over)
    }

    /// The addresses, when that is what was found.
    pub(super) fn addresses(&self) -> Option<(&[IpAddr], Duration)> {
        match &self.found {
            Some(NameAnswer::Addresses { addresses, ttl }) => Some((addresses, *ttl)),
            _ => None,
        }
    }
}
