//! The URL of a target: derived from its name at the only origin, or taken from a list or a redirect.

use std::borrow::Cow;
use std::rc::Rc;

use super::state::Worker;
use crate::attempt::{RedirectHead, RedirectPolicy, RedirectRefusal};
use crate::control::rate_wait::keep_pace;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::http1::RequestParts;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::target::entry::Naming;
use fetchmill_net::{Connection, Deadlines, OriginConnections, RequestTarget};

impl Worker {
    /// Returns the target's origin. The first call checks the name and determines the URL.
    pub(super) fn locate(&self, target: &mut CurrentTarget) -> Result<Rc<OriginConnections>, FailureKind> {
        if !target.is_located {
            self.read_entry(target)?;
            target.is_located = true;
        }
        self.origins.of_target(&target.at.url, &self.pool)
    }

    /// Returns the key of the target's origin without looking up connections. In a job with many hosts, the key is
    /// needed before the host is looked up.
    pub(super) fn origin_key(&self, target: &mut CurrentTarget) -> Result<OriginKey, FailureKind> {
        if !target.is_located {
            self.read_entry(target)?;
            target.is_located = true;
        }
        OriginKey::of_url(&target.at.url).map(|(key, _)| key).ok_or(FailureKind::Url)
    }

    fn read_entry(&self, target: &mut CurrentTarget) -> Result<(), FailureKind> {
        let paths = self.setup.properties.names_are_paths.then_some(&self.setup.names);
        self.entries.read(target, self.setup.naming, paths)?;
        if target.request.is_none() && self.setup.naming.has_url() && !self.has_rows() {
            target.request = self.setup.requests.of(&target.entry)?;
        }
        Ok(())
    }

    /// Follows a redirect, which changes the target's URL.
    pub(super) fn redirect(
        &self,
        target: &mut CurrentTarget,
        connection: &Connection,
        status: u16,
        redirect: &RedirectHead<'_>,
    ) -> Result<(), RedirectRefusal> {
        if target.at.url.is_empty()
            && let Some(server) = self.origins.server()
        {
            let mut path = Vec::new();
            server.template.write_target(target.name(self.setup.naming), &mut path);
            target.at.url = format!("{}{}", server.key.text(), String::from_utf8_lossy(&path));
        }
        let policy = RedirectPolicy { hops_max: self.setup.rules.redirects_max, may_leave_origin: true };
        let leads_away = target.at.follow(connection.address(), redirect, policy)?;
        target.effects.note(target.request.as_deref(), status, leads_away);
        if self.has_rows() {
            target.seen.hop(&target.at.url);
        }
        Ok(())
    }

    /// Returns whether the rest of a truncated body can be requested.
    pub(super) fn may_be_resumed(&self, target: &CurrentTarget) -> bool {
        !self.has_rows()
            && !self.setup.decodes
            && target.may_start_again()
            && target.effects.may_be_resumed(target.request.as_deref())
    }

    /// Returns the path of the target's URL.
    pub(super) fn path_at<'t>(&self, origin: &OriginConnections, target: &'t CurrentTarget) -> Cow<'t, str> {
        if let Some(path) = origin.key.path_of(&target.at.url) {
            return path.into();
        }
        let mut path = Vec::new();
        origin.template.write_target(target.name(self.setup.naming), &mut path);
        String::from_utf8_lossy(&path).into_owned().into()
    }

    /// Waits until the rates of the job and the host allow another request. Returns `false` if the job ends first.
    pub(super) async fn keep_pace(&self, origin: &OriginConnections, watch: &Deadlines) -> bool {
        // In a job with many hosts, admission has already applied the pace of the host.
        let of_host = origin.pace.as_deref().filter(|_| !self.control().origins.are_many());
        let paces = self.control().pace.iter().chain(of_host);
        let micros = || self.control().clock.micros();
        let _waiting = self.load.wait_for_pace();
        keep_pace(paces, micros, watch).await
            && self.keep_origin_pace(watch).await
            && self.keep_bytes(watch).await
    }

    /// Waits until the byte rate allows another request. Returns `false` if the job ends first.
    async fn keep_bytes(&self, watch: &Deadlines) -> bool {
        let Some(meter) = &self.control().body_meter else { return true };
        while let Some(wait) = meter.wait().filter(|_| !self.supply.is_done()) {
            watch.rest();
            tokio::select! {
                () = tokio::time::sleep(wait.min(limits::TICK)) => {}
                _ = watch.expired() => return false,
            }
        }
        !self.supply.is_done()
    }

    /// Waits for the pace of the only origin while it throttles requests. Returns `false` if the job ends first.
    /// Connections wait in line. Only the first one reserves a time, because a reserved time would not adapt to a new
    /// pace.
    async fn keep_origin_pace(&self, watch: &Deadlines) -> bool {
        let pace = &self.control().plan.origin_pace;
        if !pace.is_set() {
            return true;
        }
        watch.rest();
        let _first = tokio::select! {
            first = self.pace_line.lock() => first,
            _ = watch.expired() => return false,
        };
        let micros = || self.control().clock.micros();
        !self.supply.is_done() && keep_pace(std::iter::once(pace), micros, watch).await
    }
}

/// Builds the request for a target with a custom method, body or fields. `fields` are the fields that remain after
/// redirects, and `cookies` are the cookies that replies have set.
pub(super) fn call_of<'t>(
    origin: &OriginConnections,
    target: &'t CurrentTarget,
    fields: &'t [(String, String)],
    cookies: Option<&'t str>,
) -> RequestParts<'t> {
    let (request, effects) = (target.request.as_deref(), target.effects);
    let path = origin.key.path_of(&target.at.url).unwrap_or("/");
    RequestParts { method: effects.method(request), path, fields, body: effects.body(request), cookies }
}

/// Returns the path or name that is requested from the target's origin.
pub(super) fn asked_for<'t>(
    origin: &OriginConnections,
    target: &'t CurrentTarget,
    naming: Naming,
) -> RequestTarget<'t> {
    match origin.key.path_of(&target.at.url) {
        Some(path) => RequestTarget::Path(path),
        None => RequestTarget::Name(target.name(naming)),
    }
}
