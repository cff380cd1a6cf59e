//! The batch that a worker is at, and the target that a connection is at.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use super::row::Seen;
use crate::engine::s3::Places;
use crate::entry::{Entry, Expected, Naming};
use crate::listed::ListedKey;
use crate::name;
use crate::object::Facts;
use crate::outcome::{FailureKind, Outcome};
use crate::planner::hosts::HostId;
use crate::planner::origin::Millis;
use crate::sink::Described;
use crate::target::{Batch, Page, Sequence, Waiting};
use crate::transport::Reach;

/// The target of a task. Its memory is used for one after the other.
#[derive(Debug, Default)]
pub(in crate::engine) struct Target {
    pub(in crate::engine) sequence: Sequence,
    /// As it stands in its page: a name, or what a list says of it.
    pub(in crate::engine) entry: Vec<u8>,
    /// What it is stored as.
    pub(in crate::engine) name: Vec<u8>,
    /// Where it is asked for, when that does not follow from its name: a list's URL, or a redirect's.
    pub(in crate::engine) url: String,
    /// Where it was before, as hashes: a redirect to one of these is a loop.
    pub(in crate::engine) visited: Vec<u64>,
    /// How far it may lead, as far as redirects say.
    pub(in crate::engine) reach: Reach,
    /// It is an object of a store of S3; where it is stands in [`Target::url`], when it is of a list.
    pub(in crate::engine) is_of_store: bool,
    /// What was known of the store when its last request was signed.
    pub(in crate::engine) store_generation: u64,
    /// Its name and URL are known.
    pub(in crate::engine) is_located: bool,
    /// Attempts that counted before this one.
    pub(in crate::engine) attempts: u32,
    /// When it was first throttled. In a check, where every attempt counts: when its second look was due.
    pub(in crate::engine) throttled_since: Millis,
    /// So often a connection that the server had closed was forgiven.
    pub(in crate::engine) forgiven: u32,
    /// Why its last attempt failed, if there was one.
    pub(in crate::engine) last_kind: Option<FailureKind>,
    /// In a job over many hosts: the one that it is at.
    pub(in crate::engine) host: HostId,
    /// It counts as in flight there.
    pub(in crate::engine) is_admitted: bool,
    /// When the worker took it, and when the address of its host was asked for: microseconds on the job's clock.
    pub(in crate::engine) taken_at: u64,
    pub(in crate::engine) asked_at: u64,
    /// That address, or those.
    pub(in crate::engine) found: Option<Arc<[IpAddr]>>,
    /// How long it waited for it, microseconds.
    pub(in crate::engine) looked_up_in: Option<u64>,
    /// For the row of a check.
    pub(in crate::engine) seen: Seen,
}

impl Target {
    /// Of a page: its first attempt.
    fn start_first(&mut self, page: &Page, position: usize) {
        self.sequence = page.first + position as u64;
        self.start(page.names.get(position));
        (self.attempts, self.throttled_since, self.forgiven) = (0, 0, 0);
    }

    /// What it is stored as.
    pub(in crate::engine) fn name(&self, naming: Naming) -> &[u8] {
        if naming == Naming::Whole { &self.entry } else { &self.name }
    }

    /// What its listing, or a manifest, said of the object, if it did.
    pub(in crate::engine) fn listed(&self, naming: Naming) -> Option<ListedKey<'_>> {
        let listed = match naming {
            Naming::Whole => return None,
            Naming::Listed => ListedKey::read(&self.entry),
            Naming::Url | Naming::Path | Naming::Number => {
                let Expected { size, etag } = Entry::read(&self.entry).expected;
                ListedKey { size, etag: etag.unwrap_or_default(), ..ListedKey::default() }
            }
        };
        listed.size.is_some().then_some(listed)
    }

    /// What is known of it when it was fetched, with what its list says and where it was found.
    pub(in crate::engine) fn facts<'t>(&'t self, naming: Naming, facts: Facts<'t>) -> Facts<'t> {
        if self.url.is_empty() {
            return facts;
        }
        let url = Some(self.url.as_bytes()).filter(|url| *url != self.name(naming));
        let kept = if naming.has_url() { Entry::read(&self.entry).kept } else { None };
        Facts { url, kept, ..facts }
    }

    /// The same when it was not.
    pub(in crate::engine) fn described(&self, naming: Naming, outcome: Outcome) -> Described<'_> {
        let name = self.name(naming);
        if !naming.has_url() {
            return Described::named(name);
        }
        let entry = Entry::read(&self.entry);
        let detail = entry.reason().filter(|_| outcome == Outcome::Failed(FailureKind::Url));
        // The list's own, not where a redirect led: it is tried again from there.
        let url = Some(entry.url).filter(|url| *url != name && !url.is_empty());
        Described { name, url, kept: entry.kept.filter(|_| detail.is_none()), detail }
    }

    /// Finds its name and URL, and checks the name; `path` is memory that is used for one after the other.
    pub(in crate::engine) fn read_entry(
        &mut self,
        naming: Naming,
        names_are_paths: bool,
        path: &mut Vec<u8>,
        places: Option<&Places>,
    ) -> Result<(), FailureKind> {
        if naming == Naming::Listed {
            self.is_of_store = true;
            self.name.clear();
            self.name.extend_from_slice(ListedKey::read(&self.entry).key);
        }
        if naming.has_url() {
            let entry = Entry::read(&self.entry);
            naming.write_name(self.sequence, &self.entry, &mut self.name);
            self.url.push_str(std::str::from_utf8(entry.url).map_err(|_| FailureKind::Url)?);
            if self.url.is_empty() {
                return Err(FailureKind::Url);
            }
            if self.url.starts_with("s3:") {
                self.url = places.ok_or(FailureKind::Url)?.http_url(&self.url)?;
                self.is_of_store = true;
            }
        }
        if names_are_paths {
            let name = self.name(naming);
            let is_folder = !naming.has_url() && name::is_folder(name);
            if is_folder || name::to_path(name, path).is_err() {
                return Err(FailureKind::Name);
            }
        }
        Ok(())
    }

    fn start(&mut self, entry: &[u8]) {
        self.entry.clear();
        self.entry.extend_from_slice(entry);
        self.name.clear();
        self.url.clear();
        self.visited.clear();
        (self.is_located, self.is_admitted, self.is_of_store) = (false, false, false);
        (self.looked_up_in, self.last_kind, self.found) = (None, None, None);
        self.reach = Reach::Anywhere;
        self.seen.clear();
    }
}

/// What is left of a batch.
#[derive(Debug, Default)]
pub(in crate::engine) enum Queue {
    #[default]
    Empty,
    Page(Arc<Page>, Range<usize>),
    Picked(Arc<Page>, std::vec::IntoIter<u32>),
    Retries(std::vec::IntoIter<Waiting>),
}

impl Queue {
    pub(in crate::engine) fn set(&mut self, batch: Batch) {
        *self = match batch {
            Batch::Page(page, range) => Queue::Page(page, range),
            Batch::Picked(page, positions) => Queue::Picked(page, positions.into_iter()),
            Batch::Retries(targets) => Queue::Retries(targets.into_iter()),
        };
    }

    pub(in crate::engine) fn take(&mut self, target: &mut Target) -> bool {
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

    pub(in crate::engine) fn len(&self) -> usize {
        match self {
            Queue::Empty => 0,
            Queue::Page(_, range) => range.len(),
            Queue::Picked(_, positions) => positions.len(),
            Queue::Retries(targets) => targets.len(),
        }
    }

    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was not started.
    pub(in crate::engine) fn give_back(&mut self) -> Option<Batch> {
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
