//! The use of a worker's capacity, which is the number of requests that it may have in flight. The use shows how many
//! places have a request in flight, what the other places wait for, and why places are empty.

use std::sync::atomic::{AtomicU64, Ordering};

/// The use of a place for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CapacityUse {
    /// A request is in flight.
    Exchanging,
    /// A target has the place while its connection is opened, or while it waits for credentials.
    Preparing,
    /// A target waits for a rate.
    Paced,
    /// Empty: fetched bodies wait to be stored.
    Sink,
    /// Empty: the origin rests or is being checked.
    Held,
    /// Empty: there are no targets.
    NoTargets,
    /// Empty: each host has its maximum of requests.
    HostTurns,
    /// Empty: targets wait for their hosts' rates.
    HostRates,
    /// Empty: targets wait until hosts that answer promptly leave a place.
    HostPlaces,
    /// Empty: the hosts rest.
    HostRests,
    /// Empty: targets wait for name lookups.
    Names,
}

/// Uses of places that are empty because targets wait for their hosts.
pub(super) const OF_HOSTS: [CapacityUse; 4] =
    [CapacityUse::HostTurns, CapacityUse::HostRates, CapacityUse::HostPlaces, CapacityUse::HostRests];

/// The number of uses.
const USES: usize = CapacityUse::Names as usize + 1;
/// A worker's whole capacity at a tick.
const WHOLE: u64 = 1_000;

/// Counters that one worker updates once a tick.
#[derive(Debug, Default)]
pub(crate) struct CapacityCounters([AtomicU64; USES]);

impl CapacityCounters {
    /// Adds one tick, with the number of places for each use.
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

/// The part of the capacity for each use. The sum is 1, or 0 if nothing was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Shares([f64; USES]);

impl Shares {
    /// Makes the shares of a single use.
    #[cfg(test)]
    pub(crate) fn only(of: CapacityUse) -> Self {
        Shares::default().with(of, 1.0)
    }

    /// Sets the part of a use.
    #[must_use]
    pub(crate) fn with(mut self, of: CapacityUse, share: f64) -> Self {
        self.0[of as usize] = share;
        self
    }

    /// Returns the part of a use.
    pub(crate) fn of(&self, of: CapacityUse) -> f64 {
        self.0[of as usize]
    }

    /// Returns the weighted mean. Shares without any count are ignored.
    pub(crate) fn mean<'s>(shares: impl Iterator<Item = (&'s Shares, f64)>) -> Self {
        let (mut sum, mut weights) = (Shares::default(), 0.0);
        for (part, weight) in shares.filter(|(part, _)| !part.are_unknown()) {
            sum.0.iter_mut().zip(part.0).for_each(|(sum, part)| *sum += part * weight);
            weights += weight;
        }
        if weights > 0.0 { Shares(sum.0.map(|part| part / weights)) } else { sum }
    }

    /// Whether nothing was counted.
    pub(crate) fn are_unknown(&self) -> bool {
        self.0.iter().sum::<f64>() <= 0.0
    }
}

/// The previous counts, to compute the shares since then.
#[derive(Debug, Default)]
pub(crate) struct CountedCapacity([u64; USES]);

impl CountedCapacity {
    /// Returns the shares of all workers together since the last call.
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
