//! `null`: counts and discards objects, for checks, rehearsals and measurements. The job's journal is written as usual.

use super::{Block, CheckpointResult, RefusedObject, Sink};
use fetchmill_model::error::Result;
use fetchmill_model::outcome::{Outcome, Runs, ShardNumber};
use fetchmill_model::target::Sequence;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub struct NullSink {
    sequences: Vec<Sequence>,
    bytes: u64,
}

impl Sink for NullSink {
    fn write(&mut self, block: &Block, from: usize) -> Result<usize> {
        for entry in block.entries()[from..].iter().filter(|entry| entry.outcome == Outcome::Fetched) {
            self.sequences.push(entry.sequence);
            self.bytes += entry.body.len();
        }
        Ok(block.entries().len())
    }

    fn checkpoint(&mut self, _is_last: bool) -> Result<CheckpointResult> {
        let settled = Runs::from_unsorted(&mut self.sequences);
        self.sequences.clear();
        Ok(CheckpointResult {
            settled,
            bytes: std::mem::take(&mut self.bytes),
            ..CheckpointResult::default()
        })
    }

    fn committed(&mut self, _number: Option<ShardNumber>) -> Result<Vec<RefusedObject>> {
        Ok(Vec::new())
    }

    fn has_unsettled(&self) -> bool {
        !self.sequences.is_empty()
    }
}
