//! Targets whose request must not be made twice, and may have been made: noted before it is, forgotten when they are
//! settled. Whoever finds one of an earlier run does not know whether the server has it.

use std::collections::BTreeSet;

use super::transactions::Journal;
use crate::error::Result;
use crate::outcome::Runs;
use crate::target::Sequence;

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

    /// All that were made have their outcomes.
    pub fn end_requests(&mut self) -> Result<()> {
        if self.begun.is_empty() {
            return Ok(());
        }
        self.begin()?;
        self.begun.clear();
        self.store_begun()
    }

    /// These have their outcomes.
    pub(super) fn settle_requests(&mut self, settled: &Runs) -> Result<()> {
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
