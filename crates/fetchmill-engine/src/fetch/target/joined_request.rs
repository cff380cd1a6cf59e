//! What a target asks for when others are joined to it.

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
    /// The part that another target asks for, if its request is this one's but for the part.
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

    /// Its request asks for this part from now on, in which are its own and those of the others that were joined to it.
    pub(crate) fn ask_for_joined(&mut self, range: ByteRange) {
        let Some(own) = self.request.take() else { return };
        self.request = Some(Arc::new(own.with_range(range)));
        self.joined.own = Some(own);
    }

    /// Whether its request asks for the parts of others, too.
    pub(crate) fn is_joined(&self) -> bool {
        self.joined.own.is_some()
    }

    /// Its request is its own again, of which nothing counts that came of the joined one. The others are to be asked for alone.
    pub(crate) fn split(&mut self) {
        if let Some(own) = self.joined.own.take() {
            self.request = Some(own);
            self.state = AttemptState::default();
        }
    }

    /// The same, and the others are given away.
    pub(crate) fn take_joined(&mut self) -> TargetList {
        self.split();
        std::mem::take(&mut self.joined.others)
    }

    /// The others as they go back to the planner: their request was another one's attempt, and no attempt of theirs.
    pub(crate) fn plan_joined_again(&mut self, now: Millis) -> impl Iterator<Item = Retry> {
        let alone = self.joined.take_alone();
        self.split();
        alone.into_iter().map(move |target| Retry { target, retry_after: None, not_before: Some(now) })
    }
}
