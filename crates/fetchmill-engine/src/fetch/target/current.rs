//! The target that a connection currently fetches, for all kinds of engines.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use super::joined::JoinedTargets;
use super::observed::ObservedReply;
use crate::access::s3::BucketResolver;
use crate::attempt::Location;
use crate::request::custom_request::{CustomRequest, RedirectEffects};
use fetchmill_model::http1::byte_range::ByteRange;
use fetchmill_model::name;
use fetchmill_model::object::Facts;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::Retry;
use fetchmill_model::planner::hosts::HostId;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::s3::{BucketName, split_url};
use fetchmill_model::target::entry::{ExpectedObject, ListEntry, Naming};
use fetchmill_model::target::expected_hash::ExpectedHash;
use fetchmill_model::target::request::{IF_NONE_MATCH, is_condition, names_etag};
use fetchmill_model::target::source_metadata::{ListedKey, SizedName};
use fetchmill_model::target::stored_name::StoredNames;
use fetchmill_model::target::{Sequence, WaitingTarget};
use fetchmill_model::verdict::{AttemptState, Rules};
use fetchmill_net::OriginConnections;
use fetchmill_store::sink::EntryDescription;

/// Current target of a task. Its memory is reused for the next target.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is independent of the others")]
pub(crate) struct CurrentTarget {
    pub(crate) sequence: Sequence,
    /// Entry of the target in its page: a name, or a line of a list.
    pub(crate) entry: Vec<u8>,
    /// Name of the object, before it is adapted for storage.
    pub(crate) name: Vec<u8>,
    /// URL from a list or a redirect. Empty if the URL can be derived from the name.
    pub(crate) at: Location,
    /// Custom request. `None` for a plain `GET`.
    pub(crate) request: Option<Arc<CustomRequest>>,
    /// Effects of redirects on the request.
    pub(crate) effects: RedirectEffects,
    /// Returns whether any page so far contained a token.
    pub(crate) joined: JoinedTargets,
    /// Replies other than the object, received since the target was taken from its page
    /// ([`fetchmill_model::object::kept_reply`]).
    pub(crate) replies: Vec<u8>,
    /// Whether the target is an S3 object. If it comes from a list, [`CurrentTarget::at`] contains its location.
    pub(crate) is_of_store: bool,
    /// Whether the last request contained a bearer token (`--bearer-command`).
    pub(crate) shows_token: bool,
    /// Generation of the credentials that the last request used.
    pub(crate) credentials_generation: u64,
    /// Estimated body size in bytes, if the job limits its byte rate.
    pub(crate) reserved: usize,
    /// Whether the name and the URL are known.
    pub(crate) is_located: bool,
    /// Attempts and time spent so far.
    pub(crate) state: AttemptState,
    /// Failure of the last attempt, if any.
    pub(crate) last_kind: Option<FailureKind>,
    /// Host of the target, in a job with many hosts.
    pub(crate) host: HostId,
    /// Whether the target counts as in flight at its host.
    pub(crate) is_admitted: bool,
    pub(crate) admitted_at: Millis,
    /// Whether the target must fetch the robots.txt of its host first.
    pub(crate) asks_robots: bool,
    /// Times in microseconds on the job's clock: when the worker took the target, and when it requested the address of
    /// the host.
    pub(crate) taken_at: u64,
    pub(crate) asked_at: u64,
    /// Addresses of the host.
    pub(crate) found: Option<Arc<[IpAddr]>>,
    /// Duration of the lookup in microseconds.
    pub(crate) looked_up_in: Option<u64>,
    /// Whether the load was low when the last request was sent.
    pub(crate) asked_unloaded: bool,
    /// Observations for the row of a check.
    pub(crate) seen: ObservedReply,
}

impl CurrentTarget {
    /// Starts the first attempt at a target from a page.
    pub(crate) fn start_first(&mut self, sequence: Sequence, entry: &[u8]) {
        self.sequence = sequence;
        self.start(entry);
        self.state = AttemptState::default();
    }

    /// Starts another attempt at a waiting target.
    pub(crate) fn start_again(&mut self, waiting: &WaitingTarget) {
        self.sequence = waiting.sequence;
        self.start(&waiting.name);
        let (attempts, throttled_since) = (waiting.attempts, waiting.throttled_since);
        self.state = AttemptState { attempts, throttled_since, ..AttemptState::default() };
        self.last_kind = Some(waiting.kind);
    }

    /// Returns the object's name before it is adapted for storage.
    pub(crate) fn name(&self, naming: Naming) -> &[u8] {
        if naming == Naming::Whole { &self.entry } else { &self.name }
    }

    /// Returns the name under which the object is stored. The reply must have arrived.
    pub(crate) fn stored_name(
        &self,
        (naming, names): (Naming, &StoredNames),
        facts: &Facts<'_>,
    ) -> Cow<'_, [u8]> {
        let listed = self.name(naming);
        if names.are_listed() {
            return Cow::Borrowed(listed);
        }
        names.stored(&self.entry, listed, facts.content_type)
    }

    /// Returns what the listing or manifest states about the object, if anything.
    pub(crate) fn listed(&self, naming: Naming) -> Option<ListedKey<'_>> {
        let listed = match naming {
            Naming::Whole | Naming::Item => return None,
            Naming::Sized => {
                let SizedName { name, size, .. } = SizedName::read(&self.entry);
                ListedKey { key: name, size, ..ListedKey::default() }
            }
            Naming::Listed => ListedKey::read(&self.entry),
            Naming::Url | Naming::Path | Naming::EncodedPath | Naming::Number | Naming::Extension => {
                let ExpectedObject { size, etag, .. } = ListEntry::read(&self.entry).expected;
                // Only the length of the requested part is known.
                let size = self.range().map_or(size, |range| Some(range.length()));
                ListedKey { size, etag: etag.unwrap_or_default(), ..ListedKey::default() }
            }
        };
        listed.size.is_some().then_some(listed)
    }

    /// Returns the facts of a fetched object that is stored as `stored`. They consist of `facts`, the values from the
    /// listing, and the URL.
    pub(crate) fn facts<'t>(&'t self, naming: Naming, stored: &[u8], facts: Facts<'t>) -> Facts<'t> {
        let listed = Some(self.name(naming)).filter(|listed| *listed != stored);
        let facts = Facts { listed, replies: self.kept_replies(), ..facts };
        if self.at.url.is_empty() {
            return facts;
        }
        let url = Some(self.at.url.as_bytes()).filter(|url| *url != stored);
        let kept = if naming.has_url() { ListEntry::read(&self.entry).kept } else { None };
        let entry = self.request.as_ref().map(|_| self.entry.as_slice());
        Facts { url, kept, entry, ..facts }
    }

    /// Describes a target that was not fetched.
    pub(crate) fn described(&self, naming: Naming, outcome: Outcome) -> EntryDescription<'_> {
        let name = self.name(naming);
        let replies = self.kept_replies();
        if !naming.has_url() {
            return EntryDescription { replies, ..EntryDescription::named(name) };
        }
        let entry = ListEntry::read(&self.entry);
        let detail = entry.reason().filter(|_| outcome == Outcome::Failed(FailureKind::Url));
        // The listed URL is used rather than the destination of a redirect, because another attempt starts at the
        // listed URL.
        let url = Some(entry.url).filter(|url| *url != name && !url.is_empty());
        EntryDescription {
            name,
            url,
            kept: entry.kept_values(),
            detail,
            request: entry.own_request(),
            replies,
        }
    }

    /// Frees the kept replies, which were sent with the outcome.
    pub(crate) fn forget_replies(&mut self) {
        self.replies = Vec::new();
    }

    fn kept_replies(&self) -> Option<&[u8]> {
        Some(self.replies.as_slice()).filter(|replies| !replies.is_empty())
    }

    /// Determines the name and the URL. If `paths` is given, checks that the name is a valid path.
    pub(crate) fn read_entry(
        &mut self,
        naming: Naming,
        paths: Option<&StoredNames>,
        path: &mut Vec<u8>,
        places: Option<&BucketResolver>,
    ) -> Result<(), FailureKind> {
        if matches!(naming, Naming::Listed | Naming::Sized) {
            self.is_of_store = naming == Naming::Listed;
            naming.write_name(self.sequence, &self.entry, &mut self.name);
        }
        if naming.has_url() {
            let entry = ListEntry::read(&self.entry);
            naming.write_name(self.sequence, &self.entry, &mut self.name);
            self.at.url.push_str(std::str::from_utf8(entry.url).map_err(|_| FailureKind::Url)?);
            if self.at.url.is_empty() {
                return Err(FailureKind::Url);
            }
            if self.at.url.starts_with("s3:") {
                self.at.url = places.ok_or(FailureKind::Url)?.http_url(&self.at.url)?;
                self.is_of_store = true;
            }
        }
        // The file system would accept this name, because its file names are bytes.
        if naming == Naming::Whole && name::has_surrogate(self.name(naming)) {
            return Err(FailureKind::Name);
        }
        if let Some(names) = paths {
            let name = self.stored_name((naming, names), &Facts::default());
            let is_folder = !naming.has_url() && name::is_folder(&name);
            if is_folder || name::to_path(&name, path).is_err() {
                return Err(FailureKind::Name);
            }
        }
        Ok(())
    }

    /// Returns the requested part, or `None` for the whole object.
    pub(crate) fn range(&self) -> Option<ByteRange> {
        self.request.as_deref()?.range
    }

    /// Returns the expected hash of the body.
    pub(crate) fn hash(&self) -> Option<&ExpectedHash> {
        self.request.as_deref()?.hash.as_ref()
    }

    /// Returns whether the request for this target to `origin` is a plain `GET`, without fields or cookies of its own.
    pub(crate) fn is_plain_at(&self, origin: &OriginConnections) -> bool {
        self.is_located && self.request.is_none() && self.at.cookies_at(origin).is_none()
    }

    /// Returns whether the request has conditions.
    pub(crate) fn is_conditional(&self) -> bool {
        let Some(request) = self.request.as_deref().filter(|request| !request.fields.is_empty()) else {
            return false;
        };
        self.effects.fields(Some(request)).iter().any(|(name, _)| is_condition(name))
    }

    /// Returns whether the conditions exclude this version of the object.
    pub(crate) fn has_version(&self, etag: &[u8]) -> bool {
        let fields = self.effects.fields(self.request.as_deref());
        let mut conditions =
            fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(IF_NONE_MATCH)).peekable();
        // A condition on time alone matches any version.
        conditions.peek().is_none() || conditions.any(|(_, etags)| names_etag(etags, etag))
    }

    /// Returns whether the request must never be sent twice, even after redirects.
    pub(crate) fn is_once(&self) -> bool {
        self.request.as_deref().is_some_and(|request| !request.is_idempotent)
    }

    /// Returns whether another attempt can start over. This requires that the request has not been sent yet, or that
    /// the request can be repeated.
    pub(crate) fn may_start_again(&self) -> bool {
        !self.effects.was_sent() || !self.is_once()
    }

    /// Returns whether the request can be repeated at its current URL, after any redirects.
    pub(crate) fn may_repeat(&self) -> bool {
        !self.effects.was_sent() || self.effects.may_repeat(self.request.as_deref())
    }

    /// Discards the target's location, which might be outdated.
    pub(crate) fn forget_location(&mut self) {
        self.is_located = false;
        self.at.url.clear();
    }

    /// Sets the entry of a new target and resets everything else.
    pub(crate) fn start(&mut self, entry: &[u8]) {
        self.entry.clear();
        self.entry.extend_from_slice(entry);
        self.name.clear();
        self.at.clear();
        self.replies.clear();
        (self.request, self.effects) = (None, RedirectEffects::default());
        self.joined.clear();
        (self.is_located, self.is_admitted, self.is_of_store) = (false, false, false);
        self.asks_robots = false;
        (self.looked_up_in, self.last_kind, self.found) = (None, None, None);
        self.seen.clear();
    }

    /// Returns the bucket of a listed target, or `None` if the target comes from the bucket's own listing.
    pub(crate) fn bucket(&self, naming: Naming) -> Option<BucketName> {
        let url = naming.has_url().then(|| ListEntry::read(&self.entry).url)?;
        let (bucket, _) = split_url(std::str::from_utf8(url).ok()?)?;
        BucketName::parse(bucket).ok()
    }

    /// Returns whether this attempt rechecks a target that seemed dead.
    pub(crate) fn is_second_look(&self, rules: &Rules) -> bool {
        rules.has_second_look && self.state.throttled_since > 0
    }

    /// Plans another attempt and keeps the counts so far.
    pub(crate) fn again(&self, kind: FailureKind, retry_after: Option<Millis>) -> Retry {
        let target = WaitingTarget {
            sequence: self.sequence,
            name: self.entry.as_slice().into(),
            attempts: self.state.attempts,
            kind,
            not_before: 0,
            throttled_since: self.state.throttled_since,
        };
        Retry { target, retry_after, not_before: None }
    }

    /// Defers the target without counting an attempt.
    pub(crate) fn aside(&self, not_before: Millis) -> Retry {
        let kind = self.last_kind.unwrap_or(FailureKind::Throttled);
        let retry = self.again(kind, None);
        Retry { not_before: Some(not_before), ..retry }
    }
}
