//! Targets whose request must not be made twice, and may have been made: noted before it is, forgotten when they are
//! settled. Whoever finds one of an earlier run does not know whether the server has it.

use std::collections::BTreeSet;

use crate::journal::job::transactions::Journal;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::Runs;
use fetchmill_model::target::Sequence;

impl Journal {
    /// The requests of these may be made from now on; to be committed before they are.
    pub fn begin_requests(&mut self, targets: &Runs) -> Result<()> {
        self.begin()?;
        self.begun.extend(targets.numbers());
        self.store_begun()
    }

    /// Those of an earlier run that have no outcome, and perhaps some that have.
    pub fn begun_requests(&self) -> Runs {
        runs_of(&self.begun)
    }

    /// These were made in this run, and get no outcome in it.
    pub fn leave_requests(&mut self, targets: &Runs) {
        self.interrupted.extend(targets.numbers().filter(|sequence| self.begun.contains(sequence)));
    }

    /// A run ends in which all that were made have their outcomes, but for those that were left. What an earlier run has
    /// left, and this one has not come to, stays noted as well.
    pub fn end_requests(&mut self) -> Result<()> {
        if self.begun.is_empty() {
            return Ok(());
        }
        self.begin()?;
        self.begun.retain(|sequence| self.interrupted.contains(sequence));
        self.store_begun()
    }

    /// These have their outcomes.
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
