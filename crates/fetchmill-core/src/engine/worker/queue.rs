//! The batch that a worker is at, and the target that a connection is at.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use super::row::Seen;
use crate::outcome::FailureKind;
use crate::planner::hosts::HostId;
use crate::planner::origin::Millis;
use crate::target::{Batch, Page, Sequence, Waiting};
use crate::transport::Reach;

/// The target of a task. Its memory is used for one after the other.
#[derive(Debug, Default)]
pub(super) struct Target {
    pub(super) sequence: Sequence,
    /// As it stands in its page: a name, or what a list says of it.
    pub(super) entry: Vec<u8>,
    /// What it is stored as.
    pub(super) name: Vec<u8>,
    /// Where it is asked for, when that does not follow from its name: a list's URL, or a redirect's.
    pub(super) url: String,
    /// Where it was before, as hashes: a redirect to one of these is a loop.
    pub(super) visited: Vec<u64>,
    /// How far it may lead, as far as redirects say.
    pub(super) reach: Reach,
    /// Its name and URL are known.
    pub(super) is_located: bool,
    /// Attempts that counted before this one.
    pub(super) attempts: u32,
    /// When it was first throttled. In a check, where every attempt counts: when its second look was due.
    pub(super) throttled_since: Millis,
    /// So often a connection that the server had closed was forgiven.
    pub(super) forgiven: u32,
    /// Why its last attempt failed, if there was one.
    pub(super) last_kind: Option<FailureKind>,
    /// In a job over many hosts: the one that it is at.
    pub(super) host: HostId,
    /// It counts as in flight there.
    pub(super) is_admitted: bool,
    /// When the worker took it, and when the address of its host was asked for: microseconds on the job's clock.
    pub(super) taken_at: u64,
    pub(super) asked_at: u64,
    /// That address, or those.
    pub(super) found: Option<Arc<[IpAddr]>>,
    /// How long it waited for it, microseconds.
    pub(super) looked_up_in: Option<u64>,
    /// For the row of a check.
    pub(super) seen: Seen,
}

impl Target {
    /// Of a page: its first attempt.
    fn start_first(&mut self, page: &Page, position: usize) {
        self.sequence = page.first + position as u64;
        self.start(page.names.get(position));
        (self.attempts, self.throttled_since, self.forgiven) = (0, 0, 0);
    }

    fn start(&mut self, entry: &[u8]) {
        self.entry.clear();
        self.entry.extend_from_slice(entry);
        self.name.clear();
        self.url.clear();
        self.visited.clear();
        (self.is_located, self.is_admitted) = (false, false);
        (self.looked_up_in, self.last_kind, self.found) = (None, None, None);
        self.reach = Reach::Anywhere;
        self.seen.clear();
    }
}

/// What is left of a batch.
#[derive(Debug, Default)]
pub(super) enum Queue {
    #[default]
    Empty,
    Page(Arc<Page>, Range<usize>),
    Picked(Arc<Page>, std::vec::IntoIter<u32>),
    Retries(std::vec::IntoIter<Waiting>),
}

impl Queue {
    pub(super) fn set(&mut self, batch: Batch) {
        *self = match batch {
            Batch::Page(page, range) => Queue::Page(page, range),
            Batch::Picked(page, positions) => Queue::Picked(page, positions.into_iter()),
            Batch::Retries(targets) => Queue::Retries(targets.into_iter()),
        };
    }

    pub(super) fn take(&mut self, target: &mut Target) -> bool {
        match self {
            Queue::Page(page, range) => {
                if let Some(position) = range.next() {
                    target.start_first(page, position);
                    return true;
                }
            }
            Queue::Picked(page, positions) => {
                if let Some(position) = positions.next() {
                    target.start_first(page, position as usize);
                    return true;
                }
            }
            Queue::Retries(targets) => {
                if let Some(waiting) = targets.next() {
                    target.sequence = waiting.sequence;
                    target.start(&waiting.name);
                    target.attempts = waiting.attempts;
                    target.throttled_since = waiting.throttled_since;
                    target.last_kind = Some(waiting.kind);
                    target.forgiven = 0;
                    return true;
                }
            }
            Queue::Empty => return false,
        }
        // A batch that is used up must not hold its page.
        *self = Queue::Empty;
        false
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Queue::Empty => 0,
            Queue::Page(_, range) => range.len(),
            Queue::Picked(_, positions) => positions.len(),
            Queue::Retries(targets) => targets.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was not started.
    pub(super) fn give_back(&mut self) -> Option<Batch> {
        if self.is_empty() {
            return None;
        }
        match std::mem::take(self) {
            Queue::Empty => None,
            Queue::Page(page, range) => Some(Batch::Page(page, range)),
            Queue::Picked(page, positions) => Some(Batch::Picked(page, positions.collect())),
            Queue::Retries(targets) => Some(Batch::Retries(targets.collect())),
        }
    }
}
