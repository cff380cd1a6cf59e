//! The start of a run, which opens the journal and recovers the unfinished work of an earlier run.

use super::{cdxj, second_pass};
use crate::control::Control;
use crate::control::clock::unix_micros;
use crate::control::telemetry::Progress;
use crate::list_input::OpenedList;
use crate::plan::job_plan::JobPlan;
use crate::writer::recovery;
use fetchmill_model::error::Result;
use fetchmill_model::planner::retry::LONGEST_DELAY;
use fetchmill_store::journal::Journal;
use fetchmill_store::results::{refuse_unfit, take_back_unfetched};
use fetchmill_store::sink::{SinkSetup, UnfetchedFiles};

/// A new job, or the state left by an earlier run.
pub(super) struct TakenUp {
    pub(super) journal: Journal,
    /// Part of the list that is left to read. `None` if the source is not a list.
    pub(super) list: Option<OpenedList>,
    pub(super) was_finished: bool,
    /// Whether an earlier run started the job.
    pub(super) is_resumed: bool,
}

/// Opens the journal of a planned job and prepares to continue the job.
pub(super) fn take_up(plan: &JobPlan, mut list: Option<OpenedList>) -> Result<TakenUp> {
    let request = &plan.request;
    let mut journal = Journal::open(&plan.place, &plan.identity(), request.is_durable())?;
    if let Some(command) = &request.command {
        journal.keep_command(command)?;
    }
    cdxj::note_choice(&journal, plan.is_indexed, request.cdxj)?;
    if let Some(pass) = &request.pass {
        journal.begin_at(pass.first_sequence)?;
    }
    if let Some(target) = plan.results() {
        refuse_unfit(&journal, target.path)?;
    }
    let was_finished = recover(plan, &mut journal)?;
    if let Some(list) = &mut list {
        list.resume(&journal)?;
    }
    let is_resumed = journal.has_listed()?;
    if request.is_durable() && !is_resumed {
        plan.place.sync()?;
    }
    if request.retry_failed.is_some() {
        start_second_pass(plan, &mut journal)?;
    }
    Ok(TakenUp { journal, list, was_finished, is_resumed })
}

/// Recovers the unfinished work of an earlier run. Returns whether the job is finished.
fn recover(plan: &JobPlan, journal: &mut Journal) -> Result<bool> {
    let setup = plan.sink_setup(1)?;
    let is_finished = journal.get("finished_at")?.is_some();
    if !is_finished {
        take_back(plan, journal, &setup)?;
        if let Some(shard_folder) = setup.shard_folder() {
            cdxj::forget_unplaced(journal, &shard_folder)?;
        }
    }
    recovery::recover(&plan.place, journal, &setup, (plan.naming(), &plan.stored_names()))?;
    Ok(is_finished)
}

/// Queues the targets that `--retry-failed` selects for another attempt. This makes the job unfinished.
fn start_second_pass(plan: &JobPlan, journal: &mut Journal) -> Result<()> {
    let request = &plan.request;
    second_pass::start(&plan.place, journal, plan.naming(), request.is_durable(), &request.retry_failed)?;
    take_back(plan, journal, &plan.sink_setup(1)?)
}

/// Removes the files in which an earlier run listed the targets without an object. Uploaded files are removed later,
/// once the store can be contacted.
fn take_back(plan: &JobPlan, journal: &Journal, setup: &SinkSetup) -> Result<()> {
    let Some(shard_folder) = setup.shard_folder() else { return Ok(()) };
    take_back_unfetched(journal, &shard_folder, UnfetchedFiles::of(&setup.columns))?;
    if plan.request.upload.is_none() { journal.forget_unfetched() } else { Ok(()) }
}

/// Restores the waiting targets, the earlier samples, and the pace of an origin that throttled the last run.
pub(super) fn resume_times(control: &Control, journal: &mut Journal) -> Result<()> {
    journal.clamp_waiting(control.clock.now(), LONGEST_DELAY)?;
    let samples = journal.samples()?;
    let samples = samples.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    control.telemetry.resume_series(samples);
    let progress = journal.progress()?.and_then(|text| serde_json::from_str::<Progress>(&text).ok());
    if let Some(pace) = progress.and_then(|progress| progress.pace_to_resume(unix_micros() as f64 / 1e6)) {
        control.plan.resume_rate(pace, control.clock.now());
    }
    Ok(())
}
