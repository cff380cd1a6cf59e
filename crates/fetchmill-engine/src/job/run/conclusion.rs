//! Concludes a run whose threads have ended. If every target has an outcome, the job is finished. Otherwise the next
//! run continues the job.

use std::sync::Arc;

use super::report::report;
use crate::control::Control;
use crate::control::stop::Stop;
use crate::job::cdxj;
use crate::job::job_state::{JobReport, JobState};
use crate::job::skipped::SkippedByReason;
use crate::plan::job_plan::JobPlan;
use crate::writer::recovery;
use crate::writer::upload::Uploader;
use fetchmill_model::error::{Error, Result};
use fetchmill_store::journal::Journal;
use fetchmill_store::results;

/// A job whose threads have ended.
pub(super) struct FinishedJob {
    pub(super) plan: JobPlan,
    /// `None` if the journal's thread failed.
    pub(super) journal: Option<Journal>,
    /// `None` if the destination is a folder.
    pub(super) uploader: Option<Uploader>,
}

impl FinishedJob {
    /// Makes the final transaction once every target has an outcome. Before that, a job that writes rows writes its
    /// results, and a job with shards writes the list of targets without an object. If the run is stopped, the next run
    /// does all this.
    fn conclude(&self, journal: &mut Journal, control: &Arc<Control>) -> Result<()> {
        let kept_rows = self.plan.request.rows.as_ref().filter(|rows| !rows.is_given);
        if let Some(rows) = kept_rows {
            let goes_on = || control.stop.get() == Stop::No;
            let results = self.plan.results();
            if results::conclude(&self.plan.place, journal, rows.kind, results, &goes_on)?.is_none() {
                return Ok(());
            }
        }
        if self.plan.is_indexed && !self.write_indexes(journal, control)? {
            return Ok(());
        }
        if self.plan.request.upload.is_some() {
            journal.must_be_uploaded()?;
        }
        if self.plan.request.rows.is_none() && !self.write_unfetched(journal, control)? {
            return Ok(());
        }
        self.remove_strays()?;
        journal.begin()?;
        journal.finish()?;
        journal.commit()?;
        if kept_rows.is_some() { results::remove_shards(&self.plan.place) } else { Ok(()) }
    }

    /// Removes shards that are not in the journal. A run that lost the job might have started them before it noticed
    /// the loss.
    fn remove_strays(&self) -> Result<()> {
        let shard_folder = self.plan.sink_setup(1)?.shard_folder();
        let contested = shard_folder.filter(|_| self.plan.place.is_contested());
        contested.map_or(Ok(()), |shard_folder| shard_folder.clear_open(""))
    }

    /// Writes the missing indexes. Returns `false` if the run is stopped before all shards have one.
    fn write_indexes(&self, journal: &Journal, control: &Control) -> Result<bool> {
        let asked = control.stop.get();
        let goes_on = || control.stop.get() == asked;
        let shard_folder = self.plan.sink_setup(1)?.shard_folder();
        shard_folder.map_or(Ok(true), |shard_folder| cdxj::write_indexes(journal, &shard_folder, &goes_on))
    }

    /// Writes the files that list the targets without an object. Returns `false` if the run is stopped before the files
    /// are complete.
    fn write_unfetched(&self, journal: &Journal, control: &Arc<Control>) -> Result<bool> {
        let asked = control.stop.get();
        let goes_on = || control.stop.get() == asked;
        let (setup, names) = (self.plan.sink_setup(1)?, self.plan.stored_names());
        let was_begun = !journal.unfetched()?.is_empty();
        let written = results::write_unfetched(&self.plan.place, journal, (&setup, &names), &goes_on)?;
        let (Some(uploader), Some(paths)) = (&self.uploader, &written) else { return Ok(written.is_some()) };
        for path in paths {
            if !uploader.put_failures(control, path, was_begun)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether the run ended normally: either it was not stopped, or a rule stopped it after everything was
    /// done.
    fn has_come_to_its_end(&self, journal: &Journal, control: &Control) -> Result<bool> {
        let is_stored = self.plan.request.rows.is_none() && self.plan.request.upload.is_none();
        Ok(match control.stop.get() {
            Stop::No => true,
            Stop::Drain if is_stored && control.stop.reason().is_some() => journal.is_settled()?,
            Stop::Drain | Stop::Abort => false,
        })
    }

    /// Writes the end of the run to the journal and returns the report.
    pub(super) fn finish(self, shared: &JobState) -> Result<JobReport> {
        let control = &shared.control;
        control.tokens.iter().for_each(|tokens| tokens.close());
        let finished = self.write_end(shared);
        // Uploads might have been running until now.
        control.store.close();
        finished
    }

    fn write_end(mut self, shared: &JobState) -> Result<JobReport> {
        let control = &shared.control;
        let mut notices: Vec<String> = self.plan.machine.notice.iter().cloned().collect();
        notices.extend(self.plan.notice_of_restart());
        notices.extend(control.take_notices());
        control.stop.heed_panic();
        let failure = self.failure(control)?;
        let Some(mut journal) = self.journal.take() else {
            return Err(failure.unwrap_or_else(|| Error::Internal("the journal's thread has ended".into())));
        };
        if control.stop.get() != Stop::Abort && failure.is_none() {
            // Targets whose requests were never sent stay pending. All others have outcomes.
            journal.end_requests()?;
            journal.commit()?;
        }
        if failure.is_none() && self.has_come_to_its_end(&journal, control)? {
            notices.extend(self.complete(&mut journal, control)?);
        }
        // After an error, a committed window might still be in the stage. The next run moves it into place.
        if control.stop.get() != Stop::Abort && journal.staged()?.is_empty() {
            recovery::remove_stage(&self.plan.place.stage_path())?;
        }
        match failure {
            Some(error) => Err(error),
            None => report(shared, &journal, &self.plan, notices),
        }
    }

    /// Returns the failure of the run, if its folder was moved or one of its threads failed.
    fn failure(&self, control: &Control) -> Result<Option<Error>> {
        if let Err(moved) = self.plan.place.must_be_in_place() {
            return Ok(Some(moved));
        }
        // If another run has taken over the folder, the files on disk are not ours.
        self.plan.place.must_be_ours()?;
        Ok(control.stop.take_failure())
    }

    /// Finishes a job that has no unfinished targets. Returns a notice if the job found nothing.
    fn complete(&self, journal: &mut Journal, control: &Arc<Control>) -> Result<Option<String>> {
        let tally = journal.tally();
        if tally.pending() > 0 {
            return Err(Error::Internal(format!("{} targets have no outcome: {tally:?}", tally.pending())));
        }
        self.conclude(journal, control)?;
        let skipped = SkippedByReason::read(journal)?;
        Ok(skipped.notice_of_nothing(&self.plan.request.source, tally))
    }
}
