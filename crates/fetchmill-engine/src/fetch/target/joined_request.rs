//! The coalesced request for a target and some of the targets that follow it.

use std::sync::Arc;

use super::current::CurrentTarget;
use fetchmill_model::http1::byte_range::ByteRange;
use fetchmill_model::planner::Retry;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::target::TargetList;
use fetchmill_model::target::entry::ListEntry;
use fetchmill_model::target::request::TargetRequest;
use fetchmill_model::verdict::AttemptState;

impl CurrentTarget {
    /// Returns the part that another target requests, unless the two requests differ in another way.
    pub(crate) fn part_of_same_object(&self, entry: &[u8]) -> Option<ByteRange> {
        let (own, other) = (ListEntry::read(&self.entry), ListEntry::read(entry));
        if own.url != other.url {
            return None;
        }
        let (own, other) =
            (TargetRequest::read(own.own_request()?)?, TargetRequest::read(other.own_request()?)?);
        let range = other.range?;
        let without_part = |request| TargetRequest { range: None, hash: None, ..request };
        (without_part(own) == without_part(other)).then_some(range)
    }

    /// Replaces the request with one for `range`, which covers the parts of this target and the others.
    pub(crate) fn ask_for_joined(&mut self, range: ByteRange) {
        let Some(own) = self.request.take() else { return };
        self.request = Some(Arc::new(own.with_range(range)));
        self.joined.own = Some(own);
    }

    /// Returns whether the request also covers the parts of other targets.
    pub(crate) fn is_joined(&self) -> bool {
        self.joined.own.is_some()
    }

    /// Restores the target's own request. Attempts with the coalesced request no longer count. The other targets must
    /// be requested separately.
    pub(crate) fn split(&mut self) {
        if let Some(own) = self.joined.own.take() {
            self.request = Some(own);
            self.state = AttemptState::default();
        }
    }

    /// Restores the target's own request like [`CurrentTarget::split`], and returns the other targets.
    pub(crate) fn take_joined(&mut self) -> TargetList {
        self.split();
        std::mem::take(&mut self.joined.others)
    }

    /// Returns the other targets to the planner. The coalesced request does not count as an attempt at them.
    pub(crate) fn plan_joined_again(&mut self, now: Millis) -> impl Iterator<Item = Retry> {
        let alone = self.joined.take_alone();
        self.split();
        alone.into_iter().map(move |target| Retry { target, retry_after: None, not_before: Some(now) })
    }
}
