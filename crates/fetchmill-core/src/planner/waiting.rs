//! Targets that wait for another attempt: the next ones in memory, the rest in the journal.
//!
//! Keys are (not before, sequence). Everything below the `horizon` is held here; what is at or above it stands only
//! in the journal's table and is loaded when there is room again. Without a horizon everything is held.

use std::collections::BTreeMap;

use crate::limits::WAITING_HELD_MAX;
use crate::planner::origin::Millis;
use crate::target::{Sequence, Waiting};

/// When a target is due, and which.
pub type Key = (Millis, Sequence);

/// The waiting targets that the planner knows.
#[derive(Debug, Default)]
pub struct WaitingTargets {
    held: BTreeMap<Key, Waiting>,
    horizon: Option<Key>,
    /// While a load is on its way: what came meanwhile and stands in the journal behind it.
    during_load: Option<Vec<Waiting>>,
}

fn key(target: &Waiting) -> Key {
    (target.not_before, target.sequence)
}

impl WaitingTargets {
    /// Adds a target. One at or above the horizon is dropped here: the caller has put it into the journal.
    pub fn add(&mut self, target: Waiting) {
        if let Some(came) = &mut self.during_load {
            came.push(target);
            return;
        }
        if self.horizon.is_some_and(|horizon| key(&target) >= horizon) {
            return;
        }
        self.held.insert(key(&target), target);
        if self.held.len() > WAITING_HELD_MAX {
            self.horizon = self.held.pop_last().map(|(key, _)| key);
        }
    }

    /// Takes back a target that was due and not started. It is held whatever the horizon: the journal may not have it.
    pub fn put_back(&mut self, target: Waiting) {
        self.held.insert(key(&target), target);
    }

    /// Whether a target that is added now stays in memory only if it also stands in the journal.
    pub fn is_full(&self) -> bool {
        self.horizon.is_some() || self.during_load.is_some() || self.held.len() >= WAITING_HELD_MAX
    }

    /// Takes those that are due.
    pub fn take_due(&mut self, now: Millis, max: usize) -> Vec<Waiting> {
        let mut due = Vec::new();
        while due.len() < max {
            match self.held.first_entry() {
                Some(first) if first.key().0 <= now => due.push(first.remove()),
                _ => break,
            }
        }
        due
    }

    /// When the next one is due.
    pub fn next_due(&self) -> Option<Millis> {
        self.held.first_key_value().map(|(key, _)| key.0)
    }

    /// Where to go on loading from the journal, and how many, when there is room. Answer with [`Self::loaded`].
    pub fn wants_load(&mut self) -> Option<(Key, usize)> {
        let horizon = self.horizon?;
        if self.during_load.is_some() || self.held.len() > WAITING_HELD_MAX / 2 {
            return None;
        }
        self.during_load = Some(Vec::new());
        Some((horizon, WAITING_HELD_MAX / 2))
    }

    /// The rows from the horizon on, in their order; `complete` when there are no more behind them.
    pub fn loaded(&mut self, rows: Vec<Waiting>, complete: bool) {
        self.horizon =
            if complete { None } else { rows.last().map(|last| (last.not_before, last.sequence + 1)) };
        for row in rows {
            self.held.insert(key(&row), row);
        }
        for target in self.during_load.take().unwrap_or_default() {
            self.add(target);
        }
    }

    /// For a job that is resumed: everything stands in the journal.
    pub fn all_in_journal(&mut self) {
        self.horizon = Some((0, 0));
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether none waits, here or in the journal.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.horizon.is_none() && self.during_load.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::FailureKind;

    fn target(sequence: Sequence, not_before: Millis) -> Waiting {
        Waiting {
            sequence,
            name: Box::default(),
            attempts: 1,
            kind: FailureKind::Throttled,
            not_before,
            throttled_since: 0,
        }
    }

    #[test]
    fn more_than_it_holds_come_back_from_the_journal_each_once() {
        let count = WAITING_HELD_MAX as u64 * 3;
        let mut journal = BTreeMap::new();
        let mut waiting = WaitingTargets::default();
        for sequence in 0..count {
            let added = target(sequence, sequence * 7919 % 1000);
            journal.insert(key(&added), added.clone());
            waiting.add(added);
            assert!(waiting.held() <= WAITING_HELD_MAX);
        }

        let mut seen = std::collections::BTreeSet::new();
        while !waiting.is_empty() {
            if let Some((from, max)) = waiting.wants_load() {
                let late = target(count + seen.len() as u64, 500);
                journal.insert(key(&late), late.clone());
                waiting.add(late.clone());
                let rows: Vec<_> = journal
                    .range(from..)
                    .filter(|(key, _)| **key != self::key(&late))
                    .map(|(_, row)| row.clone())
                    .collect();
                let complete = rows.len() <= max;
                waiting.loaded(rows.into_iter().take(max).collect(), complete);
            }
            for due in waiting.take_due(1000, 5000) {
                journal.remove(&key(&due));
                assert!(seen.insert(due.sequence), "{} came twice", due.sequence);
            }
        }

        assert!(journal.is_empty());
        assert!(seen.len() as u64 > count);
    }

    #[test]
    fn targets_come_when_they_are_due() {
        let mut waiting = WaitingTargets::default();
        waiting.add(target(1, 50));
        waiting.add(target(2, 40));

        assert_eq!(waiting.next_due(), Some(40));
        assert!(waiting.take_due(39, 10).is_empty());
        assert_eq!(waiting.take_due(60, 1)[0].sequence, 2);
        assert_eq!(waiting.take_due(60, 1)[0].sequence, 1);
    }
}
