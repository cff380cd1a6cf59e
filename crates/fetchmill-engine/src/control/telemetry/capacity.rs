//! Measures how a worker uses its capacity, which is the maximum number of requests in flight. A slot counts as in
//! flight, as waiting, or as empty for one of several reasons.

use std::sync::atomic::{AtomicU64, Ordering};

/// Use of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CapacityUse {
    /// A request is in flight.
    Exchanging,
    /// The target waits for a connection or for credentials.
    Preparing,
    /// The target waits for a rate limit.
    Paced,
    /// Empty: bodies are waiting to be stored.
    Sink,
    /// Empty: the origin rests or is being checked.
    Held,
    /// Empty: no targets are left.
    NoTargets,
    /// Empty: every host has reached its maximum number of requests.
    HostTurns,
    /// Empty: targets wait for the rate limits of their hosts.
    HostRates,
    /// Empty: targets wait for a slot that fast hosts leave free.
    HostPlaces,
    /// Empty: all hosts with targets are resting.
    HostRests,
    /// Empty: targets wait for name lookups.
    Names,
}

/// Uses in which targets wait for their hosts.
pub(super) const OF_HOSTS: [CapacityUse; 4] =
    [CapacityUse::HostTurns, CapacityUse::HostRates, CapacityUse::HostPlaces, CapacityUse::HostRests];

/// Number of uses.
const USES: usize = CapacityUse::Names as usize + 1;
/// Units that make up a worker's whole capacity at one tick.
const WHOLE: u64 = 1_000;

/// Counters that one worker updates once per tick.
#[derive(Debug, Default)]
pub(crate) struct CapacityCounters([AtomicU64; USES]);

impl CapacityCounters {
    /// Adds one tick, with the number of slots per use.
    pub(crate) fn add(&self, places: &[(CapacityUse, usize)]) {
        let all: usize = places.iter().map(|(_, count)| count).sum();
        for (of, count) in places.iter().filter(|(_, count)| *count > 0) {
            self.0[*of as usize].fetch_add(*count as u64 * WHOLE / all as u64, Ordering::Relaxed);
        }
    }

    fn read(&self) -> [u64; USES] {
        std::array::from_fn(|of| self.0[of].load(Ordering::Relaxed))
    }
}

/// Share of the capacity for each use. The shares add up to 1, or to 0 if nothing was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Shares([f64; USES]);

impl Shares {
    /// Creates shares with a single use.
    #[cfg(test)]
    pub(crate) fn only(of: CapacityUse) -> Self {
        Shares::default().with(of, 1.0)
    }

    /// Sets the share of a use.
    #[must_use]
    pub(crate) fn with(mut self, of: CapacityUse, share: f64) -> Self {
        self.0[of as usize] = share;
        self
    }

    /// Returns the share of a use.
    pub(crate) fn of(&self, of: CapacityUse) -> f64 {
        self.0[of as usize]
    }

    /// Returns the weighted mean, ignoring shares that contain no counts.
    pub(crate) fn mean<'s>(shares: impl Iterator<Item = (&'s Shares, f64)>) -> Self {
        let (mut sum, mut weights) = (Shares::default(), 0.0);
        for (part, weight) in shares.filter(|(part, _)| !part.are_unknown()) {
            sum.0.iter_mut().zip(part.0).for_each(|(sum, part)| *sum += part * weight);
            weights += weight;
        }
        if weights > 0.0 { Shares(sum.0.map(|part| part / weights)) } else { sum }
    }

    /// Returns whether nothing was counted.
    pub(crate) fn are_unknown(&self) -> bool {
        self.0.iter().sum::<f64>() <= 0.0
    }
}

/// Previous counts, from which later shares are computed.
#[derive(Debug, Default)]
pub(crate) struct CountedCapacity([u64; USES]);

impl CountedCapacity {
    /// Returns the combined shares of all workers since the last call.
    pub(crate) fn shares<'c>(&mut self, counters: impl Iterator<Item = &'c CapacityCounters>) -> Shares {
        let mut sums = [0; USES];
        for counted in counters {
            let read = counted.read();
            sums.iter_mut().zip(read).for_each(|(sum, count)| *sum += count);
        }
        let before = std::mem::replace(&mut self.0, sums);
        let since: [u64; USES] = std::array::from_fn(|of| sums[of] - before[of]);
        let all = since.iter().sum::<u64>();
        if all == 0 { Shares::default() } else { Shares(since.map(|part| part as f64 / all as f64)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_since_the_last_time_and_each_worker_counts_as_much() {
        let (one, other) = (CapacityCounters::default(), CapacityCounters::default());
        let mut counted = CountedCapacity::default();
        assert!(counted.shares([&one, &other].into_iter()).are_unknown());

        one.add(&[(CapacityUse::Exchanging, 10), (CapacityUse::NoTargets, 0)]);
        other.add(&[(CapacityUse::Exchanging, 1), (CapacityUse::NoTargets, 3)]);

        let shares = counted.shares([&one, &other].into_iter());
        assert_eq!((shares.of(CapacityUse::Exchanging), shares.of(CapacityUse::NoTargets)), (0.625, 0.375));
        one.add(&[(CapacityUse::Sink, 7)]);
        let shares = counted.shares([&one, &other].into_iter());
        assert_eq!((shares.of(CapacityUse::Exchanging), shares.of(CapacityUse::Sink)), (0.0, 1.0));
    }
}
