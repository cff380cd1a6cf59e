//! Where a target is asked for: by its name at the only origin, or by the URL that a list or a redirect gives.

use std::rc::Rc;

use super::super::{pacing::keep_pace, redirect};
use super::Worker;
use super::queue::Target;
use crate::entry::{Entry, Naming};
use crate::name;
use crate::object::Facts;
use crate::origin::OriginKey;
use crate::outcome::{FailureKind, Outcome};
use crate::sink::Described;
use crate::transport::{Asked, Lane, Origin, Watch};

impl Worker {
    /// What a target is stored as.
    pub(super) fn name_of<'t>(&self, target: &'t Target) -> &'t [u8] {
        if self.setup.naming == Naming::Whole { &target.entry } else { &target.name }
    }

    /// What is known of a fetched target, with what its list says and where it was found.
    pub(super) fn facts_of<'t>(&self, target: &'t Target, facts: Facts<'t>) -> Facts<'t> {
        if target.url.is_empty() {
            return facts;
        }
        let url = Some(target.url.as_bytes()).filter(|url| *url != self.name_of(target));
        Facts { url, kept: self.kept_of(target), ..facts }
    }

    /// The same of one that was not.
    pub(super) fn described<'t>(&self, target: &'t Target, outcome: Outcome) -> Described<'t> {
        let name = self.name_of(target);
        if self.setup.naming == Naming::Whole {
            return Described::named(name);
        }
        let entry = Entry::read(&target.entry);
        let detail = entry.reason().filter(|_| outcome == Outcome::Failed(FailureKind::Url));
        // The list's own, not where a redirect led: it is tried again from there.
        let url = Some(entry.url).filter(|url| *url != name && !url.is_empty());
        Described { name, url, kept: entry.kept.filter(|_| detail.is_none()), detail }
    }

    fn kept_of<'t>(&self, target: &'t Target) -> Option<&'t [u8]> {
        if self.setup.naming == Naming::Whole { None } else { Entry::read(&target.entry).kept }
    }

    /// The origin that has the target. The first time its name is checked and its URL is found.
    pub(super) fn locate(&self, target: &mut Target) -> Result<Rc<Origin>, FailureKind> {
        if !target.is_located {
            self.read_entry(target)?;
            target.is_located = true;
        }
        match &self.server {
            Some(server) if target.url.is_empty() => Ok(Rc::clone(server)),
            _ => self.origin_of(&target.url),
        }
    }

    /// The same, as far as it is known without a connection: a job over many hosts asks first whether it may go there.
    pub(super) fn origin_key(&self, target: &mut Target) -> Result<OriginKey, FailureKind> {
        if !target.is_located {
            self.read_entry(target)?;
            target.is_located = true;
        }
        OriginKey::of_url(&target.url).map(|(key, _)| key).ok_or(FailureKind::Url)
    }

    fn read_entry(&self, target: &mut Target) -> Result<(), FailureKind> {
        if self.setup.naming != Naming::Whole {
            let entry = Entry::read(&target.entry);
            self.setup.naming.write_name(target.sequence, &target.entry, &mut target.name);
            target.url.push_str(std::str::from_utf8(entry.url).map_err(|_| FailureKind::Url)?);
            if target.url.is_empty() {
                return Err(FailureKind::Url);
            }
        }
        if self.setup.properties.names_are_paths {
            let name = self.name_of(target);
            let is_folder = self.setup.naming == Naming::Whole && name::is_folder(name);
            if is_folder || name::to_path(name, &mut self.path.borrow_mut()).is_err() {
                return Err(FailureKind::Name);
            }
        }
        Ok(())
    }

    /// The origin of a URL; that of the last one, usually.
    fn origin_of(&self, url: &str) -> Result<Rc<Origin>, FailureKind> {
        let mut last = self.last_origin.borrow_mut();
        if let Some(last) = last.as_ref().filter(|last| last.key.path_of(url).is_some()) {
            return Ok(Rc::clone(last));
        }
        let (key, _) = OriginKey::of_url(url).ok_or(FailureKind::Url)?;
        let origin = self.pool.origin(&key).map_err(|_| FailureKind::Url)?;
        *last = Some(Rc::clone(&origin));
        Ok(origin)
    }

    /// Follows a redirect: the target is at another URL from now on.
    pub(super) fn redirect(
        &self,
        target: &mut Target,
        lane: &Lane,
        location: Option<&[u8]>,
    ) -> Result<(), FailureKind> {
        if target.url.is_empty()
            && let Some(server) = &self.server
        {
            let mut path = Vec::new();
            server.template.write_target(&target.entry, &mut path);
            target.url = format!("{}{}", server.key.text(), String::from_utf8_lossy(&path));
        }
        let (from, _) = OriginKey::of_url(&target.url).ok_or(FailureKind::Url)?;
        target.reach = redirect::reach_behind(target.reach, from.host(), lane.address());
        redirect::follow(&mut target.url, &mut target.visited, location, self.setup.redirects_max)?;
        if self.has_rows() {
            target.seen.hop(&target.url);
        }
        Ok(())
    }

    /// Waits until the next request may go out, of the job and to this host; `false` when the job ends before that.
    pub(super) async fn keep_pace(&self, origin: &Origin, watch: &Watch) -> bool {
        // In a job over many hosts it was admitted at its host's pace.
        let of_host = origin.pace.as_deref().filter(|_| !self.control().has_many_origins());
        let paces = self.control().pace.iter().chain(of_host);
        keep_pace(paces, || self.control().clock.micros(), watch).await
    }
}

/// What the target's origin is asked for.
pub(super) fn asked_for<'t>(origin: &Origin, target: &'t Target) -> Asked<'t> {
    match origin.key.path_of(&target.url) {
        Some(path) => Asked::Path(path),
        None => Asked::Name(&target.entry),
    }
}
