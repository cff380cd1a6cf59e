//! A run of a job: it contacts the source, starts the threads, waits for them, and records the end in the journal.

mod conclusion;
mod contact;
mod engine;
mod listing_start;
mod report;
mod running;

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

use self::conclusion::FinishedJob;
use self::contact::Contact;
use self::engine::Engine;
use self::listing_start::{PageAccess, listing_start};
use self::report::{report, report_finished};
use self::running::{Lister, RunningJob, Uploading};
use super::job_state::{JobReport, JobState};
use super::stop_watch::StopWatch;
use crate::control::journal_link::JournalRequest;
use crate::control::stop::Stop;
use crate::fetch::dispatch::worker_registry::WorkerRegistry;
use crate::list_input::OpenedList;
use crate::plan::job_plan::JobPlan;
use fetchmill_model::error::Result;
use fetchmill_store::journal::Journal;

/// A job before its threads start.
pub(crate) struct Run {
    pub(crate) plan: JobPlan,
    /// Opened list, if the source is one.
    pub(crate) list: Option<OpenedList>,
    pub(crate) journal: Journal,
    pub(crate) messages: Receiver<JournalRequest>,
    pub(crate) was_finished: bool,
    pub(crate) worker_registry: Arc<WorkerRegistry>,
    /// Channel for rows that the program takes.
    pub(crate) rows_chunks: Option<Sender<Vec<u8>>>,
}

impl Run {
    /// Runs until the job ends.
    pub(crate) fn run(mut self, shared: &Arc<JobState>) -> Result<JobReport> {
        if self.was_finished && !self.plan.request.retry_failed.is_some() {
            return report_finished(shared, &self.journal, &self.plan);
        }
        let (control, stop_watch) = (Arc::clone(&shared.control), StopWatch::start(shared)?);
        if self.journal.has_waiting()? {
            control.plan.lock().resume_waiting();
        }
        let contact = match Contact::make(&self.plan, &mut self.journal, &control) {
            Err(_) if control.stop.get() != Stop::No => {
                let notices = self.plan.machine.notice.iter().cloned().collect();
                return report(shared, &self.journal, &self.plan, notices);
            }
            contact => contact?,
        };
        contact.settle_courtesy(&control);
        let uploader = contact.uploader.clone();
        let (plan, running) = self.start(contact, shared)?;
        let journal = running.wait(&control);
        drop(stop_watch);
        FinishedJob { plan, journal, uploader }.finish(shared)
    }

    /// Starts the threads. The fetching threads start first and wait for targets.
    fn start(self, contact: Contact, shared: &Arc<JobState>) -> Result<(JobPlan, RunningJob)> {
        let Run { list, mut journal, messages, worker_registry, rows_chunks, .. } = self;
        let control = &shared.control;
        journal.set("waits", "[]")?;
        let engine =
            Engine { control, contact: &contact, journal: &journal, worker_registry: &worker_registry };
        let fetching = engine.start(rows_chunks)?;
        let health_checker = running::start_health_checker(control, &contact)?;
        let Contact { plan, pool, server, uploader, first_page } = contact;
        let access = PageAccess { server, pool, first_page };
        let from = listing_start(&plan, &mut journal, control, list, access)?;
        let recorder = running::start_recorder(control, &plan, journal, messages)?;
        let running = RunningJob {
            fetching,
            health_checker,
            lister: Lister::start(control, &plan, from)?,
            sampler: running::start_sampler(shared, &plan)?,
            uploading: uploader.map(|uploader| Uploading::start(control, uploader)).transpose()?,
            recorder,
        };
        Ok((plan, running))
    }
}
