//! What a run finds of the one before: windows that were staged are put in their place, the rest of the stage and
//! what no receipt covers is removed. It may be interrupted at any moment and be done again.

use std::path::Path;

use crate::durable;
use crate::error::{Error, Result};
use crate::journal::{Journal, Place};
use crate::outcome::{KindCounts, Outcome, Receipt, Runs, Tally};
use crate::sink::failures::{FailuresShard, cut_back};
use crate::sink::{Placed, Places, Refused, Stage};

/// Brings the output and the journal into agreement.
pub(super) fn recover(place: &Place, journal: &mut Journal, is_durable: bool) -> Result<()> {
    cut_back(&place.failures_path(), &journal.failures_shards()?)?;
    for (worker, staged) in journal.staged()? {
        finish_window(place, journal, worker, &staged, is_durable)?;
    }
    remove_stage(&place.stage_path())
}

/// A staged file of a journaled window is still to be renamed; a missing one is done.
fn finish_window(
    place: &Place,
    journal: &mut Journal,
    worker: u32,
    staged: &Runs,
    is_durable: bool,
) -> Result<()> {
    let stage = Stage::open(&place.stage_path().join(worker.to_string()))?;
    let mut places = Places::open(&place.dest)?;
    let mut failures = FailuresShard::new(&place.failures_path(), shard_name("recovery", worker), is_durable);
    let mut tally = Tally::default();
    let mut kinds = KindCounts::default();
    let mut settled = Vec::new();
    journal.for_each_name(staged, |sequence, name| {
        match places.put(&stage, sequence, name)? {
            Placed::Done | Placed::Missing => {
                // Neither staged nor in its place: somebody has removed it, so it is fetched again.
                let Some(bytes) = places.size(name) else {
                    return Ok(());
                };
                tally.fetched += 1;
                tally.bytes += bytes;
            }
            Placed::Refused(kind) => {
                tally.count(Outcome::Failed(kind));
                kinds.add(kind, 1);
                failures.add_refused(&Refused { sequence, name: name.into(), kind })?;
            }
        }
        settled.push(sequence);
        Ok(())
    })?;
    let end = if tally.failed > 0 { failures.checkpoint()? } else { None };
    if is_durable {
        durable::sync_file_system(stage.folder())
            .map_err(|error| Error::storage("sync the file system of", stage.path(), error))?;
    }
    let receipt = Receipt {
        worker,
        settled: Runs::from_unsorted(&mut settled),
        tally,
        kinds,
        staged: Runs::default(),
        failures: end,
    };
    journal.settle(&receipt)?;
    journal.commit()
}

/// What is staged and in no journaled window is fetched again.
pub(super) fn remove_stage(stage: &Path) -> Result<()> {
    match std::fs::remove_dir_all(stage) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::storage("remove", stage, error))
        }
        _ => Ok(()),
    }
}

/// A name that no other shard of the job has: the process and the time are in it.
pub(super) fn shard_name(role: &str, worker: u32) -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{role}-{worker}-{}-{}.jsonl.zst", std::process::id(), since.as_nanos())
}
