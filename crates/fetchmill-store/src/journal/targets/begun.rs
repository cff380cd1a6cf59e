//! Targets whose requests may have been sent and must not be repeated. A target is recorded before its request is sent,
//! and forgotten when it is finished. If an earlier run left a target recorded, the server may or may not have received
//! the request.

use std::collections::BTreeSet;

use crate::journal::job::open_journal::Journal;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::Runs;
use fetchmill_model::target::Sequence;

impl Journal {
    /// Records targets whose requests are about to be sent. The caller must commit this change before sending them.
    pub fn begin_requests(&mut self, targets: &Runs) -> Result<()> {
        self.begin()?;
        self.begun.extend(targets.numbers());
        self.store_begun()
    }

    /// Returns the targets whose requests an earlier run may have sent. Some of these targets may already have an
    /// outcome.
    pub fn begun_requests(&self) -> Runs {
        runs_of(&self.begun)
    }

    /// Records targets whose requests were sent in this run but will not get an outcome in it.
    pub fn leave_requests(&mut self, targets: &Runs) {
        self.interrupted.extend(targets.numbers().filter(|sequence| self.begun.contains(sequence)));
    }

    /// Ends a run. All of its requests have outcomes, except the interrupted ones. Targets that an earlier run left
    /// recorded stay recorded if this run did not reach them.
    pub fn end_requests(&mut self) -> Result<()> {
        if self.begun.is_empty() {
            return Ok(());
        }
        self.begin()?;
        self.begun.retain(|sequence| self.interrupted.contains(sequence));
        self.store_begun()
    }

    /// Discards the records of targets that now have outcomes.
    pub(in crate::journal) fn settle_requests(&mut self, settled: &Runs) -> Result<()> {
        if self.begun.is_empty() {
            return Ok(());
        }
        let before = self.begun.len();
        for sequence in settled.numbers() {
            self.begun.remove(&sequence);
        }
        if self.begun.len() == before { Ok(()) } else { self.store_begun() }
    }

    fn store_begun(&self) -> Result<()> {
        let blob = runs_of(&self.begun).to_blob();
        let done = self.db.execute("REPLACE INTO begun (id, sequences) VALUES (0, ?)", [blob]);
        self.check(done).map(drop)
    }
}

fn runs_of(begun: &BTreeSet<Sequence>) -> Runs {
    Runs::from_unsorted(&mut begun.iter().copied().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use crate::journal::{JobLocation, Journal};
    use fetchmill_model::outcome::Runs;

    #[test]
    fn what_a_killed_run_has_begun_outlives_a_run_that_ends() {
        let folder = tempfile::tempdir().unwrap();
        let place = JobLocation::prepare(folder.path(), None).unwrap();
        let mut killed = Journal::open_any(&place, false).unwrap();
        killed.begin_requests(&Runs::from_unsorted(&mut [1, 2])).unwrap();
        killed.commit().unwrap();
        drop(killed);

        let mut stopped = Journal::open_any(&place, false).unwrap();
        stopped.begin_requests(&Runs::from_unsorted(&mut [2, 3, 4])).unwrap();
        stopped.leave_requests(&Runs::from_unsorted(&mut [4, 9]));
        stopped.end_requests().unwrap();
        stopped.commit().unwrap();
        drop(stopped);

        let left = Journal::open_any(&place, false).unwrap().begun_requests();
        assert_eq!(left.numbers().collect::<Vec<_>>(), [1, 2, 4]);
    }
}
