//! Targets that wait for another attempt. The targets that are due next are in memory, and the others are in the
//! journal.
//!
//! Keys consist of the due time and the sequence number. All targets below the `horizon` are in memory. Targets at or
//! above the horizon are only in the journal's table and are loaded when there is space again. Without a horizon, all
//! targets are in memory.
//!
//! If memory is full when a target is added, the caller gets back a target that no longer fits. The caller must write
//! it to the journal. These writes and the requested loads must happen in order. Otherwise a load could overtake the
//! write of a target and miss the target.

use std::collections::BTreeMap;

use crate::outcome::FailureKind;
use crate::planner::origin::Millis;
use crate::target::{Sequence, WaitingTarget};

/// Due time and sequence number of a target.
pub type DueKey = (Millis, Sequence);

/// The waiting targets of the planner. See the module.
#[derive(Debug)]
pub struct WaitingTargets {
    held: BTreeMap<DueKey, WaitingTarget>,
    held_max: usize,
    horizon: Option<DueKey>,
    /// Latest due time of the targets taken so far. The journal's rows of taken targets are below the horizon, so they
    /// are not loaded again.
    taken: Millis,
    /// Targets that were added during a load. `None` if no load is in progress.
    during_load: Option<Vec<WaitingTarget>>,
}

fn key(target: &WaitingTarget) -> DueKey {
    (target.not_before, target.sequence)
}

impl WaitingTargets {
    /// Creates an empty set that keeps up to `held_max` targets in memory.
    pub(super) fn with_room(held_max: usize) -> Self {
        WaitingTargets { held: BTreeMap::new(), held_max, horizon: None, taken: 0, during_load: None }
    }

    /// Adds a target. If there is no room, returns this target or another one, which the caller must write to the
    /// journal.
    #[must_use]
    pub fn add(&mut self, target: WaitingTarget) -> Option<WaitingTarget> {
        if let Some(came) = &mut self.during_load {
            came.push(target);
            return None;
        }
        if self.horizon.is_some_and(|horizon| key(&target) >= horizon) {
            return Some(target);
        }
        self.held.insert(key(&target), target);
        if self.held.len() <= self.held_max {
            return None;
        }
        let (_, mut evicted) = self.held.pop_last()?;
        // The evicted target must come after all taken targets, so that a load from this point does not return those
        // again.
        evicted.not_before = evicted.not_before.max(self.taken + 1);
        let key = key(&evicted);
        self.horizon = Some(self.horizon.map_or(key, |horizon| horizon.min(key)));
        Some(evicted)
    }

    /// Takes back a target that was due but not started. The target stays in memory, because the journal does not
    /// always contain it.
    pub fn put_back(&mut self, target: WaitingTarget) {
        self.held.insert(key(&target), target);
    }

    /// Takes up to `max` due targets.
    pub fn take_due(&mut self, now: Millis, max: usize) -> Vec<WaitingTarget> {
        let mut due = Vec::new();
        while due.len() < max {
            match self.held.first_entry() {
                Some(first) if first.key().0 <= now => {
                    self.taken = self.taken.max(first.key().0);
                    due.push(first.remove());
                }
                _ => break,
            }
        }
        due
    }

    /// Returns when the next target is due.
    pub fn next_due(&self) -> Option<Millis> {
        self.held.first_key_value().map(|(key, _)| key.0)
    }

    /// Returns the time at which the next target is due, and the failure of its last attempt.
    pub fn next(&self) -> Option<(Millis, FailureKind)> {
        self.held.first_key_value().map(|(key, target)| (key.0, target.kind))
    }

    /// Returns the position from which to continue loading from the journal, and the number of rows to load. Returns
    /// `None` if there is no room. After loading, the caller must call [`Self::loaded`].
    pub fn wants_load(&mut self) -> Option<(DueKey, usize)> {
        let horizon = self.horizon?;
        if self.during_load.is_some() || self.held.len() > self.held_max / 2 {
            return None;
        }
        self.during_load = Some(Vec::new());
        Some((horizon, self.held_max / 2))
    }

    /// Adds the rows that start at the horizon, in order. `complete` states that no more rows follow. Like
    /// [`Self::add`], returns the targets that do not fit.
    #[must_use]
    pub fn loaded(&mut self, rows: Vec<WaitingTarget>, complete: bool) -> Vec<WaitingTarget> {
        self.horizon =
            if complete { None } else { rows.last().map(|last| (last.not_before, last.sequence + 1)) };
        for row in rows {
            self.held.insert(key(&row), row);
        }
        let came = self.during_load.take().unwrap_or_default();
        came.into_iter().filter_map(|target| self.add(target)).collect()
    }

    /// Assumes that all waiting targets are in the journal, as they are in a resumed job.
    pub fn all_in_journal(&mut self) {
        self.horizon = Some((0, 0));
    }

    /// Returns the number of targets in memory.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns whether no target is waiting, neither in memory nor in the journal.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.horizon.is_none() && self.during_load.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::limits::WAITING_HELD_MAX;
    use crate::planner::retry::Jitter;

    fn target(sequence: Sequence, not_before: Millis) -> WaitingTarget {
        WaitingTarget {
            sequence,
            name: Box::default(),
            attempts: 1,
            kind: FailureKind::Throttled,
            not_before,
            throttled_since: 0,
        }
    }

    /// The journal's table, and the queue of requests for it.
    #[derive(Default)]
    struct Table {
        rows: BTreeMap<Sequence, WaitingTarget>,
        requests: VecDeque<Request>,
    }

    enum Request {
        Write(WaitingTarget),
        Settle(Sequence),
        Load(DueKey, usize),
    }

    impl Table {
        fn write(&mut self, target: Option<WaitingTarget>) {
            self.requests.extend(target.map(Request::Write));
        }

        /// Handles the next request, as the journal's thread does.
        fn step(&mut self, waiting: &mut WaitingTargets) {
            match self.requests.pop_front() {
                None => {}
                Some(Request::Write(target)) => drop(self.rows.insert(target.sequence, target)),
                Some(Request::Settle(sequence)) => drop(self.rows.remove(&sequence)),
                Some(Request::Load(from, max)) => {
                    let mut rows: Vec<_> =
                        self.rows.values().filter(|row| key(row) >= from).cloned().collect();
                    rows.sort_by_key(key);
                    let complete = rows.len() <= max;
                    rows.truncate(max);
                    // These writes come after the queued requests, because the queue may contain a write for the same
                    // target.
                    self.requests.extend(waiting.loaded(rows, complete).into_iter().map(Request::Write));
                }
            }
        }
    }

    /// Simulates targets that each wait several times before they are settled. Every step is random.
    fn play(seed: u64) {
        let mut random = Jitter::new(seed);
        let mut waiting = WaitingTargets::with_room(16);
        let mut table = Table::default();
        let mut out: BTreeMap<Sequence, WaitingTarget> =
            (0..120).map(|sequence| (sequence, target(sequence, 0))).collect();
        let mut waits_left: BTreeMap<Sequence, u64> =
            out.keys().map(|sequence| (*sequence, random.draw() % 4)).collect();
        let (mut now, mut steps) = (0, 0);
        while !out.is_empty() || !waiting.is_empty() {
            steps += 1;
            assert!(steps < 100_000, "seed {seed}: {} never come", waits_left.len());
            now += random.draw() % 3;
            let some = random.draw() as usize % 40;
            match random.draw() % 4 {
                0 => {
                    for due in waiting.take_due(now, some) {
                        let sequence = due.sequence;
                        assert!(
                            waits_left.contains_key(&sequence),
                            "seed {seed}: {sequence} was returned after it was settled"
                        );
                        assert!(out.insert(sequence, due).is_none(), "seed {seed}: {sequence} comes twice");
                    }
                }
                1 => {
                    for _ in 0..some {
                        let Some((sequence, mut left)) = out.pop_first() else { break };
                        match waits_left.get_mut(&sequence) {
                            Some(0) => {
                                waits_left.remove(&sequence);
                                table.requests.push_back(Request::Settle(sequence));
                            }
                            Some(_) if random.draw().is_multiple_of(8) => waiting.put_back(left),
                            Some(waits) => {
                                *waits -= 1;
                                left.not_before = now + random.draw() % 20;
                                if random.draw().is_multiple_of(2) {
                                    table.write(Some(left.clone()));
                                }
                                table.write(waiting.add(left));
                            }
                            None => panic!("seed {seed}: {sequence} was settled before"),
                        }
                    }
                }
                2 => {
                    if let Some((from, max)) = waiting.wants_load() {
                        table.requests.push_back(Request::Load(from, max));
                    }
                }
                _ => table.step(&mut waiting),
            }
            assert!(waiting.held() <= 16 + out.len() + 120, "seed {seed}");
        }
        assert!(waits_left.is_empty(), "seed {seed}: {waits_left:?} are lost");
    }

    #[test]
    fn whatever_happens_each_target_comes_back_once_for_each_time_it_waits() {
        (0..2000).for_each(play);
    }

    #[test]
    fn what_finds_no_room_is_given_back_and_no_more_are_held() {
        let mut waiting = WaitingTargets::with_room(WAITING_HELD_MAX);
        let count = WAITING_HELD_MAX as u64 + 50_000;
        let mut spilled = std::collections::BTreeSet::new();

        for sequence in 0..count {
            // As with the targets of a worker process that has died, all targets are due together, and later targets
            // are added first.
            let not_held = waiting.add(target(count - sequence, 7));
            spilled.extend(not_held.map(|target| target.sequence));
            assert!(waiting.held() <= WAITING_HELD_MAX);
        }

        assert_eq!(spilled.len(), 50_000);
        assert!(spilled.iter().all(|sequence| *sequence > WAITING_HELD_MAX as u64), "the last ones wait");
    }

    #[test]
    fn targets_come_when_they_are_due() {
        let mut waiting = WaitingTargets::with_room(WAITING_HELD_MAX);
        assert!(waiting.add(target(1, 50)).is_none());
        assert!(waiting.add(target(2, 40)).is_none());

        assert_eq!(waiting.next_due(), Some(40));
        assert!(waiting.take_due(39, 10).is_empty());
        assert_eq!(waiting.take_due(60, 1)[0].sequence, 2);
        assert_eq!(waiting.take_due(60, 1)[0].sequence, 1);
    }
}
