//! Coalesces requests for parts of one object (`--coalesce`). A coalesced request counts as an attempt at the first
//! part. If the reply contains exactly the requested range, the range is cut into the parts. Otherwise no target is
//! finished, and each part is requested separately.

use super::body::BodyReceiver;
use super::state::Worker;
use crate::attempt::AttemptEnd;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::http1::byte_range::ByteRange;
use fetchmill_model::limits;
use fetchmill_model::s3::BodyChecksum;
use fetchmill_model::target::expected_hash::ExpectedHash;
use fetchmill_net::ReceivedReply;
use fetchmill_store::sink::FetchedBody;

impl Worker {
    /// Adds targets to the request of the first one, while a single range can cover all their parts.
    pub(super) fn join(&self, first: &mut CurrentTarget) {
        let Some(gap_max) = self.control().coalescing.gap_max() else { return };
        if !self.may_join(first) {
            return;
        }
        let Some(own) = first.range() else { return };
        let bytes_max = self.held_bytes_max();
        let length_max = (bytes_max.min(limits::BODY_MEMORY_BYTES_MAX) as u64).min(self.setup.rules.body_max);
        let (mut range, mut bytes) = (own, own.length());
        self.supply.take_firsts(|sequence, entry| {
            if first.joined.len() + 1 >= limits::JOINED_TARGETS_MAX || first.joined.memory() >= bytes_max {
                return false;
            }
            let part = first.part_of_same_object(entry).filter(|_| !self.control().plan.is_probe(sequence));
            let Some(part) = part else { return false };
            // Overlapping parts are stored separately, so their total size can far exceed the number of received bytes.
            bytes = bytes.saturating_add(part.length());
            let joined = range.join(part, gap_max).filter(|joined| joined.length().max(bytes) <= length_max);
            let Some(joined) = joined else { return false };
            first.joined.push(sequence, entry);
            range = joined;
            true
        });
        if first.joined.len() > 0 {
            first.ask_for_joined(range);
        }
    }

    /// Returns whether other targets can be added to this target's request. This requires that the target is at its
    /// first attempt, that the job has only one origin, and that memory is free.
    fn may_join(&self, first: &mut CurrentTarget) -> bool {
        if first.state.attempts > 0
            || first.state.throttled_since > 0
            || self.control().origins.are_many()
            || self.setup.body_memory.is_used_up()
            || self.control().plan.is_probe(first.sequence)
        {
            return false;
        }
        let is_located = self.locate(first).is_ok();
        if !is_located {
            // The next attempt locates the target again, and reports the failure.
            first.forget_location();
        }
        is_located
    }

    /// Cuts the received range into parts. Stores the part of each target and passes the target to `note`. If a part
    /// does not match its target, the target is requested separately.
    pub(super) fn cut(
        &self,
        first: &mut CurrentTarget,
        body: &mut BodyReceiver,
        replied: &ReceivedReply,
        note: &mut dyn FnMut(&CurrentTarget),
    ) -> AttemptEnd {
        let Some(whole) = first.range() else { return AttemptEnd::Split };
        self.control().coalescing.note_joined();
        self.outcomes.note_received(body.received());
        // Each target keeps its own copy of the head.
        if body.head_bytes() * (first.joined.len() + 1) > limits::BODY_MEMORY_BYTES_MAX {
            return AttemptEnd::Split;
        }
        let others = first.take_joined();
        let is_stored = self.store_cut(first, whole, body, replied);
        note(first);
        let mut target = CurrentTarget::default();
        for (sequence, entry) in others.iter() {
            target.start_first(sequence, entry);
            if self.locate(&mut target).is_ok() && self.store_cut(&mut target, whole, body, replied) {
                note(&target);
            } else {
                first.joined.push(sequence, entry);
            }
        }
        if is_stored { AttemptEnd::Over } else { AttemptEnd::Split }
    }

    /// Stores the part of a target from the received range. Returns `false` if the part is missing or contradicts the
    /// list.
    fn store_cut(
        &self,
        target: &mut CurrentTarget,
        whole: ByteRange,
        body: &mut BodyReceiver,
        replied: &ReceivedReply,
    ) -> bool {
        let Some(position) = target.range().and_then(|range| range.position_in(whole)) else { return false };
        let length = position.len() as u64;
        let Some(part) = body.cut(position) else { return false };
        let listed = self.listed(target);
        let mut facts = body.reply_facts(&replied.head, target.is_of_store, listed);
        facts.length = length;
        let is_listed = listed.is_none_or(|listed| facts.trouble_with(&listed).is_none());
        if !is_listed || target.hash().is_some_and(|hash| !has_hash(part, hash)) {
            return false;
        }
        self.settle_fetched(target, part, body.facts(replied.head.status));
        true
    }

    /// Returns the unfinished targets of this coalesced request to the planner.
    pub(super) fn plan_joined_again(&self, target: &mut CurrentTarget) {
        if target.is_joined() {
            let now = self.clock.now();
            self.report.plan_all_again(target.plan_joined_again(now));
        }
    }
}

fn has_hash(body: FetchedBody<'_>, hash: &ExpectedHash) -> bool {
    let FetchedBody::Bytes(bytes) = body else { return false };
    let mut checksum = BodyChecksum::of_hash(hash);
    checksum.update(bytes);
    checksum.matches()
}
