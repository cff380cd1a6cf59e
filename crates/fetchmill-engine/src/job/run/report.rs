//! The report of a finished run.

use crate::control::stop::Stop;
use crate::job::job_state::{Interruption, JobReport, JobState};
use crate::job::skipped::{SkippedByReason, WantedNames};
use crate::plan::job_plan::JobPlan;
use crate::request::source_options::SourceOptions;
use crate::request::stop_rules::StopReason;
use fetchmill_model::error::Result;
use fetchmill_store::journal::Journal;
use fetchmill_store::results::{self, Summary};

/// Returns the report of a run whose job was already finished.
pub(super) fn report_finished(shared: &JobState, journal: &Journal, plan: &JobPlan) -> Result<JobReport> {
    let lost = plan.results().filter(|target| !target.path.exists()).map(|target| {
        format!(
            "the results file {} no longer exists; remove {} to start over",
            target.path.display(),
            plan.place.state.display()
        )
    });
    let notices = plan.machine.notice.iter().cloned().chain(lost).collect();
    Ok(JobReport { was_finished: true, ..report(shared, journal, plan, notices)? })
}

/// Returns the report of a run whose job was unfinished.
pub(super) fn report(
    shared: &JobState,
    journal: &Journal,
    plan: &JobPlan,
    notices: Vec<String>,
) -> Result<JobReport> {
    let sum = shared.control.sum();
    let is_finished = journal.get("finished_at")?.is_some();
    let interruption = interruption(shared, is_finished);
    let tally = journal.tally();
    let skipped = SkippedByReason::read(journal)?;
    let kinds = journal.kinds()?;
    let of_list = matches!(plan.request.source, SourceOptions::List(_)).then_some(&kinds);
    Ok(JobReport {
        tally,
        found_nothing: is_finished && skipped.found_nothing(tally, of_list, WantedNames::of(&plan.request)),
        skipped,
        opt_outs: journal.opt_outs()?,
        kinds,
        statuses: journal.statuses()?,
        gave_credentials: gave_credentials(shared, journal, plan)?,
        doubtful: journal.doubtful()?,
        elapsed: shared.control.clock.elapsed(),
        attempts: sum.attempts,
        listed_at: journal.listed_at()?,
        was_finished: false,
        interruption,
        is_tolerated: interruption.is_none() && shared.rules.tolerate(tally),
        is_resumed: shared.is_resumed,
        limited_by: shared.control.telemetry.main_cause(),
        summary: summary(journal, plan, interruption)?,
        notices,
    })
}

/// Returns the summary of a finished check. If the run was limited to the first targets, the summary covers only those
/// targets.
fn summary(journal: &Journal, plan: &JobPlan, interruption: Option<Interruption>) -> Result<Option<Summary>> {
    let has_first = interruption.and_then(Interruption::rule) == Some(StopReason::First);
    match plan.request.rows.as_ref().filter(|rows| has_first && !rows.is_given) {
        Some(rows) => results::summarize(&plan.place, journal, rows.kind),
        None => results::read_summary(journal),
    }
}

/// Returns whether requests might have contained credentials: either all requests, or only the requests for some
/// targets of a list.
fn gave_credentials(shared: &JobState, journal: &Journal, plan: &JobPlan) -> Result<bool> {
    // The conditions that a sync adds are not secret. The fields of requests from a program are unknown.
    let of_rows = &plan.request.list.request.headers;
    let has_own =
        journal.traits()?.request && (of_rows.is_empty() || of_rows.iter().any(|field| !field.is_open));
    Ok(shared.control.store.has_credentials()
        || shared.control.tokens.is_some()
        || has_own
        || plan.fields()?.has_secrets(None))
}

/// Returns why the run ended before the job was finished.
fn interruption(shared: &JobState, is_finished: bool) -> Option<Interruption> {
    let stop = &shared.control.stop;
    match (stop.get(), stop.reason()) {
        (Stop::No, _) => None,
        (_, None) => Some(Interruption::Asked),
        (_, Some(reason)) => Some(Interruption::Rule(reason)).filter(|_| !is_finished),
    }
}
